/* The public header and the library agree. */
#include <config.h>

#include "hakmem.h"
#include "tap.h"

int main(void)
{
	char version[32];

	plan(3);
	is_str(hakmem_version(), HAKMEM_VERSION_STRING,
		"the library's version is the header's");
	is_str(HAKMEM_VERSION_STRING, PACKAGE_VERSION,
		"the header's version is the package's");
	snprintf(version, sizeof version, "%d.%d.%d", HAKMEM_VERSION_MAJOR,
		HAKMEM_VERSION_MINOR, HAKMEM_VERSION_PATCH);
	is_str(version, HAKMEM_VERSION_STRING,
		"the version's numbers and its text agree");
	return done();
}

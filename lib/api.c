/*
 * Entry points of the public API. Each checks its arguments and hands the
 * call down; none holds a lock when it returns.
 */
#include <config.h>

#include "hakmem.h"

const char *hakmem_version(void)
{
	return HAKMEM_VERSION_STRING;
}

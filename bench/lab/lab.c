/* Memory of the lab: it is there, or the command ends. */
#include <config.h>

#include "lab.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *hak_lab_alloc(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size);

	if (!p)
		hak_command_fail(STATUS_FAILED, "out of memory: %zu bytes",
			count * size);
	return p;
}

void *hak_lab_grow(void *old, size_t count, size_t size)
{
	void *p = reallocarray(old, count, size);

	if (!p)
		hak_command_fail(STATUS_FAILED, "out of memory: %zu bytes",
			count * size);
	return p;
}

void hak_lab_free_words(char **word, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(word[i]);
	free(word);
}

char *hak_lab_copy(const char *text)
{
	return hak_lab_print("%s", text);
}

char *hak_lab_print(const char *form, ...)
{
	char *text;
	va_list args;
	int n;

	va_start(args, form);
	n = vasprintf(&text, form, args);
	va_end(args);
	if (n < 0)
		hak_command_fail(STATUS_FAILED, "out of memory");
	return text;
}

/*
 * Any bytes as an environment: entries end at a NUL. What the option table
 * takes must be in range, must be printed as a text that means the same, and
 * every line about what it does not take must be one short line.
 */
#include <config.h>

#include "fuzz-main.h"

#include <ctype.h>
#include <setjmp.h>

/* The parser with its state, and with messages that end no process. */
#define hak_fatal_text fuzz_fatal_text
#define hak_warn_text fuzz_warn_text
#include "../lib/options.c"

enum { ENTRIES_MAX = 64 };

static jmp_buf fatal;

static void check_message(const char *what, const char *text)
{
	if (strlen(what) > 40 || strlen(text) >= 160)
		fuzz_wrong("a long message: %s: %s", what, text);
	for (; *text; text++)
		if (iscntrl((unsigned char)*text))
			fuzz_wrong("a control character in a message");
}

void hak_warn_text(const char *function, const char *what, const char *text)
{
	if (hak_options.abort_conf)
		fuzz_wrong("%s: only warned about %s", function, text);
	check_message(what, text);
}

void hak_fatal_text(const char *function, const char *what, const char *text)
{
	if (!hak_options.abort_conf)
		fuzz_wrong("%s: died of %s", function, text);
	check_message(what, text);
	longjmp(fatal, 1);
}

static unsigned long number_in_force(const struct hak_option *option)
{
	if (option->kind == HAK_OPTION_SIZE)
		return *(size_t *)field_of(option);
	return (unsigned long)*(int *)field_of(option);
}

/* Its text means the value that is in force. */
static void check_row(const struct hak_option *option)
{
	struct hak_option_value value;
	char buffer[4200];
	struct hak_text text;

	hak_text_init(&text, buffer, sizeof buffer);
	hak_option_add_value(option, &text);
	if (text.cut || buffer[0] == '\0')
		fuzz_wrong("%s: no text", option->name);
	if (option->kind == HAK_OPTION_PATH)
		return;
	if (number_in_force(option) != option->fallback &&
		is_auto(option, number_in_force(option)))
		fuzz_wrong("%s: %lu is out of range", option->name,
			number_in_force(option));
	if (!hak_option_parse(option, buffer, &value) ||
		value.number != number_in_force(option))
		fuzz_wrong("%s: %lu is printed as %s", option->name,
			number_in_force(option), buffer);
}

static void one_input(const uint8_t *data, size_t size)
{
	static char text[FUZZ_BYTES_MAX + 1];
	static struct hak_options defaults;
	static int begun;
	char *block[ENTRIES_MAX + 1];
	size_t n = 0, kept;

	if (!begun) {
		begun = 1;
		defaults = hak_options;
	}
	hak_options = defaults;
	environment_read = 0;
	paths_used = 0;
	memset(sources, 0, sizeof sources);
	kept = size < FUZZ_BYTES_MAX ? size : FUZZ_BYTES_MAX;
	memcpy(text, data, kept);
	text[kept] = '\0';
	for (size_t at = 0; at < kept && n < ENTRIES_MAX;
		at += strlen(text + at) + 1)
		block[n++] = text + at;
	block[n] = NULL;
	if (setjmp(fatal) == 0)
		hak_options_init(block, 0);
	/* Nothing may point into the block afterwards. */
	memset(text, 'x', kept);
	for (size_t i = 0; i < ROWS; i++)
		check_row(&table[i]);
}

#if !FUZZ_LIBFUZZER
int main(int argc, char **argv)
{
	return fuzz_main(argc, argv, "options", 2000, NULL);
}
#endif

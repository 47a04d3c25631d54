/*
 * hakmem options: the option table as a program started from here would see
 * it. It reads the environment as the library does, with the library's code.
 */
#include <config.h>

#include "command.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "setting.h"

static const char *const source_names[] = {
	[HAK_SOURCE_DEFAULT] = "default",
	[HAK_SOURCE_ENVIRONMENT] = "environ",
	[HAK_SOURCE_API] = "argument",
};

static void print_help(void)
{
	fputs("Usage: hakmem options [-d] [NAME=VALUE]...\n"
	      "Lists the variables that tune hakmem: the value that a program\n"
	      "started from here would see, the default, the values accepted,\n"
	      "whether a running process can change it (live), and where it\n"
	      "comes from. Each is explained in hakmem(7).\n"
	      "\n"
	      "A NAME=VALUE stands before the environment. An unknown name or\n"
	      "a bad value, here or in the environment, is refused.\n"
	      "\n"
	      "Options:\n"
	      "  -d, --describe  say below each variable what it does\n"
	      "  -h, --help      print this text\n",
		stdout);
}

static const char *text_of(
	void (*add)(const struct hak_option *, struct hak_text *),
	const struct hak_option *option, char *buffer, size_t bytes)
{
	struct hak_text text;

	hak_text_init(&text, buffer, bytes);
	add(option, &text);
	return buffer;
}

static void print_row(const struct hak_option *option, int describe)
{
	char value[256], fallback[32], range[96];

	printf("%-28s %-7s %-7s %-21s %-4s %s\n", option->name,
		text_of(hak_option_add_value, option, value, sizeof(value)),
		text_of(hak_option_add_default, option, fallback,
			sizeof(fallback)),
		text_of(hak_option_add_range, option, range, sizeof(range)),
		option->live ? "live" : "-",
		source_names[hak_option_source(option)]);
	if (describe)
		printf("    %s\n", option->what);
}

static void print_table(int describe)
{
	printf("%-28s %-7s %-7s %-21s %-4s %s\n", "variable", "value",
		"default", "accepted", "live", "source");
	for (size_t i = 0; i < hak_option_count(); i++)
		print_row(hak_option_at(i), describe);
}

/* The environment has them by now; here they are told from the rest of it. */
static void mark_settings(char *const *settings, int count)
{
	for (int i = 0; i < count; i++) {
		size_t length = strcspn(settings[i], "=");

		hak_option_set(hak_option_find(settings[i], length),
			settings[i] + length + 1, HAK_SOURCE_API);
	}
}

int hak_options_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"describe", no_argument, NULL, 'd'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int option, describe = 0;

	while ((option = getopt_long(argc, argv, "dh", options, NULL)) != -1)
		switch (option) {
		case 'd':
			describe = 1;
			break;
		case 'h':
			print_help();
			hak_command_flush();
			return EXIT_SUCCESS;
		default:
			hak_command_bad_option(argv);
		}
	argv += optind;
	argc -= optind;
	for (int i = 0; i < argc; i++)
		if (!hak_setting_is(argv[i]))
			hak_command_fail(
				STATUS_FAILED, "not NAME=VALUE: %s", argv[i]);
	hak_setting_apply(argv, argc);
	hak_options_init(environ, 0);
	mark_settings(argv, argc);
	print_table(describe);
	hak_command_flush();
	return EXIT_SUCCESS;
}

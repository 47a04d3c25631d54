/*
 * Settings, NAME=VALUE: taken only if the option table has the name and the
 * row accepts the value. The library has to be lenient, since it speaks in
 * the middle of other people's programs; the command can be strict, and a
 * misspelt setting that silently does nothing is the worst answer of all.
 */
#include <config.h>

#include "setting.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "options.h"

static const char prefix[] = "HAKMEM_";

static int least(int a, int b)
{
	return a < b ? a : b;
}

/*
 * The number of letters to insert, delete or replace to make one name of the
 * other; a name of ours is shorter than 64. Case does not count.
 */
static int distance(const char *a, int length, const char *b)
{
	int row[64], columns = (int)strlen(b);

	for (int j = 0; j <= columns; j++)
		row[j] = j;
	for (int i = 1; i <= length; i++) {
		int diagonal = row[0];

		row[0] = i;
		for (int j = 1; j <= columns; j++) {
			int differ =
				toupper((unsigned char)a[i - 1]) != b[j - 1];
			int replaced = diagonal + differ;

			diagonal = row[j];
			row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[columns];
}

static const struct hak_option *nearest(const char *name, int length)
{
	const struct hak_option *best = hak_option_at(0);
	int best_distance = distance(name, length, best->name);

	for (size_t i = 1; i < hak_option_count(); i++) {
		const struct hak_option *option = hak_option_at(i);
		int d = distance(name, length, option->name);

		if (d < best_distance) {
			best = option;
			best_distance = d;
		}
	}
	return best;
}

/* A variable of somebody else's has no near one among ours. */
static void tell_unknown_name(const char *name, int length)
{
	const char *near = nearest(name, length)->name;

	if (strncmp(name, prefix, sizeof(prefix) - 1) == 0 ||
		distance(name, length, near) <= length / 2)
		hak_command_warn("unknown variable: %.*s (the nearest is %s)",
			length, name, near);
	else
		hak_command_warn(
			"not a variable of hakmem: %.*s", length, name);
}

static void tell_bad_value(const struct hak_option *option, const char *value)
{
	char range[96];
	struct hak_text text;

	hak_text_init(&text, range, sizeof(range));
	hak_option_add_range(option, &text);
	hak_command_warn("%s: bad value '%.64s' (%s expected)", option->name,
		value, range);
}

int hak_setting_is(const char *argument)
{
	size_t n = strspn(argument, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz_0123456789");

	return n > 0 && argument[n] == '=';
}

int hak_setting_check(const char *setting)
{
	size_t length = strcspn(setting, "=");
	const struct hak_option *option = hak_option_find(setting, length);
	struct hak_option_value value;

	if (!option) {
		tell_unknown_name(setting, least((int)length, 64));
		return 0;
	}
	if (setting[length] != '=')
		return 1; /* not an assignment, so nothing reads it */
	if (hak_option_parse(option, setting + length + 1, &value))
		return 1;
	tell_bad_value(option, setting + length + 1);
	return 0;
}

static int is_environment_good(void)
{
	int good = 1;

	for (char **entry = environ; *entry; entry++)
		if (strncmp(*entry, prefix, sizeof(prefix) - 1) == 0)
			good &= hak_setting_check(*entry);
	return good;
}

/* putenv() keeps the string: it is one of main()'s arguments. */
void hak_setting_apply(char *const *settings, int count)
{
	int good = 1;

	for (int i = 0; i < count; i++)
		if (strncmp(settings[i], prefix, sizeof(prefix) - 1) != 0)
			good &= hak_setting_check(settings[i]);
		else if (putenv(settings[i]) != 0)
			hak_command_fail(STATUS_FAILED, "out of memory");
	if (!is_environment_good() || !good)
		exit(STATUS_FAILED);
}

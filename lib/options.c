/*
 * The run-time options: the table made from options.def, the parser of each
 * kind, the reading of the environment and the texts shown to people.
 *
 * The environment is read at the first allocation of a process, when the C
 * library may not be up yet: no getenv (a program may replace it, and call
 * malloc in it), no strtol (locale), nothing that allocates. A value that
 * cannot be used costs one line and leaves the default in force; with
 * HAKMEM_ABORT_CONF=1 it ends the process.
 *
 * I1  hak_options always holds values in range, or a row's auto.
 * I2  Of two entries of one name the first counts, as with getenv.
 * I3  Nothing points into the environment block afterwards: programs
 *     overwrite it to change what ps shows. Paths are copied.
 *
 * No locks: FIXED rows are written before there is a second thread; fields and
 * sources of LIVE ones are read and written by relaxed atomics, since each value
 * stands for itself and nothing is handed over through it. The file needs
 * message.c and nothing else of the library, so the command links it too.
 */
#include "options.h"

#include "base.h"

#include <config.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#define HAK_WORDS_BOOL(field) ""
#define HAK_WORDS_COUNT(field) ""
#define HAK_WORDS_SIZE(field) ""
#define HAK_WORDS_MS(field) ""
#define HAK_WORDS_PATH(field) ""
#define HAK_WORDS_ENUM(field) HAK_WORDS_##field

enum { FIXED, LIVE };

enum row {
#define HAKMEM_OPTION(                                                         \
	field, name, kind, change, fallback, least, greatest, what)            \
	ROW_##field,
#include "options.def"
#undef HAKMEM_OPTION
	ROWS
};

struct hak_options hak_options = {
#define HAKMEM_OPTION(                                                         \
	field, name, kind, change, fallback, least, greatest, what)            \
	.field = (HAK_TYPE_##kind)(fallback),
#include "options.def"
#undef HAKMEM_OPTION
};

static const struct hak_option table[ROWS] = {
#define HAKMEM_OPTION(                                                         \
	field, name, kind, change, fallback, least, greatest, what)            \
	{name, what, HAK_WORDS_##kind(field), HAK_OPTION_##kind, change,       \
		offsetof(struct hak_options, field),                           \
		(unsigned long)(fallback), (unsigned long)(least),             \
		(unsigned long)(greatest)},
#include "options.def"
#undef HAKMEM_OPTION
};

/* C lets a string fill its array without a NUL: not here. */
#define HAKMEM_OPTION(                                                         \
	field, name, kind, change, fallback, least, greatest, what)            \
	_Static_assert(sizeof(name) <= HAK_OPTION_NAME_BYTES &&                \
			       sizeof(what) <= HAK_OPTION_WHAT_BYTES &&        \
			       sizeof(HAK_WORDS_##kind(field)) <=              \
				       HAK_OPTION_WORDS_BYTES,                 \
		"a string of the row is too long: " name);
#include "options.def"
#undef HAKMEM_OPTION

static const char prefix[] = "HAKMEM_";

static unsigned char sources[ROWS]; /* enum hak_option_source of each row */
static int environment_read;	    /* 1: a later block is ignored */

/* Copies of the values of PATH rows, one after the other. */
static char paths[4096];
static size_t paths_used;

static int is_auto(const struct hak_option *option, unsigned long number)
{
	return number < option->least || number > option->greatest;
}

/* PATH has no auto: no file by default. */
static int has_auto(const struct hak_option *option)
{
	return option->kind != HAK_OPTION_PATH &&
	       is_auto(option, option->fallback);
}

static int equal(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/*
 * The parsers: 1 and the value, or 0. None looks at the row's range.
 */

/* Decimal digits up to, not including, `end`. */
static int parse_digits(
	const char *text, const char *end, unsigned long *number)
{
	unsigned long n = 0;

	if (text == end)
		return 0;
	for (; text < end; text++) {
		unsigned int digit = (unsigned char)*text - (unsigned int)'0';

		if (digit > 9 || __builtin_mul_overflow(n, 10UL, &n) ||
			__builtin_add_overflow(n, digit, &n))
			return 0;
	}
	*number = n;
	return 1;
}

static int parse_count(const char *text, unsigned long *number)
{
	return parse_digits(text, text + strlen(text), number);
}

static unsigned long suffix_factor(char suffix)
{
	switch (suffix) {
	case 'k':
	case 'K':
		return 1UL << 10;
	case 'm':
	case 'M':
		return 1UL << 20;
	case 'g':
	case 'G':
		return 1UL << 30;
	default:
		return 0;
	}
}

static int parse_size(const char *text, unsigned long *number)
{
	const char *end = text + strlen(text);
	unsigned long factor = end > text ? suffix_factor(end[-1]) : 0;

	if (factor == 0)
		return parse_digits(text, end, number);
	return parse_digits(text, end - 1, number) &&
	       !__builtin_mul_overflow(*number, factor, number);
}

static int parse_bool(const char *text, unsigned long *number)
{
	if (equal(text, "1") || equal(text, "yes") || equal(text, "on"))
		*number = 1;
	else if (equal(text, "0") || equal(text, "no") || equal(text, "off"))
		*number = 0;
	else
		return 0;
	return 1;
}

/*
 * A list that begins with 0 and 1 is a boolean with more to choose from, so it
 * takes the words of a boolean as well.
 */
static int parse_word(
	const char *words, const char *text, unsigned long *number)
{
	size_t length = strlen(text);
	unsigned long index = 0;
	const char *word, *end;

	for (word = words; word; word = end ? end + 1 : NULL, index++) {
		size_t word_length;

		end = strchr(word, '|');
		word_length = end ? (size_t)(end - word) : strlen(word);
		if (word_length == length && memcmp(word, text, length) == 0) {
			*number = index;
			return 1;
		}
	}
	return strncmp(words, "0|1", 3) == 0 && parse_bool(text, number);
}

static int parse_number(const struct hak_option *option, const char *text,
	unsigned long *number)
{
	switch (option->kind) {
	case HAK_OPTION_BOOL:
		return parse_bool(text, number);
	case HAK_OPTION_COUNT:
	case HAK_OPTION_MS:
		return parse_count(text, number);
	case HAK_OPTION_SIZE:
		return parse_size(text, number);
	case HAK_OPTION_ENUM:
		return parse_word(option->words, text, number);
	default:
		return 0;
	}
}

int hak_option_parse(const struct hak_option *option, const char *text,
	struct hak_option_value *value)
{
	*value = (struct hak_option_value){0};
	if (option->kind == HAK_OPTION_PATH) {
		value->path = text;
		return *text != '\0' && strlen(text) < sizeof(paths);
	}
	if (has_auto(option) && equal(text, "auto")) {
		value->number = option->fallback;
		return 1;
	}
	return parse_number(option, text, &value->number) &&
	       !is_auto(option, value->number);
}

size_t hak_option_count(void)
{
	return ROWS;
}

const struct hak_option *hak_option_at(size_t index)
{
	return index < ROWS ? &table[index] : NULL;
}

const struct hak_option *hak_option_find(const char *name, size_t length)
{
	size_t i;

	for (i = 0; i < ROWS; i++)
		if (strlen(table[i].name) == length &&
			memcmp(table[i].name, name, length) == 0)
			return &table[i];
	return NULL;
}

static size_t row_of(const struct hak_option *option)
{
	return (size_t)(option - table);
}

enum hak_option_source hak_option_source(const struct hak_option *option)
{
	return (enum hak_option_source)LOAD_RELAXED(&sources[row_of(option)]);
}

static void *field_of(const struct hak_option *option)
{
	return (char *)&hak_options + option->offset;
}

static int store_path(const struct hak_option *option, const char *path)
{
	size_t bytes = strlen(path) + 1;

	if (bytes > sizeof(paths) - paths_used)
		return 0;
	memcpy(paths + paths_used, path, bytes);
	*(const char **)field_of(option) = paths + paths_used;
	paths_used += bytes;
	return 1;
}

static int store(
	const struct hak_option *option, const struct hak_option_value *value)
{
	switch (option->kind) {
	case HAK_OPTION_PATH:
		return store_path(option, value->path);
	case HAK_OPTION_SIZE:
		STORE_RELAXED((size_t *)field_of(option), value->number);
		return 1;
	default:
		STORE_RELAXED((int *)field_of(option), (int)value->number);
		return 1;
	}
}

int hak_option_set(const struct hak_option *option, const char *text,
	enum hak_option_source source)
{
	struct hak_option_value value;

	if (!hak_option_parse(option, text, &value) || !store(option, &value))
		return 0;
	STORE_RELAXED(&sources[row_of(option)], (unsigned char)source);
	return 1;
}

static void add_bad_value(const struct hak_option *option, const char *given,
	int default_used, struct hak_text *text)
{
	hak_text_add(text, "bad value '");
	hak_text_add_foreign(text, given, 32);
	hak_text_add(text, "'");
	if (default_used) {
		hak_text_add(text, ", using ");
		hak_option_add_default(option, text);
	}
	hak_text_add(text, " (");
	hak_option_add_range(option, text);
	hak_text_add(text, " expected)");
}

static void tell_bad_value(const struct hak_option *option, const char *given)
{
	char buffer[160];
	struct hak_text text;

	hak_text_init(&text, buffer, sizeof(buffer));
	add_bad_value(option, given, !hak_options.abort_conf, &text);
	if (hak_options.abort_conf)
		hak_fatal_text("options", option->name, buffer);
	hak_warn_text("options", option->name, buffer);
}

static void tell_unknown_name(const char *entry)
{
	char buffer[64];
	struct hak_text text;

	hak_text_init(&text, buffer, sizeof(buffer));
	hak_text_add_bytes(&text, entry, strcspn(entry, "="));
	if (hak_options.abort_conf)
		hak_fatal_text("options", "unknown variable", buffer);
	if (hak_options.verbose)
		hak_warn_text("options", "unknown variable", buffer);
}

static int is_ours(const char *entry)
{
	return strncmp(entry, prefix, sizeof(prefix) - 1) == 0;
}

/* The value of the first entry for a row, or NULL. */
static const char *look_up(char **block, const struct hak_option *option)
{
	size_t length = strlen(option->name);

	for (; *block; block++)
		if (strncmp(*block, option->name, length) == 0 &&
			(*block)[length] == '=')
			return *block + length + 1;
	return NULL;
}

static void take(const struct hak_option *option, const char *given)
{
	if (given && !hak_option_set(option, given, HAK_SOURCE_ENVIRONMENT))
		tell_bad_value(option, given);
}

static void take_entry(char **block, const char *entry)
{
	size_t length = strcspn(entry, "=");
	const struct hak_option *option = hak_option_find(entry, length);

	if (!option)
		tell_unknown_name(entry);
	else if (look_up(block, option) == entry + length + 1 &&
		 option != &table[ROW_abort_conf] &&
		 option != &table[ROW_verbose])
		take(option, entry + length + 1);
}

/* The two that say how the others are diagnosed come first. */
static void read_block(char **block)
{
	char **entry;

	take(&table[ROW_abort_conf], look_up(block, &table[ROW_abort_conf]));
	take(&table[ROW_verbose], look_up(block, &table[ROW_verbose]));
	for (entry = block; *entry; entry++)
		if (is_ours(*entry))
			take_entry(block, *entry);
}

void hak_options_init(char **environ_block, int secure)
{
	if (environment_read || (!environ_block && !secure))
		return;
	environment_read = 1;
	if (!secure)
		read_block(environ_block);
}

static const struct hak_option *find(const char *name)
{
	return hak_option_find(name, strlen(name));
}

/* A program that looks at no result may have it told. */
static int refuse_change(
	const struct hak_option *option, const char *name, const char *given)
{
	char buffer[160];
	struct hak_text text;
	int verbose = LOAD_RELAXED(&hak_options.verbose);

	if (!option) {
		if (verbose)
			hak_warn_text("option_set", "unknown variable", name);
		return ENOENT;
	}
	if (!option->live) {
		if (verbose)
			hak_warn_text("option_set",
				"cannot change while running", option->name);
		return EPERM;
	}
	hak_text_init(&text, buffer, sizeof(buffer));
	add_bad_value(option, given, 0, &text);
	if (verbose)
		hak_warn_text("option_set", option->name, buffer);
	return EINVAL;
}

int hak_option_change(const char *name, const char *text)
{
	const struct hak_option *option = find(name);

	if (option && option->live &&
		hak_option_set(option, text, HAK_SOURCE_API))
		return 0;
	return refuse_change(option, name, text);
}

int hak_option_text(const char *name, char *buffer, size_t room)
{
	const struct hak_option *option = find(name);
	struct hak_text text;

	if (!option)
		return ENOENT;
	if (room == 0)
		return ERANGE;
	hak_text_init(&text, buffer, room);
	hak_option_add_value(option, &text);
	return text.cut ? ERANGE : 0;
}

const char *hak_option_kind_name(const struct hak_option *option)
{
	static const char names[][8] = {
		[HAK_OPTION_BOOL] = "boolean",
		[HAK_OPTION_COUNT] = "count",
		[HAK_OPTION_SIZE] = "size",
		[HAK_OPTION_MS] = "ms",
		[HAK_OPTION_PATH] = "path",
		[HAK_OPTION_ENUM] = "word",
	};

	return names[option->kind];
}

static void add_word(
	const char *words, unsigned long index, struct hak_text *text)
{
	for (; index; index--)
		words = strchr(words, '|') + 1;
	hak_text_add_bytes(text, words, strcspn(words, "|"));
}

static void add_number(const struct hak_option *option, unsigned long number,
	struct hak_text *text)
{
	if (is_auto(option, number))
		hak_text_add(text, "auto");
	else if (option->kind == HAK_OPTION_ENUM)
		add_word(option->words, number, text);
	else if (option->kind == HAK_OPTION_SIZE)
		hak_text_add_size(text, number);
	else
		hak_text_add_number(text, number);
}

static void add_path(const char *path, struct hak_text *text)
{
	if (path)
		hak_text_add_bytes(text, path, strlen(path));
	else
		hak_text_add(text, "none");
}

void hak_option_add_value(
	const struct hak_option *option, struct hak_text *text)
{
	if (option->kind == HAK_OPTION_PATH)
		add_path(*(const char **)field_of(option), text);
	else if (option->kind == HAK_OPTION_SIZE)
		add_number(option, LOAD_RELAXED((size_t *)field_of(option)),
			text);
	else
		add_number(option,
			(unsigned long)LOAD_RELAXED((int *)field_of(option)),
			text);
}

void hak_option_add_default(
	const struct hak_option *option, struct hak_text *text)
{
	if (option->kind == HAK_OPTION_PATH)
		hak_text_add(text, "none");
	else
		add_number(option, option->fallback, text);
}

static void add_bounds(const struct hak_option *option, struct hak_text *text)
{
	if (option->greatest < PTRDIFF_MAX) {
		add_number(option, option->least, text);
		hak_text_add(text, " to ");
		add_number(option, option->greatest, text);
	} else if (option->least) {
		hak_text_add(text, "at least ");
		add_number(option, option->least, text);
	} else {
		hak_text_add(text, "any size");
	}
}

/* "auto|always|never" as "auto, always or never" */
static void add_words(const char *words, struct hak_text *text)
{
	const char *bar;

	while ((bar = strchr(words, '|'))) {
		hak_text_add_bytes(text, words, (size_t)(bar - words));
		hak_text_add(text, strchr(bar + 1, '|') ? ", " : " or ");
		words = bar + 1;
	}
	hak_text_add(text, words);
}

void hak_option_add_range(
	const struct hak_option *option, struct hak_text *text)
{
	if (has_auto(option))
		hak_text_add(text, "auto or ");
	if (option->kind == HAK_OPTION_PATH)
		hak_text_add(text, "a file name");
	else if (option->kind == HAK_OPTION_BOOL)
		hak_text_add(text, option->greatest ? "0 or 1"
						    : "0, not built in");
	else if (option->kind == HAK_OPTION_ENUM)
		add_words(option->words, text);
	else
		add_bounds(option, text);
}

HAK_EXPOSE(hak_note_option_sources, sources);

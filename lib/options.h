/*
 * Run-time options: one table, options.def, read from the environment once.
 */
#ifndef HAK_OPTIONS_H
#define HAK_OPTIONS_H

#include <stddef.h>

#include "message.h"

enum hak_thp { HAK_THP_AUTO, HAK_THP_ALWAYS, HAK_THP_NEVER };
enum hak_invalid_free {
	HAK_INVALID_FREE_ABORT,
	HAK_INVALID_FREE_WARN,
	HAK_INVALID_FREE_IGNORE,
};
enum hak_stats { HAK_STATS_OFF, HAK_STATS_TEXT, HAK_STATS_JSON };

enum hak_option_kind {
	HAK_OPTION_BOOL,
	HAK_OPTION_COUNT,
	HAK_OPTION_SIZE,
	HAK_OPTION_MS,
	HAK_OPTION_PATH,
	HAK_OPTION_ENUM,
};

#define HAK_TYPE_BOOL int
#define HAK_TYPE_COUNT int
#define HAK_TYPE_SIZE size_t
#define HAK_TYPE_MS int
#define HAK_TYPE_PATH const char *
#define HAK_TYPE_ENUM int

struct hak_options {
#define HAKMEM_OPTION(                                                         \
	field, name, kind, change, fallback, least, greatest, what)            \
	HAK_TYPE_##kind field;
#include "options.def"
#undef HAKMEM_OPTION
};

/*
 * The values in force: the defaults until hak_options_init() has run. Fields of
 * FIXED rows are written before there is a second thread; those of LIVE ones may
 * change at any time: read them by LOAD_RELAXED, once where two reads have to
 * agree.
 */
extern struct hak_options hak_options;

/*
 * Takes the options from the process's environment block. The first call with
 * a block counts, later ones do nothing; so does one with block == NULL, which
 * leaves the reading to a later call. secure: the process runs with somebody
 * else's privileges, the environment is ignored for good.
 */
void hak_options_init(char **environ_block, int secure);

/* Where a value comes from. */
enum hak_option_source {
	HAK_SOURCE_DEFAULT,
	HAK_SOURCE_ENVIRONMENT,
	HAK_SOURCE_API,
};

enum {
	HAK_OPTION_NAME_BYTES = 32,
	HAK_OPTION_WHAT_BYTES = 72,
	HAK_OPTION_WORDS_BYTES = 24,
};

/*
 * One row of the table. The strings are arrays, not pointers: so the table
 * needs no relocation and costs a starting process nothing.
 */
struct hak_option {
	char name[HAK_OPTION_NAME_BYTES];
	char what[HAK_OPTION_WHAT_BYTES];
	char words[HAK_OPTION_WORDS_BYTES]; /* ENUM: "a|b|c", else empty */
	enum hak_option_kind kind;
	int live;		/* 1: LIVE, 0: FIXED */
	unsigned int offset;	/* of the field in struct hak_options */
	unsigned long fallback; /* outside least..greatest: auto */
	unsigned long least;
	unsigned long greatest;
};

/* What a text means for a row. */
struct hak_option_value {
	unsigned long number; /* every kind but PATH */
	const char *path;     /* PATH only: the text itself, not a copy */
};

size_t hak_option_count(void);
const struct hak_option *hak_option_at(size_t index);
/* NULL: no row has exactly this name of `length` bytes */
const struct hak_option *hak_option_find(const char *name, size_t length);
/* 1 if text is a value the row accepts, else 0 */
int hak_option_parse(const struct hak_option *option, const char *text,
	struct hak_option_value *value);
/*
 * Gives a row of the table the value that text means, on behalf of `source`.
 * 1, or 0 when the row does not accept it and nothing has changed. Not a FIXED
 * row once threads read it.
 */
int hak_option_set(const struct hak_option *option, const char *text,
	enum hak_option_source source);
/*
 * The same for a process that runs, by name, any thread: 0; ENOENT, there is no
 * such row; EPERM, it is FIXED; EINVAL, it does not accept the value.
 */
int hak_option_change(const char *name, const char *text);
/* The value of a row, by name, any thread: 0; ENOENT; ERANGE, it was cut. */
int hak_option_text(const char *name, char *buffer, size_t room);
enum hak_option_source hak_option_source(const struct hak_option *option);
const char *hak_option_kind_name(const struct hak_option *option);

/* Texts for people; the first and second are values the row accepts. */
void hak_option_add_value(
	const struct hak_option *option, struct hak_text *text);
void hak_option_add_default(
	const struct hak_option *option, struct hak_text *text);
void hak_option_add_range(
	const struct hak_option *option, struct hak_text *text);

#endif

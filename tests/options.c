/*
 * Options: what each kind accepts, what each row of the table accepts, and
 * what the environment makes of them. hak_options_init() counts once in a
 * process, so whatever calls it runs in a child; a child reports a broken
 * expectation on standard error, where the expected messages stand as well.
 */
#include "options.h"

#include <limits.h>
#include <signal.h>

#include "tap.h"

static char buffer[8192];

static const struct hak_option rows[] = {
	[HAK_OPTION_BOOL] = {.kind = HAK_OPTION_BOOL, .greatest = 1},
	[HAK_OPTION_COUNT] = {.kind = HAK_OPTION_COUNT,
		.fallback = 64,
		.least = 1,
		.greatest = 127},
	[HAK_OPTION_SIZE] = {.kind = HAK_OPTION_SIZE,
		.fallback = SIZE_MAX,
		.greatest = PTRDIFF_MAX},
	[HAK_OPTION_MS] = {.kind = HAK_OPTION_MS, .greatest = 3600000},
	[HAK_OPTION_PATH] = {.kind = HAK_OPTION_PATH},
	[HAK_OPTION_ENUM] = {.kind = HAK_OPTION_ENUM,
		.words = "auto|always|never",
		.greatest = 2},
};
static const struct hak_option tristate = {
	.kind = HAK_OPTION_ENUM, .words = "0|1|json", .greatest = 2};
/* every number is in range but the last, which is auto */
static const struct hak_option widest = {.kind = HAK_OPTION_SIZE,
	.fallback = ULONG_MAX,
	.greatest = ULONG_MAX - 1};

enum { REFUSED = -1 };

/* The number a text means, REFUSED if it means none. */
static long long parse(const struct hak_option *option, const char *text)
{
	struct hak_option_value value;

	return hak_option_parse(option, text, &value) ? (long long)value.number
						      : REFUSED;
}

static void test_bool(void)
{
	static const char *const yes[] = {"1", "yes", "on"};
	static const char *const no[] = {"0", "no", "off"};
	static const char *const junk[] = {"", "2", "00", "01", "YES", "On",
		"true", "false", "y", "n", "1 ", " 1", "-1", "auto", "yes,no"};
	const struct hak_option *option = &rows[HAK_OPTION_BOOL];

	for (int i = 0; i < 3; i++) {
		is_int(parse(option, yes[i]), 1, "boolean: %s", yes[i]);
		is_int(parse(option, no[i]), 0, "boolean: %s", no[i]);
	}
	for (int i = 0; i < 15; i++)
		is_int(parse(option, junk[i]), REFUSED, "boolean: not '%s'",
			junk[i]);
}

/* Every number from 0 to 999, against the range. */
static void test_range(void)
{
	int right = 1;

	for (int n = 0; n < 1000; n++) {
		char digits[16];

		snprintf(digits, sizeof digits, "%d", n);
		right &= parse(&rows[HAK_OPTION_COUNT], digits) ==
			 (n >= 1 && n <= 127 ? n : REFUSED);
	}
	ok(right, "count: of 0 to 999 exactly 1 to 127");
	is_int(parse(&rows[HAK_OPTION_COUNT], "0000000000000000000000042"), 42,
		"count: leading zeros");
	is_int(parse(&rows[HAK_OPTION_COUNT], "auto"), REFUSED,
		"count: no auto where the default is a number");
	is_int(parse(&rows[HAK_OPTION_MS], "3600000"), 3600000, "ms: greatest");
	is_int(parse(&rows[HAK_OPTION_MS], "3600001"), REFUSED, "ms: too long");
	is_int(parse(&rows[HAK_OPTION_MS], "10ms"), REFUSED, "ms: no unit");
}

/* Texts that no numeric kind takes. */
static void test_junk(void)
{
	static const char *const junk[] = {"", " ", " 1", "1 ", "+1", "-1",
		"-0", "0x10", "1e1", "1.5", "1,5", "1_0", "one", "1\n", "\t1",
		"1/2", "K", "1KB", "1KiB", "1KK", "1 K", "K1", "1T", "AUTO",
		"auto ", "18446744073709551616", "18446744073709551617",
		"36893488147419103233", "99999999999999999999999999",
		"\xd9\xa1", "1\xc2\xa0"};
	static const enum hak_option_kind kinds[] = {
		HAK_OPTION_COUNT, HAK_OPTION_MS, HAK_OPTION_SIZE};

	for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
		int refused = 1;

		for (int k = 0; k < 3; k++)
			refused &= parse(&rows[kinds[k]], junk[i]) == REFUSED;
		ok(refused, "numbers: not '%s'", junk[i]);
	}
}

/* Every text of one byte, and of a digit and one byte. */
static void test_bytes(void)
{
	int single = 1, second = 1;

	for (int c = 1; c < 256; c++) {
		char one[] = {(char)c, '\0'}, two[] = {'7', (char)c, '\0'};
		int digit = c >= '0' && c <= '9';
		long long suffixed = c == 'k' || c == 'K'   ? 7LL << 10
				     : c == 'm' || c == 'M' ? 7LL << 20
				     : c == 'g' || c == 'G' ? 7LL << 30
							    : REFUSED;

		single &= parse(&rows[HAK_OPTION_MS], one) ==
				  (digit ? c - '0' : REFUSED) &&
			  parse(&rows[HAK_OPTION_SIZE], one) ==
				  (digit ? c - '0' : REFUSED);
		second &= parse(&rows[HAK_OPTION_MS], two) ==
				  (digit ? 70 + c - '0' : REFUSED) &&
			  parse(&rows[HAK_OPTION_SIZE], two) ==
				  (digit ? 70 + c - '0' : suffixed);
	}
	ok(single, "numbers: of all bytes only digits");
	ok(second, "numbers: after a digit only digits and suffixes");
}

static void test_size(void)
{
	static const struct {
		const char *text;
		long long bytes;
	} cases[] = {
		{"0", 0},
		{"0K", 0},
		{"1", 1},
		{"64K", 65536},
		{"64k", 65536},
		{"3M", 3LL << 20},
		{"3m", 3LL << 20},
		{"2G", 2LL << 30},
		{"2g", 2LL << 30},
		{"1025", 1025},
		{"9223372036854775807", PTRDIFF_MAX},
		{"9223372036854775808", REFUSED},
		{"9007199254740991K", PTRDIFF_MAX - 1023},
		{"9007199254740992K", REFUSED},
		{"8796093022207M", PTRDIFF_MAX - (1LL << 20) + 1},
		{"8796093022208M", REFUSED},
		{"8589934591G", PTRDIFF_MAX - (1LL << 30) + 1},
		{"8589934592G", REFUSED},
		{"17179869184G", REFUSED}, /* 2^64: wraps to 0 */
		{"17179869185G", REFUSED}, /* wraps to 1G */
		{"18014398509481984K", REFUSED},
		{"18446744073709551615", REFUSED}, /* the number of auto */
		{"18446744073709551615G", REFUSED},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		is_int(parse(&rows[HAK_OPTION_SIZE], cases[i].text),
			cases[i].bytes, "size: %s", cases[i].text);
}

static void test_overflow(void)
{
	struct hak_option_value value;

	ok(hak_option_parse(&widest, "18446744073709551614", &value) &&
			value.number == ULONG_MAX - 1,
		"size: the greatest number below auto");
	ok(!hak_option_parse(&widest, "18446744073709551615", &value),
		"size: the number of auto has no digits");
	ok(hak_option_parse(&widest, "17179869183G", &value) &&
			value.number == 17179869183UL << 30,
		"size: the greatest number of G");
	ok(!hak_option_parse(&widest, "17179869184G", &value),
		"size: overflow by the suffix");
	ok(!hak_option_parse(&widest, "18446744073709551620", &value),
		"size: overflow by the last digit");
	ok(hak_option_parse(&widest, "auto", &value) &&
			value.number == ULONG_MAX,
		"size: auto");
}

static void test_words(void)
{
	static const char *const junk[] = {"", "alway", "alwayss", "Always",
		"auto|always", "|", "a", "0", "1", "on", "never ", " never"};
	const struct hak_option *option = &rows[HAK_OPTION_ENUM];

	is_int(parse(option, "auto"), 0, "word: the first");
	is_int(parse(option, "always"), 1, "word: one in the middle");
	is_int(parse(option, "never"), 2, "word: the last");
	for (size_t i = 0; i < sizeof junk / sizeof *junk; i++)
		is_int(parse(option, junk[i]), REFUSED, "word: not '%s'",
			junk[i]);
	is_int(parse(&tristate, "json"), 2, "word: json beside 0 and 1");
	is_int(parse(&tristate, "1"), 1, "word: 1 where it is one");
	is_int(parse(&tristate, "on"), 1, "word: on is 1");
	is_int(parse(&tristate, "no"), 0, "word: no is 0");
	is_int(parse(&tristate, "2"), REFUSED, "word: not the number of one");
}

static void test_path(void)
{
	const struct hak_option *option = &rows[HAK_OPTION_PATH];
	struct hak_option_value value;

	ok(hak_option_parse(option, "/tmp/x", &value) &&
			strcmp(value.path, "/tmp/x") == 0,
		"path: any text");
	ok(hak_option_parse(option, "auto", &value) &&
			strcmp(value.path, "auto") == 0,
		"path: even auto");
	ok(!hak_option_parse(option, "", &value), "path: not empty");
}

/* --- The table ---------------------------------------------------------- */

static const char *text_of(
	void (*add)(const struct hak_option *, struct hak_text *),
	const struct hak_option *option)
{
	static char lines[4][128];
	static int next;
	struct hak_text text;
	char *line = lines[next++ % 4];

	hak_text_init(&text, line, sizeof *lines);
	add(option, &text);
	return line;
}

static int accepts(const struct hak_option *option, unsigned long number)
{
	struct hak_option_value value;
	char digits[24];

	snprintf(digits, sizeof digits, "%lu", number);
	return hak_option_parse(option, digits, &value) &&
	       value.number == number;
}

static int keeps_limits(const struct hak_option *option)
{
	if (option->kind == HAK_OPTION_PATH || option->kind == HAK_OPTION_ENUM)
		return 1;
	return accepts(option, option->least) &&
	       accepts(option, option->greatest) &&
	       !accepts(option, option->least - 1) &&
	       !accepts(option, option->greatest + 1);
}

static int knows_auto(const struct hak_option *option)
{
	struct hak_option_value value;
	int outside = option->fallback < option->least ||
		      option->fallback > option->greatest;

	if (option->kind == HAK_OPTION_PATH || option->kind == HAK_OPTION_ENUM)
		return 1;
	return outside == hak_option_parse(option, "auto", &value);
}

static int word_count(const char *words)
{
	int n = 1;

	for (; *words; words++)
		n += *words == '|';
	return n;
}

static int is_well_formed(const struct hak_option *option)
{
	size_t words = (size_t)word_count(option->words);

	return strncmp(option->name, "HAKMEM_", 7) == 0 &&
	       option->what[0] != '\0' &&
	       strspn(option->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
		       strlen(option->name) &&
	       (option->kind != HAK_OPTION_ENUM ||
		       option->greatest + 1 == words);
}

static int is_found_alone(const struct hak_option *option)
{
	size_t length = strlen(option->name), found = 0;

	for (size_t i = 0; i < hak_option_count(); i++)
		found += strcmp(hak_option_at(i)->name, option->name) == 0;
	return found == 1 && hak_option_find(option->name, length) == option;
}

/* The text of a value means that value. */
static int says_its_value(const struct hak_option *option)
{
	struct hak_option_value value;
	const char *text = text_of(hak_option_add_default, option);

	return strcmp(text, text_of(hak_option_add_value, option)) == 0 &&
	       hak_option_source(option) == HAK_SOURCE_DEFAULT &&
	       (option->kind == HAK_OPTION_PATH ||
		       (hak_option_parse(option, text, &value) &&
			       value.number == option->fallback));
}

static void test_table(void)
{
	for (size_t i = 0; i < hak_option_count(); i++) {
		const struct hak_option *option = hak_option_at(i);

		ok(is_well_formed(option), "%s: well-formed", option->name);
		ok(is_found_alone(option), "%s: found", option->name);
		ok(keeps_limits(option), "%s: limits", option->name);
		ok(knows_auto(option), "%s: auto", option->name);
		ok(says_its_value(option), "%s: default", option->name);
	}
	is_ptr(hak_option_at(hak_option_count()), NULL,
		"no row after the last");
	is_ptr(hak_option_find("HAKMEM_CACH", 11), NULL, "no shorter name");
	is_ptr(hak_option_find("HAKMEM_CACHES", 13), NULL, "no longer name");
	ok(hak_option_find("HAKMEM_CACHES", 12) != NULL, "a length is obeyed");
}

static const struct hak_option *row(const char *name)
{
	return hak_option_find(name, strlen(name));
}

static void test_ranges(void)
{
	is_str(text_of(hak_option_add_range, row("HAKMEM_TINY_REFILL_COUNT")),
		"auto or 1 to 127", "range: count with auto");
	is_str(text_of(hak_option_add_range, row("HAKMEM_WARM_POOL_SIZE")),
		"0 to 1024", "range: count");
	is_str(text_of(hak_option_add_range, row("HAKMEM_CACHE")),
		"auto or at least 64K", "range: size without a greatest");
	is_str(text_of(hak_option_add_range, row("HAKMEM_RETAIN")),
		"auto or any size", "range: every size");
	is_str(text_of(hak_option_add_range, row("HAKMEM_THP")),
		"auto, always or never", "range: words");
	is_str(text_of(hak_option_add_range, row("HAKMEM_VERBOSE")), "0 or 1",
		"range: boolean");
	is_str(text_of(hak_option_add_range, &rows[HAK_OPTION_PATH]),
		"a file name", "range: path");
}

/* --- The environment ---------------------------------------------------- */

/* In a child: say what is not as it should be. */
#define EXPECT(condition) ((condition) ? (void)0 : hak_warn("test", #condition))

static void leaves_early(void)
{
	char *block[] = {"HAKMEM_THP=never", NULL};
	char *later[] = {"HAKMEM_THP=always", NULL};

	EXPECT(hak_options.thp == HAK_THP_AUTO);
	EXPECT(hak_options.l2_ring_cap >= 1);
	hak_options_init(NULL, 0);
	EXPECT(hak_options.thp == HAK_THP_AUTO);
	hak_options_init(block, 0);
	EXPECT(hak_options.thp == HAK_THP_NEVER);
	EXPECT(hak_option_source(row("HAKMEM_THP")) == HAK_SOURCE_ENVIRONMENT);
	hak_options_init(later, 0);
	hak_options_init(later, 1);
	EXPECT(hak_options.thp == HAK_THP_NEVER);
}

static void takes_each_kind(void)
{
	char *block[] = {"PATH=/bin", "HAKMEM_WARM_POOL_SIZE=7",
		"HAKMEM_CACHE=3M", "HAKMEM_TINY_UNIFIED_C3=0",
		"HAKMEM_TINY_REFILL_COUNT=127", "HAKMEM_TINY_USE_SUPERSLAB=off",
		"HAKMEM_PURGE_DELAY_MS=3600000", "HAKMEM_RETAIN=0",
		"HAKMEM_INVALID_FREE=warn", "HAKMEM_STATS=json", NULL};

	errno = EDOM;
	hak_options_init(block, 0);
	EXPECT(errno == EDOM);
	EXPECT(hak_options.warm_pool_size == 7);
	EXPECT(hak_options.cache == 3UL << 20);
	EXPECT(hak_options.tiny_unified_c3 == 0);
	EXPECT(hak_options.tiny_unified_c4 == -1);
	EXPECT(hak_options.tiny_refill_count == 127);
	EXPECT(hak_options.tiny_use_superslab == 0);
	EXPECT(hak_options.purge_delay_ms == 3600000);
	EXPECT(hak_options.retain == 0);
	EXPECT(hak_options.invalid_free == HAK_INVALID_FREE_WARN);
	EXPECT(hak_options.stats == HAK_STATS_JSON);
	EXPECT(hak_options.thp == HAK_THP_AUTO);
}

static void takes_auto(void)
{
	char *block[] = {"HAKMEM_CACHE=auto", "HAKMEM_RETAIN=auto",
		"HAKMEM_TINY_UNIFIED_C0=auto", "HAKMEM_TINY_REFILL_COUNT=auto",
		NULL};

	hak_options_init(block, 0);
	EXPECT(hak_options.cache == 0);
	EXPECT(hak_options.retain == SIZE_MAX);
	EXPECT(hak_options.tiny_unified_c0 == -1);
	EXPECT(hak_options.tiny_refill_count == 0);
	EXPECT(hak_option_source(row("HAKMEM_RETAIN")) ==
		HAK_SOURCE_ENVIRONMENT);
}

static void ignores_if_secure(void)
{
	char *block[] = {"HAKMEM_THP=never", "HAKMEM_ABORT_CONF=1",
		"HAKMEM_WRONG=1", "HAKMEM_CACHE=x", NULL};

	hak_options_init(block, 1);
	EXPECT(hak_options.thp == HAK_THP_AUTO);
	EXPECT(hak_options.abort_conf == 0);
	hak_options_init(block, 0);
	EXPECT(hak_options.thp == HAK_THP_AUTO);
}

static void stays_ignorant_if_secure(void)
{
	char *block[] = {"HAKMEM_THP=never", NULL};

	hak_options_init(NULL, 1);
	hak_options_init(block, 0);
	EXPECT(hak_options.thp == HAK_THP_AUTO);
}

static void takes_the_first(void)
{
	char *block[] = {"HAKMEM_THP=never", "HAKMEM_THP=always",
		"HAKMEM_RETAIN=x", "HAKMEM_RETAIN=0", "HAKMEM_VERBOSE=0",
		"HAKMEM_VERBOSE=1", "HAKMEM_WRONG=1", NULL};

	hak_options_init(block, 0);
	EXPECT(hak_options.thp == HAK_THP_NEVER);
	EXPECT(hak_options.retain == SIZE_MAX);
	EXPECT(hak_options.verbose == 0);
}

/* None of these is a setting of ours. */
static void passes_over(void)
{
	char *block[] = {"", "=", "HAKMEM", "HAKMEM_", "HAKMEM_THP",
		"HAKMEM_=1", "hakmem_thp=never", " HAKMEM_THP=never",
		"XHAKMEM_THP=never", "HAKMEM_THP =never", "HAKMEM_THPX=never",
		"HAKMEM_TH=never", "HAKMEM-THP=never", NULL};

	hak_options_init(block, 0);
	EXPECT(hak_options.thp == HAK_THP_AUTO);
}

static void tells_bad_values(void)
{
	char *block[] = {"HAKMEM_TINY_REFILL_COUNT_HOT=128", "HAKMEM_STATS=2",
		"HAKMEM_CACHE=65535", "HAKMEM_VERBOSE=maybe",
		"HAKMEM_TINY_USE_SUPERSLAB=", "HAKMEM_INVALID_FREE=\x1b[2J",
		"HAKMEM_RETAIN=1234567890123456789012345678901234567890", NULL};

	hak_options_init(block, 0);
	EXPECT(hak_options.tiny_refill_count_hot == 0);
	EXPECT(hak_options.stats == HAK_STATS_OFF);
	EXPECT(hak_options.cache == 0);
	EXPECT(hak_options.verbose == 0);
	EXPECT(hak_options.tiny_use_superslab == 1);
	EXPECT(hak_options.invalid_free == HAK_INVALID_FREE_ABORT);
	EXPECT(hak_options.retain == SIZE_MAX);
	EXPECT(hak_option_source(row("HAKMEM_CACHE")) == HAK_SOURCE_DEFAULT);
}

static const char bad_values[] =
	"hakmem: options: HAKMEM_VERBOSE: bad value 'maybe', using 0"
	" (0 or 1 expected)\n"
	"hakmem: options: HAKMEM_TINY_REFILL_COUNT_HOT: bad value '128',"
	" using auto (auto or 1 to 127 expected)\n"
	"hakmem: options: HAKMEM_STATS: bad value '2', using 0"
	" (0, 1 or json expected)\n"
	"hakmem: options: HAKMEM_CACHE: bad value '65535', using auto"
	" (auto or at least 64K expected)\n"
	"hakmem: options: HAKMEM_TINY_USE_SUPERSLAB: bad value '', using 1"
	" (0 or 1 expected)\n"
	"hakmem: options: HAKMEM_INVALID_FREE: bad value '?[2J', using abort"
	" (abort, warn or ignore expected)\n"
	"hakmem: options: HAKMEM_RETAIN: bad value"
	" '12345678901234567890123456789012...', using auto"
	" (auto or any size expected)\n";

static void dies_of_bad_value(void)
{
	char *block[] = {"HAKMEM_THP=sometimes", "HAKMEM_ABORT_CONF=1", NULL};

	hak_options_init(block, 0);
}

static void dies_of_unknown_name(void)
{
	char *block[] = {"HAKMEM_TPH=never", "HAKMEM_ABORT_CONF=on", NULL};

	hak_options_init(block, 0);
}

static void survives_bad_abort_conf(void)
{
	char *block[] = {"HAKMEM_ABORT_CONF=si", "HAKMEM_TPH=never", NULL};

	hak_options_init(block, 0);
}

static void tells_unknown_names(void)
{
	char *block[] = {"HAKMEM_TPH=never", "HAKMEM_NOEQUALS",
		"HAKMEM_VERBOSE=1", "HAKMEM_=", NULL};

	hak_options_init(block, 0);
}

static void tells_only_so_much(void)
{
	char *block[31];

	for (int i = 0; i < 30; i++)
		block[i] = "HAKMEM_WRONG=1";
	block[0] = "HAKMEM_VERBOSE=1";
	block[30] = NULL;
	hak_options_init(block, 0);
}

static void dies_with(
	void (*fn)(void), int signal, const char *said, const char *name)
{
	int status, got = tap_child(fn, &status, buffer, sizeof buffer);

	is_int(got, signal, "%s: signal", name);
	is_str(buffer, said, "%s: messages", name);
}

static void test_environment(void)
{
	dies_with(leaves_early, 0, "", "the first block counts");
	dies_with(takes_each_kind, 0, "", "each kind");
	dies_with(takes_auto, 0, "", "auto");
	dies_with(ignores_if_secure, 0, "", "a block of a set-id program");
	dies_with(stays_ignorant_if_secure, 0, "", "a set-id program");
	dies_with(takes_the_first, 0,
		"hakmem: options: HAKMEM_RETAIN: bad value 'x', using auto"
		" (auto or any size expected)\n",
		"of two entries the first");
	dies_with(passes_over, 0, "", "names that are not ours");
	dies_with(tells_bad_values, 0, bad_values, "bad values");
	dies_with(dies_of_bad_value, SIGABRT,
		"hakmem: options: HAKMEM_THP: bad value 'sometimes'"
		" (auto, always or never expected)\n",
		"abort_conf, bad value");
	dies_with(dies_of_unknown_name, SIGABRT,
		"hakmem: options: unknown variable: HAKMEM_TPH\n",
		"abort_conf, unknown name");
	dies_with(survives_bad_abort_conf, 0,
		"hakmem: options: HAKMEM_ABORT_CONF: bad value 'si', using 0"
		" (0 or 1 expected)\n",
		"abort_conf, itself bad");
	dies_with(tells_unknown_names, 0,
		"hakmem: options: unknown variable: HAKMEM_TPH\n"
		"hakmem: options: unknown variable: HAKMEM_NOEQUALS\n"
		"hakmem: options: unknown variable: HAKMEM_\n",
		"verbose, unknown names");
	tap_child(tells_only_so_much, &(int){0}, buffer, sizeof buffer);
	ok(strstr(buffer, "further messages are suppressed\n") != NULL,
		"many unknown names: not all are told");
}

/* A value of the row that is not its default. */
static void other_value(
	const struct hak_option *option, char *text, size_t room)
{
	if (option->kind == HAK_OPTION_ENUM)
		snprintf(text, room, "%s", strrchr(option->words, '|') + 1);
	else if (option->kind == HAK_OPTION_PATH)
		snprintf(text, room, "/tmp/%s", option->name);
	else
		snprintf(text, room, "%lu",
			option->fallback == option->least ? option->greatest
							  : option->least);
}

/* With all rows in the block, each has its own value and no other's. */
static void takes_every_row(void)
{
	enum { MOST = 100 };
	static char entries[MOST][128];
	char *block[MOST + 1] = {NULL};
	size_t count = hak_option_count();

	EXPECT(count <= MOST);
	for (size_t i = 0; i < count; i++) {
		size_t at = (size_t)snprintf(entries[i], sizeof *entries,
			"%s=", hak_option_at(i)->name);

		other_value(hak_option_at(i), entries[i] + at,
			sizeof *entries - at);
		block[i] = entries[i];
	}
	hak_options_init(block, 0);
	for (size_t i = 0; i < count; i++) {
		const struct hak_option *option = hak_option_at(i);
		const char *given = strchr(entries[i], '=') + 1;
		struct hak_option_value want, have;

		hak_option_parse(option, given, &want);
		if (!hak_option_parse(option,
			    text_of(hak_option_add_value, option), &have) ||
			have.number != want.number ||
			hak_option_source(option) != HAK_SOURCE_ENVIRONMENT)
			hak_warn_text("test", "not taken", entries[i]);
	}
	/* a program may overwrite its environment: nothing may change */
	memset(entries, '!', sizeof entries);
	for (size_t i = 0; i < count; i++)
		EXPECT(!strchr(
			text_of(hak_option_add_value, hak_option_at(i)), '!'));
}

static void test_set(void)
{
	const struct hak_option *option = row("HAKMEM_PURGE_DELAY_MS");

	ok(hak_option_set(option, "250", HAK_SOURCE_API), "set: a good value");
	is_int(hak_options.purge_delay_ms, 250, "set: the value");
	is_int(hak_option_source(option), HAK_SOURCE_API, "set: the source");
	ok(!hak_option_set(option, "x", HAK_SOURCE_ENVIRONMENT),
		"set: a bad value is refused");
	is_int(hak_options.purge_delay_ms, 250, "set: and changes nothing");
	is_int(hak_option_source(option), HAK_SOURCE_API,
		"set: not even the source");
}

int main(void)
{
	plan(156 + 5 * (unsigned)hak_option_count());
	test_bool();
	test_range();
	test_junk();
	test_bytes();
	test_size();
	test_overflow();
	test_words();
	test_path();
	test_table();
	test_ranges();
	test_environment();
	dies_with(takes_every_row, 0, "", "every row");
	test_set();
	return done();
}

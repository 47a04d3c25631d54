/*
 * stats_print.c: a snapshot as text for people and as one JSON object.
 *
 * Text is handed out in pieces of at most a line. Nothing is allocated and no
 * stdio is used: this runs at the end of a process, whatever state it is in,
 * and in the command.
 *
 * The JSON object, schema "hakmem-stats-1": schema, version, pid; left_out, how
 * many parts of another process are missing; an object for each group of
 * stats.def with its fields; "bins", an array of an object for each bin with
 * slabs or lost blocks; "heaps", an array of an object for each thread with
 * caches; "counters", where any are compiled in, an object for each group that
 * counts: its sums, and for counters of bins "bands" and "bins"; "options", an
 * object with every variable's value as text. Every other value is a number. New
 * members may appear.
 */
#include "stats.h"

#include "message.h"
#include "options.h"

/* The longest value of a variable, a path. */
enum { VALUE_BYTES = 4096 };

struct printer {
	void (*write)(void *arg, const char *text);
	void *arg;
	/* No comma before the next member. */
	bool first;
	struct hak_text line;
	char buffer[512];
};

struct column {
	const char *name;
	size_t offset;
};

struct row {
	const char *name;
	const char *what;
	/* In struct hakmem_stats; 0: the title of a group. */
	size_t offset;
};

static const struct row rows[] = {
#define HAKMEM_STATS_GROUP(name, title) { #name, title, 0 },
#define HAKMEM_STAT(field, what)                                               \
	{ #field, what, offsetof(struct hakmem_stats, field) },
#include "stats.def"
#undef HAKMEM_STAT
#undef HAKMEM_STATS_GROUP
};

/* The header's struct has the rows of the table, in its order, and no more. */
struct mirror {
	size_t struct_size;
#define HAKMEM_STATS_GROUP(name, title)
#define HAKMEM_STAT(field, what) size_t field;
#include "stats.def"
#undef HAKMEM_STAT
};
#define HAKMEM_STAT(field, what)                                               \
	_Static_assert(offsetof(struct mirror, field) ==                       \
		offsetof(struct hakmem_stats, field), #field);
#include "stats.def"
#undef HAKMEM_STAT
#undef HAKMEM_STATS_GROUP
_Static_assert(sizeof(struct mirror) == sizeof(struct hakmem_stats), "");

#define BIN_COLUMN(field) { #field, offsetof(struct hakmem_bin_stats, field) }
static const struct column bin_columns[] = {
	BIN_COLUMN(size), BIN_COLUMN(slabs), BIN_COLUMN(blocks),
	BIN_COLUMN(live), BIN_COLUMN(front), BIN_COLUMN(depot),
	BIN_COLUMN(spill), BIN_COLUMN(lost), BIN_COLUMN(free),
	BIN_COLUMN(carving), BIN_COLUMN(warm), BIN_COLUMN(listed),
	BIN_COLUMN(full),
};

#define HEAP_COLUMN(field) { #field, offsetof(struct hak_snapshot_heap, field) }
static const struct column heap_columns[] = {
	HEAP_COLUMN(thread), HEAP_COLUMN(shard), HEAP_COLUMN(front_bytes),
	HEAP_COLUMN(ring_bytes), HEAP_COLUMN(depot_bytes),
	HEAP_COLUMN(reserved_bytes), HEAP_COLUMN(magazines),
	HEAP_COLUMN(footprint_bytes),
};

enum group { CACHE, CLASS, FREE, REFILL, DIAG, GROUPS };

struct group_row {
	const char *name;
	const char *title;
	bool compiled;
	/* The variable that lets it count: a field of hak_options. */
	const int *gate;
};

static const struct group_row groups[GROUPS] = {
#define HAKMEM_COUNTER_GROUP(group, name, variable, title)                     \
	[group] = { #name, title, HAK_COMPILED_##group, &hak_options.variable },
#define HAKMEM_COUNTER(group, field, what)
#define HAKMEM_BIN_COUNTER(group, field, what)
#include "counters.def"
#undef HAKMEM_BIN_COUNTER
#undef HAKMEM_COUNTER
#undef HAKMEM_COUNTER_GROUP
};

struct counter {
	const char *name;
	const char *what;
	size_t offset;
	enum group group;
	bool by_bin;
};

static const struct counter counters[] = {
#define HAKMEM_COUNTER_GROUP(group, name, variable, title)
#define HAKMEM_COUNTER(group, field, what)                                     \
	{ #field, what, offsetof(struct hak_counters, field), group, false },
#define HAKMEM_BIN_COUNTER(group, field, what)                                 \
	{ #field, what, offsetof(struct hak_counters, field), group, true },
#include "counters.def"
#undef HAKMEM_BIN_COUNTER
#undef HAKMEM_COUNTER
#undef HAKMEM_COUNTER_GROUP
};

static size_t number_at(const void *base, size_t offset)
{
	return *(const size_t *)((const char *)base + offset);
}

static void flush(struct printer *p)
{
	p->write(p->arg, p->buffer);
	hak_text_init(&p->line, p->buffer, sizeof p->buffer);
}

static void add(struct printer *p, const char *string)
{
	hak_text_add(&p->line, string);
}

/* Some bytes of a line that may be longer than the buffer. */
static void add_part(struct printer *p, const char *bytes, size_t length)
{
	hak_text_add_bytes(&p->line, bytes, length);
	if (p->line.length > sizeof p->buffer / 2)
		flush(p);
}

static void end_line(struct printer *p)
{
	add(p, "\n");
	flush(p);
}

static void add_blanks(struct printer *p, size_t to)
{
	while (p->line.length < to && !p->line.cut)
		add(p, " ");
}

/* Right-aligned, to end at column `to`. */
static void add_cell(struct printer *p, const char *string, size_t to)
{
	size_t length = __builtin_strlen(string);

	add(p, " ");
	if (to > length)
		add_blanks(p, to - length);
	add(p, string);
}

static void add_number_cell(struct printer *p, size_t number, size_t to)
{
	char digits[24];
	struct hak_text text;

	hak_text_init(&text, digits, sizeof digits);
	hak_text_add_number(&text, number);
	add_cell(p, digits, to);
}

/* --- Text ----------------------------------------------------------------- */

static void text_totals(struct printer *p, const struct hak_snapshot *stats)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		if (rows[i].offset == 0) {
			end_line(p);
			add(p, rows[i].what);
			end_line(p);
			continue;
		}
		add(p, "  ");
		add(p, rows[i].name);
		add_number_cell(p, number_at(&stats->total, rows[i].offset),
			36);
		add(p, "  ");
		add(p, rows[i].what);
		end_line(p);
	}
}

static size_t width_of(const struct column *column)
{
	return MAX(__builtin_strlen(column->name), 7) + 1;
}

static void text_head(struct printer *p, const char *title,
	const struct column *columns, size_t n)
{
	size_t at = 0;

	end_line(p);
	add(p, title);
	end_line(p);
	for (size_t i = 0; i < n; i++)
		add_cell(p, columns[i].name, at += width_of(&columns[i]));
	end_line(p);
}

static void text_line(struct printer *p, const void *base,
	const struct column *columns, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++)
		add_number_cell(p, number_at(base, columns[i].offset),
			at += width_of(&columns[i]));
	end_line(p);
}

static bool is_used(const struct hakmem_bin_stats *bin)
{
	return bin->slabs != 0 || bin->lost != 0;
}

static void text_tables(struct printer *p, const struct hak_snapshot *stats)
{
	text_head(p, "bins: blocks by holder, slabs by state", bin_columns,
		COUNT_OF(bin_columns));
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
		if (is_used(&stats->bin[bin]))
			text_line(p, &stats->bin[bin], bin_columns,
				COUNT_OF(bin_columns));
	text_head(p, "threads with caches", heap_columns,
		COUNT_OF(heap_columns));
	for (size_t i = 0; i < stats->rows; i++)
		text_line(p, &stats->heap[i], heap_columns,
			COUNT_OF(heap_columns));
}

/* A counter of one bin, or summed up over bins first .. last - 1. */
static size_t count_of(const struct hak_counters *all,
	const struct counter *counter, unsigned first, unsigned last)
{
	size_t sum = 0;

	if (!counter->by_bin)
		return number_at(all, counter->offset);
	for (unsigned bin = first; bin < last; bin++)
		sum += number_at(all, counter->offset + bin * sizeof sum);
	return sum;
}

/* The bins of a band, C0 to C7: first up to, not including, the result. */
static unsigned end_of_band(unsigned first)
{
	unsigned end = first;

	while (end < L2_FIRST && hak_band_of(end) == hak_band_of(first))
		end++;
	return end;
}

static void text_counts(struct printer *p, const struct hak_counters *all,
	enum group group, unsigned first, unsigned last)
{
	size_t at = 12;

	for (size_t i = 0; i < COUNT_OF(counters); i++)
		if (counters[i].group == group && counters[i].by_bin)
			add_number_cell(p, count_of(all, &counters[i], first,
				last), at += 16);
	end_line(p);
}

static void text_bins(struct printer *p, const struct hak_counters *all,
	enum group group)
{
	size_t at = 12;

	add_cell(p, "size", at);
	for (size_t i = 0; i < COUNT_OF(counters); i++)
		if (counters[i].group == group)
			add_cell(p, counters[i].name, at += 16);
	end_line(p);
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++) {
		add_number_cell(p, hak_bins[bin].size, 12);
		text_counts(p, all, group, bin, bin + 1);
	}
	for (unsigned b = TINY_FIRST; b < L2_FIRST; b = end_of_band(b)) {
		add(p, "      band C");
		hak_text_add_number(&p->line, hak_band_of(b));
		add_blanks(p, 13);
		text_counts(p, all, group, b, end_of_band(b));
	}
	add_cell(p, "all", 12);
	text_counts(p, all, group, TINY_FIRST, BINS);
}

static void text_scalars(struct printer *p, const struct hak_counters *all,
	enum group group)
{
	for (size_t i = 0; i < COUNT_OF(counters); i++) {
		if (counters[i].group != group)
			continue;
		add(p, "  ");
		add(p, counters[i].name);
		add_number_cell(p, count_of(all, &counters[i], 0, 0), 36);
		add(p, "  ");
		add(p, counters[i].what);
		end_line(p);
	}
}

static void text_counters(struct printer *p, const struct hak_counters *all)
{
	for (enum group group = 0; group < GROUPS; group++) {
		if (!groups[group].compiled)
			continue;
		end_line(p);
		add(p, "counters: ");
		add(p, groups[group].title);
		add(p, LOAD_RELAXED(groups[group].gate) ? "" : " (not asked for)");
		end_line(p);
		if (!LOAD_RELAXED(groups[group].gate))
			continue;
		if (group == CACHE || group == CLASS)
			text_bins(p, all, group);
		else
			text_scalars(p, all, group);
	}
}

static void text_value(struct printer *p, const struct hak_option *option)
{
	char buffer[VALUE_BYTES];
	struct hak_text value;

	hak_text_init(&value, buffer, sizeof buffer);
	hak_option_add_value(option, &value);
	for (size_t i = 0; i < value.length; i++)
		add_part(p, &buffer[i], 1);
}

static void text_options(struct printer *p)
{
	end_line(p);
	add(p, "variables that are not at their default");
	end_line(p);
	for (size_t i = 0; i < hak_option_count(); i++) {
		const struct hak_option *option = hak_option_at(i);

		if (hak_option_source(option) == HAK_SOURCE_DEFAULT)
			continue;
		add(p, "  ");
		add(p, option->name);
		add(p, "=");
		text_value(p, option);
		end_line(p);
	}
}

static void print_text(struct printer *p, const struct hak_snapshot *stats)
{
	add(p, "hakmem " HAKMEM_VERSION_STRING ": statistics of process ");
	hak_text_add_number(&p->line, stats->pid);
	end_line(p);
	if (stats->left_out != 0) {
		add(p, "incomplete: parts left out since they do not fit together: ");
		hak_text_add_number(&p->line, stats->left_out);
		end_line(p);
	}
	text_totals(p, stats);
	text_tables(p, stats);
	if (HAK_COUNTERS_COMPILED)
		text_counters(p, stats->counters);
	text_options(p);
}

/* --- JSON ----------------------------------------------------------------- */

static void json_name(struct printer *p, const char *name)
{
	add(p, p->first ? "\"" : ",\"");
	p->first = false;
	add(p, name);
	add(p, "\":");
}

static void json_open(struct printer *p, const char *name, const char *bracket)
{
	if (name != NULL)
		json_name(p, name);
	else if (!p->first)
		add(p, ",");
	add(p, bracket);
	p->first = true;
}

static void json_close(struct printer *p, const char *bracket)
{
	add(p, bracket);
	p->first = false;
	end_line(p);
}

static void json_number(struct printer *p, const char *name, size_t number)
{
	json_name(p, name);
	hak_text_add_number(&p->line, number);
	if (p->line.length > sizeof p->buffer / 2)
		flush(p);
}

/* Control characters were made harmless when the text was built; bytes that
 * are no ASCII are not ours to judge and become '?'. */
static void json_string(struct printer *p, const char *name,
	const struct hak_text *value)
{
	json_name(p, name);
	add(p, "\"");
	for (size_t i = 0; i < value->length; i++) {
		char c = value->buffer[i];

		if (c == '"' || c == '\\')
			add(p, "\\");
		add_part(p, c >= ' ' && c < 127 ? &c : "?", 1);
	}
	add(p, "\"");
}

static void json_totals(struct printer *p, const struct hak_snapshot *stats)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		if (rows[i].offset == 0) {
			if (i != 0)
				json_close(p, "}");
			json_open(p, rows[i].name, "{");
			continue;
		}
		json_number(p, rows[i].name,
			number_at(&stats->total, rows[i].offset));
	}
	json_close(p, "}");
}

static void json_row(struct printer *p, const void *base,
	const struct column *columns, size_t n)
{
	json_open(p, NULL, "{");
	for (size_t i = 0; i < n; i++)
		json_number(p, columns[i].name,
			number_at(base, columns[i].offset));
	json_close(p, "}");
}

static void json_tables(struct printer *p, const struct hak_snapshot *stats)
{
	json_open(p, "bins", "[");
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
		if (is_used(&stats->bin[bin]))
			json_row(p, &stats->bin[bin], bin_columns,
				COUNT_OF(bin_columns));
	json_close(p, "]");
	json_open(p, "heaps", "[");
	for (size_t i = 0; i < stats->rows; i++)
		json_row(p, &stats->heap[i], heap_columns,
			COUNT_OF(heap_columns));
	json_close(p, "]");
}

static void json_counts(struct printer *p, const struct hak_counters *all,
	enum group group, unsigned first, unsigned last)
{
	for (size_t i = 0; i < COUNT_OF(counters); i++)
		if (counters[i].group == group)
			json_number(p, counters[i].name,
				count_of(all, &counters[i], first, last));
}

static void json_bins(struct printer *p, const struct hak_counters *all,
	enum group group)
{
	json_open(p, "bands", "[");
	for (unsigned b = TINY_FIRST; b < L2_FIRST; b = end_of_band(b)) {
		json_open(p, NULL, "{");
		json_number(p, "band", hak_band_of(b));
		json_counts(p, all, group, b, end_of_band(b));
		json_close(p, "}");
	}
	json_close(p, "]");
	json_open(p, "bins", "[");
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++) {
		json_open(p, NULL, "{");
		json_number(p, "size", hak_bins[bin].size);
		json_counts(p, all, group, bin, bin + 1);
		json_close(p, "}");
	}
	json_close(p, "]");
}

static void json_counters(struct printer *p, const struct hak_counters *all)
{
	json_open(p, "counters", "{");
	for (enum group group = 0; group < GROUPS; group++) {
		if (!groups[group].compiled ||
		    !LOAD_RELAXED(groups[group].gate))
			continue;
		json_open(p, groups[group].name, "{");
		json_counts(p, all, group, TINY_FIRST, BINS);
		if (group == CACHE || group == CLASS)
			json_bins(p, all, group);
		json_close(p, "}");
	}
	json_close(p, "}");
}

static void json_options(struct printer *p)
{
	char buffer[VALUE_BYTES];
	struct hak_text value;

	json_open(p, "options", "{");
	for (size_t i = 0; i < hak_option_count(); i++) {
		const struct hak_option *option = hak_option_at(i);

		hak_text_init(&value, buffer, sizeof buffer);
		hak_option_add_value(option, &value);
		json_string(p, option->name, &value);
	}
	json_close(p, "}");
}

static void print_json(struct printer *p, const struct hak_snapshot *stats)
{
	json_open(p, NULL, "{\"schema\":\"hakmem-stats-1\","
		"\"version\":\"" HAKMEM_VERSION_STRING "\",");
	json_number(p, "pid", stats->pid);
	json_number(p, "left_out", stats->left_out);
	json_totals(p, stats);
	json_tables(p, stats);
	if (HAK_COUNTERS_COMPILED)
		json_counters(p, stats->counters);
	json_options(p);
	json_close(p, "}");
}

void hak_stats_print(const struct hak_snapshot *stats, bool json,
	void (*write)(void *arg, const char *text), void *arg)
{
	struct printer p = { .write = write, .arg = arg, .first = true };

	hak_text_init(&p.line, p.buffer, sizeof p.buffer);
	if (json)
		print_json(&p, stats);
	else
		print_text(&p, stats);
}

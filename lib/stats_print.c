/*
 * stats_print.c: a snapshot as text for people and as one JSON object.
 *
 * Text is handed out in pieces of at most a line. Nothing is allocated and no
 * stdio is used: this runs at the end of a process, whatever state it is in,
 * and in the command.
 *
 * The JSON object, schema "hakmem-stats-1": schema, version, pid; an object
 * for each group of stats.def with its fields; "bins", an array of an object
 * for each bin with slabs or lost blocks; "heaps", an array of an object for
 * each thread with caches; "options", an object with every variable's value as
 * text. Every other value is a number. New members may appear.
 */
#include "stats.h"

#include "message.h"
#include "options.h"

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
		hak_option_add_value(option, &p->line);
		end_line(p);
	}
}

static void print_text(struct printer *p, const struct hak_snapshot *stats)
{
	add(p, "hakmem " HAKMEM_VERSION_STRING ": statistics of process ");
	hak_text_add_number(&p->line, stats->pid);
	end_line(p);
	text_totals(p, stats);
	text_tables(p, stats);
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
		hak_text_add_bytes(&p->line, c >= ' ' && c < 127 ? &c : "?",
			1);
		if (p->line.length > sizeof p->buffer / 2)
			flush(p);
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

static void json_options(struct printer *p)
{
	char buffer[4096];
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
	json_totals(p, stats);
	json_tables(p, stats);
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

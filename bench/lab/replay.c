/*
 * Recorded runs, read for another verdict (see replay.h for the forms). Every
 * value must be a number above zero: a ratio of anything else means nothing.
 * The recorded rule is not taken over, only what the runs are.
 */
#include <config.h>

#include "replay.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "lab.h"

static const char not_a_value[] = "not a number above zero, 1e-100 to 1e100";
enum { RECORDED_MAX = 256 << 20 }; /* bytes */
static const char SEPARATORS[] = " \t\r\n,;";

struct source {
	const char *path;
	char *text;
	size_t length;
};

static void read_all(struct source *s)
{
	bool standard = strcmp(s->path, "-") == 0;
	FILE *f = standard ? stdin : fopen(s->path, "r");
	size_t room = 0;

	if (!f)
		hak_command_fail(STATUS_FAILED,
			"cannot open the recorded runs: %s: %s", s->path,
			strerror(errno));
	do {
		room = room ? room * 2 : 4096;
		s->text = hak_lab_grow(s->text, room + 1, 1);
		s->length += fread(s->text + s->length, 1, room - s->length, f);
	} while (s->length == room && room < RECORDED_MAX);
	if (s->length == RECORDED_MAX)
		hak_command_fail(STATUS_FAILED,
			"too large for recorded runs: %s", s->path);
	if (ferror(f))
		hak_command_fail(STATUS_FAILED,
			"cannot read the recorded runs: %s: %s", s->path,
			strerror(errno));
	s->text[s->length] = '\0';
	if (!standard)
		fclose(f);
}

static void add_value(
	struct side *s, enum metric metric, size_t index, double value)
{
	struct run empty;

	for (int m = 0; m < METRIC_COUNT; m++)
		empty.value[m] = NAN;
	if (index == s->runs)
		hak_side_add_run(s, &empty);
	s->run[index].value[metric] = value;
}

/* ---- columns ---- */

static bool read_number(const char *word, double *value)
{
	char *end;

	*value = strtod(word, &end);
	return end != word && !*end;
}

static _Noreturn void refuse_line(const struct source *from, size_t line,
	const char *wrong, const char *word)
{
	hak_command_fail(
		STATUS_FAILED, "%s:%zu: %s: %s", from->path, line, wrong, word);
}

static void take_cell(struct trial *t, const struct source *from, size_t line,
	size_t column, size_t row, const char *word)
{
	struct side *s = &t->side[column];
	double value;

	if (strcmp(word, "-") == 0)
		return;
	if (!read_number(word, &value))
		refuse_line(from, line, "not a number", word);
	if (!hak_metric_is_value(value))
		refuse_line(from, line, not_a_value, word);
	if (s->runs != row)
		refuse_line(from, line, "a value below a missing one", word);
	add_value(s, METRIC_PATTERN, s->runs, value);
}

/* The first row decides how many sides there are and whether it names them. */
static bool take_names(struct trial *t, char *const *word, size_t words)
{
	double value;
	bool names = !read_number(word[0], &value);

	for (size_t i = 0; i < words; i++) {
		struct side *s = hak_trial_add_side(t);

		if (names)
			s->name = hak_lab_copy(word[i]);
		else
			hak_side_name(s, i);
	}
	return names;
}

static size_t split(char *line, char **word, size_t most)
{
	size_t n = 0;
	char *state;

	line[strcspn(line, "#")] = '\0';
	for (char *w = strtok_r(line, SEPARATORS, &state); w && n < most;
		w = strtok_r(NULL, SEPARATORS, &state))
		word[n++] = w;
	return n;
}

static void read_columns(struct trial *t, const struct source *from)
{
	char *word[64], *rest = from->text, *line;
	size_t number = 0, row = 0;

	while ((line = strsep(&rest, "\n"))) {
		size_t words = split(line, word, 64);

		number++;
		if (!words)
			continue;
		if (!t->sides && take_names(t, word, words))
			continue;
		if (words != t->sides)
			refuse_line(from, number,
				"another number of columns than above",
				word[words - 1]);
		for (size_t i = 0; i < words; i++)
			take_cell(t, from, number, i, row, word[i]);
		row++;
	}
}

/* ---- JSON ---- */

static _Noreturn void refuse(
	const struct source *from, const char *wrong, const char *what)
{
	hak_command_fail(STATUS_FAILED, "%s: %s: %s", from->path, wrong, what);
}

static void take_array(struct side *s, const struct source *from,
	enum metric metric, const struct json_value *array)
{
	if (!array || array->kind != JSON_ARRAY)
		refuse(from, "no array of numbers", s->name);
	for (size_t i = 0; i < array->count; i++) {
		const struct json_value *v = array->member[i];

		if (v->kind != JSON_NUMBER || !hak_metric_is_value(v->number))
			refuse(from, not_a_value, s->name);
		if (i > s->runs)
			refuse(from, "metrics with gaps", s->name);
		add_value(s, metric, i, v->number);
	}
}

static const char *text_of(
	const struct json_value *object, const char *key, const char *otherwise)
{
	const struct json_value *v = hak_json_member(object, key);

	return v && v->kind == JSON_STRING ? v->text : otherwise;
}

static double number_of(
	const struct json_value *object, const char *key, double otherwise)
{
	const struct json_value *v = hak_json_member(object, key);

	return v && v->kind == JSON_NUMBER ? v->number : otherwise;
}

/* A side that failed stays one, whatever its runs before that say. */
static void take_failure(struct side *s, const struct source *from,
	const struct json_value *failure)
{
	double block = number_of(failure, "block", 1);
	double code = number_of(failure, "code", 0);

	s->failure = hak_side_ending_find(text_of(failure, "ending", ""));
	if (s->failure == END_OK || s->failure == ENDINGS || code < 0 ||
		code > INT_MAX || block < 1 || block > INT_MAX)
		refuse(from, "a failure that is none", s->name);
	s->failure_code = (int)code;
	s->failure_block = (size_t)block - 1;
}

static void take_recorded_side(struct trial *t, const struct source *from,
	const struct json_value *recorded)
{
	const struct json_value *samples = hak_json_member(recorded, "samples");
	const struct json_value *failure = hak_json_member(recorded, "failure");
	struct side *s = hak_trial_add_side(t);

	s->name = hak_lab_copy(text_of(recorded, "name", "unnamed"));
	if (!samples || samples->kind != JSON_OBJECT)
		refuse(from, "a side without samples", s->name);
	for (size_t i = 0; i < samples->count; i++) {
		enum metric metric = hak_metric_find(samples->key[i]);

		if (metric == METRIC_COUNT)
			refuse(from, "no such metric", samples->key[i]);
		take_array(s, from, metric, samples->member[i]);
	}
	if (failure && failure->kind != JSON_NULL)
		take_failure(s, from, failure);
}

static void take_report(struct trial *t, const struct source *from,
	const struct json_value *report)
{
	const struct json_value *metric = hak_json_member(report, "metric");
	const struct json_value *blocks =
		hak_json_member(report, "interleaved");
	const struct json_value *sides = hak_json_member(report, "sides");
	const char *name = text_of(metric, "name", "missing");

	t->metric = hak_metric_find(name);
	if (t->metric == METRIC_COUNT)
		refuse(from, "no such metric", name);
	t->value_lower = t->metric == METRIC_PATTERN &&
			 strcmp(text_of(metric, "better", ""), "lower") == 0;
	if (t->metric == METRIC_PATTERN)
		t->value_title = hak_lab_copy(text_of(metric, "title",
			hak_metric_info[METRIC_PATTERN].title));
	t->rule.blocks = blocks && blocks->truth;
	if (!sides || sides->kind != JSON_ARRAY)
		refuse(from, "a report without", "sides");
	for (size_t i = 0; i < sides->count; i++)
		take_recorded_side(t, from, sides->member[i]);
}

static void take_object(struct trial *t, const struct source *from,
	const struct json_value *object)
{
	for (size_t i = 0; i < object->count; i++) {
		struct side *s = hak_trial_add_side(t);

		s->name = hak_lab_copy(object->key[i]);
		take_array(s, from, METRIC_PATTERN, object->member[i]);
	}
}

static void read_json(struct trial *t, const struct source *from)
{
	const char *wrong;
	size_t line;
	struct json_value *v =
		hak_json_parse(from->text, from->length, &line, &wrong);

	if (!v)
		refuse_line(from, line, "bad JSON", wrong);
	if (hak_json_member(v, "format"))
		take_report(t, from, v);
	else
		take_object(t, from, v);
	hak_json_free(v);
}

void hak_replay_read(struct trial *t, const char *path)
{
	struct source from = {.path = path};

	read_all(&from);
	t->metric = METRIC_PATTERN;
	t->stopped_by = "";
	if (from.text[strspn(from.text, " \t\r\n")] == '{')
		read_json(t, &from);
	else if (strlen(from.text) == from.length)
		read_columns(t, &from);
	else
		refuse(&from, "not text", "a NUL byte");
	free(from.text);
}

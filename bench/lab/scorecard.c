/*
 * The scorecard: every row of scorecard.def on every allocator that is found,
 * in one interleaved run.
 *
 * A round is one run of each allocator on each row, rows in random order and
 * allocators in random order within a row, so that whatever else the machine
 * does falls on all of them. An allocator that fails on a row has a hole there
 * and is out of that row; the rest go on. Time is CPU time on the workload's
 * own clock, which leaves out its preparations; memory is the field of the
 * result line that the row names.
 */
#include <config.h>

#include "scorecard.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab.h"
#include "library.h"
#include "report.h"

enum { GEOMETRIC_RESAMPLES = 2000, ROUNDS_DEFAULT = 10 };

static const struct scorecard_row table[] = {
#define HAKMEM_ROW(title, program, words, key)                                 \
	{.name = title,                                                        \
		.workload = #program,                                          \
		.arguments = words,                                            \
		.memory_key = key},
#include "../scorecard.def"
#undef HAKMEM_ROW
};
enum { ROWS = sizeof table / sizeof *table };

/* An allocator of the scorecard. */
struct entrant {
	char *name;
	char *library; /* as hak_library_apply() takes it */
};

struct field {
	struct entrant *entrant; /* the reference first */
	size_t count;
};

/* ---- who takes part ---- */

static struct entrant *find_entrant(const struct field *f, const char *name)
{
	for (size_t i = 0; i < f->count; i++)
		if (strcmp(f->entrant[i].name, name) == 0)
			return &f->entrant[i];
	return NULL;
}

static void add_entrant(struct field *f, char *name, char *library)
{
	f->entrant = hak_lab_grow(f->entrant, f->count + 1, sizeof *f->entrant);
	f->entrant[f->count++] = (struct entrant){name, library};
}

static void add_given(struct field *f, const char *peer)
{
	size_t n = strcspn(peer, "=");
	char *name = hak_lab_print("%.*s", (int)n, peer);

	if (!n || !peer[n])
		hak_command_fail(STATUS_FAILED,
			"bad value for --peer: NAME=PATH expected: %s", peer);
	if (find_entrant(f, name))
		hak_command_fail(
			STATUS_FAILED, "two allocators of one name: %s", name);
	add_entrant(f, name, hak_lab_copy(peer + n + 1));
}

/* Known allocators that are installed, unless a given one has the name. */
static void add_found(struct field *f, const struct allocator *a)
{
	char *path;

	if (strcmp(a->name, "hakmem") == 0 || find_entrant(f, a->name))
		return;
	path = hak_library_find(a);
	if (path || !a->soname[0])
		add_entrant(f, hak_lab_copy(a->name), hak_lab_copy(a->name));
	free(path);
}

static void put_reference_first(struct field *f, const char *name)
{
	struct entrant *e = find_entrant(f, name), reference;

	if (!e)
		hak_command_fail(STATUS_FAILED, "no such reference: %s", name);
	reference = *e;
	memmove(f->entrant + 1, f->entrant,
		(size_t)(e - f->entrant) * sizeof *e);
	f->entrant[0] = reference;
}

static struct field gather(const struct scorecard_request *r)
{
	struct field f = {NULL, 0};
	const char *reference = r->reference;

	if (!r->without_hakmem)
		add_entrant(&f, hak_lab_copy("hakmem"),
			hak_lab_copy(r->library ? r->library : "hakmem"));
	for (size_t i = 0; i < r->peers; i++)
		add_given(&f, r->peer[i]);
	for (size_t i = 0; i < hak_library_known_count; i++)
		add_found(&f, &hak_library_known[i]);
	if (!reference)
		reference = find_entrant(&f, "mimalloc") ? "mimalloc" : "glibc";
	put_reference_first(&f, reference);
	if (f.count < 2)
		hak_command_fail(STATUS_FAILED, "no allocator to compare with");
	return f;
}

static void free_field(struct field *f)
{
	for (size_t i = 0; i < f->count; i++) {
		free(f->entrant[i].name);
		free(f->entrant[i].library);
	}
	free(f->entrant);
}

/* ---- rows ---- */

static bool is_wanted(const struct scorecard_request *r, const char *name)
{
	for (size_t i = 0; i < r->rows; i++)
		if (strstr(name, r->row[i]))
			return true;
	return r->rows == 0;
}

static void compile(regex_t *regex, const char *key)
{
	char *pattern = hak_lab_print("\t%s=([0-9.]+)", key);

	if (regcomp(regex, pattern, REG_EXTENDED | REG_NEWLINE))
		hak_command_fail(STATUS_FAILED, "bad field: %s", key);
	free(pattern);
}

static void add_sides(
	struct scorecard_row *row, const struct field *f, const char *program)
{
	for (size_t i = 0; i < f->count; i++) {
		struct side *s = hak_trial_add_side(&row->trial);
		char *command = hak_lab_print("%s", row->arguments);
		char *rest = command, *word;

		s->name = hak_lab_copy(f->entrant[i].name);
		s->argv = hak_lab_alloc(16, sizeof *s->argv);
		s->argv[0] = hak_lab_copy(program);
		for (int n = 1; n < 15 && (word = strsep(&rest, " ")); n++)
			s->argv[n] = hak_lab_copy(word);
		s->library = hak_lab_copy(f->entrant[i].library);
		hak_library_apply(s);
		free(command);
	}
}

static void open_row(struct scorecard_row *row, size_t index,
	const struct field *f, struct scorecard_request *r, struct plan *plan)
{
	struct trial *t = &row->trial;
	char program[PATH_MAX];

	r->find_program(row->workload, program);
	add_sides(row, f, program);
	compile(&row->memory, row->memory_key);
	t->metric = METRIC_PATTERN;
	t->value_lower = true;
	t->value_title = hak_lab_copy("CPU time");
	t->rule = r->options.rule;
	/* rows must not have one and the same order of allocators */
	t->seed = t->rule.seed = r->options.seed + index;
	t->stopped_by = "number of runs";
	row->course = hak_course_open(plan, t);
}

static void open_card(
	struct scorecard *card, struct scorecard_request *r, struct plan *plan)
{
	struct field f = gather(r);

	hak_trial_options_check(&r->options, f.count - 1);
	card->row = hak_lab_alloc(ROWS, sizeof *card->row);
	card->seed = r->options.seed;
	for (size_t i = 0; i < ROWS; i++) {
		if (!is_wanted(r, table[i].name))
			continue;
		card->row[card->rows] = table[i];
		open_row(&card->row[card->rows], card->rows, &f, r, plan);
		card->rows++;
	}
	if (!card->rows)
		hak_command_fail(STATUS_FAILED, "no such row: %s", r->row[0]);
	card->reference = card->row[0].trial.side[0].name;
	free_field(&f);
}

static void close_card(struct scorecard *card)
{
	for (size_t i = 0; i < card->rows; i++) {
		regfree(&card->row[i].memory);
		hak_trial_free(&card->row[i].trial);
	}
	free(card->row);
}

/* ---- rounds ---- */

/* Seconds, from what the rows so far took; INFINITY before the second. */
static double time_left(const struct plan *plan, size_t round, size_t done,
	const struct scorecard *card)
{
	double elapsed = hak_runner_now() - card->start;
	size_t rows = round * card->rows + done;
	size_t all = (plan->warmup + plan->runs) * card->rows;
	double left = INFINITY;

	if (plan->runs && rows)
		left = elapsed / (double)rows * (double)(all - rows);
	if (plan->time > 0)
		left = fmin(left, fmax(plan->time - elapsed, 0));
	return left;
}

static void show_progress(const struct plan *plan, size_t round, size_t done,
	const struct scorecard *card)
{
	if (plan->silent)
		return;
	fprintf(stderr, "\r\033[Kround %zu, row %zu of %zu%s", round + 1,
		done + 1, card->rows, round < plan->warmup ? " (warm-up)" : "");
	hak_plan_show_left(time_left(plan, round, done, card));
}

/* false: stopped by the user; the rows that are done count */
static bool run_round(struct scorecard *card, struct plan *plan, size_t round,
	struct random *random)
{
	size_t *order = hak_lab_alloc(card->rows, sizeof *order);
	bool go_on = true;

	for (size_t i = 0; i < card->rows; i++)
		order[i] = i;
	hak_random_shuffle(random, order, card->rows);
	for (size_t i = 0; go_on && i < card->rows; i++) {
		struct scorecard_row *row = &card->row[order[i]];

		show_progress(plan, round, i, card);
		plan->runner.memory = &row->memory;
		if (hak_course_can_go_on(row->course))
			go_on = hak_course_block(row->course);
	}
	free(order);
	return go_on;
}

static bool is_over(const struct plan *plan, size_t rounds, double elapsed)
{
	size_t counted = rounds > plan->warmup ? rounds - plan->warmup : 0;

	if (plan->runs && counted >= plan->runs)
		return true;
	/* one round more would not fit in */
	return plan->time > 0 && rounds &&
	       elapsed + elapsed / (double)rounds > plan->time;
}

static bool run_rounds(struct scorecard *card, struct plan *plan)
{
	struct random random;
	size_t rounds = 0;
	bool whole = true;

	card->start = hak_runner_now();
	hak_random_seed(&random, card->seed, RANDOM_ORDER);
	while (whole && !is_over(plan, rounds, hak_runner_now() - card->start))
		whole = run_round(card, plan, rounds++, &random);
	card->elapsed = hak_runner_now() - card->start;
	card->rounds = rounds > plan->warmup ? rounds - plan->warmup : 0;
	for (size_t i = 0; i < card->rows; i++)
		hak_course_close(card->row[i].course);
	if (!plan->silent)
		fputs("\r\033[K", stderr);
	return whole;
}

/* ---- figures ---- */

double hak_scorecard_mean(
	const struct scorecard_row *row, enum metric metric, size_t side)
{
	struct series series;
	struct summary sum;

	if (row->trial.side[side].failure ||
		!hak_trial_series(&row->trial.side[side], metric, &series))
		return NAN;
	hak_judge_summarise(&series, &sum);
	free((void *)series.value);
	return sum.mean;
}

size_t hak_scorecard_best_peer(
	const struct scorecard_row *row, enum metric metric)
{
	double least = INFINITY;
	size_t best = 0;

	for (size_t i = 0; i < row->trial.sides; i++) {
		double m = hak_scorecard_mean(row, metric, i);

		if (strcmp(row->trial.side[i].name, "hakmem") != 0 &&
			m < least) {
			least = m;
			best = i;
		}
	}
	return best;
}

/* log of a side's ratio to the reference, over blocks drawn or all of them */
static double log_ratio(const struct scorecard_row *row, enum metric metric,
	size_t side, struct random *random)
{
	const struct side *a = &row->trial.side[0], *b = &row->trial.side[side];
	double reference = 0, candidate = 0;

	for (size_t i = 0; i < a->runs; i++) {
		size_t block = random ? hak_random_below(random, a->runs) : i;

		reference += a->run[block].value[metric];
		candidate += b->run[block].value[metric];
	}
	return log(candidate / reference);
}

static bool is_complete(const struct scorecard_row *row, size_t side)
{
	return !row->trial.side[0].failure && !row->trial.side[side].failure &&
	       row->trial.side[0].runs &&
	       row->trial.side[0].runs == row->trial.side[side].runs;
}

static double mean_of_logs(const struct scorecard *card, enum metric metric,
	size_t side, struct random *random, size_t *rows)
{
	double sum = 0;

	*rows = 0;
	for (size_t i = 0; i < card->rows; i++) {
		if (!is_complete(&card->row[i], side))
			continue;
		sum += log_ratio(&card->row[i], metric, side, random);
		++*rows;
	}
	return sum / (double)*rows;
}

void hak_scorecard_geometric_mean(const struct scorecard *card,
	enum metric metric, size_t side, struct geometric_mean *out)
{
	double *value = hak_lab_alloc(GEOMETRIC_RESAMPLES, sizeof *value);
	double tail = hak_judge_defaults.alpha / 2;
	struct random random;

	hak_random_seed(&random, card->seed, RANDOM_BOOTSTRAP);
	out->ratio = exp(mean_of_logs(card, metric, side, NULL, &out->rows));
	/* each row has its own degrees of freedom, and there are many */
	tail = hak_judge_block_tail(
		tail, card->rounds, out->rows * (card->rounds - 1));
	for (int i = 0; i < GEOMETRIC_RESAMPLES; i++)
		value[i] = exp(
			mean_of_logs(card, metric, side, &random, &out->rows));
	hak_judge_cut(value, GEOMETRIC_RESAMPLES, tail, &out->low, &out->high);
	free(value);
}

/* ---- the whole ---- */

static void report(
	const struct scorecard_request *r, const struct scorecard *card)
{
	if (!hak_report_owns_output(r->options.json, NULL))
		hak_scorecard_text(stdout, card);
	if (r->options.json) {
		FILE *f = hak_report_open(r->options.json);

		hak_scorecard_json(f, card);
		hak_report_close(f, r->options.json);
	}
	hak_command_flush();
}

static int status_of(const struct scorecard *card, bool whole)
{
	for (size_t i = 0; i < card->rows; i++)
		for (size_t s = 0; s < card->row[i].trial.sides; s++)
			if (card->row[i].trial.side[s].failure)
				return STATUS_SIDE_FAILED;
	return whole ? STATUS_OK : STATUS_INTERRUPTED;
}

int hak_scorecard_run(struct scorecard_request *r)
{
	struct plan *plan = &r->options.plan;
	struct scorecard card = {.rows = 0};
	bool whole;
	int status;

	if (!plan->runs && plan->time <= 0)
		plan->runs = ROUNDS_DEFAULT;
	plan->silent |= !isatty(STDERR_FILENO);
	compile(&plan->runner.pattern, "cpu_s");
	plan->runner.has_pattern = true;
	open_card(&card, r, plan);
	hak_runner_open(&plan->runner, card.seed);
	whole = run_rounds(&card, plan);
	hak_runner_close(&plan->runner);
	report(r, &card);
	status = status_of(&card, whole);
	close_card(&card);
	return status;
}

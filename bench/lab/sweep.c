/*
 * A sweep: settings of hakmem on the user's own command, against the default.
 *
 * Two trials. The first screens every setting; the best of many is too good to
 * be true even if none does anything, so what it yields is only a shortlist:
 * of each variable the value that did best. The second runs these on fresh
 * runs, alone and all together, and it alone decides. Within each trial
 * intervals and p are corrected for the number of comparisons.
 *
 * Together matters, because gains do not add up as a rule: two settings may
 * cure one and the same miss. All together is recommended only where it is
 * better than the best single setting by more than the margin.
 */
#include <config.h>

#include "sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"
#include "library.h"
#include "options.h"

/* of a time budget; the rest is for the confirmation */
static const double SCREENING_SHARE = 0.6;

static void assign(struct side *side, const struct setting *setting)
{
	for (size_t i = 0; i < setting->variable->names; i++) {
		char *text = hak_lab_print(
			"%s=%s", setting->variable->name[i], setting->value);

		hak_side_assign(side, text);
		free(text);
	}
}

/* Appends to a string that may move. */
static char *append(char *text, const char *between, const char *more)
{
	char *longer = hak_lab_print("%s%s%s", text, between, more);

	free(text);
	return longer;
}

/* The length of what two names have in common up to their last word. */
static size_t common_words(const char *a, const char *b)
{
	size_t length = 0;

	for (size_t i = 0; a[i] && a[i] == b[i]; i++)
		if (a[i] == '_')
			length = i + 1;
	return length;
}

/* "TINY_UNIFIED_C5+C6=1": what repeats itself is left out. */
static char *name_of(const struct setting *setting)
{
	const struct variable *v = setting->variable;
	char *name = hak_lab_copy(v->name[0] + strlen("HAKMEM_"));

	for (size_t i = 1; i < v->names; i++)
		name = append(name, "+",
			v->name[i] + common_words(v->name[0], v->name[i]));
	return append(name, "=", setting->value);
}

static struct side *add_side(
	struct sweep *s, struct trial *t, const struct setting *setting)
{
	struct side *side = hak_trial_add_side(t);

	side->name = setting ? name_of(setting) : hak_lab_copy("default");
	hak_side_take_command(side, s->word, s->words);
	if (s->library)
		side->library = hak_lab_copy(s->library);
	hak_library_apply(side);
	if (setting)
		assign(side, setting);
	return side;
}

static void run_trial(struct sweep *s, struct trial *t, double time)
{
	struct trial_options options = s->options;

	options.plan.time = time;
	hak_trial_options_apply(&options, t);
	hak_plan_run(&options.plan, t);
	hak_trial_check_variance(t);
}

/* ---- screening ---- */

static void screen(struct sweep *s)
{
	size_t count = 0;

	for (size_t v = 0; v < s->variables; v++)
		count += s->variable[v].values;
	s->screened = hak_lab_alloc(count, sizeof *s->screened);
	add_side(s, &s->screening, NULL);
	count = 0;
	for (size_t v = 0; v < s->variables; v++)
		for (size_t i = 0; i < s->variable[v].values; i++) {
			struct setting *setting = &s->screened[count++];

			setting->variable = &s->variable[v];
			setting->value = s->variable[v].value[i];
			add_side(s, &s->screening, setting);
		}
	run_trial(s, &s->screening, s->options.plan.time * SCREENING_SHARE);
}

/* The value is what the variable has anyway: a control, not a candidate. */
static bool is_default(const struct setting *setting)
{
	for (size_t i = 0; i < setting->variable->names; i++) {
		const char *name = setting->variable->name[i];
		const struct hak_option *option =
			hak_option_find(name, strlen(name));
		struct hak_option_value value;

		if (!hak_option_parse(option, setting->value, &value) ||
			option->kind == HAK_OPTION_PATH ||
			value.number != option->fallback)
			return false;
	}
	return true;
}

static double gain(const struct trial *t, const struct judgement *j)
{
	return hak_trial_lower_is_better(t, t->metric) ? -j->change : j->change;
}

/* The setting of a variable that did best, or NULL if none did better. */
static const struct setting *best_of(const struct sweep *s,
	const struct variable *v, const struct judgement *j)
{
	const struct setting *best = NULL;
	double best_gain = 0;

	for (size_t i = 0; i + 1 < s->screening.sides; i++) {
		double g = gain(&s->screening, &j[i]);

		if (s->screened[i].variable != v || !j[i].runs ||
			j[i].verdict == VERDICT_CRASH ||
			is_default(&s->screened[i]) || g <= best_gain)
			continue;
		best = &s->screened[i];
		best_gain = g;
	}
	return best;
}

static void shortlist(struct sweep *s)
{
	struct judgement *j = hak_lab_alloc(s->screening.sides, sizeof *j);

	hak_trial_judge(&s->screening, s->screening.metric, j);
	s->confirmed = hak_lab_alloc(s->variables, sizeof *s->confirmed);
	for (size_t v = 0; v < s->variables; v++) {
		const struct setting *best = best_of(s, &s->variable[v], j);

		if (best)
			s->confirmed[s->singles++] = *best;
	}
	free(j);
}

/* ---- confirmation ---- */

static void confirm(struct sweep *s)
{
	double left = s->options.plan.time - s->screening.elapsed;

	add_side(s, &s->confirmation, NULL);
	for (size_t i = 0; i < s->singles; i++)
		add_side(s, &s->confirmation, &s->confirmed[i]);
	s->together = s->singles > 1;
	if (s->together) {
		struct side *side = add_side(s, &s->confirmation, NULL);

		free(side->name);
		side->name = hak_lab_copy("all of these");
		for (size_t i = 0; i < s->singles; i++)
			assign(side, &s->confirmed[i]);
	}
	/* other runs need another order and other padding */
	s->options.seed++;
	run_trial(s, &s->confirmation,
		s->options.plan.time > 0 ? fmax(left, 1) : 0);
}

static bool is_whole(const struct trial *t)
{
	for (size_t i = 0; i < t->sides; i++)
		if (t->side[i].failure || t->side[i].runs < 2)
			return false;
	return true;
}

static void find_interaction(struct sweep *s)
{
	const struct trial *t = &s->confirmation;
	struct series *series = hak_lab_alloc(t->sides, sizeof *series);

	for (size_t i = 0; i < t->sides; i++)
		hak_trial_series(&t->side[i], t->metric, &series[i]);
	hak_judge_interaction(&t->rule, &series[0], &series[1], s->singles,
		&series[t->sides - 1], &s->interaction);
	for (size_t i = 0; i < t->sides; i++)
		free((void *)series[i].value);
	free(series);
}

/* ---- conclusion ---- */

static bool is_go(enum verdict verdict)
{
	return verdict == VERDICT_GO || verdict == VERDICT_STRONG_GO;
}

static void choose_best(struct sweep *s, const struct judgement *j)
{
	const struct trial *t = &s->confirmation;
	double best_gain = 0;

	for (size_t i = 1; i < t->sides; i++) {
		bool all = s->together && i == t->sides - 1;
		double g = gain(t, &j[i - 1]) - (all ? t->rule.margin : 0);

		if (is_go(j[i - 1].verdict) && g > best_gain) {
			best_gain = g;
			s->best = i;
		}
	}
}

/* Nothing is ruled out while one interval reaches beyond the margin. */
static bool may_help(const struct trial *t, const struct judgement *j)
{
	bool lower = hak_trial_lower_is_better(t, t->metric);

	for (size_t i = 0; i + 1 < t->sides; i++)
		if (j[i].runs &&
			(lower ? -j[i].low : j[i].high) > t->rule.margin)
			return true;
	return false;
}

static void conclude(struct sweep *s)
{
	const struct trial *t = s->singles ? &s->confirmation : &s->screening;
	struct judgement *j = hak_lab_alloc(t->sides, sizeof *j);

	hak_trial_judge(t, t->metric, j);
	if (s->singles)
		choose_best(s, j);
	if (s->screening.interrupted || s->confirmation.interrupted)
		s->result = SWEEP_STOPPED;
	else if (t->side[0].failure)
		s->result = SWEEP_FAILED;
	else if (!t->side[0].runs)
		s->result = SWEEP_UNMEASURED;
	else if (s->best)
		s->result = SWEEP_FOUND;
	else if (may_help(t, j))
		s->result = SWEEP_INCONCLUSIVE;
	else
		s->result = SWEEP_NOTHING;
	free(j);
}

void hak_sweep_run(struct sweep *s)
{
	screen(s);
	if (!s->screening.interrupted && !s->screening.side[0].failure) {
		shortlist(s);
		if (s->singles)
			confirm(s);
	}
	if (s->together && is_whole(&s->confirmation))
		find_interaction(s);
	else
		s->interaction.difference = NAN;
	conclude(s);
}

char *hak_sweep_settings(const struct sweep *s, size_t side)
{
	bool all = s->together && side == s->confirmation.sides - 1;
	size_t first = all ? 0 : side - 1, last = all ? s->singles : side;
	char *text = hak_lab_copy("");

	for (size_t i = first; i < last; i++) {
		const struct variable *v = s->confirmed[i].variable;

		for (size_t n = 0; n < v->names; n++) {
			text = append(text, *text ? " " : "", v->name[n]);
			text = append(text, "=", s->confirmed[i].value);
		}
	}
	return text;
}

void hak_sweep_free(struct sweep *s)
{
	for (size_t v = 0; v < s->variables; v++) {
		hak_lab_free_words(s->variable[v].name, s->variable[v].names);
		hak_lab_free_words(s->variable[v].value, s->variable[v].values);
	}
	free(s->variable);
	free(s->screened);
	free(s->confirmed);
	hak_trial_free(&s->screening);
	hak_trial_free(&s->confirmation);
	free(s->options.pattern);
}

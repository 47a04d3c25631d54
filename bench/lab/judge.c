/*
 * The judge: what recorded runs prove about two sides, and what they do not.
 *
 * It knows numbers only: no clock, no process, no file. Everything random
 * comes from the seed in the rule, so the same runs get the same verdict.
 *
 *  - The change is candidate mean / reference mean - 1. Its interval is a
 *    percentile bootstrap: over whole blocks where the runs of all sides were
 *    interleaved (drift hits both sides of a block and cancels), over each
 *    side by itself otherwise. Of n blocks the plain percentiles are too
 *    narrow, by the n - 1 of a variance and by normal for Student's t: the
 *    ones taken lie as much further out. Two sides by themselves have twice
 *    the degrees of freedom, and keep the plain ones.
 *  - p is from a permutation test: labels change places inside a block, or in
 *    the pool of all runs, and it is asked how often the difference of means,
 *    in the pool divided by its error, becomes what was seen.
 *  - With m comparisons against one reference the intervals are at
 *    1 - alpha / m and p is adjusted after Holm.
 *  - A verdict needs the interval beyond its threshold, or inside the margin,
 *    *and* a permutation test that rejects a change by just that threshold:
 *    any interval is a little too sure of itself on few runs or heavy tails,
 *    and the permutation test is not.
 */
#include <config.h>

#include "judge.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"
#include "random.h"

static const double POWER = 0.80;

const struct judge_rule hak_judge_defaults = {
	.alpha = 0.05,
	.margin = 0.005,
	.strong = 0.03,
	.comparisons = 1,
	.resamples = 10000,
	.seed = 1,
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double mean(const double *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return sum / (double)n;
}

static double variance(const double *v, size_t n)
{
	double m = mean(v, n), sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (v[i] - m) * (v[i] - m);
	return n > 1 ? sum / (double)(n - 1) : 0;
}

/* of sorted values, between neighbours where q falls between them */
static double quantile(const double *sorted, size_t n, double q)
{
	double at = q * (double)(n - 1);
	size_t i = (size_t)at;

	if (i + 1 >= n)
		return sorted[n - 1];
	return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

void hak_judge_summarise(const struct series *s, struct summary *out)
{
	double *sorted = hak_lab_alloc(s->count, sizeof *sorted);

	memcpy(sorted, s->value, s->count * sizeof *sorted);
	qsort(sorted, s->count, sizeof *sorted, by_value);
	out->mean = mean(s->value, s->count);
	out->median = quantile(sorted, s->count, 0.5);
	out->deviation = sqrt(variance(s->value, s->count));
	out->cv = out->deviation / fabs(out->mean);
	out->least = sorted[0];
	out->greatest = sorted[s->count - 1];
	free(sorted);
}

double hak_judge_normal_quantile(double probability)
{
	double low = -40, high = 40;

	for (int i = 0; i < 100; i++) {
		double middle = (low + high) / 2;

		if (0.5 * erfc(-middle / sqrt(2)) < probability)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

static double mean_of_draw(struct random *r, const struct series *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->count; i++)
		sum += s->value[hak_random_below(r, s->count)];
	return sum / (double)s->count;
}

static double draw_runs(
	struct random *r, const struct series *a, const struct series *b)
{
	double reference = mean_of_draw(r, a);

	return mean_of_draw(r, b) / reference - 1;
}

static double draw_blocks(
	struct random *r, const struct series *a, const struct series *b)
{
	double reference = 0, candidate = 0;

	for (size_t i = 0; i < a->count; i++) {
		size_t block = hak_random_below(r, a->count);

		reference += a->value[block];
		candidate += b->value[block];
	}
	return candidate / reference - 1;
}

double hak_judge_student_quantile(double probability, double freedom)
{
	double z = hak_judge_normal_quantile(probability), z2 = z * z;
	/* Cornish and Fisher: within 0.1 % from four degrees of freedom on */
	double g1 = (z2 + 1) * z / 4;
	double g2 = ((5 * z2 + 16) * z2 + 3) * z / 96;
	double g3 = (((3 * z2 + 19) * z2 + 17) * z2 - 15) * z / 384;
	double g4 = ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) *
		    z / 92160;

	return z +
	       (g1 + (g2 + (g3 + g4 / freedom) / freedom) / freedom) / freedom;
}

double hak_judge_block_tail(double tail, size_t blocks, size_t freedom)
{
	double t;

	if (blocks < 2 || !freedom)
		return 0;
	t = hak_judge_student_quantile(tail, (double)freedom) *
	    sqrt((double)blocks / ((double)blocks - 1));
	return 0.5 * erfc(-t / sqrt(2));
}

void hak_judge_cut(
	double *value, size_t count, double tail, double *low, double *high)
{
	qsort(value, count, sizeof *value, by_value);
	*low = quantile(value, count, tail);
	*high = quantile(value, count, 1 - tail);
}

static void find_interval(const struct judge_rule *rule, const struct series *a,
	const struct series *b, struct judgement *out)
{
	double *change = hak_lab_alloc(rule->resamples, sizeof *change);
	double tail = rule->alpha / rule->comparisons / 2;
	struct random r;

	if (rule->blocks)
		tail = hak_judge_block_tail(tail, a->count, a->count - 1);
	hak_random_seed(&r, rule->seed, RANDOM_BOOTSTRAP);
	for (unsigned i = 0; i < rule->resamples; i++)
		change[i] = rule->blocks ? draw_blocks(&r, a, b)
					 : draw_runs(&r, a, b);
	hak_judge_cut(change, rule->resamples, tail, &out->low, &out->high);
	free(change);
}

/* |sum of differences| with the sides of each block swapped at random */
static double permute_blocks(struct random *r, const double *d, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += hak_random_next(r) >> 63 ? d[i] : -d[i];
	return fabs(sum / (double)n);
}

/*
 * |t| of Welch. A plain difference of means would take a side of few runs that
 * vary much for one that differs. What is lost in the last bits is nothing.
 */
static double welch(const double *a, size_t n, const double *b, size_t m)
{
	double at = mean(a, n), difference = fabs(mean(b, m) - at);

	if (difference <= fabs(at) * 1e-12)
		return 0;
	return difference /
	       sqrt(variance(a, n) / (double)n + variance(b, m) / (double)m);
}

/* the same with `n` of the pool dealt to the reference */
static double permute_pool(
	struct random *r, double *pool, size_t n, size_t total)
{
	for (size_t i = 0; i < n; i++) {
		size_t j = i + hak_random_below(r, total - i);
		double v = pool[i];

		pool[i] = pool[j];
		pool[j] = v;
	}
	return welch(pool, n, pool + n, total - n);
}

/* of this change being the true one: the reference is scaled to have it */
static double find_p(const struct judge_rule *rule, const struct series *a,
	const struct series *b, double change)
{
	size_t total = rule->blocks ? a->count : a->count + b->count;
	double *v = hak_lab_alloc(total, sizeof *v), scale = 1 + change, seen;
	unsigned reached = 1;
	struct random r;

	for (size_t i = 0; i < a->count; i++)
		v[i] = rule->blocks ? b->value[i] - scale * a->value[i]
				    : scale * a->value[i];
	for (size_t i = a->count; i < total; i++)
		v[i] = b->value[i - a->count];
	seen = rule->blocks ? fabs(mean(v, total))
			    : welch(v, a->count, v + a->count, b->count);
	/* sums in another order differ in the last bits: count them as ties */
	seen *= 1 - 1e-9;
	seen -= rule->blocks ? fabs(mean(a->value, a->count)) * 1e-12 : 1e-9;
	hak_random_seed(&r, rule->seed, RANDOM_PERMUTATION);
	for (unsigned i = 0; i < rule->resamples; i++) {
		double d = rule->blocks ? permute_blocks(&r, v, total)
					: permute_pool(&r, v, a->count, total);
		reached += d >= seen;
	}
	free(v);
	return (double)reached / (rule->resamples + 1.0);
}

static double threshold_of(const struct judge_rule *rule, enum threshold t)
{
	double change = t == THRESHOLD_LOSS   ? -rule->margin
			: t == THRESHOLD_GAIN ? rule->margin
					      : rule->strong;

	return rule->lower_is_better ? -change : change;
}

static void find_p_of_thresholds(const struct judge_rule *rule,
	const struct series *a, const struct series *b, struct judgement *out)
{
	for (int t = 0; t < THRESHOLDS; t++) {
		double change = threshold_of(rule, (enum threshold)t);
		bool inside = out->low <= change && change <= out->high;

		out->p_threshold[t] = inside ? 1 : find_p(rule, a, b, change);
	}
}

/* variance of the difference that one run of each side shows */
static double variance_of_difference(const struct judge_rule *rule,
	const struct series *a, const struct series *b)
{
	double *d, result;

	if (!rule->blocks)
		return variance(a->value, a->count) +
		       variance(b->value, b->count);
	d = hak_lab_alloc(a->count, sizeof *d);
	for (size_t i = 0; i < a->count; i++)
		d[i] = b->value[i] - a->value[i];
	result = variance(d, a->count);
	free(d);
	return result;
}

static void find_power(const struct judge_rule *rule, const struct series *a,
	const struct series *b, struct judgement *out)
{
	double tail = rule->alpha / rule->comparisons / 2;
	double z = hak_judge_normal_quantile(1 - tail) +
		   hak_judge_normal_quantile(POWER);
	double v = variance_of_difference(rule, a, b);
	double d = out->candidate.mean - out->reference.mean;

	out->runs_needed = d != 0 ? ceil(z * z * v / (d * d)) : INFINITY;
	out->detectable =
		z * sqrt(v / (double)out->runs) / fabs(out->reference.mean);
}

void hak_judge_compare(const struct judge_rule *rule,
	const struct series *reference, const struct series *candidate,
	struct judgement *out)
{
	size_t a = reference->count, b = candidate->count;

	hak_judge_summarise(reference, &out->reference);
	hak_judge_summarise(candidate, &out->candidate);
	out->runs = a < b ? a : b;
	out->change = out->candidate.mean / out->reference.mean - 1;
	out->change_median = out->candidate.median / out->reference.median - 1;
	find_interval(rule, reference, candidate, out);
	out->p = out->p_adjusted = find_p(rule, reference, candidate, 0);
	find_p_of_thresholds(rule, reference, candidate, out);
	find_power(rule, reference, candidate, out);
	out->verdict = VERDICT_INCONCLUSIVE;
}

/* Sides of an interaction, as sums over the blocks of one draw. */
struct draw {
	const struct series *reference;
	const struct series *single;
	size_t singles;
	const struct series *together;
	const size_t *block; /* which ones; NULL: each once */
	size_t blocks;
};

static double log_sum(const struct draw *d, const struct series *s)
{
	double sum = 0;

	for (size_t i = 0; i < d->blocks; i++)
		sum += s->value[d->block ? d->block[i] : i];
	return log(sum);
}

static double difference_of(const struct draw *d)
{
	double reference = log_sum(d, d->reference);
	double difference = log_sum(d, d->together) - reference;

	for (size_t i = 0; i < d->singles; i++)
		difference -= log_sum(d, &d->single[i]) - reference;
	return difference;
}

void hak_judge_interaction(const struct judge_rule *rule,
	const struct series *reference, const struct series *single,
	size_t singles, const struct series *together, struct interaction *out)
{
	double *value = hak_lab_alloc(rule->resamples, sizeof *value);
	size_t *block = hak_lab_alloc(reference->count, sizeof *block);
	struct draw d = {
		reference, single, singles, together, NULL, reference->count};
	struct random r;

	out->difference = difference_of(&d);
	d.block = block;
	hak_random_seed(&r, rule->seed, RANDOM_BOOTSTRAP);
	for (unsigned i = 0; i < rule->resamples; i++) {
		for (size_t b = 0; b < d.blocks; b++)
			block[b] = hak_random_below(&r, d.blocks);
		value[i] = difference_of(&d);
	}
	hak_judge_cut(value, rule->resamples,
		hak_judge_block_tail(rule->alpha / 2, d.blocks, d.blocks - 1),
		&out->low, &out->high);
	free(block);
	free(value);
}

static enum verdict verdict_of(
	const struct judge_rule *rule, const struct judgement *j)
{
	double low = rule->lower_is_better ? -j->high : j->low;
	double high = rule->lower_is_better ? -j->low : j->high;
	bool excluded[THRESHOLDS];

	if (j->runs < JUDGE_RUNS_MIN)
		return VERDICT_INCONCLUSIVE;
	for (int t = 0; t < THRESHOLDS; t++)
		excluded[t] =
			j->p_threshold[t] < rule->alpha / rule->comparisons;
	if (low > rule->strong && excluded[THRESHOLD_STRONG])
		return VERDICT_STRONG_GO;
	if (low > rule->margin && excluded[THRESHOLD_GAIN])
		return VERDICT_GO;
	if (high < -rule->margin && excluded[THRESHOLD_LOSS])
		return VERDICT_NO_GO;
	if (low >= -rule->margin && high <= rule->margin &&
		excluded[THRESHOLD_LOSS] && excluded[THRESHOLD_GAIN])
		return VERDICT_NEUTRAL;
	return VERDICT_INCONCLUSIVE;
}

/* Quadratic, and families are small: rank each p among the others. */
void hak_judge_holm(const double *p, double *adjusted, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		adjusted[i] = 0;
		for (size_t j = 0; j < count; j++) {
			size_t smaller = 0;
			double step;

			if (p[j] > p[i])
				continue;
			for (size_t k = 0; k < count; k++)
				smaller += p[k] < p[j];
			step = fmin(1, (double)(count - smaller) * p[j]);
			adjusted[i] = fmax(adjusted[i], step);
		}
	}
}

void hak_judge_settle(
	const struct judge_rule *rule, struct judgement *all, size_t count)
{
	double *p = hak_lab_alloc(count, sizeof *p);
	double *adjusted = hak_lab_alloc(count, sizeof *adjusted);

	for (size_t i = 0; i < count; i++)
		p[i] = all[i].p;
	hak_judge_holm(p, adjusted, count);
	for (size_t i = 0; i < count; i++) {
		all[i].p_adjusted = adjusted[i];
		all[i].verdict = verdict_of(rule, &all[i]);
	}
	free(adjusted);
	free(p);
}

const char *hak_judge_verdict_name(enum verdict verdict)
{
	static const char *const name[] = {
		[VERDICT_STRONG_GO] = "STRONG GO",
		[VERDICT_GO] = "GO",
		[VERDICT_NEUTRAL] = "NEUTRAL",
		[VERDICT_INCONCLUSIVE] = "INCONCLUSIVE",
		[VERDICT_NO_GO] = "NO-GO",
		[VERDICT_CRASH] = "CRASH",
	};

	return name[verdict];
}

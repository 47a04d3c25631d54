/*
 * The judge of the A/B lab: the verdict on twenty recorded runs, its error
 * rates on simulated runs whose noise is like that of real ones, and the
 * figures that can be checked against known values.
 */
#include "../bench/lab/judge.h"

#include <math.h>

#include "../bench/lab/lab.h"
#include "../bench/lab/random.h"
#include "../bench/lab/replay.h"
#include "tap.h"

enum { RUNS_MAX = 200 };

struct noise {
	double slow_share; /* runs that the machine slows down */
	double slow;	   /* by how much */
	double spread;	   /* of all runs */
	double drift;	   /* from the first block to the last */
};

/* A quarter of the runs 6 % low and 0.7 % about that: a CV of 2.7 %. */
static const struct noise real = {0.25, 0.06, 0.007, 0.02};
static const struct noise drifting = {0, 0, 0.01, 0.25};
static const struct noise quiet = {0, 0, 0.001, 0.01};
static const struct noise even = {0, 0, 0.004, 0};
static const struct noise uneven = {0, 0, 0.03, 0};

static struct random random_state;

static double normal(void)
{
	double u = 1 - hak_random_unit(&random_state);
	double v = hak_random_unit(&random_state);

	return sqrt(-2 * log(u)) * cos(2 * acos(-1) * v);
}

static void simulate(
	const struct noise *n, double speed, double *value, size_t runs)
{
	for (size_t i = 0; i < runs; i++) {
		double where = (double)i / (double)runs;

		value[i] = 5e7 * speed * (1 + n->spread * normal()) *
			   (1 - n->drift * where);
		if (hak_random_unit(&random_state) < n->slow_share)
			value[i] *= 1 - n->slow;
	}
}

/* One trial: a reference, and a side that is `speed` times as fast. */
static void hold_trial(const struct noise *n, double speed, size_t runs,
	bool blocks, struct judgement *j)
{
	static double a[RUNS_MAX], b[RUNS_MAX];
	const struct series reference = {a, runs}, candidate = {b, runs};
	struct judge_rule rule = hak_judge_defaults;

	rule.resamples = 1000;
	rule.blocks = blocks;
	rule.seed = hak_random_next(&random_state);
	simulate(n, 1, a, runs);
	simulate(n, speed, b, runs);
	hak_judge_compare(&rule, &reference, &candidate, j);
	hak_judge_settle(&rule, j, 1);
}

static bool is_go(enum verdict v)
{
	return v == VERDICT_GO || v == VERDICT_STRONG_GO;
}

static bool between(double value, double low, double high)
{
	if (value >= low && value <= high)
		return true;
	diag("got %g, want %g to %g", value, low, high);
	return false;
}

static void test_recorded(void)
{
	const char *top = getenv("top_srcdir");
	char *path = hak_lab_print("%s/tests/ab-recorded.txt", top ? top : ".");
	struct trial t = {.rule = hak_judge_defaults};
	struct judgement j, again;

	hak_replay_read(&t, path);
	ok(t.sides == 2 && t.side[0].runs == 10 && t.side[1].runs == 10 &&
			!t.rule.blocks,
		"two columns are two unpaired sides");
	ok(hak_trial_judge(&t, METRIC_PATTERN, &j), "they can be judged");
	ok(between(j.change, 0.00741, 0.00742), "mean +0.74 %%");
	ok(between(j.change_median, 0.01141, 0.01142), "median +1.14 %%");
	ok(between(j.p, 0.50, 0.60), "p about 0.55");
	ok(between(j.low, -0.018, -0.014), "interval from about -1.6 %%");
	ok(between(j.high, 0.028, 0.032), "interval to about +3.0 %%");
	ok(between(j.runs_needed, 190, 225), "about 200 runs a side needed");
	is_str(hak_judge_verdict_name(j.verdict), "INCONCLUSIVE", "verdict");
	hak_trial_judge(&t, METRIC_PATTERN, &again);
	ok(memcmp(&j, &again, sizeof j) == 0, "a verdict can be reproduced");
	hak_trial_free(&t);
	free(path);
}

/* false GO and NO-GO, and p below 5 %, of 200 trials of two equal sides */
static void test_equal(bool blocks)
{
	const char *how = blocks ? "interleaved" : "unpaired";
	int verdicts = 0, low_p = 0;
	struct judgement j;

	for (int i = 0; i < 200; i++) {
		hold_trial(&real, 1, 20, blocks, &j);
		verdicts += is_go(j.verdict) || j.verdict == VERDICT_NO_GO;
		low_p += j.p < 0.05;
	}
	ok(between(verdicts, 0, 10),
		"%s: A against A gives GO or NO-GO in at most 5 %%: %d of 200",
		how, verdicts);
	/* 10 are expected; a p that is always or never low is none */
	ok(between(low_p, 2, 22), "%s: p is below 0.05 in about 5 %%", how);
}

/* Few runs that vary much, held to many that do not, are no difference. */
static void test_uneven(void)
{
	static double a[40], b[10];
	const struct series reference = {a, 40}, candidate = {b, 10};
	struct judge_rule rule = hak_judge_defaults;
	struct judgement j;
	int low_p = 0;

	rule.resamples = 1000;
	for (int i = 0; i < 400; i++) {
		simulate(&even, 1, a, 40);
		simulate(&uneven, 1, b, 10);
		hak_judge_compare(&rule, &reference, &candidate, &j);
		low_p += j.p < 0.05;
	}
	ok(between(low_p, 6, 40),
		"uneven sides: p is below 0.05 in about 5 %%");
}

/* Of many equal sides one will look different: 5 % hold for all together. */
static void test_family(void)
{
	enum { SIDES = 9, RUNS = 12 };
	static double value[SIDES][RUNS];
	struct judge_rule rule = hak_judge_defaults;
	struct judgement j[SIDES - 1];
	int low_p = 0, missed = 0;

	rule.resamples = 4000;
	rule.blocks = true;
	rule.comparisons = SIDES - 1;
	for (int i = 0; i < 200; i++) {
		bool low = false, miss = false;

		for (int s = 0; s < SIDES; s++) {
			const struct series a = {value[0], RUNS},
					    b = {value[s], RUNS};

			simulate(&even, 1, value[s], RUNS);
			if (s)
				hak_judge_compare(&rule, &a, &b, &j[s - 1]);
		}
		hak_judge_settle(&rule, j, SIDES - 1);
		for (int s = 0; s < SIDES - 1; s++) {
			low |= j[s].p_adjusted < 0.05;
			miss |= j[s].low > 0 || j[s].high < 0;
		}
		low_p += low;
		missed += miss;
	}
	ok(between(low_p, 1, 20),
		"nine equal sides: any p below 0.05: %d of 200", low_p);
	ok(between(missed, 1, 20), "any interval without zero: %d of 200",
		missed);
}

static void test_apart(void)
{
	static const double a[6] = {5, 5, 5, 5, 5, 5};
	static const double b[6] = {6, 6, 6, 6, 6, 6};
	const struct series low = {a, 6}, high = {b, 6};
	struct judge_rule rule = hak_judge_defaults;
	struct judgement j;

	hak_judge_compare(&rule, &low, &high, &j);
	ok(between(j.p, 0.001, 0.005),
		"no spread at all: p is that of one deal");
	hak_judge_compare(&rule, &low, &low, &j);
	ok(j.p == 1, "no spread and no difference: p is one");
}

static void test_found(
	double speed, bool (*right)(enum verdict v), const char *what)
{
	int found = 0;
	struct judgement j;

	for (int i = 0; i < 100; i++) {
		hold_trial(&real, speed, 120, true, &j);
		found += right(j.verdict);
	}
	ok(between(found, 95, 100), "%s is found in at least 95 %%: %d of 100",
		what, found);
}

static bool is_no_go(enum verdict v)
{
	return v == VERDICT_NO_GO;
}

static int count_covered(size_t runs, bool blocks)
{
	int covered = 0;
	struct judgement j;

	for (int i = 0; i < 1000; i++) {
		hold_trial(&even, 1.02, runs, blocks, &j);
		covered += j.low <= 0.02 && 0.02 <= j.high;
	}
	return covered;
}

static void test_coverage(void)
{
	ok(between(count_covered(7, true), 925, 975),
		"seven blocks: the 95 %% interval has the true change in 95 "
		"%%");
	ok(between(count_covered(20, true), 930, 970), "twenty blocks");
	ok(between(count_covered(20, false), 905, 965), "twenty runs a side");
}

/* A change by just the threshold is not beyond it: 2.5 % may say it is. */
static void test_threshold(
	double speed, bool blocks, enum verdict wrong, const char *what)
{
	int claimed = 0;
	struct judgement j;

	for (int i = 0; i < 1000; i++) {
		hold_trial(&even, speed, 7, blocks, &j);
		claimed += j.verdict == wrong;
	}
	ok(between(claimed, 0, 40), "a change of just %s: %d of 1000", what,
		claimed);
}

static void test_thresholds(void)
{
	test_threshold(1.005, true, VERDICT_GO, "the margin is seldom a GO");
	test_threshold(1.005, false, VERDICT_GO,
		"the margin, unpaired, is seldom a GO");
	test_threshold(
		0.995, true, VERDICT_NO_GO, "the margin is seldom a NO-GO");
	test_threshold(
		1.005, true, VERDICT_NEUTRAL, "the margin is seldom NEUTRAL");
	test_threshold(
		1.03, true, VERDICT_STRONG_GO, "3 % is seldom a STRONG GO");
	test_threshold(1.03, false, VERDICT_STRONG_GO,
		"3 %, unpaired, is seldom a STRONG GO");
}

static void test_verdicts(void)
{
	struct judgement j;

	hold_trial(&quiet, 1.05, 30, true, &j);
	is_int(j.verdict, VERDICT_STRONG_GO, "5 %% is a STRONG GO");
	hold_trial(&quiet, 1.02, 30, true, &j);
	is_int(j.verdict, VERDICT_GO, "2 %% is a GO");
	hold_trial(&quiet, 1.0, 30, true, &j);
	is_int(j.verdict, VERDICT_NEUTRAL, "nothing, well measured: NEUTRAL");
	hold_trial(&quiet, 0.98, 30, true, &j);
	is_int(j.verdict, VERDICT_NO_GO, "-2 %% is a NO-GO");
	hold_trial(&quiet, 1.5, JUDGE_RUNS_MIN - 1, true, &j);
	is_int(j.verdict, VERDICT_INCONCLUSIVE, "five runs prove nothing");
}

static void test_direction(void)
{
	static const double a[8] = {100, 101, 99, 100, 102, 98, 100, 101};
	static const double b[8] = {90, 91, 89, 90, 92, 88, 90, 91};
	const struct series slow = {a, 8}, fast = {b, 8};
	struct judge_rule rule = hak_judge_defaults;
	struct judgement j;

	rule.lower_is_better = true;
	hak_judge_compare(&rule, &slow, &fast, &j);
	hak_judge_settle(&rule, &j, 1);
	ok(j.change < 0 && j.verdict == VERDICT_STRONG_GO,
		"a tenth less time is a STRONG GO");
	hak_judge_compare(&rule, &fast, &slow, &j);
	hak_judge_settle(&rule, &j, 1);
	ok(j.change > 0 && j.verdict == VERDICT_NO_GO,
		"a tenth more time is a NO-GO");
}

/* What drifts by a quarter is only comparable inside a block. */
static void test_drift(void)
{
	struct judgement paired, unpaired;

	hold_trial(&drifting, 1.02, 40, true, &paired);
	hold_trial(&drifting, 1.02, 40, false, &unpaired);
	ok(is_go(paired.verdict), "interleaved: 2 %% is found under drift");
	is_int(unpaired.verdict, VERDICT_INCONCLUSIVE, "unpaired: it is not");
	ok(paired.runs_needed * 4 < unpaired.runs_needed,
		"and would need many more runs");
}

static void test_known_values(void)
{
	static const double p[4] = {0.01, 0.04, 0.03, 0.005};
	static const double want[4] = {0.03, 0.06, 0.06, 0.02};
	static const double values[4] = {4, 1, 3, 2};
	const struct series series = {values, 4};
	struct summary s;
	double adjusted[4];
	bool right = true;

	hak_judge_holm(p, adjusted, 4);
	for (int i = 0; i < 4; i++)
		right &= fabs(adjusted[i] - want[i]) < 1e-12;
	ok(right, "p adjusted after Holm");
	ok(between(hak_judge_normal_quantile(0.975), 1.95996, 1.95997),
		"quantile of the normal distribution");
	ok(between(hak_judge_student_quantile(0.975, 5), 2.569, 2.572) &&
			between(hak_judge_student_quantile(0.01, 9), -2.823,
				-2.820),
		"quantiles of Student's t");
	ok(hak_judge_block_tail(0.025, 1, 0) == 0 &&
			hak_judge_block_tail(0.025, 0, 0) == 0 &&
			between(hak_judge_block_tail(0.025, 1000, 999), 0.0248,
				0.025),
		"no tail of one block, nearly the plain one of a thousand");
	hak_judge_summarise(&series, &s);
	ok(s.mean == 2.5 && s.median == 2.5 && s.least == 1 &&
			s.greatest == 4 &&
			between(s.deviation, 1.29099, 1.29100) &&
			between(s.cv, 0.51639, 0.51640),
		"summary of four values");
}

int main(void)
{
	plan(45);
	hak_random_seed(&random_state, 20, RANDOM_NOISE);
	test_recorded();
	test_equal(true);
	test_equal(false);
	test_uneven();
	test_family();
	test_apart();
	test_found(1.02, is_go, "a gain of 2 %");
	test_found(0.98, is_no_go, "a loss of 2 %");
	test_coverage();
	test_thresholds();
	test_verdicts();
	test_direction();
	test_drift();
	test_known_values();
	return done();
}

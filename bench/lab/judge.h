#ifndef HAK_LAB_JUDGE_H
#define HAK_LAB_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Below this no sign test over blocks can reach p < 0.05. */
enum { JUDGE_RUNS_MIN = 6 };

enum verdict {
	VERDICT_STRONG_GO,
	VERDICT_GO,
	VERDICT_NEUTRAL,
	VERDICT_INCONCLUSIVE,
	VERDICT_NO_GO,
	VERDICT_CRASH, /* given by the trial, never by the judge */
};

/* Changes that a verdict claims the true one to be beyond, or within. */
enum threshold {
	THRESHOLD_LOSS, /* the margin, on the side that is worse */
	THRESHOLD_GAIN, /* the margin, on the side that is better */
	THRESHOLD_STRONG,
	THRESHOLDS,
};

struct judge_rule {
	double alpha;	      /* of the whole family of comparisons */
	double margin;	      /* changes within it do not matter */
	double strong;	      /* beyond it a GO is a STRONG GO */
	unsigned comparisons; /* how many sides are held to one reference */
	unsigned resamples;   /* for the bootstrap, and again for p */
	uint64_t seed;
	bool blocks; /* value i of each side is from block i */
	bool lower_is_better;
};

struct series {
	const double *value;
	size_t count;
};

struct summary {
	double mean;
	double median;
	double deviation; /* of a run, n - 1 */
	double cv;
	double least;
	double greatest;
};

/* Changes are candidate / reference - 1, whichever way is better. */
struct judgement {
	struct summary reference;
	struct summary candidate;
	double change; /* of the mean */
	double change_median;
	double low, high;  /* interval of `change` */
	double p;	   /* as computed, of no change at all */
	double p_adjusted; /* Holm, over the family */
	/* of a change by just the threshold; 1 where the interval has it */
	double p_threshold[THRESHOLDS];
	double runs_needed; /* a side, alpha two-sided, power 80 % */
	double detectable;  /* change that these runs find, same power */
	size_t runs;	    /* of the shorter side */
	enum verdict verdict;
};

struct interaction {
	double difference;
	double low, high;
};

extern const struct judge_rule hak_judge_defaults;

void hak_judge_summarise(const struct series *s, struct summary *out);
/* Everything but p_adjusted and verdict. Both sides need two runs. */
void hak_judge_compare(const struct judge_rule *rule,
	const struct series *reference, const struct series *candidate,
	struct judgement *out);
/*
 * Whether changes add up: log(together / reference) less the sum of
 * log(single / reference), with its interval, over common blocks. Below zero:
 * together they give less than they promise one by one.
 */
void hak_judge_interaction(const struct judge_rule *rule,
	const struct series *reference, const struct series *single,
	size_t singles, const struct series *together, struct interaction *out);
/* Fills p_adjusted and verdict of a family of comparisons. */
void hak_judge_settle(
	const struct judge_rule *rule, struct judgement *all, size_t count);
void hak_judge_holm(const double *p, double *adjusted, size_t count);
/*
 * The tail to cut off for this one where the values are of few blocks; none
 * where there are too few for any.
 */
double hak_judge_block_tail(double tail, size_t blocks, size_t freedom);
/* Sorts resampled values and cuts off both tails. */
void hak_judge_cut(
	double *value, size_t count, double tail, double *low, double *high);
double hak_judge_normal_quantile(double probability);
double hak_judge_student_quantile(double probability, double freedom);
const char *hak_judge_verdict_name(enum verdict verdict);

#endif

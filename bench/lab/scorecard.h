#ifndef HAK_LAB_SCORECARD_H
#define HAK_LAB_SCORECARD_H

#include <stdio.h>

#include "trial_options.h"

/* What `hakmem bench --scorecard` was given. */
struct scorecard_request {
	struct trial_options options;
	char **peer; /* NAME=PATH */
	size_t peers;
	const char *reference; /* NULL: mimalloc, or glibc without it */
	const char *library;   /* hakmem's, a path; NULL: its own */
	bool without_hakmem;
	char **row; /* parts of names of rows; none: all rows */
	size_t rows;
	/* of a workload; ends the command if there is none */
	void (*find_program)(const char *name, char path[]);
};

/* One row: a workload on all allocators. */
struct scorecard_row {
	const char *name;
	const char *workload;
	const char *arguments;
	const char *memory_key;
	regex_t memory;
	struct trial trial; /* METRIC_PATTERN: CPU time on the clock */
	struct course *course;
};

struct scorecard {
	struct scorecard_row *row;
	size_t rows;
	size_t rounds; /* that counted */
	double start;  /* of the first run, on the runner's clock */
	double elapsed;
	const char *reference;
	uint64_t seed;
};

/* The geometric mean of a side's ratios to the reference, over all rows. */
struct geometric_mean {
	double ratio;
	double low, high;
	size_t rows; /* that it is the mean of */
};

/* Runs, reports, and returns the exit status. */
int hak_scorecard_run(struct scorecard_request *request);

/* mean value of a side in a row, NAN if it has none */
double hak_scorecard_mean(
	const struct scorecard_row *row, enum metric metric, size_t side);
void hak_scorecard_geometric_mean(const struct scorecard *card,
	enum metric metric, size_t side, struct geometric_mean *out);
/* The best of a row that is not hakmem; 0 if there is none. */
size_t hak_scorecard_best_peer(
	const struct scorecard_row *row, enum metric metric);
void hak_scorecard_text(FILE *f, const struct scorecard *card);
void hak_scorecard_json(FILE *f, const struct scorecard *card);

#endif

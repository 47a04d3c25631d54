#ifndef HAK_LAB_METRIC_H
#define HAK_LAB_METRIC_H

#include <stdbool.h>
#include <stddef.h>

/* What one run yields. Every run has them all, NAN where not measured. */
enum metric {
	METRIC_PATTERN,	     /* a number that the program prints */
	METRIC_CPU,	     /* user and system time, s */
	METRIC_WALL,	     /* s */
	METRIC_RSS,	     /* peak, bytes */
	METRIC_INSTRUCTIONS, /* of user space */
	METRIC_COUNT,
};

struct metric_info {
	const char *name; /* on the command line and in JSON */
	const char *title;
	const char *unit;
	bool lower_is_better;
};

extern const struct metric_info hak_metric_info[METRIC_COUNT];

/* What a ratio, and a sum of squares, can be made of: 1e-100 to 1e100. */
bool hak_metric_is_value(double value);
/* METRIC_COUNT when there is none of that name */
enum metric hak_metric_find(const char *name);
/* "52.9 M", "12.3 ms", "4.5 MiB" */
const char *hak_metric_format(
	enum metric metric, double value, char *text, size_t size);

#endif

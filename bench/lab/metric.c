/*
 * The metrics a run is judged by, and how their values are written for a
 * reader. Pure: no state.
 */
#include <config.h>

#include "metric.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct metric_info hak_metric_info[METRIC_COUNT] = {
	[METRIC_PATTERN] = {"pattern", "printed value", "", false},
	[METRIC_CPU] = {"cpu", "CPU time", "s", true},
	[METRIC_WALL] = {"wall", "wall time", "s", true},
	[METRIC_RSS] = {"rss", "peak RSS", "B", true},
	[METRIC_INSTRUCTIONS] = {"instructions", "instructions", "", true},
};

bool hak_metric_is_value(double value)
{
	return value >= 1e-100 && value <= 1e100;
}

enum metric hak_metric_find(const char *name)
{
	int m = 0;

	while (m < METRIC_COUNT && strcmp(name, hak_metric_info[m].name) != 0)
		m++;
	return (enum metric)m;
}

struct scale {
	double least; /* the first row whose bound the value reaches is taken */
	const char *suffix;
};

static const struct scale plain[] = {
	{1e12, " T"},
	{1e9, " G"},
	{1e6, " M"},
	{1e4, " k"},
	{0, NULL},
};

static const struct scale seconds[] = {
	{1, " s"},
	{1e-3, " ms"},
	{1e-6, " us"},
	{0, NULL},
};

static const struct scale bytes[] = {
	{0x1p30, " GiB"},
	{0x1p20, " MiB"},
	{0x1p10, " KiB"},
	{0, NULL},
};

static const struct scale *scale_of(enum metric metric)
{
	switch (metric) {
	case METRIC_CPU:
	case METRIC_WALL:
		return seconds;
	case METRIC_RSS:
		return bytes;
	default:
		return plain;
	}
}

const char *hak_metric_format(
	enum metric metric, double value, char *text, size_t size)
{
	const struct scale *s = scale_of(metric);
	double divisor;

	while (s->suffix && fabs(value) < s->least)
		s++;
	/* "k" starts at 10 000, so that 1234 stays whole */
	divisor = !s->suffix ? 1 : s->least == 1e4 ? 1e3 : s->least;
	snprintf(text, size, "%#.4g%s", value / divisor,
		s->suffix ? s->suffix : "");
	return text;
}

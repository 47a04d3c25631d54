/*
 * The plots of the HTML report: SVG without script or size of its own, in
 * colours that the page's style sheet gives by class.
 */
#ifndef HAK_LAB_PLOT_H
#define HAK_LAB_PLOT_H

#include <stdio.h>

#include "trial.h"

/* How many colours the style sheet has for sides: classes s0, s1, ... */
enum { PLOT_COLOURS = 8 };

/* text as HTML and SVG need it */
void hak_plot_text(FILE *f, const char *text);
/* changes against the reference: margin, interval, mean, median */
void hak_plot_intervals(
	FILE *f, const struct trial *t, const struct judgement *j);
/* every run in the order of blocks, a line at the mean of each side */
void hak_plot_runs(FILE *f, const struct trial *t);
/* every run by side: how they are spread, mean and median */
void hak_plot_spread(FILE *f, const struct trial *t);

#endif

/*
 * Three readers of one trial. Each judges it anew: the judge is seeded, so
 * they agree to the last digit.
 */
#ifndef HAK_LAB_REPORT_H
#define HAK_LAB_REPORT_H

#include <stdio.h>

#include "json.h"
#include "trial.h"

/* bytes for the text of one figure */
enum { REPORT_FIGURE = 32 };

void hak_report_text(FILE *f, const struct trial *t);
void hak_report_json(FILE *f, const struct trial *t);
void hak_report_html(FILE *f, const struct trial *t);

/* The same as parts of a greater whole. */
void hak_report_json_value(struct json_writer *w, const struct trial *t);
void hak_report_html_open(FILE *f);
/* a heading and a paragraph a line */
void hak_report_html_lines(FILE *f, const char *title, const char *lines);
void hak_report_html_section(FILE *f, const struct trial *t);
void hak_report_html_close(FILE *f);

/* Reports go to files, "-" being standard output; all or the command ends. */
bool hak_report_owns_output(const char *path, const char *other);
/* before the first run, so that none is lost for a misspelt directory */
void hak_report_check(const char *path);
FILE *hak_report_open(const char *path);
void hak_report_close(FILE *f, const char *path);

/* "+0.74 %" of 0.0074; `plus` shows the sign of what is not negative */
const char *hak_report_percent(double change, bool plus, char *text);
/* "0.553", "< 0.001" */
const char *hak_report_p(double p, char *text);
/* "201", "more than a million", "no number of" */
const char *hak_report_runs(double runs, char *text);
/* "higher is better" or "lower is better" */
const char *hak_report_better(const struct trial *t, enum metric metric);

#endif

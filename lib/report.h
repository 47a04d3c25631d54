/* report.h: what checked mode tells of a misuse: the line that the stock build
 * has, and what it knows besides. */
#ifndef HAK_REPORT_H
#define HAK_REPORT_H

#include "records.h"

struct hak_finding {
	/* The function that was called, and what is wrong. */
	const char *function;
	const char *what;
	const void *pointer;
	/* The block it is about, a copy; where block is 0 nothing is known. */
	struct hak_record record;
	/* A byte that was overwritten, or 0. */
	uintptr_t damage;
	/* A wrong argument's name and value, or NULL. */
	const char *argument;
	size_t value;
	/* Who called, or what the line says instead of "called by:"; nobody where
	 * the first frame is NULL. */
	struct hak_origin caller;
	const char *by;
};

/* Does with it what HAKMEM_INVALID_FREE says; no lock may be held. */
void hak_report(const struct hak_finding *finding);

#endif

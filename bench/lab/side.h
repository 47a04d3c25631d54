#ifndef HAK_LAB_SIDE_H
#define HAK_LAB_SIDE_H

#include <stdbool.h>
#include <stddef.h>

#include "metric.h"

/* How a run ended. Anything but END_OK yields no value. Reports name it. */
enum ending {
	END_OK,
	END_STATUS, /* code: exit status */
	END_SIGNAL, /* code: signal */
	END_TIMEOUT,
	END_NO_MATCH,	/* the pattern is not in the output */
	END_NO_NUMBER,	/* what it matches cannot be judged */
	END_NOT_LOADED, /* the loader ignored the library */
	END_STOPPED,	/* by the user */
	ENDINGS,
};

struct run {
	double value[METRIC_COUNT];
};

/* One of the things that are compared, and what its runs yielded. */
struct side {
	char *name;
	char **argv;	   /* NULL-ended; NULL for recorded runs */
	char **assignment; /* NAME=VALUE of its environment */
	size_t assignments;
	char *library; /* to preload, as it was given, or NULL */
	struct run *run;
	size_t runs;
	enum ending failure; /* END_OK while none of its runs failed */
	int failure_code;
	size_t failure_block; /* from 0; warm-up counts */
	char *failure_note;   /* the last line it wrote to fd 2, or NULL */
};

/* "A", "B", ... for sides that were given no name */
void hak_side_name(struct side *s, size_t index);
/* NAME=VALUE ... program argument ..., quoted as for a shell */
void hak_side_parse(struct side *s, const char *text);
/* program argument ..., each word as it is */
void hak_side_take_command(struct side *s, char **word, size_t count);
void hak_side_assign(struct side *s, const char *assignment);
/* the value its environment gives to a name, or NULL */
const char *hak_side_value(const struct side *s, const char *name);
void hak_side_add_run(struct side *s, const struct run *run);
/* the command as it could be typed; to be freed */
char *hak_side_text(const struct side *s);
/* "signal"; and back, ENDINGS when there is none of that name */
const char *hak_side_ending_name(enum ending ending);
enum ending hak_side_ending_find(const char *name);
/* "killed by signal 11 (Segmentation fault)"; to be freed */
char *hak_side_failure_text(const struct side *s);
void hak_side_free(struct side *s);

#endif

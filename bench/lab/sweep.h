#ifndef HAK_LAB_SWEEP_H
#define HAK_LAB_SWEEP_H

#include "trial_options.h"

/* Variables that are set together, and the values they are tried at. */
struct variable {
	char **name;
	size_t names;
	char **value;
	size_t values;
};

/* What stands behind a side other than the reference. */
struct setting {
	const struct variable *variable;
	const char *value;
};

enum sweep_result {
	SWEEP_FOUND,	    /* `best` is proven, on fresh runs */
	SWEEP_NOTHING,	    /* no setting is better by more than the margin */
	SWEEP_INCONCLUSIVE, /* none is proven, and none ruled out */
	SWEEP_UNMEASURED,   /* the time was over before a block counted */
	SWEEP_FAILED,	    /* the default failed */
	SWEEP_STOPPED,	    /* by the user */
};

struct sweep {
	struct variable *variable;
	size_t variables;
	char **word; /* the user's command */
	size_t words;
	const char *library; /* for hak_library_apply(), or NULL */
	struct trial_options options;

	struct trial screening;
	struct setting *screened; /* of screening.side[i + 1] */
	struct trial confirmation;
	struct setting *confirmed; /* singles; all together come last */
	size_t singles;		   /* 0: there was no confirmation */
	bool together;		   /* the last side is all singles at once */
	struct interaction interaction; /* only with `together` */
	enum sweep_result result;
	size_t best; /* index into confirmation.side */
};

/* Screens every setting, confirms the best ones, and concludes. */
void hak_sweep_run(struct sweep *s);
/* "NAME=VALUE NAME=VALUE" of a side of the confirmation; to be freed */
char *hak_sweep_settings(const struct sweep *s, size_t side);
void hak_sweep_free(struct sweep *s);

#endif

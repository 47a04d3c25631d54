#ifndef HAK_LAB_JSON_H
#define HAK_LAB_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- writing: commas and indentation are kept by the writer ---- */

struct json_writer {
	FILE *file;
	int depth;
	bool filled; /* the open container has a member */
	bool after_key;
};

void hak_json_open(struct json_writer *w, char bracket); /* '{' or '[' */
void hak_json_close(struct json_writer *w, char bracket);
void hak_json_key(struct json_writer *w, const char *key);
void hak_json_string(struct json_writer *w, const char *text);
void hak_json_number(struct json_writer *w, double value); /* NAN: null */
void hak_json_count(struct json_writer *w, uint64_t value);
void hak_json_null(struct json_writer *w);
void hak_json_bool(struct json_writer *w, bool value);
void hak_json_end(struct json_writer *w);

/* ---- reading: the whole of RFC 8259, nothing beyond it ---- */

enum json_kind {
	JSON_NULL,
	JSON_BOOL,
	JSON_NUMBER,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};

struct json_value {
	enum json_kind kind;
	bool truth;
	double number;
	char *text;		    /* JSON_STRING */
	char **key;		    /* JSON_OBJECT: one a member */
	struct json_value **member; /* JSON_ARRAY, JSON_OBJECT */
	size_t count;
};

/* NULL on an error, with its line and what was wrong. */
struct json_value *hak_json_parse(
	const char *text, size_t length, size_t *line, const char **wrong);
const struct json_value *hak_json_member(
	const struct json_value *object, const char *key);
void hak_json_free(struct json_value *value);

#endif

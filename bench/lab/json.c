/*
 * JSON for the lab's reports: a writer that keeps commas and indentation, and
 * a strict reader for recorded runs. The reader builds a tree and refuses what
 * RFC 8259 refuses (trailing commas, leading zeros, raw control characters,
 * lone surrogates) as well as text that is nested deeper than DEPTH_MAX.
 */
#include <config.h>

#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"

enum { DEPTH_MAX = 64 };

/* ---- writing ---- */

static void indent(struct json_writer *w)
{
	fprintf(w->file, "\n%*s", w->depth * 2, "");
}

static void before_value(struct json_writer *w)
{
	if (!w->after_key && w->filled)
		fputc(',', w->file);
	if (!w->after_key && w->depth)
		indent(w);
	w->after_key = false;
	w->filled = true;
}

void hak_json_open(struct json_writer *w, char bracket)
{
	before_value(w);
	fputc(bracket, w->file);
	w->depth++;
	w->filled = false;
}

void hak_json_close(struct json_writer *w, char bracket)
{
	w->depth--;
	if (w->filled)
		indent(w);
	fputc(bracket, w->file);
	w->filled = true;
}

/* Bytes of the UTF-8 character there, 0 if it is none (RFC 3629). */
static int character_length(const unsigned char *c)
{
	int n = *c < 0x80   ? 1
		: *c < 0xc2 ? 0
		: *c < 0xe0 ? 2
		: *c < 0xf0 ? 3
			    : 4;

	for (int i = 1; i < n; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	if (*c > 0xf4 || (*c == 0xe0 && c[1] < 0xa0) ||
		(*c == 0xed && c[1] > 0x9f) || (*c == 0xf0 && c[1] < 0x90) ||
		(*c == 0xf4 && c[1] > 0x8f))
		return 0;
	return n;
}

/* A byte that is no character becomes the replacement character. */
static void put_string(FILE *f, const char *text)
{
	const unsigned char *c = (const void *)text;

	fputc('"', f);
	while (*c) {
		int n = character_length(c);

		if (*c == '"' || *c == '\\')
			fprintf(f, "\\%c", *c);
		else if (*c < 0x20)
			fprintf(f, "\\u%04x", *c);
		else if (n)
			fwrite(c, 1, (size_t)n, f);
		else
			fputs("\\ufffd", f);
		c += n ? n : 1;
	}
	fputc('"', f);
}

void hak_json_key(struct json_writer *w, const char *key)
{
	before_value(w);
	put_string(w->file, key);
	fputs(": ", w->file);
	w->after_key = true;
}

void hak_json_string(struct json_writer *w, const char *text)
{
	before_value(w);
	put_string(w->file, text);
}

void hak_json_number(struct json_writer *w, double value)
{
	before_value(w);
	char text[32];

	snprintf(text, sizeof text, "%.15g", value);
	/* the digits that people write, or all where these are not enough */
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof text, "%.17g", value);
	fputs(isfinite(value) ? text : "null", w->file);
}

void hak_json_count(struct json_writer *w, uint64_t value)
{
	before_value(w);
	fprintf(w->file, "%llu", (unsigned long long)value);
}

void hak_json_null(struct json_writer *w)
{
	hak_json_number(w, NAN);
}

void hak_json_bool(struct json_writer *w, bool value)
{
	before_value(w);
	fputs(value ? "true" : "false", w->file);
}

void hak_json_end(struct json_writer *w)
{
	fputc('\n', w->file);
}

/* ---- reading ---- */

struct reader {
	const char *at;
	const char *end;
	const char *start;
	const char *wrong; /* set once, by the first error */
	int depth;
};

static struct json_value *read_value(struct reader *r);

static void *refuse(struct reader *r, const char *wrong)
{
	if (!r->wrong)
		r->wrong = wrong;
	return NULL;
}

static int peek(struct reader *r)
{
	return r->at < r->end ? (unsigned char)*r->at : -1;
}

static void skip_space(struct reader *r)
{
	while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
		r->at++;
}

static bool take(struct reader *r, char c)
{
	skip_space(r);
	if (peek(r) != c)
		return false;
	r->at++;
	return true;
}

static bool take_word(struct reader *r, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
		return false;
	r->at += n;
	return true;
}

static struct json_value *make(enum json_kind kind)
{
	struct json_value *v = hak_lab_alloc(1, sizeof *v);

	v->kind = kind;
	return v;
}

static bool skip_digits(struct reader *r)
{
	const char *from = r->at;

	while (peek(r) >= '0' && peek(r) <= '9')
		r->at++;
	return r->at > from;
}

static struct json_value *read_number(struct reader *r)
{
	struct json_value *v;
	const char *from = r->at;
	char *copy;

	if (peek(r) == '-')
		r->at++;
	if (peek(r) == '0')
		r->at++;
	else if (!skip_digits(r))
		return refuse(r, "a value expected");
	if (peek(r) == '.' && (r->at++, !skip_digits(r)))
		return refuse(r, "digits expected after the point");
	if (peek(r) == 'e' || peek(r) == 'E') {
		r->at++;
		if (peek(r) == '+' || peek(r) == '-')
			r->at++;
		if (!skip_digits(r))
			return refuse(r, "digits expected in the exponent");
	}
	copy = hak_lab_print("%.*s", (int)(r->at - from), from);
	v = make(JSON_NUMBER);
	v->number = strtod(copy, NULL);
	free(copy);
	return v;
}

static unsigned read_hex4(struct reader *r)
{
	unsigned code = 0;

	for (int i = 0; i < 4; i++, r->at++) {
		const char *digits = "0123456789abcdef";
		int c = peek(r);
		const char *d = c > 0 ? strchr(digits, c | 0x20) : NULL;

		if (!d || (c < 'A' && c > '9')) {
			refuse(r, "four hexadecimal digits expected");
			return 0;
		}
		code = code * 16 + (unsigned)(d - digits);
	}
	return code;
}

static char *put_utf8(char *to, unsigned code)
{
	static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

	for (int i = n - 1; i > 0; i--, code >>= 6)
		to[i] = (char)(0x80 | (code & 0x3f));
	to[0] = (char)(lead[n] | code);
	return to + n;
}

static unsigned read_unicode(struct reader *r)
{
	unsigned code = read_hex4(r), low;

	if (code < 0xd800 || code > 0xdfff)
		return code;
	if (code > 0xdbff || !take_word(r, "\\u"))
		return refuse(r, "lone surrogate"), 0;
	low = read_hex4(r);
	if (low < 0xdc00 || low > 0xdfff)
		return refuse(r, "lone surrogate"), 0;
	return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

static char *read_escape(struct reader *r, char *to)
{
	static const char from[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	int c = peek(r);
	const char *found = c > 0 ? strchr(from, c) : NULL;

	r->at++;
	if (c == 'u') {
		unsigned code = read_unicode(r);

		/* the tree holds C strings */
		if (!code && !r->wrong)
			refuse(r, "a NUL in a string");
		return put_utf8(to, code);
	}
	if (!found)
		refuse(r, "unknown escape");
	else
		*to++ = meant[found - from];
	return to;
}

static char *read_text(struct reader *r)
{
	/* no escape is shorter than the bytes it stands for */
	char *text = hak_lab_alloc((size_t)(r->end - r->at) + 1, 1);
	char *to = text;

	r->at++;
	while (!r->wrong && peek(r) != '"') {
		if (peek(r) < 0)
			refuse(r, "string without an end");
		else if (peek(r) < 0x20)
			refuse(r, "control character in a string");
		else if (*r->at++ != '\\')
			*to++ = r->at[-1];
		else
			to = read_escape(r, to);
	}
	r->at++;
	if (!r->wrong)
		return text;
	free(text);
	return NULL;
}

static void add_member(
	struct json_value *v, char *key, struct json_value *member)
{
	v->member = hak_lab_grow(v->member, v->count + 1, sizeof *v->member);
	if (v->kind == JSON_OBJECT) {
		v->key = hak_lab_grow(v->key, v->count + 1, sizeof *v->key);
		v->key[v->count] = key;
	}
	v->member[v->count++] = member;
}

static bool read_member(struct reader *r, struct json_value *v)
{
	struct json_value *member;
	char *key = NULL;

	skip_space(r);
	if (v->kind == JSON_OBJECT) {
		if (peek(r) != '"')
			return refuse(r, "a key expected");
		key = read_text(r);
		if (!key)
			return false;
		if (!take(r, ':')) {
			free(key);
			return refuse(r, "':' expected");
		}
	}
	member = read_value(r);
	if (!member) {
		free(key);
		return false;
	}
	add_member(v, key, member);
	return true;
}

static struct json_value *read_container(
	struct reader *r, enum json_kind kind, char end)
{
	struct json_value *v = make(kind);

	r->at++;
	if (++r->depth > DEPTH_MAX)
		refuse(r, "nested too deeply");
	if (!r->wrong && !take(r, end)) {
		while (read_member(r, v) && take(r, ','))
			;
		if (!r->wrong && !take(r, end))
			refuse(r, "',' or the closing bracket expected");
	}
	r->depth--;
	if (!r->wrong)
		return v;
	hak_json_free(v);
	return NULL;
}

static struct json_value *read_string(struct reader *r)
{
	char *text = read_text(r);
	struct json_value *v;

	if (!text)
		return NULL;
	v = make(JSON_STRING);
	v->text = text;
	return v;
}

static struct json_value *read_value(struct reader *r)
{
	struct json_value *v;

	skip_space(r);
	switch (peek(r)) {
	case '{':
		return read_container(r, JSON_OBJECT, '}');
	case '[':
		return read_container(r, JSON_ARRAY, ']');
	case '"':
		return read_string(r);
	}
	if (take_word(r, "null"))
		return make(JSON_NULL);
	if (take_word(r, "false"))
		return make(JSON_BOOL);
	if (!take_word(r, "true"))
		return read_number(r);
	v = make(JSON_BOOL);
	v->truth = true;
	return v;
}

struct json_value *hak_json_parse(
	const char *text, size_t length, size_t *line, const char **wrong)
{
	struct reader r = {.at = text, .end = text + length, .start = text};
	struct json_value *v = read_value(&r);

	skip_space(&r);
	if (v && r.at != r.end) {
		refuse(&r, "more text after the value");
		hak_json_free(v);
		v = NULL;
	}
	*wrong = r.wrong;
	*line = 1;
	for (const char *c = r.start; c < r.at && c < r.end; c++)
		*line += *c == '\n';
	return v;
}

const struct json_value *hak_json_member(
	const struct json_value *object, const char *key)
{
	if (!object || object->kind != JSON_OBJECT)
		return NULL;
	for (size_t i = 0; i < object->count; i++)
		if (strcmp(object->key[i], key) == 0)
			return object->member[i];
	return NULL;
}

void hak_json_free(struct json_value *v)
{
	if (!v)
		return;
	for (size_t i = 0; i < v->count; i++) {
		if (v->key)
			free(v->key[i]);
		hak_json_free(v->member[i]);
	}
	free(v->key);
	free(v->member);
	free(v->text);
	free(v);
}

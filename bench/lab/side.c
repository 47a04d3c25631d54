/*
 * A side of a comparison: its command, its environment, its library, and the
 * runs it has had. A side is built once, before the first run, and then only
 * gains runs or one failure. It owns its strings.
 */
#include <config.h>

#include "side.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wordexp.h>

#include "lab.h"

void hak_side_name(struct side *s, size_t index)
{
	free(s->name);
	s->name = index < 26 ? hak_lab_print("%c", (char)('A' + index))
			     : hak_lab_print("side %zu", index + 1);
}

static bool is_assignment(const char *word)
{
	size_t n = 0;

	while (isalnum((unsigned char)word[n]) || word[n] == '_')
		n++;
	return n && !isdigit((unsigned char)word[0]) && word[n] == '=';
}

void hak_side_assign(struct side *s, const char *assignment)
{
	s->assignment = hak_lab_grow(
		s->assignment, s->assignments + 1, sizeof *s->assignment);
	s->assignment[s->assignments++] = hak_lab_copy(assignment);
}

const char *hak_side_value(const struct side *s, const char *name)
{
	size_t n = strlen(name);

	/* the last one counts, as in a shell */
	for (size_t i = s->assignments; i-- > 0;)
		if (strncmp(s->assignment[i], name, n) == 0 &&
			s->assignment[i][n] == '=')
			return s->assignment[i] + n + 1;
	return NULL;
}

void hak_side_take_command(struct side *s, char **word, size_t count)
{
	if (count == 0)
		return;
	s->argv = hak_lab_alloc(count + 1, sizeof *s->argv);
	for (size_t i = 0; i < count; i++)
		s->argv[i] = hak_lab_copy(word[i]);
}

static void take_words(struct side *s, char **word, size_t count)
{
	size_t i = 0;

	while (i < count && is_assignment(word[i]))
		hak_side_assign(s, word[i++]);
	hak_side_take_command(s, word + i, count - i);
}

static const char *wrong_words(int code)
{
	switch (code) {
	case WRDE_BADCHAR:
		return "needs a shell (use: sh -c '...')";
	case WRDE_BADVAL:
		return "undefined variable";
	case WRDE_CMDSUB:
		return "command substitution (use: sh -c '...')";
	default:
		return "unbalanced quotes";
	}
}

void hak_side_parse(struct side *s, const char *text)
{
	wordexp_t words;
	int code = wordexp(text, &words, WRDE_NOCMD | WRDE_UNDEF);

	if (code)
		hak_command_fail(STATUS_FAILED, "bad command: %s: %s",
			wrong_words(code), text);
	take_words(s, words.we_wordv, words.we_wordc);
	wordfree(&words);
}

void hak_side_add_run(struct side *s, const struct run *run)
{
	s->run = hak_lab_grow(s->run, s->runs + 1, sizeof *s->run);
	s->run[s->runs++] = *run;
}

static bool is_plain(const char *word)
{
	const char *safe = "-_=./:,+@%";

	if (!*word)
		return false;
	for (; *word; word++)
		if (!isalnum((unsigned char)*word) && !strchr(safe, *word))
			return false;
	return true;
}

static void put_word(FILE *f, const char *word)
{
	if (is_plain(word)) {
		fprintf(f, "%s ", word);
		return;
	}
	fputc('\'', f);
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", f);
		else
			fputc(*word, f);
	}
	fputs("' ", f);
}

char *hak_side_text(const struct side *s)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		hak_command_fail(STATUS_FAILED, "out of memory");
	for (size_t i = 0; i < s->assignments; i++)
		put_word(f, s->assignment[i]);
	for (size_t i = 0; s->argv && s->argv[i]; i++)
		put_word(f, s->argv[i]);
	fclose(f);
	if (size)
		text[size - 1] = '\0';
	return text;
}

static const char *const ending_names[ENDINGS] = {
	[END_OK] = "ok",
	[END_STATUS] = "status",
	[END_SIGNAL] = "signal",
	[END_TIMEOUT] = "timeout",
	[END_NO_MATCH] = "no-match",
	[END_NO_NUMBER] = "no-number",
	[END_NOT_LOADED] = "not-loaded",
	[END_STOPPED] = "stopped",
};

const char *hak_side_ending_name(enum ending ending)
{
	return ending_names[ending];
}

enum ending hak_side_ending_find(const char *name)
{
	int e = 0;

	while (e < ENDINGS && strcmp(name, ending_names[e]) != 0)
		e++;
	return (enum ending)e;
}

char *hak_side_failure_text(const struct side *s)
{
	switch (s->failure) {
	case END_STATUS:
		return hak_lab_print("exit status %d", s->failure_code);
	case END_SIGNAL:
		return hak_lab_print("killed by signal %d (%s)",
			s->failure_code, strsignal(s->failure_code));
	case END_TIMEOUT:
		return hak_lab_copy("timed out");
	case END_NO_MATCH:
		return hak_lab_copy("the pattern matches nothing it printed");
	case END_NO_NUMBER:
		return hak_lab_copy(
			"no number above zero, 1e-100 to 1e100, where the "
			"pattern matches");
	case END_NOT_LOADED:
		return hak_lab_copy("the loader ignored its library");
	default:
		return hak_lab_copy("stopped");
	}
}

void hak_side_free(struct side *s)
{
	size_t words = 0;

	while (s->argv && s->argv[words])
		words++;
	hak_lab_free_words(s->argv, words);
	hak_lab_free_words(s->assignment, s->assignments);
	free(s->library);
	free(s->failure_note);
	free(s->name);
	free(s->run);
}

/*
 * report.c: the lines that follow a message of checked mode.
 *
 * No lock is held and nothing is allocated: a report may come from any call
 * of any thread, and one that is fatal must get out whatever else is broken.
 */
#include "report.h"

#include "invalid.h"

static void add_address(struct hak_text *line, const char *what,
	uintptr_t address)
{
	hak_text_add(line, what);
	hak_text_add_hex(line, address);
}

static void say_block(const struct hak_finding *finding)
{
	const struct hak_record *record = &finding->record;
	uintptr_t at = (uintptr_t)finding->pointer;
	char buffer[HAK_LINE_BYTES];
	struct hak_text line;

	hak_line_begin(&line, buffer, "check", "block: ");
	add_address(&line, "", record->block);
	hak_text_add(&line, ", ");
	hak_text_add_number(&line, record->size);
	hak_text_add(&line, " bytes");
	if (record->align > 16) {
		hak_text_add(&line, ", aligned to ");
		hak_text_add_number(&line, record->align);
	}
	if (at > record->block) {
		hak_text_add(&line, ", pointer at ");
		hak_text_add_number(&line, at - record->block);
	}
	if (finding->damage != 0)
		add_address(&line, ", written at ", finding->damage);
	hak_line_end(&line);
}

static void say_argument(const char *name, size_t value)
{
	char buffer[HAK_LINE_BYTES];
	struct hak_text line;

	hak_line_begin(&line, buffer, "check", "given: ");
	hak_text_add(&line, name);
	hak_text_add(&line, " ");
	hak_text_add_number(&line, value);
	hak_line_end(&line);
}

static void say_origin(const char *what, const struct hak_origin *origin)
{
	char buffer[HAK_LINE_BYTES];
	struct hak_text line;

	if (origin->frame[0] == NULL)
		return;
	hak_line_begin(&line, buffer, "check", what);
	hak_origin_add(&line, origin);
	hak_line_end(&line);
}

HAK_COLD void hak_report(const struct hak_finding *finding)
{
	if (!hak_invalid_begin(finding->function, finding->what,
			finding->pointer))
		return;
	if (finding->record.block != 0)
		say_block(finding);
	if (finding->argument != NULL)
		say_argument(finding->argument, finding->value);
	say_origin(finding->by != NULL ? finding->by : "called by:",
		&finding->caller);
	if (finding->record.block != 0) {
		say_origin("allocated by:", &finding->record.made);
		say_origin("freed by:", &finding->record.unmade);
	}
	hak_invalid_end();
}

/*
 * note.c: the ELF note by which hakmem stat finds the allocator's state in a
 * running process: nothing runs here, and nothing is written.
 *
 * The note is in the loaded image, so that a file which was replaced since or
 * has no symbols does no harm. A copy of the library that is loaded and not in
 * use (libhakmem under the preload library) has one, too; its state is empty.
 */
#include "note.h"

const struct hak_layout hak_layout = HAK_LAYOUT;

#define STRING(x) STRING_(x)
#define STRING_(x) #x

/* name size, descriptor size, type; name; the slots. */
__asm__(".pushsection .note.hakmem,\"a\",%note\n"
	".balign 4\n"
	".long 7, 1f - 0f, " STRING(HAK_NOTE_TYPE) "\n"
	".asciz \"" HAK_NOTE_NAME "\"\n"
	".balign 4\n"
	"0:\n"
#define HAKMEM_NOTE(slot, symbol) ".quad " #symbol " - .\n"
#include "note.def"
#undef HAKMEM_NOTE
	"1:\n"
	".balign 4\n"
	".popsection\n");

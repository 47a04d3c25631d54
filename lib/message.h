/*
 * Messages without stdio or allocation, and the text builder they are made
 * with.
 */
#ifndef HAK_MESSAGE_H
#define HAK_MESSAGE_H

#include <stddef.h>

/*
 * A line under construction in the caller's buffer. What does not fit is left
 * out and noted in `cut`; the buffer always ends in a NUL.
 */
struct hak_text {
	char *buffer;
	size_t length;	 /* bytes in use, the NUL not counted */
	size_t capacity; /* bytes of the buffer, the NUL's included */
	int cut;	 /* 1: something did not fit */
};

void hak_text_init(struct hak_text *text, char *buffer, size_t bytes);
void hak_text_add(struct hak_text *text, const char *string);
/* bytes from elsewhere: control characters are shown as '?' */
void hak_text_add_bytes(
	struct hak_text *text, const char *bytes, size_t length);
/* a string from elsewhere, with "..." for what is beyond `most` bytes */
void hak_text_add_foreign(
	struct hak_text *text, const char *string, size_t most);
void hak_text_add_number(struct hak_text *text, unsigned long value);
/* 0x7f00, as %p prints it */
void hak_text_add_hex(struct hak_text *text, unsigned long value);
/* with the largest suffix of K, M, G that keeps it exact: 64K, 1025 */
void hak_text_add_size(struct hak_text *text, size_t bytes);
/*
 * All of it to a file descriptor, in one write(2) if the kernel takes it
 * whole. Keeps errno. 0, or -1 if it could not be written.
 */
int hak_text_write(const struct hak_text *text, int fd);

/*
 * "hakmem: function: what" and, with a colon, the value; one line on file
 * descriptor 2. errno is kept. After 16 warnings a process says once that
 * further ones are suppressed and is silent from then on.
 */
void hak_warn(const char *function, const char *what);
/* 1 if it was printed */
int hak_warn_ptr(const char *function, const char *what, const void *pointer);
void hak_warn_num(const char *function, const char *what, unsigned long value);
void hak_warn_text(const char *function, const char *what, const char *text);

/* The same line, never suppressed: for last words of more than one line. */
void hak_say_ptr(const char *function, const char *what, const void *pointer);
/* An open line of "hakmem: function: " and its end, for those lines; the
 * buffer has HAK_LINE_BYTES. */
enum { HAK_LINE_BYTES = 320 };
void hak_line_begin(struct hak_text *text, char *buffer, const char *function,
	const char *what);
void hak_line_end(struct hak_text *text);

/* The same line, never suppressed; then the process ends by SIGABRT. */
_Noreturn void hak_fatal(const char *function, const char *what);
_Noreturn void hak_fatal_ptr(
	const char *function, const char *what, const void *pointer);
_Noreturn void hak_fatal_text(
	const char *function, const char *what, const char *text);

#endif

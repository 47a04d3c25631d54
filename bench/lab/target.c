/*
 * The program behind a command, read from its file: an ELF header and the
 * program header that names its loader, or a script's first line.
 *
 * Preloading is the work of glibc's loader. Where another loader, or none,
 * starts the program, or this one will refuse since the program runs with
 * other privileges, LD_PRELOAD is ignored without a word; so it is told here,
 * before the program runs.
 */
#include <config.h>

#include "target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { SCRIPT_DEPTH = 5 }; /* #! upon #!, as far as the kernel follows */

static const char fallback_path[] = "/bin:/usr/bin";

/* 0, or the errno value with which execve(2) would refuse the file. */
static int refusal(const char *path)
{
	struct stat status;

	if (stat(path, &status) != 0)
		return errno;
	if (!S_ISREG(status.st_mode) || access(path, X_OK) != 0)
		return EACCES;
	return 0;
}

static int join(char path[PATH_MAX], const char *directory, size_t length,
	const char *name)
{
	int n = length ? snprintf(path, PATH_MAX, "%.*s/%s", (int)length,
				 directory, name)
		       : snprintf(path, PATH_MAX, "./%s", name);

	return n < PATH_MAX ? 0 : ENAMETOOLONG;
}

/* A file that may not be run is passed by, and remembered if no other is. */
int hak_target_find(const char *command, char path[PATH_MAX])
{
	const char *directory = getenv("PATH");
	int error = ENOENT;

	if (!*command)
		return ENOENT;
	if (strchr(command, '/')) {
		if (strlen(command) >= PATH_MAX)
			return ENAMETOOLONG;
		strcpy(path, command);
		return refusal(path);
	}
	for (directory = directory ? directory : fallback_path;;) {
		size_t length = strcspn(directory, ":");
		int e = join(path, directory, length, command);

		e = e ? e : refusal(path);
		if (e == 0)
			return 0;
		if (e == EACCES)
			error = e;
		if (!directory[length])
			return error;
		directory += length + 1;
	}
}

static int is_other_privilege(int fd)
{
	struct stat status;
	struct statvfs mount;
	mode_t group = S_ISGID | S_IXGRP;

	if (fstat(fd, &status) != 0 || fstatvfs(fd, &mount) != 0 ||
		mount.f_flag & ST_NOSUID ||
		prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return 0;
	if (status.st_mode & S_ISUID && status.st_uid != getuid())
		return 1;
	if ((status.st_mode & group) == group && status.st_gid != getgid())
		return 1;
	return getuid() != 0 &&
	       fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

/* glibc's loaders, as its ports name them; musl's is ld-musl-*. */
static int is_glibc_loader(const char *loader)
{
	const char *slash = strrchr(loader, '/');
	const char *name = slash ? slash + 1 : loader;

	return strncmp(name, "ld-linux", 8) == 0 ||
	       strncmp(name, "ld64.so", 7) == 0 || strcmp(name, "ld.so.1") == 0;
}

/* The first bytes of a file, of which an ELF header is the longest. */
union head {
	ElfW(Ehdr) elf;
	char text[256];
};

/* NULL, or what is wrong; without a loader none is set. */
static const char *read_loader(
	int fd, const ElfW(Ehdr) * header, struct target *target)
{
	for (unsigned int i = 0; i < header->e_phnum; i++) {
		ElfW(Phdr) segment;
		off_t at = (off_t)(header->e_phoff +
				   (ElfW(Off))i * header->e_phentsize);

		if (pread(fd, &segment, sizeof(segment), at) !=
			(ssize_t)sizeof(segment))
			return "a damaged ELF file";
		if (segment.p_type != PT_INTERP)
			continue;
		if (segment.p_filesz == 0 || segment.p_filesz >= PATH_MAX ||
			pread(fd, target->loader, segment.p_filesz,
				(off_t)segment.p_offset) !=
				(ssize_t)segment.p_filesz)
			return "a damaged ELF file";
		target->loader[segment.p_filesz] = '\0';
		return NULL;
	}
	return NULL;
}

/* `bytes` of the file at `offset`, in memory; NULL if they are not there. */
static void *read_part(int fd, size_t offset, size_t bytes)
{
	struct stat status;
	void *part;

	if (fstat(fd, &status) != 0 || offset > (size_t)status.st_size ||
		bytes > (size_t)status.st_size - offset)
		return NULL;
	part = malloc(bytes + 1);
	if (part && pread(fd, part, bytes, (off_t)offset) != (ssize_t)bytes) {
		free(part);
		return NULL;
	}
	return part;
}

static int has_symbol(const ElfW(Sym) * symbols, size_t count,
	const char *names, size_t bytes, const char *name)
{
	size_t size = strlen(name) + 1;

	for (size_t i = 0; i < count; i++)
		if (symbols[i].st_shndx != SHN_UNDEF &&
			symbols[i].st_name < bytes &&
			bytes - symbols[i].st_name >= size &&
			memcmp(names + symbols[i].st_name, name, size) == 0)
			return 1;
	return 0;
}

static int exports(int fd, const ElfW(Ehdr) * header, const char *name)
{
	size_t count = header->e_shnum;
	ElfW(Shdr) *sections =
		read_part(fd, header->e_shoff, count * sizeof(*sections));
	int found = 0;

	for (size_t i = 0; sections && i < count; i++) {
		const ElfW(Shdr) *symbols = &sections[i], *names;
		void *symbol_part, *name_part;

		if (symbols->sh_type != SHT_DYNSYM || symbols->sh_link >= count)
			continue;
		names = &sections[symbols->sh_link];
		symbol_part =
			read_part(fd, symbols->sh_offset, symbols->sh_size);
		name_part = read_part(fd, names->sh_offset, names->sh_size);
		if (symbol_part && name_part)
			found |= has_symbol(symbol_part,
				symbols->sh_size / sizeof(ElfW(Sym)), name_part,
				names->sh_size, name);
		free(symbol_part);
		free(name_part);
	}
	free(sections);
	return found;
}

/* It has what debuggers ask a loader for. */
static int is_loader(int fd, const ElfW(Ehdr) * header)
{
	return exports(fd, header, "_r_debug");
}

/* The header of this very program; the linker provides it. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static const char *examine_elf(
	int fd, const union head *head, struct target *target)
{
	const unsigned char *id = head->elf.e_ident;
	const char *reason;

	if (id[EI_CLASS] == ELFCLASS32)
		return "a 32-bit program, hakmem is for 64-bit ones";
	if (id[EI_CLASS] != ELFCLASS64 ||
		id[EI_DATA] != __ehdr_start.e_ident[EI_DATA] ||
		head->elf.e_machine != __ehdr_start.e_machine)
		return "a program for another architecture";
	reason = read_loader(fd, &head->elf, target);
	if (reason)
		return reason;
	if (!*target->loader && is_loader(fd, &head->elf))
		return "a dynamic loader, name the program itself";
	if (!*target->loader)
		return "statically linked, its malloc cannot be replaced";
	if (is_other_privilege(fd))
		return "set-id, the loader ignores LD_PRELOAD for it";
	if (strstr(target->loader, "/ld-musl-"))
		return "linked with musl, hakmem needs glibc";
	if (!is_glibc_loader(target->loader))
		return "linked with another C library, hakmem needs glibc";
	if (access(target->loader, X_OK) != 0)
		return "its dynamic loader is not installed";
	/* It stands before those of all libraries, preloaded ones too. */
	if (exports(fd, &head->elf, "malloc"))
		return "has a malloc of its own, which comes first";
	return NULL;
}

/* "#! /bin/sh -e" gives "/bin/sh"; 0 if the line is none. */
static int script_interpreter(char *line, char path[PATH_MAX])
{
	char *name = line + 2 + strspn(line + 2, " \t");

	name[strcspn(name, " \t\r\n")] = '\0';
	if (strncmp(line, "#!", 2) != 0 || !*name)
		return 0;
	strcpy(path, name);
	return 1;
}

static const char *examine(struct target *target, int depth)
{
	int fd = open(target->path, O_RDONLY | O_CLOEXEC);
	union head head = {.text = ""};
	const char *reason;
	ssize_t n;

	/* a program may be run that may not be read */
	if (fd < 0)
		return errno == EACCES ? "not readable, so not known to be fit"
				       : "asked for by a script, and not there";
	n = pread(fd, head.text, sizeof(head.text) - 1, 0);
	if (n >= (ssize_t)sizeof(head.elf) &&
		memcmp(head.elf.e_ident, ELFMAG, SELFMAG) == 0) {
		reason = examine_elf(fd, &head, target);
		close(fd);
		return reason;
	}
	close(fd);
	if (depth == 0)
		return "a script of too many scripts";
	/* what the kernel does not know, execvp(3) gives to the shell */
	if (!script_interpreter(head.text, target->path))
		strcpy(target->path, "/bin/sh");
	return examine(target, depth - 1);
}

const char *hak_target_examine(const char *path, struct target *target)
{
	*target = (struct target){.path = ""};
	snprintf(target->path, sizeof(target->path), "%s", path);
	return examine(target, SCRIPT_DEPTH);
}

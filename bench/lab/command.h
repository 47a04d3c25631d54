/*
 * What every subcommand of hakmem may use: exit statuses, messages and the
 * form of a subcommand.
 */
#ifndef HAK_COMMAND_H
#define HAK_COMMAND_H

/* A command that could be run gives its own status. */
enum {
	STATUS_FAILED = 125,	 /* hakmem itself, bad usage included */
	STATUS_CANNOT_RUN = 126, /* the command is there and cannot be run */
	STATUS_NOT_FOUND = 127,	 /* there is no such command */
};

/* The subcommand in hand, the second word of every message; NULL before. */
extern const char *hak_command_name;

/* "hakmem: <subcommand>: <what is wrong>: <value>" on standard error */
void hak_command_warn(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
/* the same, and the process ends with `status` */
_Noreturn void hak_command_fail(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* for getopt_long() == '?': says which option it was, and ends */
_Noreturn void hak_command_bad_option(char *const *argv);
/* ends with STATUS_FAILED if standard output could not be written */
void hak_command_flush(void);

/* Subcommands: argv[0] is their name. What they return is hakmem's status. */
int hak_bench_main(int argc, char **argv);
int hak_options_main(int argc, char **argv);
int hak_run_main(int argc, char **argv);
int hak_stat_main(int argc, char **argv);
int hak_ab_main(int argc, char **argv);
int hak_sweep_main(int argc, char **argv);

#endif

/*
 * fault.c: the handler of SIGSEGV that says whose guard page was touched.
 *
 * Whatever it finds, the signal then does what it does without a handler: the
 * access is repeated, and the process ends where it happened, for a debugger or
 * a core file to show.
 *
 * It runs in the midst of whatever the program did, so it waits for a lock only
 * for a while.  And it runs on the stack that the program was on, of which it
 * tells the frames: an alternate one may be too small for it, and what needs
 * that, an overflow of the stack, is none of its business.
 */
#define _GNU_SOURCE /* REG_RIP */

#include "fault.h"

#include "guard.h"
#include "heap.h"
#include "report.h"

#include <errno.h>
#include <signal.h>
#include <ucontext.h>

/* The instruction that did it, as a call whose return address is behind it. */
static struct hak_caller culprit(const ucontext_t *context)
{
#if defined(__x86_64__)
	const greg_t *regs = context->uc_mcontext.gregs;

	return (struct hak_caller){ (const void *)(regs[REG_RIP] + 1),
		(const void *)regs[REG_RBP] };
#elif defined(__aarch64__)
	const mcontext_t *regs = &context->uc_mcontext;

	return (struct hak_caller){ (const void *)(regs->pc + 1),
		(const void *)regs->regs[29] };
#else
	(void)context;
	return (struct hak_caller){ NULL, NULL };
#endif
}

static void tell(const siginfo_t *info, const ucontext_t *context)
{
	struct hak_finding finding = { .function = "check",
		.what = "access past the end", .pointer = info->si_addr,
		.by = "accessed by:" };

	finding.record = hak_records_search(hak_guard_is_page_of,
		(uintptr_t)info->si_addr, true);
	if (finding.record.block == 0)
		return;
	finding.caller = hak_heap_origin(culprit(context));
	hak_report(&finding);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	struct sigaction none = { .sa_handler = SIG_DFL };
	int saved = errno;

	if (info->si_code == SEGV_ACCERR)
		tell(info, context);
	sigaction(number, &none, NULL);
	/* One that was sent is not repeated by going on. */
	if (info->si_code <= 0)
		raise(number);
	errno = saved;
}

/* Unless the program has a handler, also one from just now. */
static void handle(void)
{
	struct sigaction ours = { .sa_sigaction = on_fault,
		.sa_flags = SA_SIGINFO };
	struct sigaction old;

	if (sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == SIG_DFL &&
	    sigaction(SIGSEGV, &ours, &old) == 0 && old.sa_handler != SIG_DFL)
		sigaction(SIGSEGV, &old, NULL);
}

void hak_fault_watch(void)
{
	static unsigned watching; /* relaxed */
	int saved = errno;

	if (LOAD_RELAXED(&watching) ||
	    __atomic_exchange_n(&watching, 1, __ATOMIC_RELAXED))
		return;
	handle();
	errno = saved;
}

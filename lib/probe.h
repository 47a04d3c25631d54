/*
 * probe.h: USDT probes, for tracers that attach to a running process.
 *
 * A probe is a nop in the code and a note that says where it stands and where
 * its arguments are.  They stand on cold paths alone.  hakmem(7) lists them;
 * each has two arguments, numbers or addresses.
 */
#ifndef HAK_PROBE_H
#define HAK_PROBE_H

#include "config.h"

#if HAKMEM_USDT
#include <sys/sdt.h>
#define HAK_PROBE(name, a, b) STAP_PROBE2(hakmem, name, a, b)
#else
#define HAK_PROBE(name, a, b) ((void)0)
#endif

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/signal/nesting_fit.h"

#include "control/signal/registry.h"
#include "control/unwind/go/go_runtime.h"
#include "handler/signal/nesting.h"

#include <signal.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51 /* linux/auxvec.h */
#endif

#define NESTING_GO_STACK 32768u  /* of a thread of Go (runtime/os_linux.go, mpreinit) */
#define NESTING_GO_HANDLER 8192u /* what Go's own handler may need below the last frame */
#define NESTING_FRAME 4096u      /* where the kernel does not say: without AMX no processor has more (kernels before 5.14) */
/* Besides the timers of our sessions on a thread: our process clock's, Go's for the thread, Go's for the process. */
#define NESTING_OTHERS 3u
#define NESTING_RED_ZONE 128u /* of x86_64, below what each frame interrupts */

/*
 * Only where the program itself is Go. Its threads have 32 KiB, threads that C has made there have no alternate stack as a
 * rule, and both profilers on is what Go services do. Elsewhere a Rust thread has 8 KiB (two frames of AVX-512 at most), and
 * nobody can tell what a thread has that the handler has not met. Another copy has timers of its own, whose number we do not
 * know. And only where a deleted timer takes its pending signal along (Linux 6.13): before, a thread that has blocked the
 * signal while sessions came and went gets one of each at once.
 *
 * The first look finds no stack known yet: a thread of Go's with ticks comes first.
 */
static bool nesting_timers_leave_nothing(void) {
  static int known; /* 1: yes, -1: no. Under the control lock */
  struct utsname system;
  unsigned major = 0, minor = 0;
  if (known == 0 && (uname(&system) != 0 || sscanf(system.release, "%u.%u", &major, &minor) != 2)) known = -1;
  if (known == 0) known = major > 6 || (major == 6 && minor >= 13) ? 1 : -1;
  return known > 0;
}

bool onstack_nesting_fits(int signal, uint32_t sessions) {
  const unsigned long told = getauxval(AT_MINSIGSTKSZ);
  const uint64_t frame = (told ? told : NESTING_FRAME) + NESTING_RED_ZONE;
  const uint64_t room = (sessions + NESTING_OTHERS) * frame + NESTING_GO_HANDLER;
  if (signal != SIGPROF || !onstack_go_runtime_is_program() || !nesting_timers_leave_nothing()) return false;
  onstack_store_relaxed(&onstack_nesting_state.watch, 1u);
  const uint64_t least = onstack_load_relaxed(&onstack_nesting_state.least);
  return room <= NESTING_GO_STACK && room <= least && !onstack_copies_running(signal);
}

void onstack_nesting_open(void) { onstack_store_relaxed(&onstack_nesting_state.open, 1u); }

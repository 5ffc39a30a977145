/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/nesting.h"

#include "platform/loader.h"
#include "sampler/signal/copy.h"
#include "sampler/modules/go_runtime.h"

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
/* Of a thread that is not Go's and was not met yet: Rust's standard library makes 8 KiB, and for it Go has no timer. */
#define NESTING_OTHER_STACK 8192u
#define NESTING_OTHER_HANDLER 1024u /* ours; with less room it counts a drop */
#define NESTING_OTHER_OTHERS 2u

/*
 * Nobody can tell what a thread has that the handler has not met: one of Rust's has 8 KiB, into which two frames of AVX-512
 * go, and the kernel ends the process where the third comes. So where an object in the process asks for alternate stacks,
 * 8 KiB must do. (Go makes its own without libc. In a program without a loader nobody can be asked.)
 */
typedef struct nesting_askers {
  onstack_loader_counts loaded;
  bool begun, any;
} nesting_askers;

static int nesting_visit(struct dl_phdr_info *info, size_t size, void *data) {
  nesting_askers *askers = data;
  const uint64_t dynamic = onstack_object_segment(info, PT_DYNAMIC);
  (void)size;
  if (!askers->begun && onstack_object_segment(info, PT_INTERP) == 0) askers->any = true; /* the program comes first */
  askers->begun = true;
  askers->loaded = onstack_loader_counts_in(info);
  if (dynamic && onstack_loaded_symbols_wants(dynamic, info->dlpi_addr, "sigaltstack")) askers->any = true;
  return 0;
}

bool onstack_nesting_others_ask(void) {
  static nesting_askers known;
  onstack_loader_counts now;
  if (known.begun && onstack_loader_count(&now) && onstack_loader_same(&now, &known.loaded)) return known.any;
  known = (nesting_askers){{0, 0}, false, false};
  return !onstack_loader_each(nesting_visit, &known) || known.any;
}

/*
 * Only where the program itself is Go. Its threads have 32 KiB, threads that C has made there have no alternate stack as a
 * rule, and both profilers on is what Go services do. Another copy has timers of its own, whose number we do not know. And
 * only where a deleted timer takes its pending signal along (Linux 6.13): before, a thread that has blocked the signal while
 * sessions came and went gets one of each at once.
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
  const uint64_t other_room = (sessions + NESTING_OTHER_OTHERS) * frame + NESTING_OTHER_HANDLER;
  return room <= NESTING_GO_STACK && room <= least && !onstack_copies_running(signal) &&
         (other_room <= NESTING_OTHER_STACK || !onstack_nesting_others_ask());
}

void onstack_nesting_open(void) { onstack_store_relaxed(&onstack_nesting_state.open, 1u); }

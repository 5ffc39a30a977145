/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the aarch64 programs share. They run under qemu-user and in a virtual machine without a test framework (Debian
 * has none for a foreign architecture without a foreign root), so a check prints one line, "ok <name>" or
 * "not ok <name>: <why>", which ci/test-aarch64.sh counts; "skip <name>: <why>" is neither.
 */
#ifndef ONSTACK_AARCH64_CHECK_H
#define ONSTACK_AARCH64_CHECK_H

#include "onstack/onstack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which build of a program runs: "nofp", "pac", ...; stands before each name. */
#ifndef VARIANT
#define VARIANT "c"
#endif

/* Prints the line and remembers a failure; `why` is printf's. Returns `good`. */
bool check(bool good, const char *name, const char *why, ...) __attribute__((format(printf, 3, 4)));
void skip(const char *name, const char *why);
int check_status(void); /* for the end of main: 0, or 1 after a failure */

/* ONSTACK_TEST_EMULATED=1: qemu-user, whose clocks and signals are rougher than a kernel's. */
bool is_emulated(void);

/* ---- samples ---- */

#define KEPT_SAMPLES 4000
#define KEPT_FRAMES 256

typedef struct kept_sample {
  int32_t tid;
  uint32_t weight, truncation, frame_count;
  uint64_t frames[KEPT_FRAMES];
} kept_sample;

extern kept_sample *kept;
extern size_t kept_count;
extern uint64_t kept_weight, kept_period_ns;

int keep(void *unused, const onstack_sample *sample); /* a sink */

/* Forgets what was kept and starts; a failure ends the program. */
onstack_session *start(uint32_t frequency, const char *unwinder);
/* Stops, checks that the accounting closes, frees. */
onstack_stats finish(onstack_session *session, const char *name);

double thread_cpu(void); /* CPU seconds of the calling thread */

/* ---- functions that tell their addresses ---- */

/* Puts a function into a section of its own, whose bounds `in_<name>` compares: a symbol's address has no end. */
#define OWN_SECTION(name)                                                                                                   \
  extern const char __start_text_##name[], __stop_text_##name[];                                                            \
  static inline bool in_##name(uint64_t pc) {                                                                               \
    return pc >= (uint64_t)(uintptr_t)__start_text_##name && pc < (uint64_t)(uintptr_t)__stop_text_##name;                  \
  }
#define IN_SECTION(name) __attribute__((noinline, noclone, section("text_" #name)))

#endif

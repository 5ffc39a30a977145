/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stacks of known shape, sampled by ticks. Built in several variants (ci/test-aarch64.sh): with and without frame
 * pointers, with pointer authentication, static. A sample counts as exact when each of its frames lies in the function
 * where it must lie.
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#ifndef UNWINDER
#define UNWINDER "rules"
#endif

OWN_SECTION(leaf)
OWN_SECTION(small)
OWN_SECTION(middle)
OWN_SECTION(outer)
OWN_SECTION(deep)
OWN_SECTION(on_signal)
OWN_SECTION(trapping)
OWN_SECTION(trapped)
OWN_SECTION(wild)

static volatile uint64_t sink;

/* No frame, and the caller only in LR. */
IN_SECTION(leaf) uint64_t leaf(uint64_t x) {
  for (int i = 0; i < 60000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
  return x;
}

/* Mostly prologue and epilogue. */
IN_SECTION(small) uint64_t small(uint64_t x, uint64_t (*next)(uint64_t, void *)) {
  uint64_t words[4] = {x, x + 1, x + 2, x + 3};
  return next ? next(x, words) : x + words[x & 3];
}

IN_SECTION(middle) double middle(double end) {
  while (thread_cpu() < end) {
    uint64_t x = sink;
    for (int i = 0; i < 400; i++) x = leaf(x) + small(x, NULL);
    sink = x;
  }
  return end;
}
IN_SECTION(outer) double outer(double seconds) { return middle(thread_cpu() + seconds) + 1; }

/* An end that is no guess. */
static bool is_rooted(const kept_sample *sample) { return sample->truncation == ONSTACK_TRUNCATED_NOT; }

/* A tick in the prologue or epilogue of middle's callees: their record is not linked, and the walk by records loses the
   caller, middle, as unwinder_frame_pointer.c says. 1 or 0: so many frames are missing. Rules lose none. */
static uint32_t without_record(const uint64_t *frames) {
  return strcmp(UNWINDER, "frame_pointer") == 0 && (in_leaf(frames[0]) || in_small(frames[0])) && in_outer(frames[1] - 1);
}

static void known_callers(const char *name) {
  size_t inside = 0, exact = 0, rooted = 0, leaves = 0, smalls = 0, unlinked = 0;
  onstack_session *session = start(250, UNWINDER);
  outer(1.2);
  onstack_stats stats = finish(session, name);
  for (size_t i = 0; i < kept_count; i++) {
    const uint64_t *frames = kept[i].frames;
    bool in_callee = in_leaf(frames[0]) || in_small(frames[0]);
    rooted += is_rooted(&kept[i]);
    if (!in_callee && !in_middle(frames[0])) continue;
    inside++;
    leaves += in_leaf(frames[0]);
    smalls += in_small(frames[0]);
    if (in_callee) frames++;
    const uint32_t lost = in_callee ? without_record(kept[i].frames) : 0;
    unlinked += lost;
    exact += (lost || in_middle(frames[0] - !!in_callee)) && in_outer(frames[1 - lost] - 1) && is_rooted(&kept[i]);
  }
  check(leaves > 50 && exact == inside && unlinked * 100 <= inside, name,
        "%zu of %zu exact (%zu in the leaf, %zu in the small one, %zu before or behind the frame record), reader %s", exact,
        inside, leaves, smalls, unlinked, stats.reader);
  check(rooted * 100 >= kept_count * 98, "ends in its root", "%zu of %zu", rooted, kept_count);
}

IN_SECTION(deep) uint64_t deep(int depth, double seconds) {
  volatile uint64_t here = (uint64_t)depth;
  if (depth == 0) return (uint64_t)outer(seconds) + here;
  return deep(depth - 1, seconds) + here;
}

static void recursion(void) {
  size_t inside = 0, exact = 0;
  uint64_t ticks = 0, unattributed = 0;
  /* Again where the machine underneath stood still for so long that the ticks belong to no stack. */
  for (int round = 0; round < 4 && inside <= 20; round++) {
    onstack_session *session = start(250, UNWINDER);
    deep(150, 0.5);
    onstack_stats stats = finish(session, "recursion");
    ticks += stats.ticks;
    unattributed += stats.unattributed;
    for (size_t i = 0; i < kept_count; i++) {
      uint32_t count = 0;
      if (!in_leaf(kept[i].frames[0])) continue;
      inside++;
      for (uint32_t f = 1; f < kept[i].frame_count && f < KEPT_FRAMES; f++) count += in_deep(kept[i].frames[f] - 1);
      exact += count == 151 && is_rooted(&kept[i]);
    }
  }
  check(inside > 20 && exact == inside, "deep recursion is whole", "%zu of %zu with 151 frames, %lu ticks, %lu unattributed",
        exact, inside, (unsigned long)ticks, (unsigned long)unattributed);
}

static void *run_thread(void *unused) {
  outer(0.5);
  return unused;
}

static void thread_roots(void) {
  pthread_t threads[2];
  size_t inside = 0, exact = 0, unlinked = 0;
  onstack_session *session = start(250, UNWINDER);
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run_thread, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  finish(session, "threads");
  for (size_t i = 0; i < kept_count; i++) {
    const uint64_t *frames = kept[i].frames;
    if (!in_leaf(frames[0])) continue;
    inside++;
    const uint32_t lost = without_record(frames);
    exact += is_rooted(&kept[i]) && kept[i].frame_count <= 7 && (lost || in_middle(frames[1] - 1)) &&
             in_outer(frames[2 - lost] - 1);
    unlinked += lost;
  }
  check(inside > 20 && exact == inside && unlinked * 100 <= inside, "threads end in their roots",
        "%zu of %zu, %zu before or behind the frame record", exact, inside, unlinked);
}

/* ---- a signal frame in the middle ---- */

IN_SECTION(on_signal) void on_signal(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  sink += (uint64_t)outer(0.5);
  ((ucontext_t *)context)->uc_mcontext.pc += 4; /* behind the trap */
}

/* Traps in a function without a frame: its caller is in the interrupted LR. */
IN_SECTION(trapping) uint64_t trapping(uint64_t x) {
  __asm__ volatile("udf #0");
  return x * 3;
}
IN_SECTION(trapped) uint64_t trapped(uint64_t x) { return trapping(x) + 1; }

static void signal_frame(bool on_stack) {
  static char stack[1 << 16];
  const char *name = on_stack ? "through a signal frame on an alternate stack" : "through a signal frame";
  struct sigaction action;
  size_t inside = 0, exact = 0;
  if (is_emulated()) {
    skip(name, "qemu-user has neither the kernel's trampoline nor process_vm_readv");
    return;
  }
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | (on_stack ? SA_ONSTACK : 0);
  sigaction(SIGILL, &action, NULL);
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL);
  onstack_session *session = start(250, UNWINDER);
  trapped(1);
  finish(session, "signal frame");
  sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
  signal(SIGILL, SIG_DFL);
  for (size_t i = 0; i < kept_count; i++) {
    const uint64_t *frames = kept[i].frames;
    if (!in_leaf(frames[0])) continue;
    inside++;
    /* leaf, middle, outer, on_signal, the trampoline, the trap (its PC plus 1), its caller */
    exact += kept[i].frame_count > 7 && in_on_signal(frames[3] - 1) && in_trapping(frames[5] - 1) &&
             in_trapped(frames[6] - 1) && is_rooted(&kept[i]);
  }
  check(inside > 20 && exact == inside, name, "%zu of %zu exact", exact, inside);
}

/* ---- x29 holds anything ---- */

/* The value stays in x29 while the callees run; the function's own CFI says where the caller's is saved. */
IN_SECTION(wild) double wild(uint64_t value, double seconds) {
#ifdef FRAME_POINTERS
  return outer(seconds) + (double)value; /* not reached: x29 is in use */
#else
  __asm__ volatile("mov x29, %0" : : "r"(value) : "x29");
  double result = outer(seconds);
  __asm__ volatile("" : : : "x29");
  return result + 1;
#endif
}

static void garbage_frame_pointer(const char *unwinder) {
  static const uint64_t values[] = {1, 8, 0x10008, ~(uint64_t)7, ~(uint64_t)0, (uint64_t)1 << 47, (uint64_t)1 << 55};
  bool rules = strcmp(unwinder, "rules") == 0;
  size_t inside = 0, exact = 0, invented = 0;
  for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
    onstack_session *session = start(250, unwinder);
    wild(values[v], 0.15);
    finish(session, "garbage x29");
    for (size_t i = 0; i < kept_count; i++) {
      const uint64_t *frames = kept[i].frames;
      if (!in_leaf(frames[0])) continue;
      inside++;
      exact += kept[i].frame_count > 4 && in_wild(frames[3] - 1) && is_rooted(&kept[i]);
      for (uint32_t f = 1; f < kept[i].frame_count; f++)
        invented += !rules && !in_middle(frames[f] - 1) && !in_outer(frames[f] - 1) && !in_wild(frames[f] - 1);
    }
  }
  if (rules)
    check(inside > 40 && exact == inside, "garbage in x29 does not matter to rules", "%zu of %zu exact", exact, inside);
  else
    check(inside > 40 && invented == 0, "garbage in x29 invents no frame", "%zu invented in %zu samples", invented, inside);
}

int main(void) {
  known_callers("known callers");
  recursion();
  thread_roots();
  if (strcmp(UNWINDER, "rules") == 0) {
    signal_frame(false);
    signal_frame(true);
  }
#ifdef FRAME_POINTERS
  (void)garbage_frame_pointer;
#else
  garbage_frame_pointer("rules");
  garbage_frame_pointer("frame_pointer");
#endif
  return check_status();
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/look.h"

#include "platform/process.h"
#include "sampler/modules/blocked.h"
#include "sampler/labels/labels.h"
#include "sampler/threads/timer.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/rules.h"
#include "sampler/unwind/walk.h"
#include "platform/loader.h"
#include "platform/sys.h"
#include "sampler/signal/own_threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

/*
 * The kernel tells the address behind the system call's instruction, where the thread will go on. That address may belong to
 * another line, an inlined function or the next function, so the walk begins at the instruction itself.
 */
static uint64_t look_running_pc(const onstack_task_call *call) {
  return call->number == -1 ? call->pc : call->pc - ONSTACK_ARCH_SYSCALL_BYTES;
}

/* By the kernel's copy: another thread may unmap that stack at any instant. */
static void look_walk(const onstack_slot *slot, const onstack_task_call *call, onstack_look *look) {
  onstack_memory memory;
  const uint64_t pc = look_running_pc(call);
  onstack_registers registers = {.pc = pc, .sp = call->sp, .fp = ONSTACK_UNKNOWN_REGISTER, .lr = ONSTACK_UNKNOWN_REGISTER};
  onstack_walk_prepare(&memory, slot->reader, slot->copy_works, NULL);
  onstack_walk_forget_ranges(&memory);
  memory.elsewhere = true;
  const onstack_walk walk = {.registers = &registers,
                             .memory = &memory,
                             .frames = look->frames,
                             .capacity = slot->ring.depth,
                             .unwound_by = look->unwound_by};
  /* Before the walk reads any of it; odd: of the one before. */
  look->stack.map_sequence = onstack_seqlock_begin(&onstack_modules.lock) & ~1u;
  /* As a handler is inside while it reads a table: it is not unmapped meanwhile. */
  onstack_traceback_enter();
  if (slot->copy_works && slot->unwinder->needs_rules) onstack_blocked_registers(pc, call->sp, &registers);
  const onstack_walk_result result = onstack_walk_run(slot->unwinder, &walk);
  onstack_traceback_leave();
  look->stack.count = result.frame_count;
  look->stack.truncation = result.truncation;
}

/*
 * The application's, of the other thread. Only that thread changes its entry, and a set that it refers to is not freed: but
 * whether it still does is known after the look, so nothing is loaded before that, the kernel copies.
 */
static void look_copy_labels(const onstack_slot *slot, uint32_t tid, onstack_look *look) {
  _Alignas(onstack_labels) char room_for_set[sizeof(onstack_labels) + ONSTACK_MAX_LABEL_BYTES];
  const onstack_labels *set = (const onstack_labels *)(const void *)room_for_set;
  const onstack_label_entry *entry = onstack_label_entry_find(tid);
  uint32_t room = slot->label_bytes;
  for (uint32_t place = 0; entry && place < ONSTACK_COUNT_OF(entry->sets); place++) {
    const onstack_labels *from = onstack_observe(&entry->sets[place]);
    if (!from) continue;
    const size_t got = onstack_process_memory_copy((uint64_t)(uintptr_t)from, room_for_set, sizeof(room_for_set));
    if (got < sizeof(*set) || set->bytes > got - offsetof(onstack_labels, text)) {
      look->stack.labels_cut = true;
      continue;
    }
    const uint32_t result = onstack_label_set_copy(set, look->labels + look->stack.label_bytes, room);
    look->stack.label_bytes += result & ~ONSTACK_LABELS_CUT;
    look->stack.labels_cut |= (result & ONSTACK_LABELS_CUT) != 0;
    room -= result & ~ONSTACK_LABELS_CUT;
  }
}

onstack_look_status onstack_look_at(const onstack_slot *slot, uint32_t tid, uint64_t cpu_ns, uint64_t *hints,
                                    onstack_look *look) {
  onstack_task_call call;
  uint64_t after_ns;
  switch (onstack_task_blocked_in(tid, &call)) {
  case ONSTACK_TASK_RUNS:
    return ONSTACK_LOOK_RUNS;
  case ONSTACK_TASK_REFUSED:
    return ONSTACK_LOOK_REFUSED;
  case ONSTACK_TASK_GONE:
    return ONSTACK_LOOK_GONE;
  case ONSTACK_TASK_BLOCKED:
    break;
  }
  if (call.pc == 0) return ONSTACK_LOOK_GONE; /* it ends */
  look->stack = (onstack_walked_stack){.frames = look->frames, .unwound_by = look->unwound_by, .labels = look->labels};
  look_walk(slot, &call, look);
  onstack_interpreted *interpreted = (onstack_interpreted *)(void *)look->interpreted;
  if (onstack_interpreted_copy_of(slot->interpreters, slot->interpreter_count, tid, slot->ring.depth, hints, interpreted))
    look->stack.interpreted = interpreted;
  look->stack.label_bytes = look->wait_label_bytes = onstack_wait_labels(tid, &call, look->labels);
  if (slot->label_bytes > 0) look_copy_labels(slot, tid, look);
  if (!onstack_timer_read_clock(onstack_timer_cpu_clock(tid), &after_ns)) return ONSTACK_LOOK_GONE;
  return after_ns == cpu_ns ? ONSTACK_LOOK_BLOCKED : ONSTACK_LOOK_MOVED;
}

#define LOOK_TEST_ROUNDS 1000 /* of a millisecond, on a machine that has no processor for the thread */
#define LOOK_TEST_STACK 65536u

/* The thread that is looked at: it waits for `word`. */
typedef struct look_test {
  uint32_t word;
  uint32_t tid;
  uint64_t sp; /* near it */
} look_test;

static void *look_test_wait(void *data) {
  look_test *test = data;
  onstack_own_enter();
  test->sp = (uint64_t)(uintptr_t)&test;
  onstack_publish(&test->tid, (uint32_t)onstack_sys_gettid());
  while (onstack_observe(&test->word) == 0) onstack_sys_futex_wait(&test->word, 0, NULL);
  onstack_own_leave();
  return NULL;
}

static bool look_test_is_true(const look_test *test, const onstack_task_call *call) {
  return call->number == SYS_futex && call->arguments[0] == (uint64_t)(uintptr_t)&test->word &&
         call->sp - (test->sp - LOOK_TEST_STACK) < 2 * (uint64_t)LOOK_TEST_STACK;
}

/* It is on its way into the call, and may wait for a processor before that. */
static bool look_test_look(const look_test *test) {
  for (int round = 0; round < LOOK_TEST_ROUNDS; round++) {
    const uint32_t tid = onstack_observe(&test->tid);
    onstack_task_call call;
    const onstack_task_call_status status = tid ? onstack_task_blocked_in(tid, &call) : ONSTACK_TASK_RUNS;
    if (status == ONSTACK_TASK_BLOCKED && look_test_is_true(test, &call)) return true;
    if (status == ONSTACK_TASK_REFUSED) return false;
    onstack_sys_sleep(1000000);
  }
  return false;
}

static bool look_test_run(void) {
  look_test test = {0, 0, 0};
  pthread_t thread;
  const onstack_kernel_sigset every = onstack_own_mask();
  onstack_kernel_sigset old;
  const bool blocked = onstack_sys_sigprocmask(SIG_SETMASK, &every, &old) == 0; /* refused: there is nothing to put back */
  onstack_own_expect(1);
  onstack_loader_enter();
  const bool made = pthread_create(&thread, NULL, look_test_wait, &test) == 0;
  onstack_loader_leave();
  if (!made) onstack_own_expect(-1);
  if (blocked) onstack_sys_sigprocmask(SIG_SETMASK, &old, NULL);
  if (!made) return false;
  const bool works = look_test_look(&test);
  onstack_publish(&test.word, 1u);
  onstack_sys_futex_wake(&test.word);
  pthread_join(thread, NULL);
  /* It is in the list of threads for a moment yet, and none of ours any more. */
  for (int round = 0; round < LOOK_TEST_ROUNDS && !onstack_task_is_gone(test.tid); round++) sched_yield();
  return works;
}

bool onstack_look_works(void) {
  static bool works; /* a child of fork keeps it: there nothing waits */
  if (!works) works = look_test_run();
  return works;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The handler's use of the signal stack, on a painted alternate stack: what an empty handler leaves untouched minus what
 * ours does. Promised: less than 1 KiB, and the unwinders' stack_bytes and the room check hold.
 */
#include "sampler/api/options.h"
#include "sampler/unwind/unwinder.h"
#include "support.h"
#include "onstack/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

TestSuite(stack_use, .init = t_setup);

#define PAINT 0xa5
#define STACK ((size_t)64 << 10)

typedef struct painted {
  uint8_t *memory;
  size_t bytes;
} painted;

static painted paint(size_t bytes) {
  painted stack = {mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes};
  cr_assert_neq(stack.memory, MAP_FAILED);
  memset(stack.memory, PAINT, STACK);
  stack_t alternate = {.ss_sp = stack.memory, .ss_size = bytes};
  cr_assert_eq(sigaltstack(&alternate, NULL), 0);
  return stack;
}

static size_t used(const painted *stack) {
  size_t clean = 0;
  while (clean < stack->bytes && stack->memory[clean] == PAINT) clean++;
  return stack->bytes - clean;
}

static void empty_handler(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  (void)context;
}

/* Live vector registers make the kernel's frame as large as it gets; the same for both sides of the comparison. */
__attribute__((noinline)) static void burn_deep(int depth, double seconds) {
  if (depth == 0)
    t_burn(seconds);
  else
    burn_deep(depth - 1, seconds);
  __asm__ volatile("");
}

static void *fresh_empty(void *data) {
  painted stack = paint(STACK);
  raise(SIGPROF);
  t_burn(0.05);
  *(size_t *)data = used(&stack);
  return NULL;
}

/* What the kernel's frame and an empty handler take, by the same kind of signal: a CPU timer of the thread. */
static size_t baseline(void) {
  struct sigaction action = {.sa_sigaction = empty_handler, .sa_flags = SA_SIGINFO | SA_ONSTACK}, before;
  pthread_t thread;
  size_t bytes = 0;
  sigfillset(&action.sa_mask);
  sigaction(SIGPROF, &action, &before);
  pthread_create(&thread, NULL, fresh_empty, &bytes);
  pthread_join(thread, NULL);
  sigaction(SIGPROF, &before, NULL);
  cr_assert_gt(bytes, 500);
  return bytes;
}

typedef struct measured {
  const char *unwinder;
  const onstack_unwinder *custom;
  int depth;
  bool late; /* the thread begins after the session: the process tick finds and arms it */
  size_t bytes;
  pthread_barrier_t barrier;
} measured;

static void *burn_painted(void *data) {
  measured *m = data;
  onstack_labels *set;
  cr_assert_eq(onstack_labels_new(&(onstack_label){"task", "with labels"}, 1, &set), 0);
  onstack_thread_labels_swap(ONSTACK_LABELS_TASK, set, NULL);
  onstack_thread_label_set("thread-own", "label");
  painted stack = paint(STACK);
  pthread_barrier_wait(&m->barrier);
  pthread_barrier_wait(&m->barrier);
  burn_deep(m->depth, 0.4);
  m->bytes = used(&stack);
  return NULL;
}

/* Bytes beyond an empty handler's. */
static size_t measure(measured *m) {
  pthread_t thread;
  size_t empty = baseline();
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = NULL;
  options.label_bytes = 24; /* too few: the longest way through a copy */
  options.unwinder = m->unwinder;
  options.custom_unwinder = m->custom;
  pthread_barrier_init(&m->barrier, NULL, 2);
  if (m->late) session = t_start(&options);
  pthread_create(&thread, NULL, burn_painted, m);
  pthread_barrier_wait(&m->barrier);
  if (!m->late) session = t_start(&options);
  pthread_barrier_wait(&m->barrier);
  pthread_join(thread, NULL);
  onstack_stats stats = t_finish(session);
  cr_assert_gt(stats.samples, 20, "%lu samples", stats.samples);
  cr_assert_gt(m->bytes, empty, "the handler ran on the painted stack");
  size_t beyond = m->bytes - empty;
  fprintf(stderr, "stack use: %-14s depth %3d %-8s %zu bytes (kernel frame and empty handler: %zu)\n",
          m->custom ? "custom" : m->unwinder, m->depth, m->late ? "new" : "old", beyond, empty);
  return beyond;
}

static void within(measured m, size_t promised) {
  size_t bytes = measure(&m);
  cr_assert_leq(bytes, 1024, "promised: under 1 KiB; used: %zu", bytes);
  cr_assert_leq(bytes, promised, "the room check asks for %zu, used: %zu", promised, bytes);
}

static size_t asked_for(const char *unwinder) {
  onstack_settings settings;
  const char *fault;
  onstack_options options = t_options(0, NULL, NULL);
  options.unwinder = unwinder;
  cr_assert_eq(onstack_settings_make(&options, &settings, &fault), 0);
  return settings.stack_bytes;
}

Test(stack_use, frame_pointer_deep) {
  within((measured){.unwinder = "frame_pointer", .depth = 150}, asked_for("frame_pointer"));
}
Test(stack_use, frame_pointer_on_a_new_thread) {
  within((measured){.unwinder = "frame_pointer", .depth = 100, .late = true}, asked_for("frame_pointer"));
}
Test(stack_use, rules_deep) { within((measured){.unwinder = "rules", .depth = 150}, asked_for("rules")); }
Test(stack_use, rules_on_a_new_thread) {
  within((measured){.unwinder = "rules", .depth = 100, .late = true}, asked_for("rules"));
}
Test(stack_use, pc_only) { within((measured){.unwinder = "pc_only"}, asked_for("pc_only")); }
Test(stack_use, pc_only_on_a_new_thread) { within((measured){.unwinder = "pc_only", .late = true}, asked_for("pc_only")); }

static onstack_walk_result small_walk(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                      uint32_t capacity) {
  (void)data;
  (void)ucontext;
  (void)capacity;
  frames[0] = registers->pc;
  return (onstack_walk_result){1, ONSTACK_TRUNCATED_UNWINDER};
}

Test(stack_use, what_is_ours_around_a_users_unwinder) {
  onstack_unwinder small = {.size = sizeof(small), .name = "small", .stack_bytes = 64, .walk = small_walk};
  onstack_settings settings;
  const char *fault;
  onstack_options options = t_options(0, NULL, NULL);
  options.custom_unwinder = &small;
  cr_assert_eq(onstack_settings_make(&options, &settings, &fault), 0);
  within((measured){.custom = &small}, settings.stack_bytes);
}

/* The room check itself: it must hold at the place where it is made, so what a user's unwinder finds free below it is
   at least what it asked for. */
static size_t least_room;
static onstack_walk_result measuring_walk(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                          uint32_t capacity) {
  const ucontext_t *context = ucontext;
  uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  uint64_t low = (uint64_t)(uintptr_t)context->uc_stack.ss_sp;
  (void)data;
  (void)capacity;
  if (here - low < context->uc_stack.ss_size && here - low < least_room) least_room = here - low;
  frames[0] = registers->pc;
  return (onstack_walk_result){1, ONSTACK_TRUNCATED_UNWINDER};
}

static void *burn_on_stack_of(void *data) {
  paint(*(size_t *)data);
  t_burn(0.06);
  return NULL;
}

Test(stack_use, the_room_that_was_asked_for_is_there) {
  onstack_unwinder walker = {.size = sizeof(walker), .name = "room", .stack_bytes = 700, .walk = measuring_walk};
  onstack_options options = t_options(1000, NULL, NULL);
  options.custom_unwinder = &walker;
  least_room = SIZE_MAX;
  size_t empty = baseline();
  onstack_session *session = t_start(&options);
  for (size_t bytes = t_alternate_bytes(empty + 200); bytes < empty + 2600; bytes += 100) {
    pthread_t thread;
    pthread_create(&thread, NULL, burn_on_stack_of, &bytes);
    pthread_join(thread, NULL);
  }
  onstack_stats stats = t_finish(session);
  cr_assert_gt(stats.dropped_no_stack, 0, "the smallest ones are too small");
  cr_assert_neq(least_room, SIZE_MAX, "and the largest are not");
  cr_assert_geq(least_room, 700, "an unwinder that asked for 700 bytes was called with %zu", least_room);
  fprintf(stderr, "stack use: an unwinder that asked for 700 bytes had at least %zu\n", least_room);
}

/* A stack that holds the kernel's frame and a little more: no sample, counted, nothing below it written. */
typedef struct tiny {
  size_t bytes;
  uint32_t forward; /* signals of others that the host's handler is to get meanwhile */
  bool dirty;
} tiny;

static uint32_t handled; /* atomic */
static void counting_handler(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  (void)context;
  __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
}

static void *burn_on_tiny(void *data) {
  tiny *t = data;
  /* The alternate stack is the upper part of a painted region; the part below must stay as it is. */
  uint8_t *region = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(region, PAINT, STACK);
  stack_t alternate = {.ss_sp = region + STACK - t->bytes, .ss_size = t->bytes};
  if (sigaltstack(&alternate, NULL) != 0) return (void *)"sigaltstack";
  t_burn(0.4);
  /* Each is sent once the one before is handled: of two pending ones the kernel keeps one. */
  while (__atomic_load_n(&handled, __ATOMIC_RELAXED) < t->forward) t_burn(0.001);
  for (size_t i = 0; i < STACK - t->bytes; i++)
    if (region[i] != PAINT) t->dirty = true;
  return NULL;
}

static onstack_stats on_tiny_stack(size_t more, uint32_t forward) {
  tiny t = {.bytes = t_alternate_bytes(baseline() + more), .forward = forward};
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  pthread_t thread;
  void *error;
  pthread_create(&thread, NULL, burn_on_tiny, &t);
  for (uint32_t i = 0; i < forward; i++) {
    t_sleep(0.02);
    pthread_kill(thread, SIGPROF);
    while (__atomic_load_n(&handled, __ATOMIC_RELAXED) <= i) t_sleep(0.001);
  }
  pthread_join(thread, &error);
  cr_assert_null(error, "%s", (char *)error);
  cr_assert_not(t.dirty, "the handler wrote below the alternate stack");
  return t_finish(session);
}

Test(stack_use, a_tiny_alternate_stack_costs_samples_and_nothing_else) {
  onstack_stats stats = on_tiny_stack(300, 0);
  cr_assert_gt(stats.dropped_no_stack, 200, "%lu", stats.dropped_no_stack);
}

Test(stack_use, the_forward_path_fits_a_tiny_stack) {
  struct sigaction action = {.sa_sigaction = counting_handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGPROF, &action, NULL);
  onstack_stats stats = on_tiny_stack(300, 10);
  cr_assert_eq(stats.forwarded, 10, "%lu", stats.forwarded);
}

Test(stack_use, enough_room_is_used) {
  onstack_stats stats = on_tiny_stack(asked_for(NULL) + 512, 0);
  cr_assert_eq(stats.dropped_no_stack, 0);
  cr_assert_gt(stats.recorded, 200);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Heap sessions of children, of threads that are late, and the table of blocks under threads that meet in it. */
#include "sampler/source/live.h"
#include "support.h"
#include "onstack/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(heap_apart, .init = t_setup);

static int count(void *data, const onstack_sample *sample) {
  *(uint32_t *)data += sample->kind == ONSTACK_KIND_ALLOCATION;
  return 0;
}

static int start(onstack_session **session, uint32_t interval, uint32_t *samples) {
  onstack_options options;
  onstack_options_init(&options, sizeof(options));
  options.clock = ONSTACK_CLOCK_HEAP;
  options.heap_interval = interval;
  options.sink = count;
  options.sink_data = samples;
  return onstack_session_start(&options, session);
}

static void *block_at(uint64_t number) { return (void *)(uintptr_t)(0x100000000000u + number * 0x100000); }

/* ---- chance ---- */

static bool child_samples(size_t size) {
  onstack_session *session;
  uint32_t samples = 0;
  const pid_t child = fork();
  if (child == 0) {
    if (start(&session, 512 << 10, &samples) != 0) _exit(2);
    onstack_heap_allocated(block_at(1), size);
    _exit(onstack_session_stop(session) == 0 ? (int)samples : 2);
  }
  int status = 0;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_assert(WIFEXITED(status) && WEXITSTATUS(status) < 2, "%x", (unsigned)status);
  return WEXITSTATUS(status) == 1;
}

/* Each is sampled with a chance of 1 - exp(-100,000 / 524,288): 0.174. */
Test(heap_apart, children_of_fork_draw_on_their_own) {
  enum { CHILDREN = 150 };
  onstack_session *session;
  uint32_t samples = 0, sampled = 0;
  cr_assert_eq(start(&session, 512 << 10, &samples), 0);
  onstack_heap_allocated(block_at(0), 1); /* the thread has drawn */
  for (int i = 0; i < CHILDREN; i++) sampled += child_samples(100000);
  t_finish(session);
  fprintf(stderr, "heap: %u of %d children\n", sampled, CHILDREN);
  cr_assert(sampled > 4 && sampled < 60, "%u", sampled);
}

/* ---- late threads ---- */

Test(heap_apart, a_block_that_was_due_in_a_session_that_is_over_is_not_the_next_ones) {
  onstack_session *session;
  uint32_t samples = 0;
  cr_assert_eq(start(&session, 1, &samples), 0);
  onstack_heap_distance(); /* as an allocator does when a block is due */
  t_finish(session);
  cr_assert_eq(start(&session, 512 << 10, &samples), 0);
  onstack_heap_take(block_at(0), 64);
  t_finish(session);
  cr_assert_eq(samples, 0);
}

static int collect_tid(void *data, const onstack_sample *sample) {
  *(int32_t *)data = sample->tid;
  return 0;
}

/* Called inside a sample. In a child of vfork: as a kill that comes at this instant. */
static onstack_walk_result walk_or_be_killed(void *parent, const onstack_registers *registers, void *ucontext,
                                             uint64_t *frames, uint32_t capacity) {
  (void)ucontext, (void)capacity;
  if (onstack_sys_getpid() != *(const int32_t *)parent) kill(getpid(), SIGKILL);
  frames[0] = registers->pc;
  return (onstack_walk_result){1, ONSTACK_TRUNCATED_UNWINDER};
}

typedef struct vforks {
  int32_t tid, status;
} vforks;

static void *allocates_in_a_child_of_vfork(void *data) {
  vforks *self = data;
  const pid_t child = vfork();
  if (child == 0) {
    onstack_heap_allocated(block_at(0), 64);
    onstack_heap_freed(block_at(0));
    _exit(0);
  }
  self->status = t_wait(child);
  onstack_heap_allocated(block_at(1), 64);
  self->tid = onstack_sys_gettid();
  return NULL;
}

/* It has its parent's memory: if it ended inside a sample, the session's end would wait for it for ever. */
Test(heap_apart, a_child_of_vfork_is_not_sampled) {
  int32_t sampled = 0, parent = onstack_sys_getpid();
  const onstack_unwinder walker = {.size = sizeof(walker), .name = "killed", .walk = walk_or_be_killed, .data = &parent};
  onstack_session *session;
  onstack_options options;
  pthread_t thread;
  vforks seen = {0, -1};
  onstack_options_init(&options, sizeof(options));
  options.clock = ONSTACK_CLOCK_HEAP;
  options.heap_interval = 1;
  options.custom_unwinder = &walker;
  options.sink = collect_tid;
  options.sink_data = &sampled;
  cr_assert_eq(onstack_session_start(&options, &session), 0);
  pthread_create(&thread, NULL, allocates_in_a_child_of_vfork, &seen);
  pthread_join(thread, NULL);
  t_deadline(10);
  t_finish(session);
  cr_assert_eq(seen.status, 0, "the child was sampled: %d", seen.status);
  cr_assert_eq(sampled, seen.tid, "the last sample is the thread's own");
}

/* ---- the table ---- */

enum { CROWD = 6, PLACES = 4096 };
static uint64_t crowded[CROWD];
static uint32_t over, missed;

/* Its own block comes and goes; nobody else ends it. */
static void *comes_and_goes(void *data) {
  const uint64_t address = *(const uint64_t *)data;
  const onstack_live_note note = {0, 1, 1, 1};
  while (!onstack_observe(&over)) {
    const uint32_t place = onstack_live_claim(address);
    if (place == ONSTACK_LIVE_NONE) continue;
    onstack_live_begin(place, &note);
    if (!onstack_live_end(address)) onstack_add_relaxed(&missed, 1u);
    for (int i = 0; i < 20; i++) /* it may still stand in its place, or in that of the next one */
      if (onstack_live_end(address)) onstack_add_relaxed(&missed, 1u);
  }
  return NULL;
}

static void *tells(void *data) {
  while (!onstack_observe(&over))
    for (uint32_t place = 0; (place = onstack_live_next_freed(place, UINT64_MAX)) != ONSTACK_LIVE_NONE; place++)
      onstack_live_release(place);
  return data;
}

Test(heap_apart, nobody_ends_another_ones_block) {
  pthread_t threads[CROWD + 1];
  cr_assert_eq(onstack_live_make(PLACES / 2), 0);
  uint32_t found = 0; /* of one window: they take each other's places */
  for (uint64_t address = 0x100000000000u; found < CROWD; address += 4096)
    if (((uint32_t)onstack_draw_mix(address) & (PLACES - 1) & ~(ONSTACK_LIVE_WINDOW - 1)) == 0) crowded[found++] = address;
  for (uint32_t i = 0; i < CROWD; i++) pthread_create(&threads[i], NULL, comes_and_goes, &crowded[i]);
  pthread_create(&threads[CROWD], NULL, tells, NULL);
  t_sleep(0.5 * t_repeat());
  onstack_publish(&over, 1u);
  for (uint32_t i = 0; i <= CROWD; i++) pthread_join(threads[i], NULL);
  cr_assert_eq(missed, 0);
  onstack_live_drop();
}

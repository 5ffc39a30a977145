/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread that gets the kernel id of one that has ended: it is another thread, with its own name, and all its ticks. */
#include "support.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(reuse, .init = t_setup);

typedef struct life {
  const char *name;
  double seconds; /* to burn */
  int32_t wanted; /* 0: any id */
  int32_t tid;
  double cpu;
} life;

static void *live(void *data) {
  life *self = data;
  self->tid = onstack_sys_gettid();
  if (self->wanted && self->tid != self->wanted) return NULL;
  pthread_setname_np(pthread_self(), self->name);
  t_burn(self->seconds);
  self->cpu = t_thread_cpu();
  return NULL;
}

/* The kernel's next id is the one after this (proc(5), ns_last_pid). False: not here. */
static bool ask_for(int32_t tid) {
  char text[16];
  int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  int length = snprintf(text, sizeof(text), "%d", tid - 1);
  bool good = write(file, text, (size_t)length) == length;
  close(file);
  return good;
}

/* Ticks of that id with a name that belongs to another life than the one of their time. */
static uint64_t misnamed(const t_collector *collector, int32_t tid, const char *first, const char *second, uint64_t from) {
  uint64_t weight = 0;
  for (size_t i = 0; i < collector->count; i++) {
    const t_sample *sample = &collector->samples[i];
    if (sample->tid == tid && strcmp(sample->name, sample->time_ns < from ? second : first) == 0) weight += sample->weight;
  }
  return weight;
}

static uint64_t now_ns(void) { return (uint64_t)(t_now() * 1e9); }

static void run(life *self) {
  pthread_t thread;
  cr_assert_eq(pthread_create(&thread, NULL, live, self), 0);
  pthread_join(thread, NULL);
}

/* Before anybody has noticed that the first one is dead: the new one's timer is that of the old one until housekeeping, once a
   second, has found out. */
Test(reuse, of_an_id_at_once_on_the_silent_clock) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(200, t_collect, collector);
  onstack_session *session;
  options.clock = ONSTACK_CLOCK_WALL;
  if (!ask_for(onstack_sys_gettid() + 1) || onstack_session_start(&options, &session) < 0) cr_skip("not possible here");
  life first = {.name = "first-life", .seconds = 0.5}, second = {.name = "second-life", .seconds = 3.0};
  run(&first);
  second.wanted = first.tid;
  for (int tries = 0; tries < 1000 && second.cpu == 0; tries++) {
    cr_assert(ask_for(first.tid));
    run(&second);
  }
  cr_assert_gt(second.cpu, 0, "the id never came again");
  t_finish(session);
  const double all = t_seconds_of(collector, first.tid), burned = first.cpu + second.cpu;
  cr_assert_gt(all, burned - 2.2, "%.3f of %.3f s", all, burned);
}

static void an_id_is_used_again(onstack_clock clock) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(200, t_collect, collector);
  options.clock = clock;
  if (!ask_for(onstack_sys_gettid() + 1)) {
    printf("SKIPPED: /proc/sys/kernel/ns_last_pid cannot be written here\n");
    return;
  }
  onstack_session *session = t_start(&options);
  life first = {.name = "first-life", .seconds = 0.3}, second = {.name = "second-life", .seconds = 0.6};
  run(&first);
  second.wanted = first.tid;
  t_burn(1.0); /* ids come again after tens of thousands of others at the earliest: dead threads have been noticed by then */
  uint64_t from = now_ns();
  for (int tries = 0; tries < 1000 && second.cpu == 0; tries++) { /* another process may have taken the id */
    cr_assert(ask_for(first.tid));
    run(&second);
  }
  cr_assert_gt(second.cpu, 0, "the id never came again");
  t_finish(session);
  double all = t_seconds_of(collector, first.tid), burned = first.cpu + second.cpu;
  cr_assert_eq(misnamed(collector, first.tid, first.name, second.name, from), 0);
  /* On the wall clock a thread that waits for a processor has ticks as well. */
  cr_assert(all > burned * 0.85 && (clock == ONSTACK_CLOCK_WALL_SIGNAL || all < burned * 1.1), "%.3f of %.3f s", all,
            burned);
}

Test(reuse, of_an_id_on_the_cpu_clock) { an_id_is_used_again(ONSTACK_CLOCK_CPU); }
Test(reuse, of_an_id_on_the_wall_clock) { an_id_is_used_again(ONSTACK_CLOCK_WALL_SIGNAL); }

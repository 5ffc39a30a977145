/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "subject.h"

#include "allocate.h"
#include "filter.h"
#include "onstack/heap.h"
#include "onstack/onstack.h"
#include "onstack/profile.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SUBJECT_TICKS 6     /* what is enough to have sampled */
#define SUBJECT_SECONDS 8.0 /* for that many, which take 0.01 on an idle machine */

static plan *subject_plan;
static int32_t subject_main; /* its thread id: no call is needed to say so */
static volatile int subject_over, subject_began;
static struct sigaction subject_found;
static uint64_t subject_mask;

static void complain(const char *what, long value, const char *text) {
  plan *plan = subject_plan;
  if (plan->complaint[0] == 0) snprintf(plan->complaint, sizeof(plan->complaint), "%s: %ld %s", what, value, text);
}

/* A loop, not a sleep: each call may be the one that fails. */
static void subject_wait(int phase) {
  subject_plan->phase = phase;
  while (subject_plan->go != phase) continue;
}

/* Code of the host's between these two may not fail, or the test would check itself. */
static void host_begins(void) { subject_plan->host = subject_main; }
static void host_ends(void) { subject_plan->host = 0; }

/* From the vDSO: a filter that refuses the host's own clock is not what is tried. */
static double subject_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Stands for an allocator with few addresses: some are given out again, which nobody said to be free. */
static void subject_allocates(void) {
  static uintptr_t next;
  const uintptr_t number = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
  void *address = (void *)((number % 500 + 1) * 4096);
  onstack_heap_allocated(address, 100);
  if (number % 3 == 0) onstack_heap_freed(address);
  if (number % 3 == 1) onstack_heap_moved(address, (char *)address + 16, 200);
}

static void burn(void) {
  for (volatile int i = 0; i < 200000; i++) continue;
  if (subject_plan->heap) subject_allocates();
}

static void *subject_works(void *data) {
  const struct timespec moment = {0, 2000000};
  subject_began = 1;
  while (!subject_over) {
    burn();
    if (subject_plan->ticks_by == ONSTACK_CLOCK_WALL) nanosleep(&moment, NULL); /* somebody to be looked at */
  }
  return data;
}

/* One that is born while a session runs: the handler itself finds it and makes its timer. */
static void *subject_is_born(void *data) {
  for (int i = 0; i < 40; i++) burn();
  return data;
}

static void subject_owns(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  (void)context;
}

static int subject_takes(void *data, const void *bytes, size_t length) {
  (void)bytes;
  *(size_t *)data += length;
  return 0;
}

static void check_named(const char *what, int result) {
  const char *text = onstack_strerror(result);
  bool named = (result < 0 && result > -4096) || (result <= ONSTACK_E_FREQUENCY && result >= ONSTACK_E_KINDS);
  if (!named || !text || strlen(text) < 10) complain(what, result, "is no named error");
}

static void check_accounting(const onstack_stats *stats) {
  uint64_t sum = stats->recorded + stats->unattributed + stats->dropped_ring_full + stats->dropped_no_stack +
                 stats->dropped_unwinder + stats->dropped_stopping;
  if (sum != stats->ticks) complain("the accounting does not close; ticks minus the rest", (long)(stats->ticks - sum), "");
  if (stats->samples != stats->delivered) complain("samples not handed over", (long)(stats->samples - stats->delivered), "");
}

static uint64_t subject_ticks(onstack_session *session) {
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_session_stats(session, &stats);
  return stats.ticks;
}

static void subject_samples(onstack_session *session, uint64_t enough) {
  pthread_t born;
  double end = subject_seconds() + SUBJECT_SECONDS;
  host_begins();
  bool made = pthread_create(&born, NULL, subject_is_born, NULL) == 0;
  host_ends();
  do {
    burn();
    if (subject_plan->polled) onstack_session_poll(session, 0);
  } while (subject_ticks(session) < enough && subject_seconds() < end);
  host_begins();
  if (made) pthread_join(born, NULL);
  host_ends();
}

static void subject_writes(onstack_profile *profile) {
  size_t bytes = 0;
  subject_plan->phase = PLAN_WRITE;
  int result = onstack_profile_write_pprof(profile, NULL, subject_takes, &bytes);
  if (result < 0) check_named("write_pprof", result);
  if (result == 0 && bytes == 0) complain("an empty profile", 0, "");
  bytes = 0;
  result = onstack_profile_write_folded(profile, NULL, subject_takes, &bytes);
  if (result < 0) check_named("write_folded", result);
}

static void subject_ends(onstack_session *session, onstack_stats *stats) {
  subject_plan->phase = PLAN_STOP;
  int result = onstack_session_stop(session);
  if (result != 0) complain("stop", result, onstack_strerror(result));
  onstack_session_stats(session, stats);
  check_accounting(stats);
  subject_plan->phase = PLAN_FREE;
  result = onstack_session_free(session);
  if (result != 0) complain("free", result, onstack_strerror(result));
}

static void subject_refuse(void) {
  plan *plan = subject_plan;
  int result = plan->denied ? filter_deny(plan->call, plan->error) : 0;
  for (int i = 0; i < 2 && result == 0; i++)
    if (plan->also[i]) result = filter_deny(plan->also[i], EPERM);
  if (result < 0) snprintf(plan->skipped, sizeof(plan->skipped), "no seccomp filter: %s", strerror(-result));
}

/* What ticks goes on: a session that has seen some gets more, or says at its end that they were due. */
static void subject_goes_on(onstack_session *session) {
  subject_plan->at_filter = subject_ticks(session);
  subject_refuse();
  subject_samples(session, subject_plan->at_filter + SUBJECT_TICKS);
}

/* From the first call of the library to its last. */
static onstack_stats subject_session(void) {
  plan *plan = subject_plan;
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_options options;
  onstack_profile *profile = NULL;
  onstack_session *session = NULL;
  onstack_options_init(&options, sizeof(options));
  options.frequency = plan->heap ? 0 : 1000;
  options.clock = plan->heap ? ONSTACK_CLOCK_HEAP : plan->ticks_by ? plan->ticks_by : ONSTACK_CLOCK_CPU;
  options.heap_interval = plan->heap;
  options.threads = plan->polled ? ONSTACK_OFF : ONSTACK_DEFAULT;
  int result = onstack_profile_new(NULL, &profile);
  if (result < 0) check_named("profile_new", result);
  options.sink = profile ? onstack_profile_sink : NULL;
  options.sink_data = profile;
  plan->result = onstack_session_start(&options, &session);
  plan->at_start = plan->injected;
  if (plan->result < 0) {
    check_named("start", plan->result);
    if (session) complain("a failed start left a handle", plan->result, "");
  } else {
    plan->phase = PLAN_SAMPLING;
    subject_samples(session, SUBJECT_TICKS);
    if (plan->midway) subject_goes_on(session);
    if (profile) subject_writes(profile);
    subject_ends(session, &stats);
  }
  onstack_profile_free(profile);
  return stats;
}

/* The exact action, restorer and all; by the kernel's call, which is not failing any more. */
static void check_action(void) {
  struct sigaction now;
  if (subject_plan->call == SYS_rt_sigaction && subject_plan->injected) return; /* who could put it back? */
  if (sigaction(SIGPROF, NULL, &now) != 0) return;
  if (now.sa_sigaction != subject_found.sa_sigaction || now.sa_flags != subject_found.sa_flags ||
      memcmp(&now.sa_mask, &subject_found.sa_mask, 8) != 0)
    complain("the action that start found is not back; handler", (long)(uintptr_t)now.sa_sigaction, "");
}

/* A mask that the kernel does not put back stays: all is blocked, save what nobody can block, or libc does not (32 and 33). */
static void check_mask(void) {
  const uint64_t never = (uint64_t)1 << (SIGKILL - 1) | (uint64_t)1 << (SIGSTOP - 1) | (uint64_t)3 << 31;
  uint64_t now = subject_mask;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &now, sizeof(now));
  if (now != subject_mask && (now | never) != ~(uint64_t)0) complain("a mask that nobody asked for", (long)now, "");
}

/* What is kept for the next session is kept once. More rounds than there are slots. */
static void subject_rounds(void) {
  plan *plan = subject_plan;
  subject_session();
  long before = allocate_live();
  for (int i = 0; i < plan->rounds; i++) {
    plan->seen = 0;
    plan->armed = 1;
    subject_session();
    plan->armed = 0;
    if (plan->result == ONSTACK_E_SESSIONS) complain("slots were lost; start", plan->result, "all are in use");
  }
  long left = allocate_live() - before;
  if (left >= plan->rounds) complain("allocations left", left, "");
}

static void subject_prepare(int socket) {
  plan *plan = subject_plan;
  /* Until the checker has a call in its hands a tick takes it back (seccomp_unotify(2)), also one that never ends so in a
     kernel's own hands: then it is to be made again, not to end with EINTR. */
  struct sigaction owner = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
  static pthread_t worker;
  owner.sa_sigaction = subject_owns;
  sigaddset(&owner.sa_mask, SIGUSR2);
  if (plan->owner) sigaction(SIGPROF, &owner, NULL);
  sigaction(SIGPROF, NULL, &subject_found);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &subject_mask, sizeof(subject_mask));
  if (plan->world) plan->world(plan);
  if (plan->skipped[0]) return;
  int result = 0;
  if (plan->call != PLAN_NO_CALL && !plan->denied) result = filter_show_over(socket, plan->call);
  if (result < 0) snprintf(plan->skipped, sizeof(plan->skipped), "no seccomp notifications: %s", strerror(-result));
  close(socket);
  bool made = result == 0 && pthread_create(&worker, NULL, subject_works, NULL) == 0;
  /* libc ends a process whose new thread meets a filter against its own first calls (rseq). */
  while (made && !subject_began) continue;
  if (plan->limits) plan->limits(plan);
}

void subject_run(plan *plan, int socket) {
  subject_plan = plan;
  subject_main = (int32_t)syscall(SYS_gettid);
  subject_prepare(socket);
  if (plan->skipped[0]) _exit(0);
  if (plan->allocations) allocate_under(plan);
  subject_wait(PLAN_BEFORE);
  if (!plan->midway) subject_refuse();
  if (plan->rounds) {
    subject_rounds();
    plan->phase = PLAN_END;
    _exit(0);
  }
  plan->phase = PLAN_START;
  plan->armed = 1;
  onstack_stats stats = subject_session();
  plan->armed = 0;
  plan->ticks = stats.ticks;
  plan->recorded = stats.recorded;
  plan->samples = stats.samples;
  snprintf(plan->clock, sizeof(plan->clock), "%s", stats.clock ? stats.clock : "-");
  snprintf(plan->reader, sizeof(plan->reader), "%s", stats.reader ? stats.reader : "-");
  if (plan->midway)
    for (int i = 0; i < 40; i++) burn(); /* what could not be stopped ticks on, and must meet a handler */
  subject_wait(PLAN_AFTER);
  if (!plan->denied && !plan->world && !plan->limits) {
    check_action();
    check_mask();
    plan->phase = PLAN_AGAIN;
    int first = plan->result;
    stats = subject_session();
    if (plan->result < 0)
      complain("the next start, without a failure, returns", plan->result, onstack_strerror(plan->result));
    else if (stats.ticks == 0)
      complain("the next session has no tick", 0, "");
    plan->result = first;
  }
  plan->phase = PLAN_END;
  _exit(0);
}

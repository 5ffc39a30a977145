/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every kind of thread is sampled for the CPU time that it used, under its own id and name. */
#include "support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

TestSuite(threads, .init = t_setup);

typedef struct worker {
  pthread_t thread;
  const char *name;
  double seconds;
  double burned;
  int32_t tid;
  pthread_barrier_t *barrier; /* NULL: begin at once */
} worker;

static void mask_profiling(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  pthread_sigmask(how, &set, NULL);
}

static void *work(void *data) {
  worker *w = data;
  w->tid = onstack_sys_gettid();
  if (w->name) pthread_setname_np(pthread_self(), w->name);
  mask_profiling(SIG_UNBLOCK);
  if (w->barrier) {
    pthread_barrier_wait(w->barrier);
    pthread_barrier_wait(w->barrier);
  }
  t_burn(w->seconds);
  w->burned = t_thread_cpu();
  return NULL;
}

/* No tick meets it before it has its name: a thread that waits for a processor in between would be sampled under the other. */
static void start_worker(worker *w) {
  mask_profiling(SIG_BLOCK);
  pthread_create(&w->thread, NULL, work, w);
  mask_profiling(SIG_UNBLOCK);
}

static void check_worker(const t_collector *collector, const worker *w) {
  t_near(t_seconds_of(collector, w->tid), w->burned, 0.12, w->name);
  for (size_t i = 0; i < collector->count; i++)
    if (collector->samples[i].tid == w->tid)
      cr_assert_str_eq(collector->samples[i].name, w->name, "named before its first sample");
}

static void no_own_threads(const t_collector *collector) {
  for (size_t i = 0; i < collector->count; i++)
    cr_assert(strncmp(collector->samples[i].name, "onstack-", 8) != 0, "a sample of our own thread");
}

Test(threads, that_exist_before_start_and_that_come_later) {
  t_collector *collector = t_collector_new();
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, 2);
  worker before = {.name = "was-there", .seconds = 0.6, .barrier = &barrier};
  worker after = {.name = "came-later", .seconds = 0.6};
  start_worker(&before);
  pthread_barrier_wait(&barrier);
  onstack_options options = t_options(200, t_collect, collector);
  onstack_session *session = t_start(&options);
  pthread_barrier_wait(&barrier);
  start_worker(&after);
  pthread_join(before.thread, NULL);
  pthread_join(after.thread, NULL);
  t_finish(session);
  check_worker(collector, &before);
  check_worker(collector, &after);
  no_own_threads(collector);
}

static void eight_workers(void) {
  t_collector *collector = t_collector_new();
  static const char *const names[] = {"eight-0", "eight-1", "eight-2", "eight-3",
                                      "eight-4", "eight-5", "eight-6", "exactly-15-byte"};
  worker workers[8];
  onstack_options options = t_options(200, t_collect, collector);
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 8; i++) {
    workers[i] = (worker){.name = names[i], .seconds = i % 2 ? 0.6 : 0.3};
    start_worker(&workers[i]);
  }
  for (int i = 0; i < 8; i++) pthread_join(workers[i].thread, NULL);
  t_finish(session);
  for (int i = 0; i < 8; i++) check_worker(collector, &workers[i]);
  no_own_threads(collector);
}

Test(threads, eight_at_once) { eight_workers(); }

/* A program of another session has as much of a processor as all of this one (sched(7), autogroup), and threads here lose it
   each few milliseconds. */
Test(threads, eight_at_once_beside_busy_sessions) {
  const long count = sysconf(_SC_NPROCESSORS_ONLN) > 4 ? 4 : sysconf(_SC_NPROCESSORS_ONLN);
  pid_t busy[4];
  for (long i = 0; i < count; i++) {
    busy[i] = fork();
    cr_assert_geq(busy[i], 0);
    if (busy[i] > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    for (;;) continue;
  }
  eight_workers();
  for (long i = 0; i < count; i++) kill(busy[i], SIGKILL);
  for (long i = 0; i < count; i++) t_wait(busy[i]);
}

/* Lives of 20 ms: each alone is a handful of ticks, together they must come out right. */
static void short_lives(uint32_t frequency, int count, int at_once, double loose) {
  t_collector *collector = t_collector_new();
  double burned = 0;
  onstack_options options = t_options(frequency, t_collect, collector);
  onstack_session *session = t_start(&options);
  for (int i = 0; i < count; i += at_once) {
    worker workers[8];
    for (int k = 0; k < at_once; k++) {
      workers[k] = (worker){.seconds = 0.02};
      start_worker(&workers[k]);
    }
    for (int k = 0; k < at_once; k++) {
      pthread_join(workers[k].thread, NULL);
      burned += workers[k].burned;
    }
  }
  onstack_stats stats = t_finish(session);
  double got = t_seconds_of(collector, 0) - t_seconds_of(collector, onstack_sys_gettid());
  t_near(got, burned, loose, "short lives");
  cr_assert_gt(stats.threads_seen, (uint64_t)count / 2);
  no_own_threads(collector);
}
/* By a sample for each thread that is met and a timer from then on they would be an eighth too heavy. */
Test(threads, short_lived_one_by_one) { short_lives(99, 100, 1, 0.06); }
Test(threads, short_lived_four_at_once) { short_lives(99, 240, 4, 0.18); }
Test(threads, short_lived_at_1000_hz) { short_lives(1000, 100, 1, 0.12); }

/* ---- threads without libc: no thread-local storage, no name of their own, exit by system call ---- */

#define RAW_STACK ((size_t)64 << 10)
static double raw_burned[4];
static void raw_burn(void *data) {
  t_burn(0.5);
  *(double *)data = t_thread_cpu();
}

Test(threads, raw_clones_without_a_thread_pointer) {
  t_collector *collector = t_collector_new();
  int32_t tids[4], gone[4];
  onstack_options options = t_options(200, t_collect, collector);
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 4; i++) {
    void *stack = mmap(NULL, RAW_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tids[i] = t_raw_thread(raw_burn, &raw_burned[i], stack, RAW_STACK, &gone[i]);
  }
  for (int i = 0; i < 4; i++) t_raw_join(&gone[i]);
  t_finish(session);
  for (int i = 0; i < 4; i++) t_near(t_seconds_of(collector, tids[i]), raw_burned[i], 0.12, "a raw thread");
}

static void *burn_met(void *data) {
  while (!__atomic_load_n((uint32_t *)data, __ATOMIC_ACQUIRE)) t_burn(0.005);
  return NULL;
}

/* A process tick never meets a thread that blocks the signal, as it may miss one that is merely unlucky for long. */
static void *burn_unmet(void *data) {
  mask_profiling(SIG_BLOCK);
  return burn_met(data);
}

/* How many timers there are more when such a thread has come, or after three seconds of `meanwhile` on this one. */
static uint64_t timers_for_one_unmet(onstack_session *session, void (*meanwhile)(double seconds)) {
  pthread_t thread;
  uint32_t stop = 0;
  const uint64_t before = t_stats(session).threads_seen;
  pthread_create(&thread, NULL, burn_unmet, &stop);
  for (int i = 0; i < 3000 && t_stats(session).threads_seen == before; i++) meanwhile(0.001);
  const uint64_t seen = t_stats(session).threads_seen;
  __atomic_store_n(&stop, 1u, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  return seen - before;
}

Test(threads, one_that_no_process_tick_meets_has_a_timer_all_the_same) {
  onstack_session *session = t_start(NULL);
  t_burn(0.1);
  const uint64_t timers = timers_for_one_unmet(session, t_burn);
  t_finish(session);
  cr_assert_eq(timers, 1);
}

/* One ends and the next begins between two looks: their number says nothing. */
Test(threads, one_that_takes_anothers_place_has_a_timer_all_the_same) {
  onstack_session *session = t_start(NULL);
  for (int life = 0; life < 5; life++) cr_assert_eq(timers_for_one_unmet(session, t_sleep), 1, "life %d", life);
  t_finish(session);
}

static double slow_seconds;
static uint32_t slow_walks;
static onstack_walk_result walk_slowly(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                       uint32_t capacity) {
  (void)data, (void)ucontext, (void)capacity;
  const double end = t_now() + slow_seconds;
  __atomic_store_n(&slow_walks, 1u, __ATOMIC_RELEASE);
  while (t_now() < end) continue;
  frames[0] = registers->pc;
  return (onstack_walk_result){.frame_count = 1};
}

/* Old enough for a scan to want it, it leaves its processor to the scan. */
static void *sleep_unmet(void *data) {
  mask_profiling(SIG_BLOCK);
  t_burn(0.06);
  while (!__atomic_load_n((uint32_t *)data, __ATOMIC_ACQUIRE)) t_sleep(0.001);
  return NULL;
}

/* A scan waits for a process tick that is being handled. What it waits is not what it costs, after which it rests. */
Test(threads, one_after_a_handler_that_took_long_has_a_timer_all_the_same) {
  static const onstack_unwinder slow = {.size = sizeof(slow), .name = "slow", .walk = walk_slowly};
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(100, t_collect, collector);
  pthread_t unmet, met;
  uint32_t stop = 0;
  options.custom_unwinder = &slow;
  onstack_session *session = t_start(&options);
  slow_seconds = 0.4;
  pthread_create(&met, NULL, burn_met, &stop);
  while (!__atomic_load_n(&slow_walks, __ATOMIC_ACQUIRE)) t_sleep(0.001);
  slow_seconds = 0;
  pthread_create(&unmet, NULL, sleep_unmet, &stop);
  t_sleep(0.6);
  __atomic_store_n(&stop, 1u, __ATOMIC_RELEASE);
  pthread_join(unmet, NULL);
  pthread_join(met, NULL);
  const uint64_t timers = timers_for_one_unmet(session, t_sleep);
  t_finish(session);
  cr_assert_eq(timers, 1);
}

/* On memory that is no ordinary stack: shared, so that its bounds are never known and reads go by copy. */
Test(threads, a_raw_clone_on_shared_memory_does_not_keep_the_drain_busy) {
  t_collector *collector = t_collector_new();
  int32_t gone;
  onstack_options options = t_options(1000, t_collect, collector);
  onstack_session *session = t_start(&options);
  void *stack = mmap(NULL, RAW_STACK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  /* A process with many mappings makes a look at all of them dear: alternating protections are not merged. */
  const size_t many = 3000;
  uint8_t *holes = mmap(NULL, many * 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < many; i++) mprotect(holes + i * 8192, 4096, PROT_READ);
  double before = t_process_cpu();
  int32_t tid = t_raw_thread(raw_burn, &raw_burned[0], stack, RAW_STACK, &gone);
  t_raw_join(&gone);
  double all = t_process_cpu() - before;
  t_finish(session);
  t_near(t_seconds_of(collector, tid), raw_burned[0], 0.12, "it is sampled");
  cr_assert_lt(all - raw_burned[0], raw_burned[0] * 0.2, "%.3f s beside %.3f s of the thread", all - raw_burned[0],
               raw_burned[0]);
  munmap(holes, many * 8192);
}

/* ---- our own threads ---- */

static int burning_sink(void *data, const onstack_sample *sample) {
  t_burn(0.002);
  return t_collect(data, sample);
}

static uint64_t drain_samples(const t_collector *collector) {
  uint64_t count = 0;
  for (size_t i = 0; i < collector->count; i++) count += strcmp(collector->samples[i].name, "onstack-drain") == 0;
  return count;
}

Test(threads, own_threads_are_left_out_also_where_another_session_wants_them) {
  t_collector *with = t_collector_new(), *without = t_collector_new();
  onstack_options wants = t_options(200, burning_sink, with), plain = t_options(200, t_collect, without);
  wants.own_threads = ONSTACK_ON;
  onstack_session *first = t_start(&wants), *second = t_start(&plain);
  t_burn(1.0);
  t_finish(second);
  t_finish(first);
  cr_assert_eq(drain_samples(without), 0, "%lu samples of a drain thread", drain_samples(without));
  cr_assert_gt(drain_samples(with), 3, "own_threads on: the busy drain thread is seen");
}

/* ---- names ---- */

static void *renamed(void *unused) {
  pthread_setname_np(pthread_self(), "first-name");
  t_burn(0.2);
  pthread_setname_np(pthread_self(), "second-name");
  t_burn(1.6); /* housekeeping looks once a second */
  return unused;
}
Test(threads, a_new_name_is_noticed) {
  t_collector *collector = t_collector_new();
  pthread_t thread;
  onstack_options options = t_options(200, t_collect, collector);
  onstack_session *session = t_start(&options);
  pthread_create(&thread, NULL, renamed, NULL);
  pthread_join(thread, NULL);
  t_finish(session);
  int first = 0, second = 0;
  for (size_t i = 0; i < collector->count; i++) {
    first += strcmp(collector->samples[i].name, "first-name") == 0;
    second += strcmp(collector->samples[i].name, "second-name") == 0;
  }
  cr_assert_gt(first, 5);
  cr_assert_gt(second, 10);
}

/* A thread that was made right before start names itself a moment later, as the workers of pools do. */
static uint32_t started;

static void *named_late(void *unused) {
  while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE)) t_sleep(0.0005);
  pthread_setname_np(pthread_self(), "late-name");
  t_burn(0.4);
  return unused;
}
Test(threads, a_name_right_after_start_is_noticed_soon) {
  t_collector *collector = t_collector_new();
  pthread_t thread;
  onstack_options options = t_options(200, t_collect, collector);
  pthread_create(&thread, NULL, named_late, NULL);
  onstack_session *session = t_start(&options);
  __atomic_store_n(&started, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  t_finish(session);
  int late = 0;
  for (size_t i = 0; i < collector->count; i++) late += strcmp(collector->samples[i].name, "late-name") == 0;
  cr_assert_gt(late, 10, "%d", late);
}

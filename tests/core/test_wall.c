/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The clocks of real time: threads are sampled for the time that passes, asleep or not; and what that does to system calls. */
#include "support.h"
#include "onstack/profile.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

TestSuite(wall, .init = t_setup);
TestSuite(wall_signal, .init = t_setup);

/* A test of each. */
#define ON_BOTH(name)                                                                                                       \
  static void name(onstack_clock clock);                                                                                    \
  Test(wall, name) { name(ONSTACK_CLOCK_WALL); }                                                                            \
  Test(wall_signal, name) { name(ONSTACK_CLOCK_WALL_SIGNAL); }                                                              \
  static void name(onstack_clock clock)

static onstack_options wall_options(onstack_clock clock, uint32_t frequency, onstack_sink sink, void *data) {
  onstack_options options = t_options(frequency, sink, data);
  options.clock = clock;
  return options;
}

typedef struct sleeper {
  pthread_t thread;
  const char *name;
  double seconds, lived;
  int32_t tid;
  bool burns;
} sleeper;

static void *lives(void *data) {
  sleeper *s = data;
  double begin = t_now();
  s->tid = onstack_sys_gettid();
  pthread_setname_np(pthread_self(), s->name);
  if (s->burns)
    while (t_now() - begin < s->seconds) t_burn(0.002);
  else
    t_sleep(s->seconds);
  s->lived = t_now() - begin;
  return NULL;
}

/* Up to 50 ms late: that is how long an idle process may wait for its next scan. */
static void between(const t_collector *collector, const sleeper *s, double least) {
  double got = t_seconds_of(collector, s->tid);
  cr_assert(got > least * 0.9 - 0.12 && got < s->lived * 1.05 + 0.03, "%s: %.3f s of %.3f to %.3f s", s->name, got, least,
            s->lived);
}

static void near_life(const t_collector *collector, const sleeper *s) { between(collector, s, s->lived); }

ON_BOTH(who_sleeps_and_who_works_weigh_the_same) {
  t_collector *collector = t_collector_new();
  sleeper sleepers[3] = {{.name = "sleeps", .seconds = 1.0},
                         {.name = "works", .seconds = 1.0, .burns = true},
                         {.name = "sleeps-less", .seconds = 0.5}};
  onstack_options options = wall_options(clock, 200, t_collect, collector);
  t_traces before = t_traces_now();
  double begin = t_now();
  onstack_session *session = t_start(&options);
  cr_assert_str_eq(t_stats(session).clock, clock == ONSTACK_CLOCK_WALL ? "wall" : "wall-signal");
  const double started = t_now();
  for (int i = 0; i < 3; i++) pthread_create(&sleepers[i].thread, NULL, lives, &sleepers[i]);
  for (int i = 0; i < 3; i++) pthread_join(sleepers[i].thread, NULL);
  const double least = t_now() - started; /* its session is at work for so long at least */
  t_finish(session);
  sleeper self = {.name = "the main thread waits", .lived = t_now() - begin, .tid = onstack_sys_gettid()};
  for (int i = 0; i < 3; i++) near_life(collector, &sleepers[i]);
  between(collector, &self, least);
  for (size_t i = 0; i < collector->count; i++)
    cr_assert(strncmp(collector->samples[i].name, "onstack-", 8) != 0, "a sample of our own thread");
  t_traces after = t_traces_now();
  t_same_traces(&before, &after, "a session on the wall clock");
}

static int takes_named(void *data, int32_t tid, const char *name) {
  cr_assert_gt(tid, 0);
  ++*(int *)data;
  return strncmp(name, "wanted", 6) == 0;
}

static void *waits_for_name(void *data) {
  sleeper *s = data;
  pthread_setname_np(pthread_self(), s->name);
  return lives(data);
}

ON_BOTH(only_the_threads_that_the_filter_takes) {
  t_collector *collector = t_collector_new();
  int asked = 0;
  sleeper sleepers[4] = {{.name = "wanted-before", .seconds = 0.8},
                         {.name = "other-before", .seconds = 0.8},
                         {.name = "wanted-later", .seconds = 0.6},
                         {.name = "other-later", .seconds = 0.6}};
  for (int i = 0; i < 2; i++) pthread_create(&sleepers[i].thread, NULL, waits_for_name, &sleepers[i]);
  t_sleep(0.05);
  int expected = t_traces_now().threads + 2;
  onstack_options options = wall_options(clock, 200, t_collect, collector);
  options.thread_filter = takes_named;
  options.thread_filter_data = &asked;
  onstack_session *session = t_start(&options);
  double begin = t_now();
  /* A later thread bears its creator's name until it takes its own: it inherits one that is wanted or not. */
  for (int i = 2; i < 4; i++) {
    pthread_setname_np(pthread_self(), sleepers[i].name);
    pthread_create(&sleepers[i].thread, NULL, lives, &sleepers[i]);
  }
  for (int i = 0; i < 4; i++) pthread_join(sleepers[i].thread, NULL);
  sleepers[0].lived = t_now() - begin;
  t_finish(session);
  cr_assert_eq(asked, expected, "each of %d threads once: %d", expected, asked);
  for (int i = 0; i < 4; i += 2) near_life(collector, &sleepers[i]);
  for (int i = 1; i < 4; i += 2) cr_assert_eq(t_weight_of(collector, sleepers[i].tid), 0, "%s", sleepers[i].name);
}

/* ---- a filter that starts and stops, in start and while a stop waits for it ---- */

typedef struct meddler {
  onstack_session *session;
  int32_t starter;
  int asked_in_start, in_start, later; /* what it returned */
  int inside;
} meddler;

static int meddle(void) {
  onstack_session *another = NULL;
  onstack_options options = t_options(100, NULL, NULL);
  return onstack_session_start(&options, &another);
}

static int meddling_filter(void *data, int32_t tid, const char *name) {
  meddler *m = data;
  (void)tid;
  if (onstack_sys_gettid() == m->starter) {
    m->in_start = meddle();
    m->asked_in_start++;
  } else if (strcmp(name, "a late one") == 0) {
    __atomic_store_n(&m->inside, 1, __ATOMIC_RELEASE);
    t_sleep(0.1); /* the stop has the lock by now, and waits */
    m->later = meddle();
    if (m->later == ONSTACK_E_CONTEXT) m->later = onstack_session_stop(m->session);
  }
  return 1;
}

ON_BOTH(a_filter_that_starts_and_stops_is_refused) {
  meddler m = {.starter = onstack_sys_gettid()};
  sleeper late = {.name = "a late one", .seconds = 0.5};
  onstack_options options = wall_options(clock, 100, NULL, NULL);
  options.thread_filter = meddling_filter;
  options.thread_filter_data = &m;
  m.session = t_start(&options);
  cr_assert_gt(m.asked_in_start, 0);
  cr_assert_eq(m.in_start, ONSTACK_E_CONTEXT);
  /* It bears its creator's name until it takes its own, and is asked for once. */
  pthread_setname_np(pthread_self(), late.name);
  pthread_create(&late.thread, NULL, lives, &late);
  while (!__atomic_load_n(&m.inside, __ATOMIC_ACQUIRE)) t_sleep(0.001);
  cr_assert_eq(onstack_session_stop(m.session), 0);
  cr_assert_eq(m.later, ONSTACK_E_CONTEXT);
  pthread_join(late.thread, NULL);
  onstack_session_free(m.session);
}

/* ---- the profile says what it measured ---- */

static int look_for(void *data, const void *bytes, size_t length) {
  char **text = data;
  if (memmem(bytes, length, text[0], strlen(text[0]))) text[1] = text[0];
  return 0;
}

static bool profile_says(onstack_clock clock, const char *word) {
  onstack_profile *profile = NULL;
  char *text[2] = {(char *)(uintptr_t)word, NULL};
  cr_assert_eq(onstack_profile_new(NULL, &profile), 0);
  onstack_options options = t_options(200, onstack_profile_sink, profile);
  options.clock = clock;
  onstack_session *session = t_start(&options);
  t_burn(0.1);
  t_finish(session);
  cr_assert_eq(onstack_profile_write_pprof(profile, NULL, look_for, text), 0);
  onstack_profile_free(profile);
  return text[1];
}

ON_BOTH(a_profile_is_named_by_its_clock) {
  cr_assert(profile_says(clock, "\x32\x04wall")); /* field 6, four bytes */
  cr_assert_not(profile_says(ONSTACK_CLOCK_CPU, "\x32\x04wall"));
  cr_assert(profile_says(ONSTACK_CLOCK_CPU, "\x32\x03"
                                            "cpu"));
}

/* ---- system calls ---- */

static int pipes[2], sockets[2], epolls;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;

static struct timespec in_100_ms(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 100000000;
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  return until;
}

static long call_poll(void) { return poll(&(struct pollfd){.fd = pipes[0], .events = POLLIN}, 1, 100); }
static long call_epoll(void) {
  struct epoll_event event;
  return epoll_wait(epolls, &event, 1, 100);
}
static long call_select(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(pipes[0], &set);
  return select(pipes[0] + 1, &set, NULL, NULL, &(struct timeval){.tv_usec = 100000});
}
static long call_nanosleep(void) { return nanosleep(&(struct timespec){0, 100000000}, NULL); }
static long call_clock_nanosleep(void) {
  errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, 100000000}, NULL);
  return errno ? -1 : 0;
}
static long call_timed_recv(void) {
  char byte;
  return recv(sockets[1], &byte, 1, 0) < 0 && errno == EINTR ? -1 : 0;
}
static long call_sem_timedwait(void) {
  struct timespec until = in_100_ms();
  return sem_timedwait(&semaphore, &until);
}
static long call_cond_timedwait(void) {
  struct timespec until = in_100_ms();
  pthread_mutex_lock(&mutex);
  errno = pthread_cond_timedwait(&condition, &mutex, &until);
  pthread_mutex_unlock(&mutex);
  return errno == EINTR ? -1 : 0;
}

static void *writes_after_100_ms(void *data) {
  t_sleep(0.1);
  cr_assert_eq(write(*(int *)data, "x", 1), 1);
  return NULL;
}
static long call_with_writer(long (*call)(void), int *end) {
  pthread_t thread;
  pthread_create(&thread, NULL, writes_after_100_ms, end);
  long result = call();
  int error = errno;
  pthread_join(thread, NULL);
  errno = error;
  return result;
}
static long read_pipe(void) {
  char byte;
  return read(pipes[0], &byte, 1);
}
static long recv_socket(void) {
  char byte;
  return recv(sockets[0], &byte, 1, 0);
}
static long call_read(void) { return call_with_writer(read_pipe, &pipes[1]); }
static long call_recv(void) { return call_with_writer(recv_socket, &sockets[1]); }

static const struct {
  const char *name;
  long (*call)(void);
  bool interrupted; /* whatever SA_RESTART says */
} calls[] = {
    {"poll", call_poll, true},
    {"epoll_wait", call_epoll, true},
    {"select", call_select, true},
    {"nanosleep", call_nanosleep, true},
    {"clock_nanosleep", call_clock_nanosleep, true},
    {"recv with SO_RCVTIMEO", call_timed_recv, true},
    {"sem_timedwait", call_sem_timedwait, true},
    {"pthread_cond_timedwait", call_cond_timedwait, false},
    {"read from a pipe", call_read, false},
    {"recv", call_recv, false},
};

/* Calls of 100 ms at 100 Hz: the table in docs/SIGNALS.md. Where no signal comes, two of each are chances enough. */
ON_BOTH(system_calls_that_end_early) {
  cr_assert_eq(pipe(pipes), 0);
  cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  struct timeval limit = {.tv_usec = 100000};
  setsockopt(sockets[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  epolls = epoll_create1(0);
  sem_init(&semaphore, 0, 0);
  onstack_options options = wall_options(clock, 100, NULL, NULL);
  onstack_session *session = t_start(&options);
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
    const bool interrupted = clock == ONSTACK_CLOCK_WALL_SIGNAL && calls[i].interrupted;
    const int times = clock == ONSTACK_CLOCK_WALL_SIGNAL ? 5 : 2;
    int early = 0;
    for (int n = 0; n < times; n++) {
      errno = 0;
      if (calls[i].call() < 0 && errno == EINTR) early++;
    }
    fprintf(stderr, "%-11s %-24s EINTR in %d of %d\n", t_stats(session).clock, calls[i].name, early, times);
    if (interrupted)
      cr_expect_geq(early, 4, "%s", calls[i].name);
    else
      cr_expect_eq(early, 0, "%s", calls[i].name);
  }
  t_finish(session);
}

/* Clock `cpu` hardly meets a thread that sleeps: a process tick that our own work makes fall due may (docs/ROADMAP.md). */
Test(wall, nor_on_the_cpu_clock) {
  cr_assert_eq(pipe(pipes), 0);
  onstack_options options = t_options(100, NULL, NULL);
  onstack_session *session = t_start(&options);
  int early = 0;
  for (int n = 0; n < 10; n++) {
    errno = 0;
    early += call_poll() < 0 && errno == EINTR;
  }
  cr_expect_leq(early, 2, "%d of 10", early);
  t_finish(session);
}

/* The first scan finds the only thread. */
ON_BOTH(fork_is_followed_too) {
  t_collector *collector = t_collector_new();
  onstack_options options = wall_options(clock, 200, t_collect, collector);
  options.fork = ONSTACK_FORK_FOLLOW;
  onstack_session *session = t_start(&options);
  int child = fork();
  if (child == 0) {
    onstack_stats stats = {.size = sizeof(stats)};
    t_deadline(20);
    t_sleep(0.5);
    if (onstack_session_stop(session) != 0 || onstack_session_stats(session, &stats) != 0) _exit(1);
    _exit(stats.recorded > 60 && stats.recorded < 110 ? 0 : 2);
  }
  int status = t_wait(child);
  cr_assert_eq(status, 0, "the child ended with %d", status);
  t_finish(session);
}

/* 0: refused by the name of the error; 77: no namespaces here. */
static int starts_under_the_outer_proc(onstack_clock clock, int wanted) {
  if (unshare(CLONE_NEWPID) != 0) return 77;
  int pid = fork();
  if (pid != 0) return pid < 0 ? 77 : t_wait(pid);
  t_deadline(20);
  onstack_session *session = NULL;
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_options options;
  onstack_options_init(&options, sizeof(options));
  options.frequency = 500;
  options.clock = clock;
  if (onstack_session_start(&options, &session) != wanted) _exit(1);
  if (wanted != 0) _exit(0);
  t_burn(0.2);
  if (onstack_session_stop(session) != 0) _exit(2);
  _exit(onstack_session_stats(session, &stats) == 0 && stats.samples > 3 ? 0 : 3);
}

/* The threads that such a /proc lists have other ids than those that timers are made for. */
Test(wall, a_list_of_another_pid_namespace_is_an_error) {
  static const struct {
    onstack_clock clock;
    int wanted;
  } cases[] = {{ONSTACK_CLOCK_WALL, ONSTACK_E_CLOCK}, {ONSTACK_CLOCK_WALL_SIGNAL, ONSTACK_E_CLOCK}, {ONSTACK_CLOCK_CPU, 0}};
  for (int i = 0; i < 3; i++) {
    int pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) _exit(starts_under_the_outer_proc(cases[i].clock, cases[i].wanted));
    int step = t_wait(pid);
    if (step == 77) cr_skip("no PID namespaces for us");
    cr_assert_eq(step, 0, "case %d: step %d", i, step);
  }
}

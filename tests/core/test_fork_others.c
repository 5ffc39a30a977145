/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Children that come in unusual ways, and forks at unusual moments. */
#include "platform/loader.h"
#include "support.h"

#include <netdb.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(fork_others, .init = t_setup);

/* In a child an assert of Criterion's would be lost: it returns the number of the first step that failed. */
#define STEP(number, condition)                                                                                             \
  do {                                                                                                                      \
    if (!(condition)) _exit(number);                                                                                        \
  } while (0)

static uint64_t raw_handler(void) {
  struct onstack_kernel_sigaction action = {0};
  onstack_sys_sigaction(SIGPROF, NULL, &action);
  return action.handler;
}

/* Starts, burns until there are samples, stops: 0 or a step number from 60 up. */
static int own_session(void) {
  onstack_session *session = NULL;
  onstack_options options;
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_options_init(&options, sizeof(options));
  options.frequency = 500;
  if (onstack_session_start(&options, &session) != 0) return 60;
  for (int i = 0; i < 100 && stats.recorded < 5; i++) {
    t_burn(0.01);
    onstack_session_stats(session, &stats);
  }
  if (onstack_session_stop(session) != 0) return 61;
  if (onstack_session_stats(session, &stats) != 0 || stats.recorded < 3) return 62;
  return onstack_session_free(session) == 0 ? 0 : 63;
}

/* ---- children that ran no atfork handlers ---- */

static int fork_underscore(void) { return _Fork(); }
static int fork_clone(void) { return (int)onstack_sys_call6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0); }

static volatile bool over;
static void *burns(void *unused) {
  while (!over) t_burn(0.005);
  return unused;
}

/* Nothing has put it in order: it looks as if it were sampled. The first call of ours does, whichever it is. */
static void silent_child(onstack_session *session, int first_call) {
  onstack_stats stats = {.size = sizeof(stats)};
  t_deadline(20);
  t_burn(0.02); /* no timer is there, and over SIG_DFL or our handler nothing kills */
  switch (first_call) {
  case 0:
    STEP(1, onstack_session_stats(session, &stats) == 0 && !stats.running);
    break;
  case 1:
    STEP(2, onstack_session_stop(session) == ONSTACK_E_STOPPED);
    break;
  case 2:
    STEP(3, onstack_session_poll(session, 0) == ONSTACK_E_STOPPED);
    break;
  case 3:
    STEP(4, onstack_session_free(session) == 0);
    break;
  default:
    break;
  }
  int step = own_session();
  STEP(step, step == 0);
  STEP(5, raw_handler() == (uint64_t)(uintptr_t)SIG_DFL);
  if (first_call != 3) STEP(6, onstack_session_free(session) == 0);
  _exit(0);
}

static void silent(int (*make)(void), onstack_fork follow) {
  pthread_t burner;
  onstack_options options = t_options(1000, NULL, NULL);
  options.fork = follow;
  onstack_session *session = t_start(&options);
  pthread_create(&burner, NULL, burns, NULL);
  for (int i = 0; i < 10; i++) {
    int child = make();
    if (child == 0) silent_child(session, i % 5);
    int status = t_wait(child);
    cr_assert_eq(status, 0, "child %d failed at step %d", i, status);
  }
  over = true;
  pthread_join(burner, NULL);
  uint64_t before = t_stats(session).ticks;
  t_burn(0.1);
  cr_assert_gt(t_finish(session).ticks, before + 20, "the parent goes on");
}
Test(fork_others, fork_without_handlers) { silent(fork_underscore, ONSTACK_FORK_STOP); }
Test(fork_others, raw_clone) { silent(fork_clone, ONSTACK_FORK_STOP); }
Test(fork_others, raw_clone_does_not_follow) { silent(fork_clone, ONSTACK_FORK_FOLLOW); }

/* A vfork child shares our memory: what it asks must not make the parent's session look like a child's. */
Test(fork_others, a_vfork_child_that_asks) {
  onstack_session *session = t_start(NULL);
  static volatile uint32_t running;
  int child = vfork();
  if (child == 0) {
    onstack_stats stats = {.size = sizeof(stats)};
    onstack_session_stats(session, &stats);
    running = stats.running;
    _exit(0);
  }
  cr_assert_eq(t_wait(child), 0);
  cr_assert_eq(running, 1);
  t_burn(0.1);
  cr_assert_gt(t_finish(session).ticks, 3);
}

static int silent_sink(void *data, const onstack_sample *sample) {
  volatile int *calls = data;
  (void)sample;
  if (++calls[0] != 3) return 0;
  int child = _Fork();
  if (child == 0) {
    t_deadline(20);
    calls[1] = 1;
    return 0;
  }
  calls[2] = child;
  return 0;
}

Test(fork_others, a_sink_that_forks_without_handlers_and_returns) {
  static volatile int calls[3];
  onstack_options options = t_options(500, silent_sink, (void *)(uintptr_t)calls);
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  t_burn(0.2);
  int polled = onstack_session_poll(session, 0);
  if (calls[1]) {
    STEP(1, calls[0] == 3); /* no more of the parent's samples */
    STEP(2, onstack_session_stop(session) == ONSTACK_E_STOPPED);
    int step = own_session();
    _exit(step);
  }
  cr_assert_gt(polled, 3);
  int status = t_wait(calls[2]);
  cr_assert_eq(status, 0, "the child ended with %d", status);
  t_finish(session);
}

/* ---- a daemon: two forks, a session of its own, no descriptors ---- */

static void close_all(int but) {
  for (int fd = 0; fd < 1024; fd++)
    if (fd != but) close(fd);
}

static void daemon_of(onstack_session *session, bool follows, int report) {
  int status = 0;
  setsid();
  if (fork() != 0) _exit(0);
  t_deadline(20);
  close_all(report);
  onstack_stats stats = {.size = sizeof(stats)};
  if (follows) {
    for (int i = 0; i < 100 && stats.recorded < 5; i++) {
      t_burn(0.01);
      onstack_session_stats(session, &stats);
    }
    if (stats.recorded < 5) status = 1;
    if (onstack_session_stop(session) != 0) status = 2;
  } else if (onstack_session_stop(session) != ONSTACK_E_STOPPED) {
    status = 3;
  }
  if (status == 0) status = own_session();
  if (write(report, &status, sizeof(status)) != sizeof(status)) abort();
  _exit(0);
}

static void daemonizes(onstack_fork follow) {
  int pipes[2], status = -1;
  cr_assert_eq(pipe(pipes), 0);
  onstack_options options = t_options(500, NULL, NULL);
  options.fork = follow;
  onstack_session *session = t_start(&options);
  int child = fork();
  if (child == 0) daemon_of(session, follow == ONSTACK_FORK_FOLLOW, pipes[1]);
  cr_assert_eq(t_wait(child), 0);
  cr_assert_eq(read(pipes[0], &status, sizeof(status)), sizeof(status));
  cr_assert_eq(status, 0, "the daemon failed at step %d", status);
  t_finish(session);
}
Test(fork_others, a_daemon_with_all_descriptors_closed) { daemonizes(ONSTACK_FORK_STOP); }
Test(fork_others, a_daemon_that_is_followed) { daemonizes(ONSTACK_FORK_FOLLOW); }

/* ---- at unusual moments ---- */

static volatile int in_handler, handler_status;
static void forking_handler(int signal) {
  (void)signal;
  int child = fork();
  if (child == 0) {
    t_deadline(20);
    _exit(raw_handler() == (uint64_t)(uintptr_t)SIG_DFL ? 0 : 1);
  }
  handler_status |= t_wait(child);
  in_handler++;
}

Test(fork_others, from_a_signal_handler) {
  signal(SIGUSR1, forking_handler);
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 20; i++) {
    t_burn(0.005);
    raise(SIGUSR1);
  }
  cr_assert_eq(in_handler, 20);
  cr_assert_eq(handler_status, 0);
  t_finish(session);
}

static void nothing(void) {}
static void *registers(void *unused) {
  for (int i = 0; i < 3000 && !over; i++) {
    pthread_atfork(nothing, nothing, nothing);
    sched_yield();
  }
  return unused;
}

static void *starts_and_stops(void *unused) {
  while (!over) {
    onstack_session *session = NULL;
    if (onstack_session_start(NULL, &session) == 0) onstack_session_free(session);
  }
  return unused;
}

static int looks_up(void *data, const onstack_sample *sample) {
  struct addrinfo *found = NULL;
  (void)sample;
  if (getaddrinfo("localhost", "80", NULL, &found) == 0) freeaddrinfo(found);
  ++*(uint64_t *)data;
  return 0;
}

/* Handlers are registered, sessions come and go, and a sink asks for names, while this thread forks. */
Test(fork_others, while_others_register_start_stop_and_look_names_up) {
  pthread_t threads[3];
  uint64_t looked = 0;
  onstack_options options = t_options(1000, looks_up, &looked);
  onstack_session *session = t_start(&options);
  pthread_create(&threads[0], NULL, registers, NULL);
  pthread_create(&threads[1], NULL, starts_and_stops, NULL);
  pthread_create(&threads[2], NULL, burns, NULL);
  for (unsigned i = 0; i < 150 * t_repeat(); i++) {
    int child = fork();
    if (child == 0) {
      t_deadline(20);
      int step = i % 10 == 0 ? own_session() : 0;
      STEP(step, step == 0);
      _exit(onstack_session_stop(session) == ONSTACK_E_STOPPED ? 0 : 1);
    }
    int status = t_wait(child);
    cr_assert_eq(status, 0, "child %u ended with %d", i, status);
  }
  over = true;
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  t_finish(session);
  cr_assert_gt(looked, 10);
}

/* ---- a fork while a thread of ours asks the loader ---- */

static volatile bool inside, forked;

static int stay_inside(struct dl_phdr_info *info, size_t size, void *data) {
  (void)info;
  (void)size;
  (void)data;
  inside = true;
  while (!forked) t_sleep(0.001);
  return 1;
}

static void *asks_the_loader(void *unused) {
  onstack_loader_each(stay_inside, NULL);
  return unused;
}

/* glibc never gives the loader's lock back in such a child: a start there waited for ever. */
Test(fork_others, a_child_starts_although_we_were_inside_the_loader) {
  pthread_t thread;
  cr_assert_eq(own_session(), 0); /* threads of ours come with sessions, and those with handlers for fork */
  cr_assert_eq(pthread_create(&thread, NULL, asks_the_loader, NULL), 0);
  while (!inside) t_sleep(0.001);
  int child = fork();
  if (child == 0) {
    t_deadline(20);
    _exit(own_session());
  }
  forked = true;
  cr_assert_eq(t_wait(child), 0);
  pthread_join(thread, NULL);
}

/* ---- a child may ask the loader ---- */

static int look_at_one(struct dl_phdr_info *info, size_t size, void *data) {
  (void)info;
  (void)size;
  (void)data;
  return 1;
}

static void *asks_again_and_again(void *unused) {
  while (!over) onstack_loader_each(look_at_one, NULL);
  return unused;
}

/* As a name service does, that opens its library: a program without threads cannot know that one of ours is inside. */
Test(fork_others, a_child_may_ask_the_loader_whenever_it_was_made) {
  pthread_t thread;
  onstack_options options = t_options(100, NULL, NULL);
  onstack_session *session = t_start(&options);
  over = false;
  cr_assert_eq(pthread_create(&thread, NULL, asks_again_and_again, NULL), 0);
  for (unsigned i = 0; i < 200 * t_repeat(); i++) {
    int child = fork();
    if (child == 0) {
      t_deadline(10);
      dl_iterate_phdr(look_at_one, NULL);
      _exit(0);
    }
    cr_assert_eq(t_wait(child), 0, "child %u waits for ever", i);
  }
  over = true;
  pthread_join(thread, NULL);
  t_finish(session);
}

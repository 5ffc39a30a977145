/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that wait, looked at from outside by a kernel of arm64: their time by state, call and lock, and nobody is woken. */
#include "check.h"
#include "onstack/profile.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAITERS 3

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int pipes[2];
static volatile bool over;
static volatile unsigned woken;

static void *polls(void *data) {
  pthread_setname_np(pthread_self(), "polls");
  while (!over)
    if (poll(NULL, 0, 200) < 0 && errno == EINTR) woken++;
  return data;
}

static void *locks(void *data) {
  pthread_setname_np(pthread_self(), "locks");
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  return data;
}

static void *reads(void *data) {
  char byte;
  pthread_setname_np(pthread_self(), "reads");
  return read(pipes[0], &byte, 1) == 1 ? data : NULL;
}

static const struct waiter {
  const char *name, *call;
  void *(*function)(void *);
} waiters[WAITERS] = {{"polls", "ppoll", polls}, {"locks", "futex", locks}, {"reads", "read", reads}};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void sleep_for(double seconds) {
  struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  while (nanosleep(&left, &left) != 0)
    if (errno == EINTR) woken++;
}

/* ---- a session ---- */

typedef struct seen {
  double blocked[WAITERS], running; /* seconds: of the waiters in their calls; of the main thread on a processor */
  double all;
  bool held; /* the lock's holder was told */
} seen;

static const char *label(const onstack_sample *sample, const char *key) {
  for (const char *at = sample->labels, *end = at + sample->label_bytes; at < end;) {
    const char *value = at + strlen(at) + 1;
    if (strcmp(at, key) == 0) return value;
    at = value + strlen(value) + 1;
  }
  return "";
}

static int sink(void *data, const onstack_sample *sample) {
  seen *to = data;
  const double seconds = (double)sample->value / 1e9;
  to->all += seconds;
  for (int i = 0; i < WAITERS; i++) {
    if (strcmp(sample->thread_name, waiters[i].name) != 0 || strcmp(label(sample, "state"), "blocked") != 0) continue;
    if (strcmp(label(sample, "wait"), waiters[i].call) == 0) to->blocked[i] += seconds;
    if (waiters[i].function == locks && *label(sample, "holder")) to->held = true;
  }
  if (sample->tid == getpid() && strcmp(label(sample, "state"), "running") == 0) to->running += seconds;
  return 0;
}

static bool near(double value, double wanted, double part) {
  return value > wanted * (1 - part) && value < wanted * (1 + part);
}

static void time_by_state(void) {
  seen found = {.held = false};
  onstack_options options;
  onstack_session *session;
  onstack_options_init(&options, sizeof(options));
  options.clock = ONSTACK_CLOCK_WALL;
  options.sink = sink;
  options.sink_data = &found;
  const int result = onstack_session_start(&options, &session);
  if (!check(result == 0, "starts", "%s", result ? onstack_strerror(result) : "the clock wall")) return;
  const double begun = now(), cpu = thread_cpu();
  while (now() < begun + 1)
    for (volatile int i = 0; i < 20000; i++) continue;
  const double ran = thread_cpu() - cpu;
  sleep_for(1);
  onstack_session_stop(session);
  const double lived = now() - begun;
  onstack_session_free(session);
  for (int i = 0; i < WAITERS; i++)
    check(near(found.blocked[i], lived, 0.1), waiters[i].name, "%.3f s blocked in %s, of %.3f", found.blocked[i],
          waiters[i].call, lived);
  check(found.held, "the lock's holder is told", "%s", found.held ? "once at least" : "never");
  check(near(found.running, ran, 0.15), "running time", "%.3f s of %.3f", found.running, ran);
  check(near(found.all, (WAITERS + 1) * lived, 0.05), "the sum over states", "%.3f s of %d threads x %.3f", found.all,
        WAITERS + 1, lived);
}

/* ---- a dump ---- */

typedef struct text {
  char bytes[16384];
  size_t length;
} text;

static int write_text(void *data, const void *bytes, size_t length) {
  text *to = data;
  if (to->length + length >= sizeof(to->bytes)) return 1;
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
  return 0;
}

static void dump(void) {
  static text told;
  const int result = onstack_dump(NULL, write_text, &told);
  if (!check(result == 0, "dump", "%s", result ? onstack_strerror(result) : "written")) return;
  for (int i = 0; i < WAITERS; i++) {
    char line[64];
    snprintf(line, sizeof(line), "\"%s\": blocked wait=%s", waiters[i].name, waiters[i].call);
    check(strstr(told.bytes, line), "a waiter is in the dump", "%s", line);
  }
  char own[64];
  snprintf(own, sizeof(own), "thread %d ", getpid());
  check(strstr(told.bytes, own), "who asks is in the dump", "%s", own);
}

int main(void) {
  pthread_t threads[WAITERS];
  if (pipe(pipes) != 0) return 2;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < WAITERS; i++)
    if (pthread_create(&threads[i], NULL, waiters[i].function, NULL) != 0) return 2;
  sleep_for(0.2);
  time_by_state();
  dump();
  check(woken == 0, "nobody is woken", "%u polls and sleeps ended early", woken);
  over = true;
  pthread_mutex_unlock(&lock);
  if (write(pipes[1], "", 1) != 1) return 2;
  for (int i = 0; i < WAITERS; i++) pthread_join(threads[i], NULL);
  return check_status();
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "driver.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The kernel's own structure: libc hides the restorer and edits the flags. */
typedef struct raw_action {
  uint64_t handler, flags, restorer, mask;
} raw_action;

/* This and a version's byte stand before the entry of every handler of onstack's. Those of others are code as well, with
   code before it. */
static const char our_mark[] = "onstack-handler";

static long long clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* CPU time of the threads that live now, without the one that calls. */
static long long others_cpu_ns(void) {
  long long total = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks) return 0;
  for (struct dirent *task; (task = readdir(tasks));) {
    pid_t thread = (pid_t)strtol(task->d_name, NULL, 10);
    if (thread == 0 || thread == (pid_t)syscall(SYS_gettid)) continue;
    struct timespec used = {0, 0};
    clock_gettime(matrix_cpu_clock(thread), &used); /* nothing where it has ended meanwhile */
    total += used.tv_sec * 1000000000LL + used.tv_nsec;
  }
  closedir(tasks);
  return total;
}

static raw_action current_action(void) {
  raw_action action = {0, 0, 0, 0};
  syscall(SYS_rt_sigaction, SIGPROF, NULL, &action, sizeof(action.mask));
  return action;
}

static bool is_ours(const raw_action *action) {
  const char *entry = (const char *)(uintptr_t)action->handler;
  return action->handler > 4096 && memcmp(entry - sizeof(our_mark), our_mark, sizeof(our_mark) - 1) == 0;
}

static void sleep_us(long us) {
  struct timespec left = {us / 1000000, us % 1000000 * 1000};
  while (nanosleep(&left, &left) != 0) continue;
}

/* Microseconds until our handler was on top; a million and more when it was not within a second. */
static long long wait_until_on_top(void) {
  long long begin = clock_ns(CLOCK_MONOTONIC);
  for (;;) {
    long long waited = (clock_ns(CLOCK_MONOTONIC) - begin) / 1000;
    raw_action action = current_action();
    if (is_ours(&action) || waited >= 1000000) return waited;
    sleep_us(200);
  }
}

/* Until the process has used so much CPU time: the same work on an idle machine and on a busy one. */
static long long wait_for_cpu(long ms) {
  long long cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + ms * 1000000LL;
  long long patience = clock_ns(CLOCK_MONOTONIC) + ms * 20000000LL;
  while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < cpu) {
    if (clock_ns(CLOCK_MONOTONIC) > patience) return -1;
    sleep_us(2000);
  }
  return 0;
}

static long long send_signals(long count) {
  for (long i = 0; i < count; i++) syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), SIGPROF);
  return 0;
}

static const matrix_host *race_host;

static void *race_stop_theirs(void *result) {
  *(long long *)result = race_host->profile_stop();
  return NULL;
}

/* Ours stops while theirs is stopping, a little later in each round. By then it has gone back on top. */
static long long race_round(const matrix_host *host, long delay_us) {
  pthread_t thread;
  long long samples = -1;
  race_host = host;
  if (matrix_ours_start() != 0 || host->profile_start() != 0 || wait_for_cpu(60) != 0) return -1;
  if (pthread_create(&thread, NULL, race_stop_theirs, &samples) != 0) return -1;
  sleep_us(delay_us);
  int result = matrix_ours_stop();
  pthread_join(thread, NULL);
  return result < 0 || samples < 0 ? -1 : 0;
}

static long long race(const matrix_host *host, long rounds) {
  long long result = 0;
  for (long i = 0; i < rounds && result == 0; i++) result = race_round(host, i * 7 % 20 * 100);
  return result;
}

/* Negative: the step failed. */
static long long take(const char *step, const char *mix, const matrix_host *host) {
  const char *colon = strchr(step, ':');
  long number = colon ? strtol(colon + 1, NULL, 10) : 0;
  if (!strcmp(step, "G+")) return host->profile_start() ? -1 : 0;
  if (!strcmp(step, "G-")) return host->profile_stop();
  if (!strcmp(step, "O+")) return matrix_ours_start();
  if (!strcmp(step, "O-")) return matrix_ours_stop();
  if (!strcmp(step, "L+")) return host->load_start(mix) ? -1 : 0;
  if (!strcmp(step, "L-")) return host->load_stop(), 0;
  if (!strcmp(step, "T")) return wait_until_on_top();
  if (!strcmp(step, "H")) return host->health && host->health() ? -1 : 0;
  if (!strncmp(step, "w:", 2)) return wait_for_cpu(number);
  if (!strncmp(step, "R:", 2)) return send_signals(number);
  if (!strncmp(step, "churn:", 6)) return matrix_ours_churn(number);
  if (!strncmp(step, "race:", 5)) return race(host, number);
  fprintf(stderr, "no such step: %s\n", step);
  return -1;
}

static long long take_and_print(FILE *out, const char *step, const char *mix, const matrix_host *host) {
  long long others = others_cpu_ns(), driver = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  long long cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID), begin = clock_ns(CLOCK_MONOTONIC);
  long long result = take(step, mix, host);
  driver = clock_ns(CLOCK_THREAD_CPUTIME_ID) - driver;
  raw_action action = current_action();
  fprintf(out, "{\"step\":\"%s\",\"result\":%lld,\"cpu0\":%lld,\"cpu1\":%lld,\"t0\":%lld,\"t1\":%lld", step, result, cpu,
          clock_ns(CLOCK_PROCESS_CPUTIME_ID), begin, clock_ns(CLOCK_MONOTONIC));
  fprintf(out, ",\"sampled\":%lld,\"driver\":%lld", others_cpu_ns() - others, driver);
  fprintf(out, ",\"action\":[\"%llx\",\"%llx\",\"%llx\",\"%llx\"]", (unsigned long long)action.handler,
          (unsigned long long)action.flags, (unsigned long long)action.restorer, (unsigned long long)action.mask);
  fprintf(out, ",\"on_top\":%s", is_ours(&action) ? "true" : "false");
  matrix_ours_describe(out);
  if (host->describe) host->describe(out);
  fputc('}', out);
  return result;
}

int matrix_main(int argc, char **argv, const matrix_host *host) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s MIX STEP...  (run.py calls it)\n", argv[0]);
    return 2;
  }
  /* In memory until the end: a host that dies prints nothing, and that is what it is checked by. */
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  if (!out) return 2;
  fputs("{\"events\":[", out);
  take_and_print(out, "w:0", argv[1], host); /* the action before everything */
  long long result = 0;
  for (int i = 2; i < argc && result >= 0; i++) {
    fputc(',', out);
    result = take_and_print(out, argv[i], argv[1], host);
    if (result < 0) fprintf(stderr, "step %d, %s, failed: %lld\n", i - 1, argv[i], result);
  }
  fputs("]}\n", out);
  fclose(out);
  fwrite(text, 1, length, stdout);
  fflush(stdout);
  free(text);
  return result < 0;
}

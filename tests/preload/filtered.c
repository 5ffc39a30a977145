/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that works for some CPU time and is then killed by a seccomp filter of its own, or ends beside one.
 * Usage: filtered SECONDS END
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STATUS 3

__attribute__((noinline)) void filtered_work(double seconds) {
  struct timespec now;
  double end = 0, used;
  do {
    for (volatile int i = 0; i < 20000; i++) continue;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    used = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    if (end == 0) end = used + seconds;
  } while (used < end);
}

/* libseccomp's SCMP_ACT_KILL: the thread that makes one of these calls is killed, and the process if it has no other. */
static void filter_kill(unsigned first, unsigned second, unsigned long flags) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0) exit(77);
}

static void end_one_call(void) {
  filter_kill(SYS_getppid, SYS_getppid, 0);
  filtered_work(0.1);
}

static void end_strict(void) { prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); }

/* The handler makes these calls, to arm a thread and to read a stack. */
static void end_in_handler(void) {
  filter_kill(SYS_timer_settime, SYS_process_vm_readv, 0);
  filtered_work(0.5);
  syscall(SYS_timer_settime, 0, 0, NULL, NULL);
}

static void *work_under_filter(void *unused) {
  end_in_handler();
  return unused;
}

/* A sandboxed thread is killed, and the others go on. */
static void end_in_handler_of_another(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, work_under_filter, NULL);
  pthread_join(thread, NULL);
  filtered_work(0.1);
  _exit(STATUS);
}

/* The filter is one of the profiler's threads as well, which open files. */
static void end_all_threads(void) {
  filter_kill(SYS_openat, SYS_getppid, SECCOMP_FILTER_FLAG_TSYNC);
  filtered_work(0.7);
}

static void end_all_threads_exit(void) {
  end_all_threads();
  _exit(STATUS);
}

static const struct {
  const char *name;
  void (*end)(void);
} ends[] = {
    {"one-call", end_one_call},       {"strict", end_strict},
    {"in-handler", end_in_handler},   {"in-handler-of-another", end_in_handler_of_another},
    {"all-threads", end_all_threads}, {"all-threads-exit", end_all_threads_exit},
};

int main(int argc, char **argv) {
  if (argc < 3) return 97;
  filtered_work(atof(argv[1]));
  printf("not written");
  for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
    if (strcmp(ends[i].name, argv[2]) == 0) ends[i].end();
  syscall(SYS_getppid);
  return 97;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that works for some CPU time and is then killed by a seccomp filter of its own.
 * Usage: filtered SECONDS END
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double filtered_seconds;

__attribute__((noinline)) void filtered_work(double seconds) {
  struct timespec now;
  double end = 0;
  do {
    for (volatile int i = 0; i < 20000; i++) continue;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    const double used = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    if (end == 0) end = used + seconds;
    seconds = end - used;
  } while (seconds > 0);
}

static void filter_install(const struct sock_filter *code, size_t length) {
  const struct sock_fprog program = {(unsigned short)length, (struct sock_filter *)code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
    exit(77);
}

/* libseccomp's SCMP_ACT_KILL: the thread that makes the call is killed, and the process if it has no other. */
static void end_one_call(void) {
  const struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  filter_install(code, sizeof(code) / sizeof(code[0]));
  filtered_work(0.1);
}

static void end_strict(void) { prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); }

static const struct {
  const char *name;
  void (*end)(void);
} ends[] = {{"one-call", end_one_call}, {"strict", end_strict}};

int main(int argc, char **argv) {
  if (argc < 3) return 97;
  filtered_seconds = atof(argv[1]);
  filtered_work(filtered_seconds);
  printf("not written");
  for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
    if (strcmp(ends[i].name, argv[2]) == 0) ends[i].end();
  syscall(SYS_getppid);
  return 97;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Executes a program that the kernel ends at the first of these system calls: forbids NUMBER... -- PROGRAM ARGUMENT... Static:
   no library is preloaded into it. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int forbid(unsigned number) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int count, char **arguments) {
  int at = 1;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  for (; at < count && strcmp(arguments[at], "--") != 0; at++)
    if (forbid((unsigned)atoi(arguments[at])) != 0) return 125;
  if (at + 1 >= count) return 126;
  execv(arguments[at + 1], arguments + at + 1);
  perror(arguments[at + 1]);
  return 127;
}

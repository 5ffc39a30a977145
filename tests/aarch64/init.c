/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The virtual machine's first process: runs every program in /tests with a limit of time, prints what ci/test-aarch64.sh
 * reads on the serial console, and turns the machine off.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef LIMIT_SECONDS
#define LIMIT_SECONDS 250u
#endif

static int only_programs(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void run(const char *name) {
  char path[300];
  int status = 0;
  snprintf(path, sizeof(path), "/tests/%s", name);
  printf("== %s\n", name);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    alarm(LIMIT_SECONDS); /* stays over exec; the programs have no use for it */
    execl(path, path, (char *)NULL);
    _exit(127);
  }
  waitpid(child, &status, 0);
  kill(-child, SIGKILL);
  if (WIFSIGNALED(status))
    printf("not ok %s: ended by signal %d%s\n", name, WTERMSIG(status), WTERMSIG(status) == SIGALRM ? " (out of time)" : "");
  else if (WEXITSTATUS(status) != 0)
    printf("== %s: exit status %d\n", name, WEXITSTATUS(status));
  fflush(stdout);
}

int main(void) {
  struct dirent **programs;
  struct utsname kernel;
  mkdir("/proc", 0755);
  mkdir("/dev", 0755);
  mkdir("/tmp", 0755);
  mount("proc", "/proc", "proc", 0, NULL);
  mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
  int console = open("/dev/console", O_RDWR);
  if (console >= 0)
    for (int i = 0; i < 3; i++) dup2(console, i);
  uname(&kernel);
  printf("== kernel %s %s\n", kernel.release, kernel.machine);
  int count = scandir("/tests", &programs, only_programs, alphasort);
  for (int i = 0; i < count; i++) run(programs[i]->d_name);
  printf("== all done\n");
  fflush(stdout);
  sync();
  reboot(RB_POWER_OFF);
  return 0;
}

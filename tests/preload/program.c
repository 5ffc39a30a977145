/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that works for some CPU time in functions of known names, and then ends in one of many ways.
 * Usage: program SECONDS END [argument...]. Exit status 3 where it can choose one.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STATUS 3

static double program_seconds;
static char **program_arguments;

static double cpu_seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

__attribute__((noinline)) void program_spin(double seconds) {
  double end = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) + seconds;
  while (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) < end)
    for (volatile int i = 0; i < 20000; i++) continue;
}

__attribute__((noinline)) void program_parent_work(double seconds) { program_spin(seconds); }
__attribute__((noinline)) void program_child_work(double seconds) { program_spin(seconds); }
__attribute__((noinline)) void program_after_exec(double seconds) { program_spin(seconds); }

static void end_exit(void) { exit(STATUS); }
static void end_bare(void) { _exit(STATUS); }
static void end_quick(void) { quick_exit(STATUS); }
static void end_abort(void) { abort(); }
static void end_kill(void) { kill(getpid(), SIGKILL); }
static void end_group(void) { syscall(SYS_exit_group, STATUS); }

static void end_kill_later(void) {
  usleep(1200000);
  end_kill();
}

static void abort_in_handler(int signal) {
  (void)signal;
  abort();
}

/* As crash reporters do. */
static void end_fault(void) {
  signal(SIGSEGV, abort_in_handler);
  raise(SIGSEGV);
}

static void *leave_from_thread(void *unused) {
  (void)unused;
  exit(STATUS);
}

static void end_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, leave_from_thread, NULL);
  pthread_join(thread, NULL);
}

/* No call of exit at all: the process ends with its last thread, and with status 0. */
static void *work_behind_main(void *unused) {
  usleep(100000);
  program_child_work(program_seconds);
  /* Code that came when the first thread, and with it much of /proc/self, was gone. */
  void *library = dlopen("libm.so.6", RTLD_NOW);
  double (*lgamma)(double) = library ? (double (*)(double))(uintptr_t)dlsym(library, "lgamma") : NULL;
  double end = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) + program_seconds;
  for (volatile double sum = 0; lgamma && cpu_seconds(CLOCK_THREAD_CPUTIME_ID) < end;)
    for (int i = 1; i < 1000; i++) sum += lgamma(i + 0.5);
  return unused;
}

/* As much as a thread's stack of the usual size holds. */
static void exit_handler_with_a_large_frame(void) {
  char frame[4 << 20];
  memset(frame, 1, sizeof(frame));
  __asm__ volatile("" : : "r"(frame) : "memory");
}

static void end_pthread_exit(void) {
  pthread_t thread;
  printf("written at exit"); /* by libc, which runs it with the host's descriptors */
  atexit(exit_handler_with_a_large_frame);
  pthread_create(&thread, NULL, work_behind_main, NULL);
  pthread_exit(NULL);
}

/* Without libc, which then calls no exit handler. */
static void end_raw(void) {
  printf("not written");
  syscall(SYS_exit, 5);
}

static void *work_and_end_raw(void *unused) {
  program_child_work(program_seconds);
  syscall(SYS_exit, 7);
  return unused;
}

static void end_raw_before_others(void) {
  pthread_t thread;
  printf("not written");
  pthread_create(&thread, NULL, work_behind_main, NULL);
  syscall(SYS_exit, 5);
}

static void end_raw_after_others(void) {
  pthread_t thread;
  printf("not written");
  pthread_create(&thread, NULL, work_and_end_raw, NULL);
  pthread_join(thread, NULL);
  syscall(SYS_exit, 5);
}

/* A host with one thread gets the lowest descriptor, whatever the profiler opens meanwhile; and when it closes its end of a
   pipe, the other end sees that. */
static void end_descriptors(void) {
  double end = cpu_seconds(CLOCK_MONOTONIC) + program_seconds;
  int ends[2];
  char byte;
  while (cpu_seconds(CLOCK_MONOTONIC) < end) {
    int file = open("/dev/null", O_RDONLY);
    if (file != 3) exit(50 + file);
    close(file);
    if (pipe(ends) != 0 || ends[0] != 3 || close(ends[1]) != 0 || read(ends[0], &byte, 1) != 0) exit(90);
    close(ends[0]);
  }
  exit(STATUS);
}

static int count_task_links(void) {
  struct stat there;
  int proc = open("/proc", O_RDONLY | O_DIRECTORY), result = fstatat(proc, "self/task/", &there, 0);
  close(proc);
  return result == 0 ? (int)there.st_nlink : -1;
}

static void *wait_for_byte(void *ends) {
  char byte;
  return read(*(int *)ends, &byte, 1) == 1 ? NULL : ends;
}

/* How often this thread gives the processor away while it asks so often. */
static long sleeps_in_counts(int asks) {
  struct rusage before, after;
  getrusage(RUSAGE_THREAD, &before);
  while (asks-- > 0) count_task_links();
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_nvcsw - before.ru_nvcsw;
}

/* A host that is single-threaded, and makes sure of it; then with a thread of its own. */
static void end_count(void) {
  int ends[2];
  pthread_t thread;
  double end = cpu_seconds(CLOCK_MONOTONIC) + program_seconds;
  while (cpu_seconds(CLOCK_MONOTONIC) < end) {
    if (count_task_links() != 3) exit(91);
    program_parent_work(0.001);
  }
  if (pipe(ends) != 0 || pthread_create(&thread, NULL, wait_for_byte, ends) != 0) exit(92);
  if (count_task_links() != 4) exit(93);
  program_parent_work(0.05); /* the last thread that comes or goes has come or gone */
  if (sleeps_in_counts(20) > 200) exit(95);
  if (write(ends[1], "", 1) != 1) exit(94);
  pthread_join(thread, NULL);
  exit(STATUS);
}

static void *fork_and_return(void *unused) {
  int status;
  pid_t child = fork();
  if (child == 0) return program_child_work(program_seconds), unused; /* the only thread of the child */
  waitpid(child, &status, 0);
  exit(status == 0 ? STATUS : 99);
}

static void end_fork_return(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, fork_and_return, NULL);
  pthread_join(thread, NULL);
}

static void end_exec(void) {
  char *argv[] = {"program", "0.3", "after-exec", NULL};
  execv("/nonexistent/program", argv); /* one that fails must disturb nothing */
  execvp(program_arguments[0], argv);
}

/* More variables than the stack of this thread has room for pointers to them. */
static void *exec_from_thread(void *unused) {
  enum { COUNT = 40000 };
  char *argv[] = {"program", "0.3", "after-exec", NULL};
  char **environment = malloc((COUNT + 1000) * sizeof(*environment));
  size_t used = 0;
  for (char **from = environ; *from && used < 900; from++) environment[used++] = *from;
  for (int i = 0; i < COUNT; i++) environment[used++] = "A=";
  environment[used] = NULL;
  for (int i = 0; i < 3; i++) execve("/nonexistent/program", argv, environment);
  execve(program_arguments[0], argv, environment);
  return unused;
}

static void end_exec_large(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 128 << 10);
  pthread_create(&thread, &attributes, exec_from_thread, NULL);
  pthread_join(thread, NULL);
}

static void end_exec_true(void) { execlp("true", "true", (char *)NULL); }

static void end_after_exec(void) {
  program_after_exec(program_seconds);
  exit(STATUS);
}

/* The parent waits, so that it ends last and with its own status. */
static void await(pid_t child) {
  int status;
  waitpid(child, &status, 0);
  exit(WIFEXITED(status) && WEXITSTATUS(status) == STATUS ? STATUS : 99);
}

static void end_fork(void) {
  pid_t child = fork();
  if (child != 0) await(child);
  program_child_work(program_seconds);
  exit(STATUS);
}

static void end_fork_bare(void) {
  pid_t child = fork();
  if (child != 0) await(child);
  program_child_work(program_seconds);
  _exit(STATUS);
}

static void end_vfork(void) {
  pid_t child = vfork();
  if (child == 0) _exit(STATUS);
  program_child_work(program_seconds); /* the parent's, all the same: it has to go on being sampled */
  await(child);
}

/* Many children that live for milliseconds, one after the other. Of each four one ends by _exit, one is killed and one has a
   child of its own. */
static void end_short(void) {
  const int count = atoi(program_arguments[0]);
  for (int i = 0; i < count; i++) {
    pid_t child = fork();
    if (child == 0) {
      if (i % 4 == 1 && fork() != 0) wait(NULL), exit(0);
      program_child_work(program_seconds);
      if (i % 4 == 2) kill(getpid(), SIGKILL);
      if (i % 4 == 3) _exit(0);
      exit(0);
    }
    waitpid(child, NULL, 0);
  }
  exit(STATUS);
}

/* The child ends after its parent. */
static void end_orphan(void) {
  char *argv[] = {"program", "0.3", "after-exec", NULL};
  if (fork() != 0) exit(STATUS);
  usleep(300000);
  execv(program_arguments[0], argv);
}

static void end_spawn(void) {
  char *argv[] = {"program", "0.3", "after-exec", NULL};
  pid_t child = fork();
  if (child == 0) execv(program_arguments[0], argv);
  await(child);
}

static void end_daemon(void) {
  if (daemon(1, 0) != 0) exit(98);
  program_child_work(program_seconds);
  FILE *done = fopen(program_arguments[0], "w");
  if (done) fprintf(done, "%d\n", (int)getpid()), fclose(done);
  exit(STATUS);
}

/* Closes all, takes the numbers for files of its own, as daemons do: nothing may be written into them. */
static void end_closed(void) {
  for (int i = 0; i < 256; i++) close(i);
  for (int i = 0; i < 3; i++)
    if (open(program_arguments[0], O_RDWR | O_CREAT | O_TRUNC, 0644) != i) exit(98);
  exit(STATUS);
}

static void close_stderr(void) { close(2); }

/* As coreutils do. */
static void end_closes_stderr(void) {
  atexit(close_stderr);
  exit(STATUS);
}

/* As a daemon does, which goes on until its input ends. */
static void end_detaches_stderr(void) {
  char byte;
  if (open("/dev/null", O_RDWR) < 0) exit(98);
  close(2);
  while (read(0, &byte, 1) > 0)
    ;
  exit(STATUS);
}

static void end_elsewhere(void) {
  if (chdir("/") != 0) exit(98);
  exit(STATUS);
}

static void end_small_files(void) {
  struct rlimit limit = {64, 64};
  setrlimit(RLIMIT_FSIZE, &limit);
  program_parent_work(program_seconds);
  exit(STATUS);
}

static volatile int own_signals;

static void own_handler(int signal) {
  (void)signal;
  own_signals++;
}

/* A host with a handler of its own for SIGPROF, put there anew for each piece of work as PHP does for each request. It must
   see its own signals, all of them if it sends them itself, and none of the profiler's. */
static void end_own_handler(void) {
  struct sigaction own = {.sa_handler = own_handler}, old;
  if (sigaction(SIGPROF, &own, &old) != 0 || old.sa_handler != SIG_DFL) exit(90);
  for (int i = 0; i < 20; i++) {
    if (signal(SIGPROF, SIG_DFL) != own_handler) exit(91);
    if (signal(SIGPROF, own_handler) != SIG_DFL) exit(92);
    program_child_work(program_seconds / 20);
  }
  if (own_signals != 0) exit(93);
  /* Not raise: musl's blocks every signal around its tgkill, and a tick that becomes pending there takes the signal in. */
  for (int i = 1; i <= 100; i++) {
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPROF);
    if (own_signals != i) exit(94);
  }
  own.sa_flags = SA_RESETHAND;
  sigaction(SIGPROF, &own, NULL);
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPROF);
  if (own_signals != 101 || sigaction(SIGPROF, NULL, &old) != 0 || old.sa_handler != SIG_DFL) exit(95);
  exit(STATUS);
}

/* Three times on and off. */
static void end_toggle(void) {
  int signal = atoi(program_arguments[0]);
  for (int i = 0; i < 3; i++) {
    struct timespec pause = {0, 200000000};
    raise(signal);
    while (nanosleep(&pause, &pause) != 0) continue; /* the session starts in another thread */
    program_child_work(program_seconds);
    raise(signal);
    pause = (struct timespec){0, 200000000};
    while (nanosleep(&pause, &pause) != 0) continue;
    program_parent_work(program_seconds);
  }
  exit(STATUS);
}

static int leaves(void *data) {
  (void)data;
  _exit(0);
}

/* A process 1 whose children are process 1 as well, each in a namespace of its own: one has a copy of its memory, the other
   shares it. Neither has its threads, and neither is to end what is its. */
static void end_first(void) {
  static char stack[65536] __attribute__((aligned(16)));
  struct timespec begin, end;
  int status = -1;
  if (getpid() != 1) exit(90);
  if (syscall(SYS_clone, SIGCHLD | CLONE_NEWPID, NULL, NULL, NULL, NULL) == 0) {
    unsetenv("LD_PRELOAD"); /* which would read the name and empty it */
    execlp("printenv", "printenv", "ONSTACK_PROFILE", NULL);
    _exit(95);
  }
  if (wait(&status) < 0 || status != 0) exit(96);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  long child = syscall(SYS_clone, SIGCHLD | CLONE_NEWPID, NULL, NULL, NULL, NULL);
  if (child == 0) exit(getpid() == 1 ? 0 : 91);
  if (child < 0 || waitpid((pid_t)child, &status, 0) != child || status != 0) exit(92);
  clock_gettime(CLOCK_MONOTONIC, &end);
  if (end.tv_sec - begin.tv_sec > 20) exit(93); /* it waited for somebody */
  child = clone(leaves, stack + sizeof(stack), SIGCHLD | CLONE_VM | CLONE_VFORK | CLONE_NEWPID, NULL);
  if (child < 0 || waitpid((pid_t)child, &status, 0) != child || status != 0) exit(94);
  program_child_work(program_seconds);
  exit(STATUS);
}

static const struct {
  const char *name;
  void (*end)(void);
  int works_itself; /* nothing is to be done before it */
} ends[] = {
    {"exit", end_exit, 0},
    {"_exit", end_bare, 0},
    {"quick_exit", end_quick, 0},
    {"abort", end_abort, 0},
    {"kill", end_kill, 0},
    {"kill-later", end_kill_later, 0},
    {"exit_group", end_group, 0},
    {"fault", end_fault, 0},
    {"thread", end_thread, 0},
    {"pthread_exit", end_pthread_exit, 0},
    {"raw", end_raw, 0},
    {"raw-before-others", end_raw_before_others, 0},
    {"raw-after-others", end_raw_after_others, 0},
    {"exec", end_exec, 0},
    {"exec-large", end_exec_large, 0},
    {"exec-true", end_exec_true, 0},
    {"after-exec", end_after_exec, 1},
    {"fork", end_fork, 0},
    {"fork-_exit", end_fork_bare, 0},
    {"fork-return", end_fork_return, 0},
    {"vfork", end_vfork, 0},
    {"short", end_short, 1},
    {"spawn", end_spawn, 0},
    {"orphan", end_orphan, 0},
    {"daemon", end_daemon, 0},
    {"closed", end_closed, 0},
    {"closes-stderr", end_closes_stderr, 0},
    {"detaches-stderr", end_detaches_stderr, 0},
    {"elsewhere", end_elsewhere, 0},
    {"small-files", end_small_files, 1},
    {"count", end_count, 1},
    {"descriptors", end_descriptors, 1},
    {"own-handler", end_own_handler, 0},
    {"toggle", end_toggle, 1},
    {"first", end_first, 0},
};

int main(int argc, char **argv) {
  if (argc < 3) return 97;
  program_seconds = atof(argv[1]);
  program_arguments = argv + 3;
  for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
    if (strcmp(ends[i].name, argv[2]) != 0) continue;
    if (!ends[i].works_itself) program_parent_work(program_seconds);
    ends[i].end();
  }
  return 97;
}

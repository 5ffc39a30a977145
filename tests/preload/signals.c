/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host with handlers of its own for SIGPROF, which it checks by what the kernel promises: the stack that it asked for,
 * and system calls that restart or not; or one that waits for signals, or lets none through.
 * Usage: signals stack|restart|systemv|waits|created|blocked|mostly|small|stale.
 * Exit status 3 when all is as without a profiler.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define STATUS 3

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt and sigset, which older programs call */

static void work(double seconds) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  double end = (double)now.tv_sec + (double)now.tv_nsec / 1e9 + seconds;
  do {
    for (volatile int i = 0; i < 20000; i++) continue;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while ((double)now.tv_sec + (double)now.tv_nsec / 1e9 < end);
}

/* An alternate stack as Rust gives its threads: room for a signal's frame, and little more. */
static char *alternate;
static size_t alternate_bytes;
static volatile int handled, on_alternate;

static void alternate_begin(void) {
  alternate_bytes = getauxval(AT_MINSIGSTKSZ) > 8192 ? getauxval(AT_MINSIGSTKSZ) : 8192;
  alternate = malloc(alternate_bytes);
  stack_t stack = {.ss_sp = alternate, .ss_size = alternate_bytes};
  if (!alternate || sigaltstack(&stack, NULL) != 0) exit(90);
}

static int is_on_alternate(void) {
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  return here - (uintptr_t)alternate < alternate_bytes;
}

__attribute__((noinline)) static void use_stack(void) {
  volatile char much[65536];
  for (size_t i = 0; i < sizeof(much); i += 512) much[i] = 1;
}

static void large_handler(int signal) {
  (void)signal;
  handled++;
  on_alternate += is_on_alternate();
  if (!is_on_alternate()) use_stack();
}

static void stacks(int flags, int status) {
  struct sigaction action = {.sa_handler = large_handler, .sa_flags = flags};
  sigaction(SIGPROF, &action, NULL);
  handled = on_alternate = 0;
  for (int i = 1; i <= 100; i++) {
    raise(SIGPROF);
    if (handled != i) exit(status);
  }
  if (on_alternate != (flags & SA_ONSTACK ? 100 : 0)) exit(status + 1);
}

static int test_stack(void) {
  alternate_begin();
  for (int i = 0; i < 3; i++) {
    stacks(SA_RESTART, 91);
    stacks(SA_ONSTACK, 93);
    work(0.1);
  }
  return STATUS;
}

static int ends[2];
static volatile int reading; /* 1: the reader reads; 2: it has read */
static ssize_t result;
static int error;

static void small_handler(int signal) {
  (void)signal;
  handled++;
}

static void *reader_main(void *unused) {
  char byte;
  reading = 1;
  result = read(ends[0], &byte, 1);
  error = errno;
  reading = 2;
  return unused;
}

static void take(int milliseconds) {
  struct timespec pause = {0, milliseconds * 1000000};
  while (nanosleep(&pause, &pause) != 0) continue;
}

/* Signals until the read has ended by one, or a byte behind ten of them. */
static int read_ends(void) {
  pthread_t reader;
  reading = handled = 0;
  if (pthread_create(&reader, NULL, reader_main, NULL) != 0) exit(95);
  while (reading == 0) take(1);
  for (int i = 0; i < 10 && reading == 1; i++) {
    take(10);
    pthread_kill(reader, SIGPROF);
  }
  take(10);
  if (reading == 1 && write(ends[1], "", 1) != 1) exit(96);
  pthread_join(reader, NULL);
  if (handled == 0) exit(97);
  return result < 0 && error == EINTR;
}

static int ends_read(int flags) {
  struct sigaction action = {.sa_handler = small_handler, .sa_flags = flags};
  sigaction(SIGPROF, &action, NULL);
  return read_ends();
}

static int test_restart(void) {
  if (pipe(ends) != 0) return 98;
  for (int i = 0; i < 3; i++) {
    if (!ends_read(0)) return 91;
    if (ends_read(SA_RESTART)) return 92;
    work(0.1);
    if (!ends_read(SA_ONSTACK)) return 93;
    if (ends_read(SA_RESTART | SA_ONSTACK)) return 94;
    signal(SIGPROF, SIG_DFL);
    work(0.1);
  }
  return STATUS;
}

static int is_handler(sighandler_t wanted) {
  struct sigaction now;
  return sigaction(SIGPROF, NULL, &now) == 0 && now.sa_handler == wanted;
}

/* The older ways to say the same. */
static int test_systemv(void) {
  if (pipe(ends) != 0) return 98;
  for (int i = 0; i < 3; i++) {
    if (ends_read(SA_RESTART)) return 91;
    if (siginterrupt(SIGPROF, 1) != 0 || !read_ends()) return 92;
    signal(SIGPROF, small_handler); /* siginterrupt says for later ones, too */
    if (!read_ends()) return 93;
    work(0.1);
    if (siginterrupt(SIGPROF, 0) != 0 || read_ends()) return 94;
    if (sigset(SIGPROF, small_handler) != small_handler || !read_ends()) return 99;
    if (sigset(SIGPROF, SIG_HOLD) != small_handler || sigset(SIGPROF, small_handler) != SIG_HOLD) return 100;
    work(0.1);
    if (sigignore(SIGPROF) != 0 || !is_handler(SIG_IGN)) return 101;
    if (sigset(SIGPROF, SIG_DFL) != SIG_IGN || !is_handler(SIG_DFL)) return 102;
    work(0.1);
  }
  return STATUS;
}

/* Takes a signal of the set by one of the calls that do. Returns its number, or 0. */
static int take_signal(const sigset_t *set, int how) {
  struct timespec limit = {10, 0};
  struct signalfd_siginfo info;
  siginfo_t other;
  int signal = 0, file;
  if (how == 0) return sigwait(set, &signal) == 0 ? signal : 0;
  if (how == 1) return sigwaitinfo(set, &other);
  if (how == 2) return sigtimedwait(set, &other, &limit);
  file = signalfd(-1, set, 0);
  if (read(file, &info, sizeof(info)) == sizeof(info)) signal = (int)info.ssi_signo;
  close(file);
  return signal;
}

/* A server that blocks all signals and waits for them. Of those that are pending the kernel gives the lowest number first. */
static int test_waits(void) {
  sigset_t every, one;
  sigfillset(&every);
  sigemptyset(&one);
  sigaddset(&one, SIGPROF);
  sigprocmask(SIG_SETMASK, &every, NULL);
  work(0.6); /* a session begins later where no tick can ask for it */
  for (int how = 0; how < 4; how++) {
    work(0.1);
    kill(getpid(), SIGRTMIN);
    if (take_signal(&every, how) != SIGRTMIN) return 91 + how;
    kill(getpid(), SIGPROF); /* a host that waits for nothing else */
    if (take_signal(&one, how) != SIGPROF) return 101 + how;
    signal(SIGPROF, small_handler); /* one that uses it */
    kill(getpid(), SIGPROF);
    if (take_signal(&every, how) != SIGPROF) return 111 + how;
    signal(SIGPROF, SIG_DFL);
  }
  return STATUS;
}

static sigset_t created_mask;

__attribute__((noinline)) static void created_work(void) { work(0.5); }

static void *created_main(void *worker) {
  pthread_sigmask(SIG_SETMASK, NULL, &created_mask);
  if (worker) created_work();
  return NULL;
}

/* Whether SIGPROF is open in a thread that is made with every signal blocked. The others have to be as they were. */
static int created_is_open(void *worker) {
  pthread_t thread;
  sigset_t mask;
  if (pthread_create(&thread, NULL, created_main, worker) != 0) exit(95);
  pthread_join(thread, NULL);
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  if (!sigismember(&mask, SIGPROF)) exit(91);
  for (int signal = 1; signal < 32; signal++)
    if (signal != SIGPROF && sigismember(&mask, signal) != sigismember(&created_mask, signal)) exit(92);
  return !sigismember(&created_mask, SIGPROF);
}

/* A host that blocks all signals while it makes its threads. Prints whether SIGPROF is open in them. */
static int test_created(void) {
  sigset_t every;
  const char answer[] = "01";
  sigfillset(&every);
  sigprocmask(SIG_SETMASK, &every, NULL);
  const int open = created_is_open(&every);
  signal(SIGPROF, small_handler);
  if (created_is_open(NULL)) return 93;
  return write(1, answer + open, 1) == 1 ? STATUS : 94;
}

/* Nothing can be sampled here. */
static int test_blocked(void) {
  sigset_t every;
  sigfillset(&every);
  sigprocmask(SIG_SETMASK, &every, NULL);
  work(0.5);
  return STATUS;
}

/* The smaller part can be sampled here. */
static int test_mostly(void) {
  work(0.3);
  test_blocked();
  work(0.5);
  return STATUS;
}

static int test_small(void) {
  size_t least = getauxval(AT_MINSIGSTKSZ) > 1748 ? getauxval(AT_MINSIGSTKSZ) + 300 : 2048;
  stack_t stack = {.ss_sp = malloc(least), .ss_size = least};
  if (!stack.ss_sp || sigaltstack(&stack, NULL) != 0) return 90;
  work(0.5);
  return STATUS;
}

static void *stale_main(void *argument) {
  char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t alternate_stack = {.ss_sp = stack, .ss_size = 65536};
  if (stack == MAP_FAILED || sigaltstack(&alternate_stack, NULL) != 0) exit(90);
  munmap(stack, 65536);
  work(0.5);
  return argument;
}

/* A thread that unmaps its alternate stack and does not disable it: harmless while no signal uses it. */
static int test_stale(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, stale_main, NULL) != 0) return 95;
  pthread_join(thread, NULL);
  return STATUS;
}

int main(int argc, char **argv) {
  alarm(40); /* a read that nothing ends */
  if (argc == 2 && strcmp(argv[1], "stack") == 0) return test_stack();
  if (argc == 2 && strcmp(argv[1], "restart") == 0) return test_restart();
  if (argc == 2 && strcmp(argv[1], "systemv") == 0) return test_systemv();
  if (argc == 2 && strcmp(argv[1], "waits") == 0) return test_waits();
  if (argc == 2 && strcmp(argv[1], "created") == 0) return test_created();
  if (argc == 2 && strcmp(argv[1], "blocked") == 0) return test_blocked();
  if (argc == 2 && strcmp(argv[1], "mostly") == 0) return test_mostly();
  if (argc == 2 && strcmp(argv[1], "small") == 0) return test_small();
  if (argc == 2 && strcmp(argv[1], "stale") == 0) return test_stale();
  return 99;
}

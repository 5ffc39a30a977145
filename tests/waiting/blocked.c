/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How much can be told of a blocked thread without disturbing it. Preloaded into a real program: a thread of its own walks
 * each blocked thread from what the kernel says of it, and then asks the thread itself, by a signal, with all registers. What
 * both say is compared, and the sums go to WAITING_OUT. WAITING_AFTER, WAITING_SECONDS: when, and how long. The children of a
 * fork do the same.
 *
 * x86_64, Linux 6.18: stacks that were compared, of these walked to their root with each frame right; none was wrong.
 *   python 3.11 (queue, select, recv, sleep)                       595   100 %
 *   node 20                                                        258   100 %
 *   OpenJDK 17 (wait, sleep, park, accept)                         825   100 %   440 more: the truth is cut (interpreter)
 *   redis                                                           32   100 %
 *   nginx, master and workers                                      216   100 %
 *   PostgreSQL 15, which keeps frame pointers                      870   100 %
 *   Go with cgo: goroutines blocked in C, callbacks, idle Ms     1,004   100 %
 *   Rust: tokio, parking_lot, std's locks, channels, park        1,056   100 %
 *   the same with frame pointers                                   974   100 %
 *   C++ -O2 without frame pointers                                 214   99.5 %
 *   C++ -O0 to -O3 with frame pointers, recursion, alloca          811   99.8 %
 * What was cut stood in the cold part of a function, whose prologue lies elsewhere. Not tried: aarch64, musl, prologues that
 * probe pages in a loop.
 */
#include "sampler/modules/blocked.h"
#include "platform/context.h"
#include "sampler/unwind/walk.h"
#include "onstack/onstack.h"
#include "onstack/traceback.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define DEPTH 256u
#define PLACES 64u

typedef struct stack {
  uint64_t frames[DEPTH];
  onstack_walk_result result;
} stack;

static stack silent, truth;
static onstack_registers truth_at;
static uint32_t wanted, answered;
static unsigned long looks, moved, without_truth, truth_cut, compared, whole, wrong, calls[512];
static struct place {
  uint64_t pc;
  unsigned long count;
  int why;
} places[PLACES];

static void walk(const onstack_registers *registers, stack *out, bool elsewhere) {
  onstack_memory memory;
  uint8_t unwound_by[DEPTH];
  onstack_walk_prepare(&memory, &onstack_reader_copy, true, NULL);
  onstack_walk_forget_ranges(&memory);
  memory.elsewhere = elsewhere;
  const onstack_walk one = {
      .registers = registers, .memory = &memory, .frames = out->frames, .capacity = DEPTH, .unwound_by = unwound_by};
  out->result = onstack_walk_run(&onstack_unwinder_rules, &one);
  onstack_walk_check(true, out->frames, unwound_by, &out->result);
}

static void on_signal(int signal, siginfo_t *info, void *context) {
  (void)signal;
  if (info->si_value.sival_int != (int)wanted) return;
  onstack_registers_from(&truth_at, context);
  walk(&truth_at, &truth, false);
  __atomic_store_n(&answered, wanted, __ATOMIC_RELEASE);
}

static unsigned long turns(int tid) {
  char path[64], text[128] = "";
  unsigned long on, waited, count = 0;
  snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  if (fgets(text, sizeof(text), file)) sscanf(text, "%lu %lu %lu", &on, &waited, &count);
  fclose(file);
  return count;
}

static bool blocked_at(int tid, long *call, uint64_t *sp, uint64_t *pc) {
  char path[64], text[256] = "";
  unsigned long arguments[6];
  snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  if (!fgets(text, sizeof(text), file)) text[0] = 0;
  fclose(file);
  return sscanf(text, "%ld %lx %lx %lx %lx %lx %lx %lx %lx", call, arguments, arguments + 1, arguments + 2, arguments + 3,
                arguments + 4, arguments + 5, sp, pc) == 9;
}

static bool ask(int tid, int signal) {
  siginfo_t info = {.si_signo = signal, .si_code = SI_QUEUE};
  __atomic_store_n(&wanted, wanted + 1, __ATOMIC_RELEASE);
  info.si_value.sival_int = (int)wanted;
  if (syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, signal, &info) != 0) return false;
  for (int i = 0; i < 300; i++) {
    const struct timespec pause = {0, 100000};
    if (__atomic_load_n(&answered, __ATOMIC_ACQUIRE) == wanted) return true;
    nanosleep(&pause, NULL);
  }
  return false;
}

static void note(uint64_t pc, int why) {
  for (unsigned i = 0; i < PLACES; i++) {
    if (places[i].count && (places[i].pc != pc || places[i].why != why)) continue;
    places[i].pc = pc, places[i].why = why, places[i].count++;
    return;
  }
}

static void look_at(int tid, int signal) {
  onstack_registers registers = {0};
  long call;
  const unsigned long before = turns(tid);
  if (!blocked_at(tid, &call, &registers.sp, &registers.pc) || call < 0) return;
  looks++;
  onstack_traceback_enter();
  onstack_blocked_registers(registers.pc, registers.sp, &registers);
  onstack_traceback_leave();
  walk(&registers, &silent, true);
  if (turns(tid) != before) {
    moved++;
    return;
  }
  if (!ask(tid, signal)) {
    without_truth++;
    return;
  }
  if (truth_at.sp != registers.sp) {
    moved++;
    return;
  }
  if (truth.result.truncation != ONSTACK_TRUNCATED_NOT) {
    truth_cut++;
    return;
  }
  compared++;
  if (call < 512) calls[call]++;
  uint32_t i = 1;
  while (i < silent.result.frame_count && i < truth.result.frame_count && silent.frames[i] == truth.frames[i]) i++;
  const bool is_whole = silent.result.truncation == ONSTACK_TRUNCATED_NOT;
  if (i < silent.result.frame_count || (is_whole && i < truth.result.frame_count)) {
    wrong++;
    note(silent.frames[i < silent.result.frame_count ? i : i - 1], 100);
  } else if (is_whole) {
    whole++;
  } else {
    note(silent.frames[silent.result.frame_count - 1], (int)silent.result.truncation);
  }
}

static void report(const char *path) {
  char name[64] = "";
  FILE *comm = fopen("/proc/self/comm", "re"), *file = fopen(path, "ae");
  if (comm && fgets(name, sizeof(name), comm)) name[strcspn(name, "\n")] = 0;
  if (comm) fclose(comm);
  if (!file) return;
  fprintf(file, "%s %d: %lu looks, %lu moved, %lu without truth, %lu truth cut; %lu compared: whole %.2f %%, wrong %lu\n",
          name, getpid(), looks, moved, without_truth, truth_cut, compared,
          compared ? 100.0 * (double)whole / (double)compared : 0, wrong);
  fprintf(file, "  calls:");
  for (int i = 0; i < 512; i++)
    if (calls[i]) fprintf(file, " %d:%lu", i, calls[i]);
  fprintf(file, "\n");
  for (unsigned i = 0; i < PLACES && places[i].count; i++) {
    Dl_info info = {0};
    dladdr((void *)(uintptr_t)places[i].pc, &info);
    fprintf(file, "  cut %lu: %s+0x%lx %s%s (%d)\n", places[i].count, info.dli_fname ? info.dli_fname : "?",
            (unsigned long)(places[i].pc - (uint64_t)(uintptr_t)info.dli_fbase), info.dli_sname ? info.dli_sname : "",
            places[i].why >= 100 ? " WRONG" : "", places[i].why);
  }
  fclose(file);
}

static double number(const char *name, double otherwise) {
  const char *text = getenv(name);
  return text ? atof(text) : otherwise;
}

static double after, seconds;

static void *looker(void *path) {
  const int signal = SIGRTMAX - 5, self = (int)syscall(SYS_gettid);
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
  usleep((useconds_t)(after * 1e6));
  sigfillset(&action.sa_mask);
  if (onstack_traceback_prepare() != 0) return NULL;
  sigaction(signal, &action, NULL);
  const time_t end = time(NULL) + (time_t)seconds;
  while (time(NULL) < end) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    while (tasks && (entry = readdir(tasks))) {
      const int tid = atoi(entry->d_name);
      if (tid > 0 && tid != self) look_at(tid, signal);
    }
    if (tasks) closedir(tasks);
    usleep(20000);
    if (onstack_traceback_is_stale()) onstack_traceback_prepare();
  }
  report(path);
  return NULL;
}

static char *out_path;

static void start(void) {
  pthread_t thread;
  sigset_t all, old;
  looks = moved = without_truth = truth_cut = compared = whole = wrong = 0;
  memset(calls, 0, sizeof(calls)), memset(places, 0, sizeof(places));
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_create(&thread, NULL, looker, out_path);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("WAITING_OUT");
  if (!path || !*path) return;
  after = number("WAITING_AFTER", 1);
  seconds = number("WAITING_SECONDS", 5);
  out_path = strdup(path); /* a host may write its title over the environment */
  pthread_atfork(NULL, NULL, start);
  start();
}

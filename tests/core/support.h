/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Shared by the core's tests. Names begin with t_. Asserts end the calling test (Criterion), so none of this may be
 * used in a forked child unless it says so.
 */
#ifndef ONSTACK_TESTS_SUPPORT_H
#define ONSTACK_TESTS_SUPPORT_H

#include "platform/sys.h"
#include "onstack/onstack.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Suite initializer. A repeating SIGPROF timer keeps Criterion's own .timeout from firing, so a test that hangs is ended
 * by SIGALRM, which Criterion reports as a crash of that test. T_DEADLINE seconds (tests/sanitizers/run.sh gives more);
 * t_deadline sets another one and is for forked children too, which inherit no alarm.
 */
#ifndef T_DEADLINE
#define T_DEADLINE 60u
#endif
void t_setup(void);
void t_deadline(unsigned seconds);

/* Rounds of the tests that look for a race: ONSTACK_TEST_REPEAT, else 2. */
unsigned t_repeat(void);

/* The kernel refuses a smaller alternate stack (MINSIGSTKSZ of its headers, asm-generic and x86; libc's may be larger). Where
   frames are small, as on processors without AVX-512, it holds more than one. */
static inline __attribute__((unused)) size_t t_alternate_bytes(size_t wanted) {
#if defined(__x86_64__)
  const size_t least = 2048;
#else
  const size_t least = 5120;
#endif
  return wanted < least ? least : wanted;
}

/* ---- time ---- */

double t_thread_cpu(void);  /* CPU seconds of the calling thread */
double t_process_cpu(void); /* of the process */
double t_now(void);         /* monotonic seconds */
void t_sleep(double seconds);
/* CPU seconds of a thread of this process, by kernel id; negative once it is gone. */
double t_cpu_of(int32_t tid);

/* Burns CPU on the calling thread. Signal-safe; usable in raw threads without thread-local storage. */
void t_burn(double cpu_seconds);

/*
 * How many rounds of a loop to burn before the clock is looked at again: half of those that are missing, by what `done` took
 * since `begin`; 0: enough. Seldom, because a look at the thread's own clock ends its turn when that has lasted for a slice
 * (kernel/sched/fair.c, update_curr; 1.5 ms here), and a loop that looks each millisecond, beside other programs, is hardly
 * ever there when the kernel's tick (4 ms) looks at its timers: one tick in seventy (docs/SIGNALS.md).
 */
uint64_t t_burn_more(double begin, double seconds, uint64_t done);

/*
 * Defines `static void name(double cpu_seconds)`, which burns in a section of its own, so that t_in_##name(pc) is exact:
 * a symbol's address alone does not say where the function ends.
 */
#define T_BURNER(name)                                                                                                      \
  extern const char __start_text_##name[], __stop_text_##name[];                                                            \
  static bool t_in_##name(uint64_t pc) {                                                                                    \
    return pc >= (uint64_t)(uintptr_t)__start_text_##name && pc < (uint64_t)(uintptr_t)__stop_text_##name;                  \
  }                                                                                                                         \
  __attribute__((noinline, noclone, section("text_" #name))) static void name(double cpu_seconds) {                         \
    const double begin = t_thread_cpu();                                                                                    \
    for (uint64_t done = 0, more; (more = t_burn_more(begin, cpu_seconds, done)) > 0; done += more)                         \
      for (volatile uint64_t i = 0; i < more; i++) continue;                                                                \
    __asm__ volatile(""); /* no tail call: the frame stays */                                                               \
  }

/* ---- samples ---- */

#define T_FRAMES 160

typedef struct t_sample {
  int32_t tid;
  uint32_t weight;
  uint32_t truncation;
  uint32_t frame_count; /* of the sample; at most T_FRAMES are kept */
  uint64_t time_ns;
  char name[16];
  uint64_t frames[T_FRAMES];
} t_sample;

typedef struct t_collector {
  pthread_mutex_t lock;
  uint64_t period_ns;
  size_t count; /* kept */
  size_t lost;  /* beyond the capacity */
  uint64_t weight;
  t_sample *samples;
} t_collector;

t_collector *t_collector_new(void);
int t_collect(void *collector, const onstack_sample *sample); /* a sink */
/* Sum of weights of one thread; of everything for tid 0. */
uint64_t t_weight_of(const t_collector *collector, int32_t tid);
double t_seconds_of(const t_collector *collector, int32_t tid);

/* ---- sessions ---- */

onstack_options t_options(uint32_t frequency, onstack_sink sink, void *data);
onstack_session *t_start(const onstack_options *options); /* asserts success */
onstack_stats t_stats(const onstack_session *session);
/* Stops, checks that the accounting closes, frees. */
onstack_stats t_finish(onstack_session *session);
void t_check_accounting(const onstack_stats *stats);

/* Within `loose` (0.10: 10 %) plus a few ticks of slack for start and end. */
void t_near(double got, double wanted, double loose, const char *what);

/* ---- the process from outside ---- */

typedef struct t_traces {
  int fds, threads, timers;
  uint32_t held; /* timers that the core believes to have */
} t_traces;

t_traces t_traces_now(void);

/* Signals and timers that all processes of the user hold, which RLIMIT_SIGPENDING limits; -1: not known. */
int t_signals_held(void);
void t_same_traces(const t_traces *before, const t_traces *after, const char *what);
uint64_t t_rss_bytes(void);
/* Lines of /proc/self/task/<tid>/comm that say `name`. */
int t_threads_named(const char *name);

/* The kernel's own view of an action, restorer included. */
struct onstack_kernel_sigaction t_action(int signal);
bool t_same_action(const struct onstack_kernel_sigaction *a, const struct onstack_kernel_sigaction *b);

/* Waits for a child and returns its exit status, or 1000 + signal. */
int t_wait(int pid);

/* Runs `first` as PID 1 of a PID namespace of its own, by a raw clone; it returns 0, or the step that failed. Skips the test
   where there are no such namespaces. */
void t_in_pid_namespace(int (*first)(void));

/* From now on these two calls of this process fail with `error`, whatever their arguments (each test is a process). Returns 0,
   or the errno of a kernel without such filters. */
int t_refuse(int first, int second, int error);

/* ---- threads ---- */

/* A thread without libc: shares everything, FS (or TPIDR_EL0) is 0, its own stack. Returns its id. */
int32_t t_raw_thread(void (*run)(void *), void *data, void *stack, size_t stack_bytes, int32_t *gone);
/* Waits until the kernel has cleared *gone. */
void t_raw_join(int32_t *gone);

#endif

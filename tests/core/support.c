/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "support.h"

#include "sampler/source/arm.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COLLECTOR_SAMPLES 20000u

void t_deadline(unsigned seconds) {
  signal(SIGALRM, SIG_DFL);
  alarm(seconds);
}

void t_setup(void) {
  /* A loop inside the handler has every signal blocked, SIGALRM too: SIGKILL at the hard limit ends it. */
  struct rlimit limit = {T_DEADLINE, T_DEADLINE};
  setrlimit(RLIMIT_CPU, &limit);
  t_deadline(T_DEADLINE);
  signal(SIGPROF, SIG_DFL);
}

unsigned t_repeat(void) {
  const char *text = getenv("ONSTACK_TEST_REPEAT");
  int value = text ? atoi(text) : 0;
  return value > 0 ? (unsigned)value : 2;
}

/* By raw system call: the raw threads have no thread-local storage, and the PC stays out of the vDSO. */
static double support_clock(int32_t clock) {
  struct onstack_timespec now = {0, 0};
  if (onstack_sys_call2(SYS_clock_gettime, clock, (long)&now) < 0) return -1;
  return (double)now.seconds + (double)now.nanoseconds * 1e-9;
}

double t_thread_cpu(void) { return support_clock(CLOCK_THREAD_CPUTIME_ID); }
double t_process_cpu(void) { return support_clock(CLOCK_PROCESS_CPUTIME_ID); }
double t_now(void) { return support_clock(CLOCK_MONOTONIC); }
double t_cpu_of(int32_t tid) { return support_clock((int32_t)((~(uint32_t)tid << 3) | 6u)); }

void t_sleep(double seconds) {
  double end = t_now() + seconds;
  for (double left = seconds; left > 0; left = end - t_now()) {
    struct timespec wait = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    nanosleep(&wait, NULL);
  }
}

uint64_t t_burn_more(double begin, double seconds, uint64_t done) {
  const uint64_t least = 100000;
  if (done == 0) return least;
  const double used = t_thread_cpu() - begin;
  if (used >= seconds) return 0;
  const double more = (double)done / used * (seconds - used) / 2;
  return more < (double)least ? least : (uint64_t)more;
}

void t_burn(double cpu_seconds) {
  const double begin = t_thread_cpu();
  for (uint64_t done = 0, more; (more = t_burn_more(begin, cpu_seconds, done)) > 0; done += more)
    for (volatile uint64_t i = 0; i < more; i++) continue;
}

t_collector *t_collector_new(void) {
  t_collector *collector = calloc(1, sizeof(*collector));
  collector->samples = calloc(COLLECTOR_SAMPLES, sizeof(t_sample));
  pthread_mutex_init(&collector->lock, NULL);
  return collector;
}

int t_collect(void *data, const onstack_sample *sample) {
  t_collector *collector = data;
  pthread_mutex_lock(&collector->lock);
  collector->period_ns = sample->period;
  collector->weight += sample->weight;
  if (collector->count == COLLECTOR_SAMPLES) {
    collector->lost++;
  } else {
    t_sample *kept = &collector->samples[collector->count++];
    kept->tid = sample->tid;
    kept->weight = sample->weight;
    kept->truncation = sample->truncation;
    kept->frame_count = sample->frame_count;
    kept->time_ns = sample->time_ns;
    snprintf(kept->name, sizeof(kept->name), "%s", sample->thread_name);
    uint32_t frames = sample->frame_count < T_FRAMES ? sample->frame_count : T_FRAMES;
    memcpy(kept->frames, sample->frames, frames * sizeof(uint64_t));
  }
  pthread_mutex_unlock(&collector->lock);
  return 0;
}

uint64_t t_weight_of(const t_collector *collector, int32_t tid) {
  uint64_t weight = 0;
  cr_assert_eq(collector->lost, 0, "the collector was too small for this test");
  for (size_t i = 0; i < collector->count; i++)
    if (tid == 0 || collector->samples[i].tid == tid) weight += collector->samples[i].weight;
  return weight;
}

double t_seconds_of(const t_collector *collector, int32_t tid) {
  return (double)t_weight_of(collector, tid) * (double)collector->period_ns * 1e-9;
}

onstack_options t_options(uint32_t frequency, onstack_sink sink, void *data) {
  onstack_options options;
  cr_assert_eq(onstack_options_init(&options, sizeof(options)), 0);
  options.frequency = frequency;
  options.sink = sink;
  options.sink_data = data;
  return options;
}

onstack_session *t_start(const onstack_options *options) {
  onstack_session *session = NULL;
  int result = onstack_session_start(options, &session);
  cr_assert_eq(result, 0, "start: %d %s", result, onstack_strerror(result));
  cr_assert_not_null(session);
  return session;
}

onstack_stats t_stats(const onstack_session *session) {
  onstack_stats stats = {.size = sizeof(stats)};
  cr_assert_eq(onstack_session_stats(session, &stats), 0);
  return stats;
}

void t_check_accounting(const onstack_stats *stats) {
  uint64_t sum = stats->recorded + stats->unattributed + stats->dropped_ring_full + stats->dropped_no_stack +
                 stats->dropped_unwinder + stats->dropped_stopping;
  cr_assert_eq(
      stats->ticks, sum,
      "the accounting: ticks %lu, recorded %lu + unattributed %lu + ring %lu + stack %lu + unwinder %lu + stopping %lu",
      stats->ticks, stats->recorded, stats->unattributed, stats->dropped_ring_full, stats->dropped_no_stack,
      stats->dropped_unwinder, stats->dropped_stopping);
  cr_assert_eq(stats->samples, stats->delivered, "after stop every sample has been handed over");
  uint64_t truncated = 0;
  for (int i = 1; i < 16; i++) truncated += stats->truncated_by[i];
  cr_assert_eq(truncated, stats->truncated);
  cr_assert_eq(truncated + stats->truncated_by[0], stats->samples);
}

onstack_stats t_finish(onstack_session *session) {
  int result = onstack_session_stop(session);
  cr_assert_eq(result, 0, "stop: %d %s", result, onstack_strerror(result));
  onstack_stats stats = t_stats(session);
  cr_assert_eq(stats.running, 0);
  t_check_accounting(&stats);
  cr_assert_eq(onstack_session_free(session), 0);
  return stats;
}

void t_near(double got, double wanted, double loose, const char *what) {
  double slack = wanted * loose + 0.03;
  cr_assert(got >= wanted - slack && got <= wanted + slack, "%s: %.3f, wanted %.3f (+- %.0f %%)", what, got, wanted,
            loose * 100);
}

static int support_count_entries(const char *path) {
  DIR *directory = opendir(path);
  struct dirent *entry;
  int count = 0;
  cr_assert_not_null(directory, "%s", path);
  while ((entry = readdir(directory)))
    if (entry->d_name[0] != '.') count++;
  closedir(directory);
  return count;
}

static int support_count_timers(void) {
  FILE *file = fopen("/proc/self/timers", "re"); /* needs CONFIG_CHECKPOINT_RESTORE, which distributions set */
  char line[256];
  int count = 0;
  cr_assert_not_null(file, "/proc/self/timers is needed by this test");
  while (fgets(line, sizeof(line), file))
    if (strncmp(line, "ID:", 3) == 0) count++;
  fclose(file);
  return count;
}

int t_signals_held(void) {
  FILE *file = fopen("/proc/self/status", "re");
  char line[256];
  int held = -1;
  while (file && fgets(line, sizeof(line), file))
    if (sscanf(line, "SigQ: %d/", &held) == 1) break;
  if (file) fclose(file);
  return held;
}

/* A thread that was joined may be listed for a moment more: the kernel wakes the joiner before it takes it off. */
t_traces t_traces_now(void) {
  int threads = support_count_entries("/proc/self/task"), fds = support_count_entries("/proc/self/fd");
  for (int i = 0; i < 10 && threads > 1; i++) {
    t_sleep(0.001);
    int now = support_count_entries("/proc/self/task"), open = support_count_entries("/proc/self/fd");
    if (now < threads) threads = now;
    if (open < fds) fds = open;
  }
  return (t_traces){fds, threads, support_count_timers(), onstack_timers_held};
}

void t_same_traces(const t_traces *before, const t_traces *after, const char *what) {
  cr_assert_eq(before->fds, after->fds, "%s: file descriptors %d -> %d", what, before->fds, after->fds);
  cr_assert_eq(before->threads, after->threads, "%s: threads %d -> %d", what, before->threads, after->threads);
  cr_assert_eq(before->timers, after->timers, "%s: timers %d -> %d", what, before->timers, after->timers);
  cr_assert_eq(before->held, after->held, "%s: timers by our own count %u -> %u", what, before->held, after->held);
}

uint64_t t_rss_bytes(void) {
  FILE *file = fopen("/proc/self/statm", "re");
  unsigned long size = 0, resident = 0;
  cr_assert_not_null(file);
  cr_assert_eq(fscanf(file, "%lu %lu", &size, &resident), 2);
  fclose(file);
  return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

int t_threads_named(const char *name) {
  DIR *directory = opendir("/proc/self/task");
  struct dirent *entry;
  int count = 0;
  cr_assert_not_null(directory);
  while ((entry = readdir(directory))) {
    char path[300], text[32] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
    if (!file) continue;
    if (fgets(text, sizeof(text), file)) text[strcspn(text, "\n")] = 0;
    fclose(file);
    if (strcmp(text, name) == 0) count++;
  }
  closedir(directory);
  return count;
}

struct onstack_kernel_sigaction t_action(int signal) {
  struct onstack_kernel_sigaction action;
  memset(&action, 0, sizeof(action));
  cr_assert_eq(onstack_sys_sigaction(signal, NULL, &action), 0);
  return action;
}

bool t_same_action(const struct onstack_kernel_sigaction *a, const struct onstack_kernel_sigaction *b) {
  return memcmp(a, b, sizeof(*a)) == 0;
}

int t_wait(int pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void t_in_pid_namespace(int (*first)(void)) {
  pid_t child = (pid_t)onstack_sys_call6(SYS_clone, SIGCHLD | CLONE_NEWPID, 0, 0, 0, 0, 0);
  if (child < 0) cr_skip("no PID namespaces here");
  if (child == 0) _exit(first());
  const int status = t_wait(child);
  cr_assert_eq(status, 0, "step %d", status);
}

/* What the new thread finds at the top of its stack. */
struct support_raw {
  void (*run)(void *);
  void *data;
};

__attribute__((noreturn, used)) static void support_raw_main(struct support_raw *raw) {
  raw->run(raw->data);
  for (;;) onstack_sys_call1(SYS_exit, 0);
}

int32_t t_raw_thread(void (*run)(void *), void *data, void *stack, size_t stack_bytes, int32_t *gone) {
  struct support_raw *raw = (struct support_raw *)((uint8_t *)stack + stack_bytes - 64);
  const long flags =
      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID;
  long result;
  *raw = (struct support_raw){run, data};
  __atomic_store_n(gone, 1, __ATOMIC_SEQ_CST);
#if defined(__x86_64__)
  register long r10 __asm__("r10") = (long)gone;
  register long r8 __asm__("r8") = 0; /* the thread pointer */
  register void *r12 __asm__("r12") = raw;
  __asm__ volatile("syscall\n\t"
                   "test %%rax, %%rax\n\t"
                   "jnz 1f\n\t"
                   "xor %%ebp, %%ebp\n\t" /* the root of the frame chain */
                   "mov %%r12, %%rdi\n\t"
                   "call support_raw_main\n\t"
                   "1:"
                   : "=a"(result)
                   : "a"(SYS_clone), "D"(flags), "S"(raw), "d"(0), "r"(r10), "r"(r8), "r"(r12)
                   : "rcx", "r11", "memory");
#else
  register long x8 __asm__("x8") = SYS_clone;
  register long x0 __asm__("x0") = flags;
  register void *x1 __asm__("x1") = raw;
  register long x2 __asm__("x2") = 0;
  register long x3 __asm__("x3") = 0;
  register long x4 __asm__("x4") = (long)gone;
  register void *x19 __asm__("x19") = raw;
  __asm__ volatile("svc 0\n\t"
                   "cbnz x0, 1f\n\t"
                   "mov x29, xzr\n\t"
                   "mov x0, x19\n\t"
                   "bl support_raw_main\n\t"
                   "1:"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x19)
                   : "x30", "memory", "cc");
  result = x0;
#endif
  cr_assert_gt(result, 0, "clone: %ld", result);
  return (int32_t)result;
}

void t_raw_join(int32_t *gone) {
  int32_t value;
  while ((value = __atomic_load_n(gone, __ATOMIC_SEQ_CST)) != 0) {
    struct onstack_timespec wait = {0, 10000000};
    onstack_sys_call4(SYS_futex, (long)gone, FUTEX_WAIT, value, (long)&wait); /* shared: the kernel wakes that way */
  }
}

int t_refuse(int first, int second, int error) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)first, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)second, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
  cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  return (int)-onstack_sys_call3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, (long)&program);
}

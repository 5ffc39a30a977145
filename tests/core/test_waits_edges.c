/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The clock `wall` where threads, libraries and registers are not as a look expects them. */
#include "sampler/source/look.h"
#include "sampler/source/wall_account.h"
#include "sampler/session/slot.h"
#include "support.h"
#include "onstack/labels.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void init(void) {
  t_setup();
  if (!onstack_look_works()) cr_skip("the kernel tells nothing of blocked threads, or an emulator tells of its own");
}

TestSuite(waits_edges, .init = init);

static uint32_t quit, begun;

static pthread_t begin(void *(*runs)(void *), void *data) {
  pthread_t thread;
  onstack_publish(&begun, 0u);
  cr_assert_eq(pthread_create(&thread, NULL, runs, data), 0);
  while (onstack_observe(&begun) == 0) t_sleep(0.001);
  return thread;
}

/* A session of the clock, until `stop`. */
static onstack_session *watch(t_collector *all, uint32_t frequency) {
  onstack_options options = t_options(frequency, t_collect, all);
  options.clock = ONSTACK_CLOCK_WALL;
  return t_start(&options);
}

/* ---- libraries that come and go elsewhere ---- */

static void *reads_for_long(void *data) {
  char byte;
  onstack_publish(&begun, (uint32_t)onstack_sys_gettid());
  return read(((int *)data)[0], &byte, 1) == 0 ? NULL : data;
}

static void *sleeps_again_and_again(void *data) {
  onstack_publish(&begun, (uint32_t)onstack_sys_gettid());
  while (!onstack_observe(&quit)) t_sleep(0.02);
  return data;
}

static void load_and_unload(int times) {
  char path[4096] = "";
  cr_assert_gt(readlink("/proc/self/exe", path, sizeof(path) - 16), 0);
  strcpy(strrchr(path, '/') + 1, "plugin.so");
  for (int i = 0; i < times; i++) {
    void *library = dlopen(path, RTLD_NOW);
    cr_assert(library, "%s", dlerror());
    dlclose(library);
  }
}

static void are_whole(const t_collector *all, int32_t tid, uint64_t from_ns, const char *who) {
  uint32_t samples = 0, whole = 0;
  for (size_t i = 0; i < all->count; i++) {
    if (all->samples[i].tid != tid || all->samples[i].time_ns < from_ns) continue;
    samples++;
    whole += all->samples[i].truncation == ONSTACK_TRUNCATED_NOT;
  }
  cr_expect_gt(samples, 0, "%s", who);
#if defined(__x86_64__)
  cr_expect_eq(whole, samples, "%s: %u of %u", who, whole, samples);
#endif
}

Test(waits_edges, libraries_that_come_and_go_cut_no_stack_for_good) {
  int ends[2];
  cr_assert_eq(pipe(ends), 0);
  pthread_t reader = begin(reads_for_long, ends);
  const int32_t reads = (int32_t)begun;
  pthread_t sleeper = begin(sleeps_again_and_again, NULL);
  const int32_t sleeps = (int32_t)begun;
  t_collector *all = t_collector_new();
  onstack_session *session = watch(all, 50);
  t_sleep(0.5);
  load_and_unload(64); /* more than there are libraries: none is known to have stayed */
  t_sleep(1.0);
  const uint64_t from_ns = (uint64_t)(t_now() * 1e9);
  t_sleep(1.5);
  t_finish(session);
  onstack_publish(&quit, 1u);
  close(ends[1]);
  pthread_join(reader, NULL);
  pthread_join(sleeper, NULL);
  are_whole(all, reads, from_ns, "a thread that stands");
  are_whole(all, sleeps, from_ns, "a thread that comes back to its place");
}

/* ---- a register that is not known ---- */

#if defined(__x86_64__)
/* long calls_without_rules(long number, long (*call)(long, ...)): two frames that nothing but the frame pointer tells of. */
long calls_without_rules(long number, long (*call)(long, ...));
__asm__(".text\n"
        ".globl calls_without_rules\n.hidden calls_without_rules\n.type calls_without_rules, @function\n"
        "calls_without_rules:\n"
        "  push %rbp\n  mov %rsp, %rbp\n  call 1f\n  pop %rbp\n  ret\n"
        "1: push %rbp\n  mov %rsp, %rbp\n  xor %eax, %eax\n  call *%rsi\n  pop %rbp\n  ret\n"
        ".size calls_without_rules, . - calls_without_rules\n");

static void *waits_without_rules(void *data) {
  onstack_publish(&begun, (uint32_t)onstack_sys_gettid());
  while (!onstack_observe(&quit)) calls_without_rules(SYS_pause, syscall);
  return data;
}

static void wakes(int signal) { (void)signal; }

Test(waits_edges, a_frame_pointer_that_is_not_known_is_no_end_of_a_stack) {
  signal(SIGUSR1, wakes);
  pthread_t thread = begin(waits_without_rules, NULL);
  const int32_t tid = (int32_t)begun;
  t_collector *all = t_collector_new();
  t_sleep(0.02);
  onstack_session *session = watch(all, 50);
  t_sleep(0.3);
  t_finish(session);
  onstack_publish(&quit, 1u);
  pthread_kill(thread, SIGUSR1);
  pthread_join(thread, NULL);
  uint32_t samples = 0;
  for (size_t i = 0; i < all->count; i++) {
    const t_sample *sample = &all->samples[i];
    if (sample->tid != tid) continue;
    samples++;
    cr_expect(sample->truncation != ONSTACK_TRUNCATED_NOT || sample->frame_count > 4, "%u frames and whole",
              sample->frame_count);
  }
  cr_assert_gt(samples, 0);
}
#endif

/* ---- threads that live for some periods ---- */

static void *sleeps_150_ms(void *data) {
  double *slept = data;
  pthread_setname_np(pthread_self(), "brief");
  const double from = t_now();
  t_sleep(0.15);
  *slept += t_now() - from;
  return data;
}

static int add_brief(void *data, const onstack_sample *sample) {
  if (strcmp(sample->thread_name, "brief") == 0 && strcmp(sample->labels, "state") == 0 &&
      strcmp(sample->labels + 6, "blocked") == 0)
    *(double *)data += (double)sample->value / 1e9;
  return 0;
}

Test(waits_edges, threads_of_some_periods_have_their_time) {
  double told = 0, slept = 0;
  onstack_options options = t_options(20, add_brief, &told);
  options.clock = ONSTACK_CLOCK_WALL;
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 30; i++) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, sleeps_150_ms, &slept), 0);
    pthread_join(thread, NULL);
  }
  t_finish(session);
  fprintf(stderr, "waits: %.2f of %.2f s of threads of 150 ms\n", told, slept);
  cr_expect(told > 0.85 * slept && told < 1.1 * slept, "%.2f of %.2f s", told, slept);
}

/* ---- more threads than there is room for ---- */

#define NO_SUCH_THREAD 0x7f000000u /* above pid_max (proc(5)) */

Test(waits_edges, threads_without_a_record_are_counted) {
  int ends[2];
  cr_assert_eq(pipe(ends), 0);
  t_collector *all = t_collector_new();
  onstack_session *session = watch(all, 50);
  onstack_slot *slot = &onstack_slots[0];
  /* The table drops those that do not exist within a second or two: a scan comes before. */
  for (uint32_t i = 0; i < 4 * ONSTACK_THREAD_RECORDS; i++) onstack_thread_claim(&slot->threads, NO_SUCH_THREAD + i);
  pthread_t thread = begin(reads_for_long, ends);
  t_sleep(0.3);
  const onstack_stats stats = t_finish(session);
  close(ends[1]);
  pthread_join(thread, NULL);
  cr_expect_gt(stats.threads_unarmed, 0u);
}

/* ---- labels where a thread cannot copy memory by process_vm_readv ---- */

static void *reads_with_a_label(void *data) {
  onstack_thread_label_set("request", "/one");
  return reads_for_long(data);
}

static int add_labelled(void *data, const onstack_sample *sample) {
  for (uint32_t at = 0; at < sample->label_bytes; at += (uint32_t)strlen(sample->labels + at) + 1)
    if (strcmp(sample->labels + at, "/one") == 0) *(double *)data += (double)sample->value / 1e9;
  return 0;
}

Test(waits_edges, labels_are_kept_where_process_vm_readv_is_refused) {
  int ends[2];
  double labelled = 0;
  cr_assert_eq(pipe(ends), 0);
  cr_assert_eq(t_refuse(SYS_process_vm_readv, SYS_process_vm_readv, EPERM), 0);
  pthread_t thread = begin(reads_with_a_label, ends);
  t_sleep(0.02);
  onstack_options options = t_options(50, add_labelled, &labelled);
  options.clock = ONSTACK_CLOCK_WALL;
  options.label_bytes = 64;
  onstack_session *session = t_start(&options);
  t_sleep(0.5);
  t_finish(session);
  close(ends[1]);
  pthread_join(thread, NULL);
  cr_expect_gt(labelled, 0.3);
}

/* ---- on what ---- */

/* Seconds of one thread in samples with such a label and value. */
typedef struct label_time {
  const char *key;
  char value[128];
  int32_t tid;
  double seconds;
} label_time;

typedef struct label_times {
  label_time *items;
  int count;
} label_times;

static int add_times(void *data, const onstack_sample *sample) {
  const label_times *times = data;
  for (uint32_t at = 0; at < sample->label_bytes;) {
    const char *key = sample->labels + at, *value = key + strlen(key) + 1;
    for (int i = 0; i < times->count; i++) {
      label_time *item = &times->items[i];
      if (item->tid == sample->tid && strcmp(item->key, key) == 0 && strcmp(item->value, value) == 0)
        item->seconds += (double)sample->value / 1e9;
    }
    at += (uint32_t)(strlen(key) + 1 + strlen(value) + 1);
  }
  return 0;
}

/* Returns how long the session has run. */
static double watch_for_half_a_second(label_times *times) {
  onstack_options options = t_options(50, add_times, times);
  options.clock = ONSTACK_CLOCK_WALL;
  onstack_session *session = t_start(&options);
  const double from = t_now();
  t_sleep(0.5);
  const double ran = t_now() - from;
  t_finish(session);
  return ran;
}

/* A socket that nothing is sent to, and what its label is to be. */
static int bound_socket(int family, int type, char label[128]) {
  struct sockaddr_storage address = {.ss_family = (sa_family_t)family};
  struct sockaddr_in *four = (struct sockaddr_in *)(void *)&address;
  struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&address;
  socklen_t length = family == AF_INET ? sizeof(*four) : sizeof(*six);
  const int file = socket(family, type, 0);
  if (family == AF_INET)
    four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  else
    six->sin6_addr = in6addr_loopback;
  if (file < 0 || bind(file, (struct sockaddr *)&address, length) != 0) return -1;
  cr_assert_eq(getsockname(file, (struct sockaddr *)&address, &length), 0);
  cr_assert(type != SOCK_STREAM || listen(file, 1) == 0);
  snprintf(label, 128, family == AF_INET ? "%s at 127.0.0.1:%u" : "%s at [::1]:%u", type == SOCK_STREAM ? "tcp" : "udp",
           ntohs(family == AF_INET ? four->sin_port : six->sin6_port));
  return file;
}

static void *receives(void *data) {
  char byte;
  onstack_publish(&begun, (uint32_t)onstack_sys_gettid());
  recv(*(int *)data, &byte, 1, 0);
  return NULL;
}

static void *accepts(void *data) {
  onstack_publish(&begun, (uint32_t)onstack_sys_gettid());
  accept(*(int *)data, NULL, NULL);
  return NULL;
}

static void *wants_the_file(void *data) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  onstack_publish(&begun, (uint32_t)onstack_sys_gettid());
  fcntl(*(int *)data, F_OFD_SETLKW, &whole);
  return NULL;
}

/* A regular file that another descriptor has locked, with its path as what is waited for. */
static int locked_file(int *other, char *path) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  char name[] = "/tmp/onstack-waits-XXXXXX";
  *other = mkstemp(name);
  cr_assert_geq(*other, 0);
  cr_assert_eq(fcntl(*other, F_OFD_SETLK, &whole), 0);
  const int file = open(name, O_RDWR | O_CLOEXEC);
  cr_assert_geq(file, 0);
  cr_assert(realpath(name, path));
  cr_assert_eq(unlink(name), 0);
  strcat(path, " (deleted)"); /* proc(5) */
  return file;
}

Test(waits_edges, on_a_file_and_on_sockets_of_other_kinds) {
  static const struct {
    const char *name;
    int family, type;
    void *(*runs)(void *);
  } sockets[] = {{"udp", AF_INET, SOCK_DGRAM, receives},
                 {"udp over IPv6", AF_INET6, SOCK_DGRAM, receives},
                 {"tcp over IPv6", AF_INET6, SOCK_STREAM, accepts}};
  label_time items[4] = {{.key = "on"}, {.key = "on"}, {.key = "on"}, {.key = "on"}};
  label_times times = {items, 4};
  int files[4], other;
  pthread_t threads[4];
  char *path = calloc(1, 4096 + 16); /* realpath's */
  files[3] = locked_file(&other, path);
  snprintf(items[3].value, sizeof(items[3].value), "%.100s", path);
  threads[3] = begin(wants_the_file, &files[3]);
  items[3].tid = (int32_t)begun;
  for (int i = 0; i < 3; i++) {
    files[i] = bound_socket(sockets[i].family, sockets[i].type, items[i].value);
    if (files[i] < 0) continue;
    threads[i] = begin(sockets[i].runs, &files[i]);
    items[i].tid = (int32_t)begun;
  }
  t_sleep(0.05);
  const double lived = watch_for_half_a_second(&times);
  for (int i = 0; i < 4; i++) {
    const char *name = i < 3 ? sockets[i].name : "a regular file";
    if (files[i] < 0) {
      fprintf(stderr, "waits: no %s on this machine\n", name);
      continue;
    }
    cr_expect(items[i].seconds > 0.6 * lived && items[i].seconds < lived + 0.1, "%s: %.3f of %.3f s on %s", name,
              items[i].seconds, lived, items[i].value);
    if (i < 3) shutdown(files[i], SHUT_RDWR);
  }
  close(other); /* with its lock */
  for (int i = 0; i < 4; i++)
    if (files[i] >= 0) pthread_join(threads[i], NULL);
  free(path);
}

/* ---- stopped ---- */

static void *waits_for_the_end(void *data) {
  onstack_publish(&begun, (uint32_t)onstack_sys_gettid());
  while (!onstack_observe((uint32_t *)data)) t_sleep(0.01);
  return NULL;
}

/* A debugger stops one thread, as PTRACE_INTERRUPT does, until its own end: a signal would stop all of the process. */
static pid_t stop_by_another(pid_t tid) {
  int ready[2];
  char byte = 0;
  cr_assert_eq(pipe(ready), 0);
  const pid_t process = fork();
  if (process == 0) {
    t_deadline(30);
    if (ptrace(PTRACE_SEIZE, tid, 0, 0) != 0 || ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0) _exit(77);
    if (waitpid(tid, NULL, __WALL) != tid || write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  const bool stopped = read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  if (stopped) return process;
  cr_assert_eq(t_wait(process), 77);
  return -1;
}

Test(waits_edges, a_thread_that_a_debugger_has_stopped_is_stopped) {
  uint32_t done = 0;
  pthread_t thread = begin(waits_for_the_end, &done);
  label_time item = {.key = "state", .value = "stopped", .tid = (int32_t)begun};
  label_times times = {&item, 1};
  const pid_t debugger = stop_by_another(item.tid);
  if (debugger < 0) {
    onstack_publish(&done, 1u);
    pthread_join(thread, NULL);
    cr_skip("ptrace is not allowed here");
  }
  const double lived = watch_for_half_a_second(&times);
  kill(debugger, SIGKILL);
  waitpid(debugger, NULL, 0);
  onstack_publish(&done, 1u);
  pthread_join(thread, NULL);
  cr_expect(item.seconds > 0.6 * lived && item.seconds < lived + 0.1, "%.3f of %.3f s", item.seconds, lived);
}

/* ---- nobody is woken ---- */

#define SLEEPERS 40

/* How often a thread has given up its processor by itself: a thread that sleeps does so again each time that it is woken. */
static long switches_of(int32_t tid) {
  char path[64], status[4096];
  snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = file >= 0 ? read(file, status, sizeof(status) - 1) : -1;
  if (file >= 0) close(file);
  if (got <= 0) return -1;
  status[got] = 0;
  const char *at = strstr(status, "\nvoluntary_ctxt_switches:");
  return at ? strtol(at + sizeof("\nvoluntary_ctxt_switches:") - 1, NULL, 10) : -1;
}

Test(waits_edges, who_sleeps_is_not_woken) {
  int ends[2];
  pthread_t threads[SLEEPERS];
  int32_t tids[SLEEPERS];
  long before[SLEEPERS];
  cr_assert_eq(pipe(ends), 0);
  for (int i = 0; i < SLEEPERS; i++) {
    threads[i] = begin(reads_for_long, ends);
    tids[i] = (int32_t)begun;
  }
  if (switches_of(tids[0]) < 0) cr_skip("the kernel does not count them");
  t_sleep(0.3); /* all of them sleep */
  for (int i = 0; i < SLEEPERS; i++) before[i] = switches_of(tids[i]);
  t_collector *all = t_collector_new();
  onstack_session *session = watch(all, 50);
  t_sleep(2.0);
  const onstack_stats stats = t_finish(session);
  for (int i = 0; i < SLEEPERS; i++)
    cr_expect_eq(switches_of(tids[i]), before[i], "thread %d: %ld after %ld", i, switches_of(tids[i]), before[i]);
  cr_expect_gt(stats.wall_looks, SLEEPERS - 1, "they have been looked at");
  close(ends[1]);
  for (int i = 0; i < SLEEPERS; i++) pthread_join(threads[i], NULL);
}

/* ---- a processor that the machine itself has not got ---- */

Test(waits_edges, who_has_not_left_its_processor_was_not_blocked) {
  onstack_wall_mark mark = {.tid = 1};
  onstack_wall_account_running(&mark, 50000000, ONSTACK_SLICE_KEPT);
  cr_assert_eq(mark.unplaced_ns, 0);
  onstack_wall_account_running(&mark, -3000000, ONSTACK_SLICE_KEPT);
  cr_assert_eq(mark.unplaced_ns, -3000000, "what the kernel takes back counts");
  onstack_wall_account_running(&mark, 50000000, ONSTACK_SLICE_OTHER);
  cr_assert_eq(mark.unplaced_ns, 47000000);
  onstack_wall_account_running(&mark, 50000000, ONSTACK_SLICE_WAITS);
  cr_assert_eq(mark.unplaced_ns, 47000000);
  cr_assert_eq(mark.doubtful_ns, 50000000, "it may have been blocked before it waits");
}

/* ---- threads that compute and end ---- */

#define COMPUTERS 50
#define COMPUTES 0.03

static void *computes(void *data) {
  onstack_publish(&begun, (uint32_t)onstack_sys_gettid());
  t_burn(COMPUTES);
  return data;
}

/* Until a scan has found it a thread has no timer. */
Test(waits_edges, what_new_threads_have_computed_is_told_or_counted) {
  t_collector *all = t_collector_new();
  double told = 0;
  onstack_session *session = watch(all, 200);
  int32_t tids[COMPUTERS];
  for (int i = 0; i < COMPUTERS; i++) {
    pthread_join(begin(computes, NULL), NULL);
    tids[i] = (int32_t)begun;
  }
  const onstack_stats stats = t_finish(session);
  for (int i = 0; i < COMPUTERS; i++) told += t_seconds_of(all, tids[i]);
  const double counted = (double)stats.dropped_unwinder / 200;
  fprintf(stderr, "waits: %.3f s told and %.3f counted of %.3f\n", told, counted, COMPUTERS * COMPUTES);
  cr_expect(told + counted > COMPUTERS * COMPUTES * 0.9);
}

/* ---- a processor that others have ---- */

static int shared;

static void on_the_shared_processor(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)shared, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) abort();
}

static void *keeps_it(void *data) {
  on_the_shared_processor();
  onstack_publish(&begun, (uint32_t)onstack_sys_gettid());
  while (!onstack_observe(&quit)) continue;
  return data;
}

static void *works_and_sleeps(void *data) {
  on_the_shared_processor();
  onstack_publish(&begun, (uint32_t)onstack_sys_gettid());
  while (!onstack_observe(&quit)) {
    t_burn(0.01);
    t_sleep(0.03);
  }
  return data;
}

static void has_all_its_time(const t_collector *all, int32_t tid, double seconds) {
  const double told = t_seconds_of(all, tid), period = (double)all->period_ns / 1e9;
  fprintf(stderr, "waits: %.3f s told of %.3f s\n", told, seconds);
  cr_expect(told > seconds * 0.96 - period && told < seconds * 1.04 + period);
}

/* Some of its waits last longer than the pause of the looks, and others come between two looks, behind a sleep: such a wait is
   under way at some looks, and counted after them. */
Test(waits_edges, waits_for_a_processor_are_told_once) {
  pthread_t threads[4];
  t_collector *all[2] = {t_collector_new(), t_collector_new()};
  onstack_session *sessions[2];
  shared = sched_getcpu(); /* one that this process may have */
  for (int i = 0; i < 3; i++) threads[i] = begin(keeps_it, NULL);
  threads[3] = begin(works_and_sleeps, NULL);
  const int32_t tid = (int32_t)begun;
  double from[2], seconds[2];
  for (int i = 0; i < 2; i++) {
    sessions[i] = watch(all[i], i == 0 ? 200 : 20);
    from[i] = t_now();
  }
  t_sleep(3.0);
  for (int i = 0; i < 2; i++) {
    t_finish(sessions[i]);
    seconds[i] = t_now() - from[i];
  }
  onstack_publish(&quit, 1u);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) has_all_its_time(all[i], tid, seconds[i]);
}

static uint32_t over;

static void *yields_to_all(void *data) {
  const struct sched_param none = {0};
  on_the_shared_processor();
  sched_setscheduler(0, SCHED_IDLE, &none);
  onstack_publish(&begun, (uint32_t)onstack_sys_gettid());
  while (!onstack_observe(&over)) continue;
  return data;
}

/* The kernel counts the whole of it when it is over. */
Test(waits_edges, a_wait_that_began_before_the_session_is_told_from_there_on) {
  t_collector *all = t_collector_new();
  shared = sched_getcpu();
  pthread_t waiter = begin(yields_to_all, NULL);
  const int32_t tid = (int32_t)begun;
  pthread_t keeper = begin(keeps_it, NULL);
  t_sleep(2.0);
  onstack_session *session = watch(all, 100);
  const double from = t_now();
  t_sleep(0.7);
  onstack_publish(&quit, 1u);
  t_sleep(0.8);
  t_finish(session);
  const double seconds = t_now() - from;
  onstack_publish(&over, 1u);
  pthread_join(keeper, NULL);
  pthread_join(waiter, NULL);
  const double told = t_seconds_of(all, tid); /* less, where other programs keep it waiting to the end */
  fprintf(stderr, "waits: %.3f s told of %.3f s\n", told, seconds);
  cr_expect_lt(told, seconds * 1.04 + 0.01);
}

/* A look that is held up between two of the clocks believes a wait for a processor to be time that the thread was blocked. */
Test(waits_edges, what_the_kernel_takes_back_is_no_more_told) {
  onstack_slot *slot = calloc(1, sizeof(*slot));
  static uint64_t frames[1];
  static uint8_t unwound_by[1];
  static char labels[1];
  onstack_look look = {.stack = {.count = 1, .frames = frames, .unwound_by = unwound_by, .labels = labels}};
  onstack_wall_found found = {.look = &look, .blocked_ns = 100};
  onstack_wall_mark mark = {.tid = 1};
  cr_assert(slot);
  slot->period = 1000000000;
  slot->ring.depth = 1;
  slot->runnable_ns = calloc(1, sizeof(*slot->runnable_ns));
  cr_assert(slot->runnable_ns);
  void *room = malloc(onstack_wall_stack_bytes(slot));
  onstack_wall_account_blocked(slot, &mark, 0, room, &found);
  found.blocked_ns = -30;
  onstack_wall_account_blocked(slot, &mark, 0, room, &found);
  cr_assert_eq(mark.unplaced_ns, 0, "of what is held back");
  found.blocked_ns = -100;
  onstack_wall_account_blocked(slot, &mark, 0, room, &found);
  cr_assert_eq(mark.unplaced_ns, -30, "and there is no more of it");
  onstack_wall_stay(&mark, 10);
  cr_expect_eq(mark.unplaced_ns, -20, "who stands goes without it");
  onstack_wall_account_running(&mark, 15, ONSTACK_SLICE_OTHER);
  cr_expect_eq(mark.unplaced_ns, -5, "and who runs again");
  mark.stands = true;
  look.stack.truncation = ONSTACK_TRUNCATED_PENDING; /* another stack */
  found.blocked_ns = 40;
  onstack_wall_account_blocked(slot, &mark, 0, room, &found);
  cr_expect_eq(mark.unplaced_ns, 0);
  free(room);
  free(slot->runnable_ns);
  free(slot);
}

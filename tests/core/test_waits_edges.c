/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The clock `wall` where threads, libraries and registers are not as a look expects them. */
#include "control/tick/look.h"
#include "control/tick/wall_account.h"
#include "handler/tick/slot.h"
#include "support.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- labels where memory is copied by a pipe ---- */

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

/* ---- a processor that the machine itself has not got ---- */

Test(waits_edges, who_has_not_left_its_processor_was_not_blocked) {
  onstack_wall_mark mark = {.tid = 1};
  onstack_wall_settle_running(&mark, 50000000, true);
  cr_assert_eq(mark.unplaced_ns, 0);
  onstack_wall_settle_running(&mark, -3000000, true);
  cr_assert_eq(mark.unplaced_ns, -3000000, "what the kernel takes back counts");
  onstack_wall_settle_running(&mark, 50000000, false);
  cr_assert_eq(mark.unplaced_ns, 47000000);
}

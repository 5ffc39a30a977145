/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Dumps: each thread's stack, now, and what it waits for; or a line that says that there is none. */
#include "sampler/source/look.h"
#include "support.h"
#include "onstack/profile.h"
#include "onstack/labels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void init(void) {
  t_setup();
  if (!onstack_look_works()) cr_skip("the kernel tells nothing of blocked threads, or an emulator tells of its own");
}

TestSuite(dump, .init = init);

/* ---- text ---- */

typedef struct text {
  char bytes[1 << 18];
  size_t used, calls;
} text;

static int text_put(void *data, const void *bytes, size_t length) {
  text *out = data;
  out->calls++;
  if (length >= sizeof(out->bytes) - out->used) return 1;
  memcpy(out->bytes + out->used, bytes, length);
  out->used += length;
  out->bytes[out->used] = 0;
  return 0;
}

static int text_refuse(void *data, const void *bytes, size_t length) {
  (void)data, (void)bytes, (void)length;
  return 1;
}

static text *dumped(void) {
  static text out;
  out = (text){.used = 0};
  cr_assert_eq(onstack_dump(NULL, text_put, &out), 0);
  return &out;
}

/* The thread's line; the test fails if there is none, or two. */
static const char *line_of(const text *out, int32_t tid) {
  char head[32];
  snprintf(head, sizeof(head), "\nthread %d ", (int)tid);
  const char *line = strstr(out->bytes, head);
  cr_assert_not_null(line, "thread %d is missing in\n%s", (int)tid, out->bytes);
  cr_assert_null(strstr(line + 1, head), "thread %d is there twice", (int)tid);
  return line + 1;
}

/* Whether a text stands before `end` (a line, or an empty line: the end of a group). */
static bool has_until(const char *from, const char *end, const char *wanted) {
  const char *found = strstr(from, wanted), *over = strstr(from, end);
  return found && (!over || found < over);
}

static void line_has(const text *out, int32_t tid, const char *wanted) {
  const char *line = line_of(out, tid);
  cr_assert(has_until(line, "\n", wanted), "no '%s' in '%.*s'", wanted, (int)strcspn(line, "\n"), line);
}

static void stack_has(const text *out, int32_t tid, const char *function) {
  char frame[64];
  snprintf(frame, sizeof(frame), "\n    %s ", function);
  cr_assert(has_until(line_of(out, tid), "\n\n", frame), "no %s of %d in\n%s", function, (int)tid, out->bytes);
}

/* ---- threads ---- */

typedef struct helper {
  pthread_t thread;
  int32_t tid;
  bool ready, stop;
} helper;

static pthread_mutex_t helper_lock = PTHREAD_MUTEX_INITIALIZER;
static int helper_pipe[2];

static void helper_is_ready(helper *own, const char *name) {
  prctl(PR_SET_NAME, name);
  own->tid = onstack_sys_gettid();
  __atomic_store_n(&own->ready, true, __ATOMIC_RELEASE);
}

__attribute__((noinline)) static void dump_waits_for_lock(void) {
  pthread_mutex_lock(&helper_lock);
  pthread_mutex_unlock(&helper_lock);
  __asm__ volatile("");
}

static void *locker(void *argument) {
  helper_is_ready(argument, "locker");
  dump_waits_for_lock();
  return NULL;
}

__attribute__((noinline)) static void dump_waits_for_pipe(void) {
  char byte;
  cr_assert_eq(read(helper_pipe[0], &byte, 1), 1);
}

static void *reader(void *argument) {
  onstack_thread_label_set("request", "4\n2");
  helper_is_ready(argument, "bad\nname");
  dump_waits_for_pipe();
  return NULL;
}

/*
 * long dump_ends_in_call(int from, char *to, long bytes): its last instruction is the call of read, and another function with
 * another rule begins right behind it.
 */
long dump_ends_in_call(int from, char *to, long bytes);
__asm__(".text\n"
        ".globl dump_ends_in_call\n.hidden dump_ends_in_call\n.type dump_ends_in_call, %function\n"
        "dump_ends_in_call:\n  .cfi_startproc\n"
#if defined(__x86_64__)
        "  sub $40, %rsp\n  .cfi_adjust_cfa_offset 40\n  xor %eax, %eax\n  syscall\n"
#elif defined(__aarch64__)
        "  mov x8, #63\n  svc #0\n"
#endif
        "  .cfi_endproc\n.size dump_ends_in_call, . - dump_ends_in_call\n"
        ".type dump_begins_behind, %function\n"
        "dump_begins_behind:\n  .cfi_startproc\n"
#if defined(__x86_64__)
        "  add $40, %rsp\n"
#endif
        "  ret\n  .cfi_endproc\n.size dump_begins_behind, . - dump_begins_behind\n");

__attribute__((noinline)) static void dump_waits_at_the_end(void) {
  char byte;
  cr_assert_eq(dump_ends_in_call(helper_pipe[0], &byte, 1), 1);
}

static void *last_reader(void *argument) {
  helper_is_ready(argument, "last");
  dump_waits_at_the_end();
  return NULL;
}

__attribute__((noinline)) static void dump_burns(helper *own) {
  while (!__atomic_load_n(&own->stop, __ATOMIC_RELAXED)) continue;
  __asm__ volatile("");
}

static void *burner(void *argument) {
  helper_is_ready(argument, "burner");
  dump_burns(argument);
  return NULL;
}

static void *deaf_burner(void *argument) {
  sigset_t every;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, NULL);
  helper_is_ready(argument, "deaf");
  dump_burns(argument);
  return NULL;
}

static void helper_start(helper *own, void *(*function)(void *)) {
  *own = (helper){.ready = false};
  cr_assert_eq(pthread_create(&own->thread, NULL, function, own), 0);
  while (!__atomic_load_n(&own->ready, __ATOMIC_ACQUIRE)) t_sleep(0.001);
  t_sleep(0.02);
}

static void helper_end(helper *own) {
  __atomic_store_n(&own->stop, true, __ATOMIC_RELAXED);
  pthread_join(own->thread, NULL);
}

/* ---- tests ---- */

/* The test's runner has threads, too. */
static void head_says(const text *out, uint32_t missing) {
  char head[64];
  snprintf(head, sizeof(head), ": %d threads, %u without a stack\n", t_traces_now().threads, missing);
  cr_assert(has_until(out->bytes, "\n\n", head), "no '%s' in '%.80s'", head, out->bytes);
}

Test(dump, says_where_each_thread_is) {
  helper lockers[3], waits, runs;
  char holder[64];
  cr_assert_eq(pipe(helper_pipe), 0);
  prctl(PR_SET_NAME, "main");
  pthread_mutex_lock(&helper_lock);
  for (int i = 0; i < 3; i++) helper_start(&lockers[i], locker);
  helper_start(&waits, reader);
  helper_start(&runs, burner);
  const t_traces before = t_traces_now();
  const text *out = dumped();
  const t_traces after = t_traces_now();
  t_same_traces(&before, &after, "dump");
  head_says(out, 0);
  snprintf(holder, sizeof(holder), "blocked wait=futex on=0x%lx holder=main/%d", (unsigned long)(uintptr_t)&helper_lock,
           (int)onstack_sys_gettid());
  for (int i = 0; i < 3; i++) {
    line_has(out, lockers[i].tid, holder);
    stack_has(out, lockers[i].tid, "dump_waits_for_lock");
  }
  const char *first = line_of(out, lockers[0].tid);
  cr_assert(has_until(first, "\n    ", "\nthread") && line_of(out, lockers[1].tid) == strchr(first, '\n') + 1, "together");
  line_has(out, waits.tid, "\"bad?name\": blocked wait=read on=pipe:[");
  line_has(out, waits.tid, "request=4?2");
  stack_has(out, waits.tid, "dump_waits_for_pipe");
  line_has(out, runs.tid, "\"burner\": run"); /* or runnable */
  stack_has(out, runs.tid, "dump_burns");
  line_has(out, onstack_sys_gettid(), "blocked");
  stack_has(out, onstack_sys_gettid(), "onstack_dump");
  cr_assert_eq(write(helper_pipe[1], "x", 1), 1);
  pthread_mutex_unlock(&helper_lock);
  for (int i = 0; i < 3; i++) helper_end(&lockers[i]);
  helper_end(&waits);
  helper_end(&runs);
}

Test(dump, a_blocked_thread_is_in_the_function_that_made_the_call) {
  helper waits;
  cr_assert_eq(pipe(helper_pipe), 0);
  helper_start(&waits, last_reader);
  const text *out = dumped();
  stack_has(out, waits.tid, "dump_ends_in_call");
  cr_assert(!has_until(line_of(out, waits.tid), "\n\n", "dump_begins_behind"), "%s", out->bytes);
#if defined(__x86_64__)
  stack_has(out, waits.tid, "dump_waits_at_the_end");
  cr_assert(!has_until(line_of(out, waits.tid), "\n\n", "truncated"), "%s", out->bytes);
#endif
  cr_assert_eq(write(helper_pipe[1], "x", 1), 1);
  helper_end(&waits);
}

Test(dump, a_thread_without_a_stack_is_named) {
  helper deaf;
  helper_start(&deaf, deaf_burner);
  const text *out = dumped();
  head_says(out, 1);
  line_has(out, deaf.tid, "\"deaf\": no stack");
  helper_end(&deaf);
}

Test(dump, a_profile_has_one_sample_a_thread) {
  static text pprof;
  helper waits;
  onstack_profile *profile;
  uint64_t samples, weight, value;
  cr_assert_eq(pipe(helper_pipe), 0);
  helper_start(&waits, reader);
  cr_assert_eq(onstack_profile_new(NULL, &profile), 0);
  cr_assert_eq(onstack_dump_take(profile), 0);
  onstack_profile_totals(profile, ONSTACK_KIND_DUMP, &samples, &weight, &value);
  cr_assert(samples == (uint64_t)t_traces_now().threads && weight == samples && value == samples, "%lu",
            (unsigned long)samples);
  onstack_profile_totals(profile, ONSTACK_KIND_WALL, &samples, NULL, NULL);
  cr_assert_eq(samples, 0);
  cr_assert_eq(onstack_profile_write_pprof(profile, NULL, text_put, &pprof), 0);
  cr_assert_not_null(memmem(pprof.bytes, pprof.used, "threads", 7));
  onstack_profile_free(profile);
  cr_assert_eq(write(helper_pipe[1], "x", 1), 1);
  helper_end(&waits);
}

Test(dump, refuses_in_words) {
  onstack_session *sessions[ONSTACK_MAX_SESSIONS];
  const onstack_options options = t_options(100, NULL, NULL);
  text out = {.used = 0};
  cr_assert_eq(onstack_dump(NULL, NULL, NULL), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_dump_take(NULL), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_dump(NULL, text_refuse, NULL), ONSTACK_E_OUTPUT);
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) sessions[i] = t_start(&options);
  cr_assert_eq(onstack_dump(NULL, text_put, &out), ONSTACK_E_SESSIONS);
  cr_assert_eq(out.calls, 0);
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) t_finish(sessions[i]);
}

static int dumps(void *data, const onstack_sample *sample) {
  int *result = data;
  static text out;
  (void)sample;
  if (*result == 0) *result = onstack_dump(NULL, text_put, &out);
  return 0;
}

Test(dump, not_in_a_sink) {
  int result = 0;
  const onstack_options options = t_options(250, dumps, &result);
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 100 && __atomic_load_n(&result, __ATOMIC_RELAXED) == 0; i++) t_burn(0.01);
  t_finish(session);
  cr_assert_eq(result, ONSTACK_E_CONTEXT);
}

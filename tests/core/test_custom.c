/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The user's own unwinder: what it is given, and what is done with what it returns. */
#include "support.h"

#include <errno.h>
#include <ucontext.h>

TestSuite(custom, .init = t_setup);

T_BURNER(burn_custom)

typedef struct watched {
  volatile int inits, walks, wrong_pc, wrong_sp, wrong_fp, wrong_capacity, unblocked, inside;
  int init_result;
  uint32_t count, truncation, capacity;
} watched;

static int watched_init(void *data) {
  watched *w = data;
  w->inits++;
  return w->init_result;
}

static onstack_walk_result watched_walk(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                        uint32_t capacity) {
  watched *w = data;
  const ucontext_t *context = ucontext;
  onstack_kernel_sigset mask = 0;
  w->walks++;
#if defined(__x86_64__)
  if (registers->pc != (uint64_t)context->uc_mcontext.gregs[REG_RIP]) w->wrong_pc++;
  if (registers->sp != (uint64_t)context->uc_mcontext.gregs[REG_RSP]) w->wrong_sp++;
  if (registers->fp != (uint64_t)context->uc_mcontext.gregs[REG_RBP]) w->wrong_fp++;
#else
  if (registers->pc != context->uc_mcontext.pc) w->wrong_pc++;
  if (registers->sp != context->uc_mcontext.sp) w->wrong_sp++;
  if (registers->fp != context->uc_mcontext.regs[29]) w->wrong_fp++;
#endif
  if (capacity != w->capacity) w->wrong_capacity++;
  if (t_in_burn_custom(registers->pc)) w->inside++;
  onstack_sys_sigprocmask(SIG_SETMASK, NULL, &mask);
  if (~mask & ~(ONSTACK_SIGBIT(SIGKILL) | ONSTACK_SIGBIT(SIGSTOP))) w->unblocked++;
  frames[0] = registers->pc;
  for (uint32_t i = 1; i < w->count && i < capacity; i++) frames[i] = 0x1000 + i;
  return (onstack_walk_result){w->count, w->truncation};
}

static onstack_unwinder unwinder_of(watched *w) {
  return (onstack_unwinder){
      .size = sizeof(onstack_unwinder), .name = "watched", .data = w, .init = watched_init, .walk = watched_walk};
}

static t_collector *run(watched *w, onstack_stats *stats) {
  t_collector *collector = t_collector_new();
  onstack_unwinder unwinder = unwinder_of(w);
  onstack_options options = t_options(500, t_collect, collector);
  options.custom_unwinder = &unwinder;
  options.max_depth = w->capacity = 40;
  onstack_session *session = t_start(&options);
  cr_assert_str_eq(t_stats(session).unwinder, "watched");
  burn_custom(0.4);
  *stats = t_finish(session);
  return collector;
}

Test(custom, it_is_given_the_interrupted_registers) {
  watched w = {.count = 5, .truncation = ONSTACK_TRUNCATED_UNWINDER};
  onstack_stats stats;
  t_collector *collector = run(&w, &stats);
  cr_assert_eq(w.inits, 1);
  cr_assert_gt(w.walks, 25);
  cr_assert_eq(w.wrong_pc, 0);
  cr_assert_eq(w.wrong_sp, 0);
  cr_assert_eq(w.wrong_fp, 0);
  cr_assert_eq(w.wrong_capacity, 0);
  cr_assert_eq(w.unblocked, 0, "every signal is blocked while it runs");
  cr_assert_geq(w.inside * 100, w.walks * 90, "%d of %d", w.inside, w.walks);
  cr_assert_eq(collector->count, (size_t)w.walks, "each walk is a sample");
  for (size_t i = 0; i < collector->count; i++) {
    const t_sample *sample = &collector->samples[i];
    cr_assert_eq(sample->frame_count, 5);
    cr_assert_eq(sample->frames[4], 0x1004);
    cr_assert_eq(sample->truncation, ONSTACK_TRUNCATED_UNWINDER);
  }
  cr_assert_eq(stats.truncated_by[ONSTACK_TRUNCATED_UNWINDER], stats.samples);
}

Test(custom, a_count_beyond_the_capacity_is_cut) {
  watched w = {.count = 1000};
  onstack_stats stats;
  t_collector *collector = run(&w, &stats);
  cr_assert_gt(collector->count, 25);
  for (size_t i = 0; i < collector->count; i++) {
    cr_assert_eq(collector->samples[i].frame_count, 40);
    cr_assert_eq(collector->samples[i].truncation, ONSTACK_TRUNCATED_DEPTH);
  }
}

Test(custom, an_unknown_reason_is_the_unwinders) {
  watched w = {.count = 2, .truncation = 77};
  onstack_stats stats;
  t_collector *collector = run(&w, &stats);
  cr_assert_gt(collector->count, 25);
  cr_assert_eq(stats.truncated_by[ONSTACK_TRUNCATED_UNWINDER], stats.samples);
}

Test(custom, no_frame_is_no_sample) {
  watched w = {.count = 0};
  onstack_stats stats;
  t_collector *collector = run(&w, &stats);
  cr_assert_eq(collector->count, 0);
  cr_assert_eq(stats.samples, 0);
  cr_assert_gt(stats.dropped_unwinder, 25);
  cr_assert_eq(stats.dropped_unwinder + stats.dropped_stopping + stats.unattributed, stats.ticks);
}

static void refused(int init, int code) {
  watched w = {.count = 1, .init_result = init};
  onstack_unwinder unwinder = unwinder_of(&w);
  onstack_options options = t_options(500, NULL, NULL);
  onstack_session *session = (void *)&w;
  t_traces before = t_traces_now();
  options.custom_unwinder = &unwinder;
  int result = onstack_session_start(&options, &session);
  cr_assert_eq(result, code, "init returned %d: %d", init, result);
  cr_assert_null(session);
  cr_assert_eq(w.inits, 1);
  t_burn(0.02);
  cr_assert_eq(w.walks, 0);
  t_traces after = t_traces_now();
  t_same_traces(&before, &after, "a refused start");
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_DFL);
}

Test(custom, init_can_refuse) {
  refused(-ENODEV, -ENODEV);
  refused(ONSTACK_E_UNSUPPORTED, ONSTACK_E_UNSUPPORTED);
  refused(1, ONSTACK_E_UNWINDER);
  refused(12345, ONSTACK_E_UNWINDER);
}

Test(custom, without_init_it_runs_too) {
  watched w = {.count = 1, .capacity = ONSTACK_DEFAULT_DEPTH};
  onstack_unwinder unwinder = unwinder_of(&w);
  unwinder.init = NULL;
  onstack_options options = t_options(500, NULL, NULL);
  options.custom_unwinder = &unwinder;
  onstack_session *session = t_start(&options);
  t_burn(0.1);
  t_finish(session);
  cr_assert_gt(w.walks, 10);
  cr_assert_eq(w.wrong_capacity, 0, "the default depth");
}

/* After stop nothing of the user's runs in a handler: its data may go. */
static volatile int walking;
static onstack_walk_result slow_walk(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                     uint32_t capacity) {
  (void)data;
  (void)ucontext;
  (void)capacity;
  __atomic_add_fetch(&walking, 1, __ATOMIC_SEQ_CST);
  double end = t_now() + 0.003;
  while (t_now() < end) continue;
  frames[0] = registers->pc;
  __atomic_sub_fetch(&walking, 1, __ATOMIC_SEQ_CST);
  return (onstack_walk_result){1, ONSTACK_TRUNCATED_UNWINDER};
}

static volatile bool over;
static void *burns(void *unused) {
  while (!over) t_burn(0.002);
  return unused;
}

Test(custom, stop_waits_for_walks_that_are_under_way) {
  onstack_unwinder slow = {.size = sizeof(slow), .name = "slow", .walk = slow_walk};
  pthread_t threads[2];
  int met = 0;
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, burns, NULL);
  for (int i = 0; i < 30; i++) {
    onstack_options options = t_options(1000, NULL, NULL);
    options.custom_unwinder = &slow;
    options.threads = ONSTACK_OFF;
    onstack_session *session = t_start(&options);
    t_sleep(0.01);
    met += __atomic_load_n(&walking, __ATOMIC_SEQ_CST) > 0;
    cr_assert_eq(onstack_session_stop(session), 0);
    cr_assert_eq(__atomic_load_n(&walking, __ATOMIC_SEQ_CST), 0, "round %d: a walk runs after stop", i);
    onstack_session_free(session);
  }
  over = true;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  cr_assert_gt(met, 2, "stop must meet walks for this to mean anything");
}

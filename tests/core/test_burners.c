/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Known work gets its known share, and stacks are right: the interrupted PC first, then the callers that there are. */
#include "support.h"

TestSuite(burners, .init = t_setup);

T_BURNER(burn_three)
T_BURNER(burn_one)

/* Callers in sections of their own, so that a return address tells its function. */
#define CALLER(name, callee)                                                                                                \
  extern const char __start_text_##name[], __stop_text_##name[];                                                            \
  static bool t_in_##name(uint64_t pc) {                                                                                    \
    return pc >= (uint64_t)(uintptr_t)__start_text_##name && pc < (uint64_t)(uintptr_t)__stop_text_##name;                  \
  }                                                                                                                         \
  __attribute__((noinline, noclone, section("text_" #name))) static void name(double seconds) {                             \
    callee(seconds);                                                                                                        \
    __asm__ volatile("");                                                                                                   \
  }
CALLER(inner_caller, burn_three)
CALLER(outer_caller, inner_caller)

Test(burners, shares_are_three_to_one) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(200, t_collect, collector);
  onstack_session *session = t_start(&options);
  double before = t_thread_cpu();
  for (int i = 0; i < 10; i++) {
    burn_three(0.15);
    burn_one(0.05);
  }
  double burned = t_thread_cpu() - before;
  t_finish(session);
  uint64_t three = 0, one = 0, other = 0;
  for (size_t i = 0; i < collector->count; i++) {
    const t_sample *sample = &collector->samples[i];
    if (t_in_burn_three(sample->frames[0]))
      three += sample->weight;
    else if (t_in_burn_one(sample->frames[0]))
      one += sample->weight;
    else
      other += sample->weight;
  }
  cr_assert_gt(one, 50);
  double ratio = (double)three / (double)one;
  cr_assert(ratio > 2.3 && ratio < 3.9, "%.2f (%lu : %lu)", ratio, three, one);
  cr_assert_lt(other * 20, three + one, "%lu elsewhere", other);
  t_near(t_seconds_of(collector, 0), burned, 0.10, "all of it");
}

static void callers_in_order(const char *unwinder) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(200, t_collect, collector);
  options.unwinder = unwinder;
  onstack_session *session = t_start(&options);
  outer_caller(0.8);
  onstack_stats stats = t_finish(session);
  uint64_t inside = 0, whole = 0;
  for (size_t i = 0; i < collector->count; i++) {
    const t_sample *sample = &collector->samples[i];
    if (!t_in_burn_three(sample->frames[0])) continue;
    inside++;
    if (sample->frame_count > 3 && t_in_inner_caller(sample->frames[1] - 1) && t_in_outer_caller(sample->frames[2] - 1))
      whole++;
  }
  cr_assert_gt(inside, 40);
  cr_assert_geq(whole * 100, inside * 97, "%lu of %lu", whole, inside);
  cr_assert_str_eq(stats.unwinder, unwinder);
}
Test(burners, callers_are_there_in_order) {
  callers_in_order("rules");
  callers_in_order("frame_pointer");
}

/* A thread's chain ends in a root of zeros or says why not; no frame of this program stands twice by mistake. */
static void *burn_on_thread(void *unused) {
  outer_caller(0.5);
  return unused;
}
Test(burners, a_threads_stack_has_each_caller_once) {
  t_collector *collector = t_collector_new();
  pthread_t thread;
  onstack_options options = t_options(200, t_collect, collector);
  onstack_session *session = t_start(&options);
  pthread_create(&thread, NULL, burn_on_thread, NULL);
  pthread_join(thread, NULL);
  t_finish(session);
  uint64_t seen = 0;
  for (size_t i = 0; i < collector->count; i++) {
    const t_sample *sample = &collector->samples[i];
    int inner = 0, outer = 0, thread_main = 0;
    if (!t_in_burn_three(sample->frames[0])) continue;
    for (uint32_t f = 1; f < sample->frame_count && f < T_FRAMES; f++) {
      inner += t_in_inner_caller(sample->frames[f] - 1);
      outer += t_in_outer_caller(sample->frames[f] - 1);
      thread_main += sample->frames[f] - 1 - (uint64_t)(uintptr_t)burn_on_thread < 64;
    }
    seen += inner == 1 && outer == 1 && thread_main == 1;
  }
  cr_assert_gt(seen, 30);
  cr_assert_geq(seen * 100, collector->count * 90, "%lu of %zu", seen, collector->count);
}

/* void without_chain(void (*call)(double), double): as code without frame pointers, it leaves no record, and zero in the
   register. */
void without_chain(void (*call)(double), double seconds);
__asm__(".text\n"
        ".globl without_chain\n.hidden without_chain\n.type without_chain, %function\n"
        "without_chain:\n"
#if defined(__x86_64__)
        "  push %rbp\n  xor %ebp, %ebp\n  call *%rdi\n  pop %rbp\n  ret\n"
#elif defined(__aarch64__)
        "  stp x29, x30, [sp, #-16]!\n  mov x29, #0\n  blr x0\n  ldp x29, x30, [sp], #16\n  ret\n"
#endif
        ".size without_chain, . - without_chain\n");

__attribute__((noinline)) static void through_gap(double seconds) {
  without_chain(outer_caller, seconds);
  __asm__ volatile("");
}

static void *chain_main(void *argument) {
  (*(void (**)(double))argument)(0.3);
  return NULL;
}

/* Samples of a thread that runs `run` end as `expected`. */
static void chain_ends(void (*run)(double), onstack_truncation expected) {
  t_collector *collector = t_collector_new();
  pthread_t thread;
  uint64_t seen = 0, right = 0;
  onstack_options options = t_options(200, t_collect, collector);
  options.unwinder = "frame_pointer";
  onstack_session *session = t_start(&options);
  cr_assert_eq(pthread_create(&thread, NULL, chain_main, &run), 0);
  pthread_join(thread, NULL);
  t_finish(session);
  for (size_t i = 0; i < collector->count; i++) {
    const t_sample *sample = &collector->samples[i];
    if (!t_in_burn_three(sample->frames[0])) continue;
    seen++;
    right += sample->truncation == expected;
  }
  cr_assert_gt(seen, 10);
  cr_assert_geq(right * 100, seen * 95, "%lu of %lu", right, seen);
}

Test(burners, a_chain_of_frame_pointers_is_whole_where_a_thread_begins) { chain_ends(outer_caller, ONSTACK_TRUNCATED_NOT); }
Test(burners, a_chain_of_frame_pointers_that_ends_elsewhere_is_cut) {
  chain_ends(through_gap, ONSTACK_TRUNCATED_NOT_RISING);
}

/* ---- depth ---- */

__attribute__((noinline)) static void recurse(int depth, double seconds) {
  if (depth == 0)
    t_burn(seconds);
  else
    recurse(depth - 1, seconds);
  __asm__ volatile("");
}

static void at_depth(uint32_t max_depth, int depth) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(250, t_collect, collector);
  options.max_depth = max_depth;
  onstack_session *session = t_start(&options);
  recurse(depth, 0.3);
  onstack_stats stats = t_finish(session);
  uint64_t cut = 0;
  for (size_t i = 0; i < collector->count; i++) {
    const t_sample *sample = &collector->samples[i];
    cr_assert_leq(sample->frame_count, max_depth);
    cut += sample->truncation == ONSTACK_TRUNCATED_DEPTH && sample->frame_count == max_depth;
  }
  cr_assert_geq(cut * 100, collector->count * 90, "%lu of %zu", cut, collector->count);
  cr_assert_eq(stats.truncated_by[ONSTACK_TRUNCATED_DEPTH], cut);
}
Test(burners, depth_cuts_and_says_so) {
  at_depth(1, 10);
  at_depth(16, 100);
  at_depth(128, 200);
}

Test(burners, a_deep_stack_is_whole_within_the_largest_depth) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(250, t_collect, collector);
  options.max_depth = ONSTACK_MAX_DEPTH;
  onstack_session *session = t_start(&options);
  recurse(600, 0.4);
  t_finish(session);
  uint64_t deep = 0;
  for (size_t i = 0; i < collector->count; i++)
    deep += collector->samples[i].frame_count > 600 && collector->samples[i].truncation != ONSTACK_TRUNCATED_DEPTH;
  cr_assert_geq(deep * 100, collector->count * 90, "%lu of %zu", deep, collector->count);
}

Test(burners, pc_only_has_one_frame_by_design) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(250, t_collect, collector);
  options.unwinder = "pc_only";
  onstack_session *session = t_start(&options);
  burn_one(0.4);
  onstack_stats stats = t_finish(session);
  uint64_t inside = 0;
  for (size_t i = 0; i < collector->count; i++) {
    cr_assert_eq(collector->samples[i].frame_count, 1);
    cr_assert_eq(collector->samples[i].truncation, ONSTACK_TRUNCATED_BY_DESIGN);
    inside += t_in_burn_one(collector->samples[i].frames[0]);
  }
  cr_assert_geq(inside * 100, collector->count * 95);
  cr_assert_eq(stats.truncated, stats.samples);
}

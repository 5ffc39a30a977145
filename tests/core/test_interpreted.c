/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Frames of an interpreter, by a provider of the test's own: a language of three functions, whose loop is toy_loop. */
#include "sampler/interpreter/interpreter.h"
#include "support.h"

#include "platform/interpreted.h"

#include "sampler/source/look.h"
#include "onstack/profile.h"

#include <errno.h>
#include <string.h>

TestSuite(interpreted, .init = t_setup);

typedef struct toy_frame {
  struct toy_frame *caller;
  uint64_t function; /* 1 to 3; others have no name */
  uint32_t line;
  bool entry;
} toy_frame;

static __thread toy_frame *toy_top;
static uint64_t toy_top_address; /* of the test's only thread in the language */
static volatile int toy_break;   /* 1: frames that fit nothing; 2: a frame that cannot be read; 3: not there yet */
static _Atomic int toy_prepares;

typedef void toy_native(void);

/* Runs a function of the language, which calls another one without a new loop, and a native one. */
__attribute__((noinline, section("toy_code"))) static void toy_loop(uint64_t outer, uint64_t inner, toy_native *native) {
  toy_frame first = {toy_top, outer, 10, true};
  toy_frame second = {&first, inner, 20, false};
  toy_top = &first;
  toy_top = &second;
  native();
  toy_top = first.caller;
  __asm__ volatile("" ::: "memory");
}
extern char __start_toy_code[], __stop_toy_code[];

static int toy_prepare(void *data, const onstack_frame_memory *memory, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  (void)data, (void)memory;
  toy_prepares++;
  if (toy_break == 3) return -EAGAIN;
  loops[0] = (onstack_loop_code){(uint64_t)(uintptr_t)__start_toy_code, (uint64_t)(uintptr_t)__stop_toy_code};
  return 1;
}

static uint32_t toy_copy(void *data, const onstack_frame_memory *memory, onstack_interpreted_frame *frames,
                         uint32_t capacity) {
  (void)data;
  uint64_t address;
  toy_frame frame;
  uint32_t count = 0;
  if (!memory->read(toy_top_address, &address, sizeof(address))) return 0;
  if (toy_break == 2) address = address ? 16 : 0;
  while (address && count < capacity) {
    if (!memory->read(address, &frame, sizeof(frame))) return count | ONSTACK_INTERPRETED_CUT;
    frames[count].function = frame.function;
    frames[count].position = frame.line;
    frames[count].flags = frame.entry || toy_break == 1 ? ONSTACK_INTERPRETED_ENTRY : 0;
    address = (uint64_t)(uintptr_t)frame.caller;
    count++;
  }
  return count;
}

static _Atomic uint32_t toy_hinted;

static uint32_t toy_copy_of(void *data, const onstack_frame_memory *memory, uint64_t *hint,
                            onstack_interpreted_frame *frames, uint32_t capacity) {
  if (*hint != 0 && *hint != (uint64_t)memory->tid) return 0;
  toy_hinted += *hint != 0;
  *hint = (uint64_t)memory->tid;
  return toy_copy(data, memory, frames, capacity);
}

static int toy_describe(void *data, const onstack_frame_memory *memory, const onstack_interpreted_frame *frame,
                        onstack_frame_text *text) {
  static const char *const names[] = {"<main>", "toy::first", "toy::second"};
  (void)data, (void)memory;
  if (frame->function < 1 || frame->function > 3) return -1;
  strcpy(text->function, names[frame->function - 1]);
  strcpy(text->file, "program.toy");
  text->line = frame->position;
  text->start_line = 1;
  return 0;
}

static const onstack_frame_provider toy = {.size = sizeof(toy),
                                           .stack_bytes = 512,
                                           .name = "toy",
                                           .prepare = toy_prepare,
                                           .copy = toy_copy,
                                           .copy_of = toy_copy_of,
                                           .describe = toy_describe};

typedef struct seen_stacks {
  uint32_t samples, right, wrong, unnamed;
} seen_stacks;

static const char *name_of(uint64_t frame, onstack_frame_text *text) {
  *text = (onstack_frame_text){.size = sizeof(*text)};
  return onstack_interpreted_describe(frame, text) == 0 ? text->function : "";
}

/* second, <main>, natives, second, first, natives: as `deep` calls. */
static int see(void *data, const onstack_sample *sample) {
  seen_stacks *seen = data;
  onstack_frame_text text[ONSTACK_MAX_DEPTH];
  uint32_t at[ONSTACK_MAX_DEPTH], count = 0;
  for (uint32_t i = 0; i < sample->frame_count; i++)
    if (onstack_is_interpreted(sample->frames[i])) at[count++] = i;
  if (count == 0) return 0;
  seen->samples++;
  if (strcmp(name_of(sample->frames[at[0]], &text[0]), "[function gone]") == 0) {
    seen->unnamed++;
    return 0;
  }
  static const char *const order[] = {"toy::second", "<main>", "toy::second", "toy::first"};
  bool right = count == 4 && at[1] == at[0] + 1 && at[3] == at[2] + 1 && at[2] > at[1] + 1 && at[0] > 0;
  for (uint32_t i = 0; right && i < 4; i++) right = strcmp(name_of(sample->frames[at[i]], &text[i]), order[i]) == 0;
  if (right)
    right = text[0].line == 20 && text[1].line == 10 && strcmp(text[0].file, "program.toy") == 0 &&
            strcmp(text[0].language, "toy") == 0;
  *(right ? &seen->right : &seen->wrong) += 1;
  return 0;
}

static void burn(void) {
  t_burn(0.3);
  __asm__ volatile(""); /* no tail call: the frame stays */
}
static uint64_t inner_function = 3, outer_function = 1;
__attribute__((noinline)) static void deep(void) {
  toy_loop(outer_function, inner_function, burn);
  __asm__ volatile("");
}

static onstack_stats run(seen_stacks *seen, uint32_t depth) {
  onstack_options options = t_options(1000, see, seen);
  onstack_session *session;
  onstack_stats stats = {.size = sizeof(stats)};
  toy_top_address = (uint64_t)(uintptr_t)&toy_top;
  options.frame_provider = &toy;
  options.max_depth = depth;
  cr_assert_eq(onstack_session_start(&options, &session), 0);
  toy_loop(2, 3, deep);
  cr_assert_eq(onstack_session_stop(session), 0);
  cr_assert_eq(onstack_session_stats(session, &stats), 0);
  onstack_session_free(session);
  return stats;
}

Test(interpreted, frames_lie_in_the_places_of_the_loop) {
  seen_stacks seen = {0};
  const onstack_stats stats = run(&seen, 0);
  cr_expect_gt(seen.right, 20u);
  cr_expect_eq(seen.wrong, 0u, "%u of %u", seen.wrong, seen.samples);
  cr_expect_eq(stats.interpreted, (uint64_t)seen.samples);
  cr_expect_leq(stats.interpreted_unmatched, 2u);
  cr_expect_eq(stats.interpreted_cut, 0u);
}

Test(interpreted, what_fits_no_native_frames_is_left_out_and_counted) {
  seen_stacks seen = {0};
  toy_break = 1;
  const onstack_stats stats = run(&seen, 0);
  cr_expect_eq(seen.samples, 0u);
  cr_expect_gt(stats.interpreted_unmatched, 20u);
  cr_expect_eq(stats.interpreted, 0u);
}

Test(interpreted, what_cannot_be_read_is_no_frame) {
  seen_stacks seen = {0};
  toy_break = 2;
  const onstack_stats stats = run(&seen, 0);
  cr_expect_eq(seen.samples, 0u);
  cr_expect_eq(stats.interpreted, 0u);
  cr_expect_gt(stats.samples, 20u);
}

Test(interpreted, a_function_without_a_name_says_so) {
  seen_stacks seen = {0};
  inner_function = 9;
  const onstack_stats stats = run(&seen, 0);
  cr_expect_gt(seen.unnamed, 20u);
  cr_expect_geq(stats.interpreted_unnamed, (uint64_t)seen.unnamed);
}

Test(interpreted, a_stack_that_is_too_deep_is_cut_at_its_depth) {
  seen_stacks seen = {0};
  const onstack_stats stats = run(&seen, 5);
  cr_expect_gt(stats.truncated_by[ONSTACK_TRUNCATED_DEPTH], 20u);
  cr_expect_gt(stats.interpreted, 20u);
}

/* Two calls of the loop; the inner one has more frames than there is room for, and the leaf is the loop itself. */
Test(interpreted, frames_that_were_cut_are_the_inner_calls) {
  const onstack_interpreter interpreter = {.provider = &toy, .loop_count = 1, .loops = {{100, 200}}};
  struct {
    onstack_interpreted interpreted;
    onstack_interpreted_frame frames[2];
  } copied = {.interpreted = {.count = 2, .cut = 1, .named = 1}, .frames = {{.function = 3000}, {.function = 3001}}};
  uint64_t native[] = {150, 500, 160, 900}, out[8];
  onstack_walked stack = {.frames = native, .count = 4, .truncation = ONSTACK_TRUNCATED_NOT};
  onstack_interleave_counters counters = {0};
  onstack_interleave(&interpreter, &copied.interpreted, &stack, out, 8, &counters);
  cr_assert_eq(counters.interpreted, 1);
  cr_assert(stack.frames[0] == 3000 && stack.frames[1] == 3001 && stack.frames[2] == 500, "%lu %lu %lu", stack.frames[0],
            stack.frames[1], stack.frames[2]);
}

/* Two calls of the loop with frames of one. */
static bool leave_one(uint32_t flags, uint64_t out[8]) {
  const onstack_interpreter interpreter = {.provider = &toy, .loop_count = 1, .loops = {{100, 200}}};
  struct {
    onstack_interpreted interpreted;
    onstack_interpreted_frame frames[2];
  } copied = {.interpreted = {.count = 2, .named = 1},
              .frames = {{.function = 3000, .flags = flags}, {.function = 3001, .flags = ONSTACK_INTERPRETED_ENTRY}}};
  uint64_t native[] = {600, 150, 500, 160, 900};
  onstack_walked stack = {.frames = native, .count = 5, .truncation = ONSTACK_TRUNCATED_NOT};
  onstack_interleave_counters counters = {0};
  onstack_interleave(&interpreter, &copied.interpreted, &stack, out, 8, &counters);
  return counters.interpreted == 1;
}

/* Where the innermost frame is no loop's, the innermost loop has left its own, and calls what frees them. */
Test(interpreted, a_loop_that_has_left_its_frames_stays_native) {
  uint64_t out[8];
  cr_assert(leave_one(ONSTACK_INTERPRETED_OF_NATIVE, out));
  cr_assert(out[1] == 150 && out[3] == 3000 && out[4] == 3001 && out[5] == 900, "%lu %lu %lu", out[1], out[3], out[4]);
  cr_assert(!leave_one(0, out)); /* it may as well be the outer one that has left, and runs a destructor */
}

/* A fiber's native stack ends with its first function; the language's frames go on to who resumed it. */
Test(interpreted, a_stack_of_the_programs_own_has_the_inner_calls) {
  const onstack_interpreter interpreter = {.provider = &toy, .loop_count = 1, .loops = {{100, 200}}};
  struct {
    onstack_interpreted interpreted;
    onstack_interpreted_frame frames[2];
  } copied = {.interpreted = {.count = 2, .named = 1},
              .frames = {{.function = 3000, .flags = ONSTACK_INTERPRETED_ENTRY},
                         {.function = 3001, .flags = ONSTACK_INTERPRETED_ENTRY}}};
  uint64_t native[] = {600, 150, 900}, out[8];
  onstack_walked stack = {.frames = native, .count = 3, .truncation = ONSTACK_TRUNCATED_NOT, .apart = true};
  onstack_interleave_counters counters = {0};
  onstack_interleave(&interpreter, &copied.interpreted, &stack, out, 8, &counters);
  cr_assert_eq(counters.interpreted, 1);
  cr_assert(stack.count == 3 && stack.frames[1] == 3000, "%lu", stack.frames[1]);
}

static bool innermost;
static int tells_innermost(void *data, const onstack_frame_memory *memory) {
  (void)data, (void)memory;
  return innermost;
}
static const onstack_frame_provider placed = {.is_innermost = tells_innermost};

/* A loop as the leaf, and one that called it, with frames of one call. */
static bool place_one(onstack_interpreted_leaf leaf, uint64_t out[8]) {
  const onstack_interpreter interpreter = {.provider = &placed, .loop_count = 1, .loops = {{100, 200}}};
  struct {
    onstack_interpreted interpreted;
    onstack_interpreted_frame frame;
  } copied = {.interpreted = {.count = 1, .named = 1, .leaf = (uint8_t)leaf},
              .frame = {.function = 3000, .flags = ONSTACK_INTERPRETED_ENTRY}};
  const bool called = leaf == ONSTACK_INTERPRETED_LEAF_CALLED || leaf == ONSTACK_INTERPRETED_LEAF_GONE;
  uint64_t native[] = {called ? 600 : 150, called ? 150 : 500, 160, 900};
  onstack_walked stack = {.frames = native, .count = 4, .truncation = ONSTACK_TRUNCATED_NOT};
  onstack_interleave_counters counters = {0};
  onstack_interleave(&interpreter, &copied.interpreted, &stack, out, 8, &counters);
  cr_expect_eq(counters.interpreted + counters.unmatched, 1);
  return counters.interpreted == 1;
}

Test(interpreted, a_leaf_that_tells_where_its_calls_are_is_not_guessed) {
  uint64_t out[8];
  cr_expect(place_one(ONSTACK_INTERPRETED_LEAF_IS_NOT, out) && out[0] == 150 && out[2] == 3000);
  cr_expect(!place_one(ONSTACK_INTERPRETED_LEAF_UNKNOWN, out));
  cr_expect(!place_one(ONSTACK_INTERPRETED_LEAF_IS, out)); /* of another chain of calls, farther out */
  innermost = true;
  cr_expect(place_one(ONSTACK_INTERPRETED_LEAF_IS, out) && out[0] == 3000 && out[2] == 160);
  cr_expect(place_one(ONSTACK_INTERPRETED_LEAF_CALLED, out) && out[1] == 3000 && out[2] == 160);
  cr_expect(!place_one(ONSTACK_INTERPRETED_LEAF_GONE, out));
}

Test(interpreted, one_that_has_not_begun_is_asked_again) {
  seen_stacks seen = {0};
  onstack_options options = t_options(1000, see, &seen);
  onstack_session *session;
  toy_break = 3;
  toy_top_address = (uint64_t)(uintptr_t)&toy_top;
  options.frame_provider = &toy;
  cr_assert_eq(onstack_session_start(&options, &session), 0);
  t_burn(0.1);
  toy_break = 0;
  toy_loop(2, 3, deep);
  onstack_session_free(session);
  cr_expect_gt(toy_prepares, 1);
  cr_expect_gt(seen.right, 10u);
}

/* Three waits: the thread moves between them, and the next look has what the first one has left. */
static void wait_a_moment(void) {
  for (int i = 0; i < 3; i++) t_sleep(0.1);
  __asm__ volatile("");
}
__attribute__((noinline)) static void wait_deep(void) {
  toy_loop(outer_function, inner_function, wait_a_moment);
  __asm__ volatile("");
}

static onstack_stats run_waits(seen_stacks *seen) {
  if (!onstack_look_works()) cr_skip("the kernel tells nothing of blocked threads, or an emulator tells of its own");
  onstack_options options = t_options(100, see, seen);
  onstack_session *session;
  onstack_stats stats = {.size = sizeof(stats)};
  toy_top_address = (uint64_t)(uintptr_t)&toy_top;
  options.frame_provider = &toy;
  options.clock = ONSTACK_CLOCK_WALL;
  cr_assert_eq(onstack_session_start(&options, &session), 0);
  toy_loop(2, 3, wait_deep);
  cr_assert_eq(onstack_session_stop(session), 0);
  cr_assert_eq(onstack_session_stats(session, &stats), 0);
  onstack_session_free(session);
  return stats;
}

Test(interpreted, blocked_threads_have_them_too) {
  seen_stacks seen = {0};
  const onstack_stats stats = run_waits(&seen);
  cr_expect_gt(seen.right, 0u);
  cr_expect_eq(seen.wrong, 0u, "%u of %u", seen.wrong, seen.samples);
  cr_expect_gt(toy_hinted, 0u);
  cr_expect_geq(stats.interpreted, (uint64_t)seen.right);
}

Test(interpreted, blocked_frames_that_cannot_be_read_are_none) {
  seen_stacks seen = {0};
  toy_break = 2;
  const onstack_stats stats = run_waits(&seen);
  cr_expect_eq(seen.samples, 0u);
  cr_expect_eq(stats.interpreted, 0u);
  cr_expect_gt(stats.samples, 0u);
}

Test(interpreted, a_blocked_function_without_a_name_says_so) {
  seen_stacks seen = {0};
  inner_function = 9;
  const onstack_stats stats = run_waits(&seen);
  cr_expect_gt(seen.unnamed, 0u);
  cr_expect_geq(stats.interpreted_unnamed, (uint64_t)seen.unnamed);
}

typedef struct folded_text {
  char text[65536];
  size_t used;
} folded_text;

static int write_text(void *data, const void *bytes, size_t length) {
  folded_text *text = data;
  if (text->used + length >= sizeof(text->text)) return 1;
  memcpy(text->text + text->used, bytes, length);
  text->used += length;
  return 0;
}

Test(interpreted, profiles_name_them) {
  onstack_options options;
  onstack_session *session;
  onstack_profile *profile;
  static folded_text written;
  cr_assert_eq(onstack_profile_new(NULL, &profile), 0);
  options = t_options(1000, onstack_profile_sink, profile);
  options.frame_provider = &toy;
  toy_top_address = (uint64_t)(uintptr_t)&toy_top;
  cr_assert_eq(onstack_session_start(&options, &session), 0);
  toy_loop(2, 3, deep);
  onstack_session_free(session);
  cr_assert_eq(onstack_profile_write_folded(profile, NULL, write_text, &written), 0);
  cr_expect(strstr(written.text, "toy::first;toy::second;deep;<main>;toy::second;burn;t_burn"), "%s", written.text);
  onstack_profile_free(profile);
}

Test(interpreted, options_and_addresses_are_checked) {
  onstack_options options = t_options(100, NULL, NULL);
  onstack_session *session;
  onstack_frame_provider bad = toy;
  onstack_frame_text text = {.size = sizeof(text)};
  options.frame_provider = &bad;
  bad.copy = NULL;
  cr_expect_eq(onstack_session_start(&options, &session), ONSTACK_E_OPTIONS);
  cr_expect(strstr(onstack_options_fault(&options), "frame_provider:"));
  bad = toy;
  bad.name = "a name of sixteen";
  cr_expect_eq(onstack_session_start(&options, &session), ONSTACK_E_OPTIONS);
  options.frame_provider = NULL;
  options.interpreters = 3;
  cr_expect_eq(onstack_session_start(&options, &session), ONSTACK_E_OPTIONS);
  cr_expect_eq(onstack_interpreted_describe(0x401000, &text), ONSTACK_E_OPTIONS);
  cr_expect_eq(onstack_interpreted_describe(ONSTACK_INTERPRETED_ADDRESS(70000, 1), &text), ONSTACK_E_OPTIONS);
  cr_expect_eq(onstack_interpreted_describe(ONSTACK_INTERPRETED_ADDRESS(0, 0), NULL), ONSTACK_E_OPTIONS);
}

/* With `interpreters` a session has the registered providers; without one it says so. */
Test(interpreted, a_registered_provider_serves_sessions_that_ask_for_it) {
  static const onstack_frame_provider second = {
      .size = sizeof(second), .name = "second", .prepare = toy_prepare, .copy = toy_copy, .describe = toy_describe};
  static onstack_frame_provider third;
  seen_stacks seen = {0};
  onstack_options options = t_options(1000, see, &seen);
  onstack_session *session;
  options.interpreters = ONSTACK_ON;
  cr_expect_eq(onstack_session_start(&options, &session), ONSTACK_E_OPTIONS);
  cr_expect(strstr(onstack_options_fault(&options), "interpreters:"));
  third = second;
  third.copy = NULL;
  cr_expect_eq(onstack_frame_provider_register(NULL), ONSTACK_E_OPTIONS);
  cr_expect_eq(onstack_frame_provider_register(&third), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_frame_provider_register(&toy), 0);
  cr_expect_eq(onstack_frame_provider_register(&toy), 0);
  cr_expect_eq(onstack_frame_provider_register(&second), 0);
  third.copy = toy_copy;
  cr_expect_eq(onstack_frame_provider_register(&third), -ENOSPC);
  toy_top_address = (uint64_t)(uintptr_t)&toy_top;
  cr_assert_eq(onstack_session_start(&options, &session), 0);
  toy_loop(2, 3, deep);
  onstack_session_free(session);
  cr_expect_gt(seen.right, 10u);
}

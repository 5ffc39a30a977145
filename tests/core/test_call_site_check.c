/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A return address is believed when the code in front of it is a call; looked at once, where a sample leaves the ring. */
#include "sampler/unwind/pc_cache.h"
#include "sampler/unwind/walk.h"
#include "sampler/unwind/unwinder.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#define MARK (ONSTACK_BY_RULES | ONSTACK_BY_UNPROVEN)
#define DEPTH 40

static uint64_t frames[DEPTH];
static uint8_t unwound_by[DEPTH];

static __attribute__((noinline)) uint64_t return_address(void) {
  return (uint64_t)(uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0));
}

/* A function's entry is preceded by another's end, never by a call that returns there. */
static __attribute__((noinline, aligned(64))) uint64_t entry(void) { return (uint64_t)(uintptr_t)entry; }

/* All frames are called ones, and marked. */
static void fill(void) {
  uint64_t called = return_address();
  for (int i = 0; i < DEPTH; i++) {
    frames[i] = called;
    unwound_by[i] = MARK;
  }
}

Test(call_site_check, frames_that_were_called_are_believed_and_lose_their_marks) {
  fill();
  cr_assert_eq(onstack_call_sites_check(frames, unwound_by, DEPTH), DEPTH);
  for (int i = 0; i + 1 < DEPTH; i++) cr_assert_eq(unwound_by[i], ONSTACK_BY_RULES);
}

Test(call_site_check, a_stack_ends_before_the_first_frame_that_nobody_called) {
  for (uint32_t at = 1; at < DEPTH; at += 6) {
    fill();
    frames[at] = entry();
    cr_assert_eq(onstack_call_sites_check(frames, unwound_by, DEPTH), at);
  }
}

Test(call_site_check, the_interrupted_address_and_unmarked_frames_are_not_looked_at) {
  fill();
  frames[0] = entry();
  frames[5] = entry();
  unwound_by[4] = ONSTACK_BY_RULES;
  cr_assert_eq(onstack_call_sites_check(frames, unwound_by, DEPTH), DEPTH);
}

Test(call_site_check, code_that_cannot_be_read_stays_and_hides_nothing_behind_it) {
  char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fill();
  frames[3] = (uint64_t)(uintptr_t)(page + 100);
  cr_assert_eq(onstack_call_sites_check(frames, unwound_by, DEPTH), DEPTH);
  fill();
  frames[3] = frames[4] = (uint64_t)(uintptr_t)(page + 100);
  frames[6] = entry();
  cr_assert_eq(onstack_call_sites_check(frames, unwound_by, DEPTH), 6);
}

Test(call_site_check, what_is_proven_is_told_to_the_cache_and_not_asked_again) {
  uint64_t seal = onstack_pc_seal(onstack_pc_epoch), value = 0x7f0000001000;
  fill();
  onstack_pc_remember(frames[1] - 1, value | ONSTACK_PC_UNPROVEN, seal);
  cr_assert_eq(onstack_call_sites_check(frames, unwound_by, 2), 2);
  cr_assert_eq(onstack_pc_recall(frames[1] - 1, seal), value);

  /* Proven by another sample meanwhile: believed without a look, even where a look would say no. */
  frames[1] = entry();
  unwound_by[0] = MARK;
  onstack_pc_remember(frames[1] - 1, value, seal);
  cr_assert_eq(onstack_call_sites_check(frames, unwound_by, 2), 2);
}

Test(call_site_check, what_is_disproven_is_not_proven_by_the_next_look) {
  fill();
  frames[1] = entry();
  onstack_pc_remember(frames[1] - 1, 0x7f0000001000 | ONSTACK_PC_UNPROVEN, onstack_pc_seal(onstack_pc_epoch));
  cr_assert_eq(onstack_call_sites_check(frames, unwound_by, 2), 1);
  unwound_by[0] = MARK;
  cr_assert_eq(onstack_call_sites_check(frames, unwound_by, 2), 1);
}

Test(call_site_check, only_unwind_information_and_a_call_show_that_a_stack_begins_there) {
  uint8_t by[4] = {ONSTACK_BY_RULES, ONSTACK_BY_RULES, ONSTACK_BY_RULES, ONSTACK_BY_RECORD};
  cr_assert(onstack_call_sites_end(by, 3));
  cr_assert(onstack_call_sites_end(by, 2));
  cr_assert_not(onstack_call_sites_end(by, 4), "a frame pointer may have found any word");
  cr_assert_not(onstack_call_sites_end(by, 1), "the interrupted function may have pushed words without saying so");
  by[1] |= ONSTACK_BY_UNLISTED;
  cr_assert_not(onstack_call_sites_end(by, 2), "the caller is no code");
}

/* HotSpot's interpreter is returned to where nobody has called from: its entries are known by their first instructions. */
Test(call_site_check, an_entry_that_is_only_returned_to_is_believed) {
#if !defined(__x86_64__)
  cr_skip_test("x86_64");
#endif
  static const unsigned char entries[3][16] = {
      {0x48, 0x8b, 0x65, 0xf0, 0x48, 0xc7, 0x45, 0xf0, 0, 0, 0, 0}, /* until JDK 21 */
      {0x48, 0x8b, 0x4d, 0xf0, 0x48, 0x8d, 0x64, 0xcd, 0x00},       /* since JDK 22 */
      {0x48, 0x8b, 0x65, 0xf0, 0x48, 0x89, 0x45, 0xf0, 0xc3}};      /* neither */
  unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 3; i++) {
    memset(page, 0x90, 4096);
    memcpy(page + 64, entries[i], sizeof(entries[i]));
    fill();
    frames[3] = (uint64_t)(uintptr_t)(page + 64);
    cr_assert_eq(onstack_call_sites_check(frames, unwound_by, DEPTH), i < 2 ? DEPTH : 3, "entry %d", i);
  }
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The truth, instruction by instruction: at each step the walk's frames must be those of the shadow stack. */
#include "check.h"
#include "steps.h"

#include <stdio.h>

#define STEPS_MOST 60000u

static void report(const steps_state *state, const uint64_t *frames, onstack_walk_result result) {
  printf("   inexact at workload%+ld (%08x), truncation %u, %u frames:",
         (long)(frames[0] - (uint64_t)(uintptr_t)steps_workload), *(const uint32_t *)(uintptr_t)state->registers.pc,
         result.truncation, result.frame_count);
  for (uint32_t i = 1; i < result.frame_count && i < 5; i++) printf(" %#lx", (unsigned long)frames[i]);
  printf("; wanted");
  for (size_t i = 0; i < state->shadow_count && i < 4; i++)
    printf(" %#lx", (unsigned long)state->shadow[state->shadow_count - 1 - i]);
  printf("\n");
}

int main(void) {
  steps_state state;
  uint64_t frames[STEPS_FRAMES];
  size_t steps = 0, exact = 0, rooted = 0, deepest = 0, resolved = 0, resolved_exact = 0;
  fflush(stdout);
  if (!steps_begin()) {
    check(false, "single steps", "the child did not stop");
    return check_status();
  }
  for (; steps < STEPS_MOST && steps_next(&state); steps++) {
    onstack_walk_result result = steps_walk(&state, &steps_reader, frames);
    bool good = steps_exact(&state, frames, result.frame_count);
    exact += good;
    resolved += state.resolves;
    resolved_exact += good && state.resolves;
    rooted += result.truncation == ONSTACK_TRUNCATED_NOT;
    if (state.shadow_count > deepest) deepest = state.shadow_count;
    if (!good && steps - exact < 12) report(&state, frames, result);
  }
  steps_end();
  check(steps > 3000 && deepest > 40 && exact * 1000 >= steps * 999, "single steps have the shadow stack's frames",
        "%zu of %zu exact (%.3f %%), %zu rooted, up to %zu deep", exact, steps, 100.0 * (double)exact / (double)steps,
        rooted, deepest);
  check(resolved > 0 && resolved_exact == resolved, "the lazy resolver's first instruction", "%zu of %zu exact",
        resolved_exact, resolved);
  return check_status();
}

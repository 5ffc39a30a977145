/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the PC cache holds is good for its own epoch and never again: the tables of an earlier one are unmapped. */
#include "sampler/unwind/pc_cache.h"

#include <criterion/criterion.h>

#define PC 0x7f12345678a1u
#define RULE 0x7f0000001000u

Test(pc_cache, an_entry_is_good_in_its_own_epoch_alone) {
  const uint64_t first = onstack_pc_epoch;
  onstack_pc_remember(PC, RULE, onstack_pc_seal(first));
  cr_assert_eq(onstack_pc_recall(PC, onstack_pc_seal(first)), RULE);
  for (uint64_t changes = 1; changes <= (uint64_t)1 << 20; changes++)
    cr_assert_eq(onstack_pc_recall(PC, onstack_pc_seal(first + changes)), 0, "after %lu changes of the map",
                 (unsigned long)changes);
  for (uint32_t bit = 0; bit < 64; bit++)
    cr_assert_eq(onstack_pc_recall(PC, onstack_pc_seal(first + ((uint64_t)1 << bit))), 0, "after 2^%u changes of the map",
                 bit);
}

Test(pc_cache, a_torn_entry_is_none) {
  const uint64_t seal = onstack_pc_seal(onstack_pc_epoch);
  onstack_pc_remember(PC, RULE, seal);
  onstack_pc_entry_of(PC)->value = RULE + 16;
  cr_assert_eq(onstack_pc_recall(PC, seal), 0);
  onstack_pc_entry_of(PC)->value = 0;
  cr_assert_eq(onstack_pc_recall(PC, seal), 0);
}

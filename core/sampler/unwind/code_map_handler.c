/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/code_map.h"

ONSTACK_INTERNAL_DEFINE onstack_code_map onstack_code;

static ONSTACK_HANDLER bool code_range_holds(const onstack_code_range *range, uint64_t address) {
  return address - range->low < range->high - range->low;
}

ONSTACK_HANDLER bool onstack_code_is_known(uint64_t address, onstack_code_range *last) {
  if (address - last->low < last->high - last->low) return true;
  const uint32_t begun = onstack_seqlock_begin(&onstack_code.lock);
  uint32_t low = 0, high = onstack_load_relaxed(&onstack_code.count);
  if (onstack_seqlock_is_written(begun) || high > ONSTACK_CODE_RANGES) return true;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (onstack_load_relaxed(&onstack_code.ranges[middle].high) <= address)
      low = middle + 1;
    else
      high = middle;
  }
  onstack_code_range found = {0, 0};
  if (low < onstack_load_relaxed(&onstack_code.count) && low < ONSTACK_CODE_RANGES) {
    found.low = onstack_load_relaxed(&onstack_code.ranges[low].low);
    found.high = onstack_load_relaxed(&onstack_code.ranges[low].high);
  }
  if (!onstack_seqlock_held(&onstack_code.lock, begun)) return true;
  if (address - found.low < found.high - found.low) {
    *last = found;
    return true;
  }
  return false;
}

ONSTACK_HANDLER bool onstack_code_is_executable(uint64_t address, onstack_code_range *last) {
  if (onstack_code_is_known(address, last)) return true;
  onstack_store_relaxed(&onstack_code.stale, 1u);
  return false;
}

ONSTACK_HANDLER const onstack_go_runtime *onstack_code_find_go(uint64_t address) {
  uint32_t runtimes = onstack_observe(&onstack_code.go_count); /* pairs with the publish in control */
  for (uint32_t i = 0; i < runtimes; i++) {
    const onstack_code_range *text = &onstack_code.go[i].text;
    /* The end first, and no difference of the two: an entry that is written or retired meanwhile has 0 there. */
    if (address < onstack_observe(&text->high) && address >= onstack_load_relaxed(&text->low)) return &onstack_code.go[i];
  }
  return NULL;
}

ONSTACK_HANDLER const onstack_go_special *onstack_code_go_special(const onstack_go_runtime *go, uint64_t address) {
  if (!code_range_holds(&go->span, address)) return NULL;
  for (uint32_t special = 0; special < go->special_count; special++)
    if (code_range_holds(&go->specials[special].body, address)) return &go->specials[special];
  return NULL;
}

ONSTACK_HANDLER uint32_t onstack_code_go_kind(const onstack_go_runtime *go, uint64_t address) {
  const onstack_go_special *special = onstack_code_go_special(go, address);
  return special ? special->kind : ONSTACK_GO_PLAIN;
}

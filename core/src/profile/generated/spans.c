/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/generated/spans.h"

#include <stdlib.h>

onstack_generated_span *onstack_generated_spans(const onstack_symbol_table *table, const onstack_profile_stack *stacks,
                                                size_t count) {
  onstack_generated_span *spans = malloc((table->count + 1) * sizeof(*spans));
  if (!spans) return NULL;
  for (size_t i = 0; i < table->count; i++) spans[i] = (onstack_generated_span){UINT64_MAX, 0};
  for (size_t i = 0; i < count; i++) {
    for (uint32_t frame = 0; frame < stacks[i].frame_count; frame++) {
      const uint32_t number = onstack_profile_symbols_number(table, stacks[i].frames[frame]);
      if (number == ONSTACK_PROFILE_HASH_NONE) continue;
      if (stacks[i].first_ns < spans[number].first_ns) spans[number].first_ns = stacks[i].first_ns;
      if (stacks[i].last_ns > spans[number].last_ns) spans[number].last_ns = stacks[i].last_ns;
    }
  }
  for (size_t i = 0; i < table->count; i++)
    if (spans[i].last_ns == 0) spans[i] = (onstack_generated_span){0, UINT64_MAX};
  return spans;
}

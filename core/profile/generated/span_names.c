/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/generated/span_names.h"

#include <stdlib.h>

onstack_generated_span *onstack_generated_spans(const onstack_symbol_table *table, const onstack_name_context *context) {
  onstack_generated_span *spans = malloc((table->count + 1) * sizeof(*spans));
  if (!spans) return NULL;
  for (size_t i = 0; i < table->count; i++) spans[i] = (onstack_generated_span){UINT64_MAX, 0};
  for (size_t i = 0; i < context->stack_count; i++) {
    const onstack_profile_stack *stack = &context->stacks[i];
    for (uint32_t frame = 0; frame < stack->frame_count; frame++) {
      onstack_generated_span *span = &spans[context->numbers[stack->frames[frame]]];
      if (stack->first_ns < span->first_ns) span->first_ns = stack->first_ns;
      if (stack->last_ns > span->last_ns) span->last_ns = stack->last_ns;
    }
  }
  for (size_t i = 0; i < table->count; i++)
    if (spans[i].last_ns == 0) spans[i] = (onstack_generated_span){0, UINT64_MAX};
  return spans;
}

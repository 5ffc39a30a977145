/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "shadow.h"

void truth_shadow_push(truth_shadow *shadow, truth_entry entry) {
  if (shadow->count == TRUTH_DEPTH)
    shadow->lost++;
  else
    shadow->entries[shadow->count++] = entry;
}

/* A jump out of a handler on an alternate stack: slots of two stacks cannot be compared by height. */
static void shadow_leave_alternate(truth_shadow *shadow, uint64_t sp) {
  for (uint32_t i = 0; i < shadow->count; i++) {
    const truth_entry *entry = &shadow->entries[i];
    if (!entry->signal || entry->alternate_low == entry->alternate_high) continue;
    bool nested = false; /* a later frame may have gone back to a lower stack; then height decides there */
    for (uint32_t k = i + 1; k < shadow->count; k++) nested |= shadow->entries[k].signal;
    if (!nested && (sp < entry->alternate_low || sp >= entry->alternate_high)) {
      shadow->count = i;
      return;
    }
  }
}

void truth_shadow_unwind_to(truth_shadow *shadow, uint64_t sp) {
  shadow_leave_alternate(shadow, sp);
  while (shadow->count > 0) {
    const truth_entry *top = &shadow->entries[shadow->count - 1];
    if (top->signal && top->alternate_low != top->alternate_high) return;
    /* A signal frame lies below the SP that it interrupted: reaching that SP means that it was jumped out of. */
    if (top->signal ? sp < top->slot : sp <= top->slot) return;
    shadow->count--;
    if (shadow->lost > 0) shadow->lost--;
  }
}

void truth_shadow_return_from_signal(truth_shadow *shadow) {
  while (shadow->count > 0)
    if (shadow->entries[--shadow->count].signal) return;
}

size_t truth_shadow_list(const truth_shadow *shadow, uint64_t pc, uint64_t *out, size_t capacity) {
  size_t count = 0;
  out[count++] = pc;
  for (uint32_t i = shadow->count; i > 0 && count < capacity; i--) {
    const truth_entry *entry = &shadow->entries[i - 1];
    /* onstack writes an interrupted PC that is not the first plus 1 (sampler/unwind/unwinder_rules_handler.c). */
    out[count++] = entry->signal ? entry->value + 1 : entry->value;
  }
  return count;
}

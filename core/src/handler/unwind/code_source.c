/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/unwind/code_source.h"

#include "handler/unwind/rules/rules.h"

ONSTACK_INTERNAL_DEFINE const onstack_code_source *onstack_code_source_used = &onstack_code_source_frame_pointers;

ONSTACK_HANDLER onstack_truncation onstack_code_no_root(uint64_t address) {
  onstack_module module = {.low = 0};
  const onstack_modules_status status = onstack_modules_find(address, &module);
  if (status == ONSTACK_MODULE_HERE) return ONSTACK_TRUNCATED_NOT;
  return status == ONSTACK_MODULE_NONE ? ONSTACK_TRUNCATED_STACK_SWITCH : ONSTACK_TRUNCATED_PENDING;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/unwind/code_source.h"

#include "handler/unwind/rules/rules.h"

ONSTACK_INTERNAL_DEFINE const onstack_code_source *onstack_code_source_used = &onstack_code_source_frame_pointers;

ONSTACK_HANDLER bool onstack_code_is_undescribed(uint64_t address) {
  onstack_module module = {.low = 0};
  return onstack_modules_find(address, &module) == ONSTACK_MODULE_NONE;
}

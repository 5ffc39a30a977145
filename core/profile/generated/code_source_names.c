/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names by whoever knows how to walk the code (platform/code_source_ops.h). */
#include "profile/generated/name_source.h"

#include "platform/atomics.h"
#include "profile/generated/generated.h"

ONSTACK_INTERNAL_DEFINE const onstack_code_source *onstack_profile_code_source;

static int code_source_give(onstack_symbol_table *table, const onstack_name_context *context) {
  const onstack_code_source *source = onstack_load_relaxed(&onstack_profile_code_source);
  char name[ONSTACK_GENERATED_NAME];
  int error = 0;
  if (!source || !source->symbol) return 0;
  for (size_t i = 0; error == 0 && i < table->count; i++) {
    uint64_t real;
    if (!onstack_generated_is(table, context->maps, i, &real)) continue;
    if (source->symbol(real, name, sizeof(name))) error = onstack_profile_symbols_name(table, (uint32_t)i, name, true);
  }
  return error;
}

ONSTACK_INTERNAL_DEFINE const onstack_name_source onstack_name_source_code_source = {code_source_give};

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/generated/name_source.h"

int onstack_name_sources_give(onstack_symbol_table *table, const onstack_name_context *context) {
  static const onstack_name_source *const all[] = {&onstack_name_source_jitdump, &onstack_name_source_perf_map};
  int error = 0;
  for (size_t i = 0; error == 0 && i < ONSTACK_COUNT_OF(all); i++) error = all[i]->give(table, context);
  return error;
}

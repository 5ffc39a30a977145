/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/interpreted_lines.h"

#include "platform/atomics.h"

#include <stdio.h>

ONSTACK_INTERNAL_DEFINE int (*onstack_profile_interpreted)(uint64_t frame, onstack_frame_text *text);

/* The system name has the language before it, "python:<module>": readers take a name for one of C++, and its brackets for
   parameters to be left out, if the two are the same. */
static int interpreted_name(onstack_symbol_table *table, uint32_t number, const onstack_frame_text *text) {
  char system_name[sizeof(text->language) + sizeof(text->function) + 1];
  snprintf(system_name, sizeof(system_name), "%s:%s", text->language, text->function);
  const onstack_symbol_line line = {.size = sizeof(line),
                                    .name = text->function,
                                    .system_name = text->language[0] ? system_name : NULL,
                                    .file = text->file,
                                    .line = text->line,
                                    .start_line = text->start_line};
  return onstack_profile_symbols_add_line(table, number, &line);
}

int onstack_profile_name_interpreted(onstack_symbol_table *table) {
  int (*const describe)(uint64_t, onstack_frame_text *) = onstack_observe(&onstack_profile_interpreted);
  int error = 0;
  for (size_t i = 0; describe && error == 0 && i < table->count; i++) {
    onstack_frame_text text = {.size = sizeof(text)};
    if (onstack_is_interpreted(table->addresses[i]) && describe(table->addresses[i], &text) == 0)
      error = interpreted_name(table, (uint32_t)i, &text);
  }
  return error;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/elf/demangle.h"

#include "platform/exceptions.h"

#include <errno.h>
#include <stdlib.h>

#define DEMANGLE_CAPACITY ((size_t)16384)

typedef struct demangle_work {
  onstack_demangler demangler;
  void *data;
  uint32_t *names; /* by the number of the system name; 0, which is "", is not known yet */
  char *text;
} demangle_work;

static int demangle_ask(const demangle_work *work, onstack_profile_strings *strings, uint32_t system, uint32_t *number) {
  ONSTACK_STOP_EXCEPTIONS;
  size_t length = work->demangler(work->data, strings->items[system].text, work->text, DEMANGLE_CAPACITY);
  *number = system;
  if (length == 0) return 0;
  if (length > DEMANGLE_CAPACITY) length = DEMANGLE_CAPACITY;
  return onstack_profile_strings_add(strings, work->text, length, number);
}

static int demangle_lines(const demangle_work *work, onstack_symbol_table *table) {
  int error = 0;
  for (size_t i = 0; error == 0 && i < table->line_count; i++) {
    onstack_profile_line *line = &table->lines[i];
    if (line->name != line->system_name) continue;
    uint32_t *name = &work->names[line->system_name];
    if (*name == 0) error = demangle_ask(work, &table->strings, line->system_name, name);
    if (error == 0) line->name = *name;
  }
  return error;
}

int onstack_profile_demangle(onstack_symbol_table *table, onstack_demangler demangler, void *data) {
  if (!demangler || table->line_count == 0) return 0;
  demangle_work work = {.demangler = demangler, .data = data};
  work.names = calloc(table->strings.count, sizeof(*work.names)); /* system names are all there; what is added is not one */
  work.text = malloc(DEMANGLE_CAPACITY);
  int error = work.names && work.text ? demangle_lines(&work, table) : -ENOMEM;
  free(work.names);
  free(work.text);
  return error;
}

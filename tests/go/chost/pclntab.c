/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Feeds a file to the core's readers of Go's function table, which are compiled into this program with the address
 * sanitizer: pclntab <file> <text bytes>. Prints "refused", or "accepted <functions> <instructions with a frame size>".
 */
#include "sampler/modules/go_runtime.h"
#include "sampler/unwind/go_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In place of sampler/unwind/memory_handler.c and sampler/threads/thread_table_handler.c: no stack is walked here. */
bool onstack_memory_read_pair(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  (void)memory;
  (void)address;
  (void)words;
  return false;
}

const onstack_stack_range *onstack_memory_find_range(const onstack_memory *memory, uint64_t address) {
  (void)memory;
  (void)address;
  return NULL;
}

uint64_t onstack_thread_pointer(void) { return 0; }

static void count(void *data, const char *name, uint64_t low, uint64_t high) {
  (void)low;
  (void)high;
  *(size_t *)data += strlen(name) > 0;
}

static size_t frames(const onstack_go_pclntab *table, uint64_t size) {
  onstack_go_runtime go = {.functions = {table->base + table->functions, table->base + table->functions,
                                         table->base + table->pc_values, table->base + table->size, table->text,
                                         (uint32_t)table->function_count, table->quantum}};
  onstack_go_frame frame;
  size_t found = 0;
  for (uint64_t offset = 0; offset < size; offset += 61) found += onstack_go_frame_at(&go, table->text + offset, &frame);
  return found;
}

int main(int argc, char **argv) {
  FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  if (!file || fseek(file, 0, SEEK_END) != 0) return 2;
  long size = ftell(file);
  rewind(file);
  /* Exactly as large as the file: a read behind it is an error that the sanitizer sees. */
  uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1);
  if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) return 2;
  fclose(file);
  onstack_go_pclntab table;
  if (!onstack_go_pclntab_open(&table, bytes, (size_t)size)) {
    puts("refused");
  } else {
    size_t functions = 0;
    table.text = 0x400000;
    onstack_go_pclntab_each(&table, count, &functions);
    printf("accepted %zu %zu\n", functions, frames(&table, strtoull(argv[2], NULL, 10)));
  }
  free(bytes);
  return 0;
}

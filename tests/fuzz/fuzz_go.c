/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A loaded object with Go's sections, of any content: found by its section headers, its function table read, the layout taken
 * out of its instructions, and then asked as the handler asks. The object's file and its memory have the same bytes but for the
 * loader's relocations, in a heap block of exactly their size. Promise: nothing outside the object is touched. Input: the file;
 * or behind the letter 'T', a bare function table.
 */
#include "fuzz.h"

#include "sampler/modules/go_runtime.c" /* its static functions */
#include "sampler/unwind/go_stack.h"

#include <sys/mman.h>
#include <unistd.h>

static int object_file = -1;

static void ask(const onstack_go_runtime *go, uint64_t address) {
  onstack_go_frame frame;
  if (!onstack_go_frame_at(go, address, &frame)) return;
  fuzz_check(frame.depth >= 0 && frame.depth % 8 == 0);
  fuzz_check(frame.entry <= address);
}

static void ask_all(const onstack_go_runtime *go) {
  for (uint32_t i = 0; i < go->special_count; i++) {
    const onstack_go_special *special = &go->specials[i];
    fuzz_check(special->body.low >= go->text.low && special->body.high <= go->text.high);
    fuzz_check(special->switch_at <= special->body.high - special->body.low);
    ask(go, special->body.low);
    ask(go, special->body.high - 1);
    onstack_code_go_kind(go, special->body.low);
  }
  uint64_t length = go->text.high - go->text.low;
  for (uint64_t i = 0; i <= 32; i++) ask(go, go->text.low + length / 32 * i);
  ask(go, go->text.low - 1);
  ask(go, UINT64_MAX);
}

static void add_bias(uint8_t *bytes, size_t size, uint64_t at, uint64_t bias) {
  uint64_t value;
  if (at > size || size - at < 8) return;
  memcpy(&value, bytes + at, 8);
  if (value != 0) value += bias;
  memcpy(bytes + at, &value, 8);
}

/* What the loader would do: the words that hold addresses (runtime/symtab.go, pcHeader and moduledata). */
static void relocate(const go_object *object, uint8_t *bytes, size_t size) {
  static const uint8_t words[] = {0, GO_MODULE_PCTAB, GO_MODULE_PCLNTABLE, GO_MODULE_TEXT, GO_MODULE_ETEXT};
  go_sections sections;
  if (go_object_sections(object, &sections) != 0) return;
  add_bias(bytes, size, sections.pclntab - object->bias + 24, object->bias);
  for (uint32_t i = 0; sections.module && i < sizeof(words); i++)
    add_bias(bytes, size, sections.module - object->bias + words[i] * 8u, object->bias);
}

static void run_object(uint8_t *bytes, size_t size) {
  go_object object = {.bias = (uint64_t)(uintptr_t)bytes,
                      .segment_count = 1,
                      .segments = {{(uint64_t)(uintptr_t)bytes, (uint64_t)(uintptr_t)bytes + size}}};
  if (object_file < 0) object_file = memfd_create("object", MFD_CLOEXEC);
  if (ftruncate(object_file, 0) != 0 || pwrite(object_file, bytes, size, 0) != (ssize_t)size) return;
  snprintf(object.path, sizeof(object.path), "/proc/self/fd/%d", object_file);
  relocate(&object, bytes, size);
  go_inspect_object(&object);
  fuzz_check(onstack_code.go_count <= 1);
  if (onstack_go_runtime_is_present()) {
    ask_all(&onstack_code.go[0]);
    go_retire(0);
  }
  go_free_retired();
}

static void see_function(void *data, const char *name, uint64_t low, uint64_t high) {
  fuzz_check(low < high && strlen(name) < SIZE_MAX);
  ++*(uint64_t *)data;
}

static void run_table(uint8_t *bytes, size_t size) {
  onstack_go_pclntab table;
  uint64_t seen = 0;
  if (!onstack_go_pclntab_open(&table, bytes, size)) return;
  onstack_go_runtime go = {.functions = {bytes + table.functions, bytes + table.functions, bytes + table.pc_values,
                                         bytes + size, 0x400000, (uint32_t)table.function_count, table.quantum}};
  table.text = 0x400000;
  onstack_go_pclntab_each(&table, see_function, &seen);
  fuzz_check(seen <= table.function_count);
  for (uint64_t offset = 0; offset < 0x4000; offset += 97) ask(&go, 0x400000 + offset);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  bool bare = data[0] == 'T';
  uint8_t *bytes = fuzz_copy(data + bare, size - bare);
  bare ? run_table(bytes, size - bare) : run_object(bytes, size);
  free(bytes);
  return 0;
}

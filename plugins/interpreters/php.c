/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds PHP by its exported symbols, and names its frames out of their functions. */
#include "frames.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* From the headers of each version (Zend/zend_globals.h, zend_compile.h); tests/interpreters compares. */
static const onstack_php_layout php_layouts[] = {
    {.version = 20210902,
     .globals_page = 472,
     .globals_frame = 488,
     .function_last = 68,
     .function_opcodes = 72,
     .function_file = 144,
     .function_line = 152}, /* 8.1 */
    {.version = 20220829,
     .globals_page = 472,
     .globals_frame = 488,
     .function_last = 80,
     .function_opcodes = 88,
     .function_file = 152,
     .function_line = 160}, /* 8.2 */
    {.version = 20230831,
     .globals_page = 472,
     .globals_frame = 488,
     .function_last = 76,
     .function_opcodes = 80,
     .function_file = 144,
     .function_line = 152}, /* 8.3 */
    {.version = 20240924,
     .globals_page = 472,
     .globals_frame = 488,
     .function_last = 96,
     .function_opcodes = 104,
     .function_file = 168,
     .function_line = 176}, /* 8.4 */
    {.version = 20250925,
     .globals_page = 496,
     .globals_frame = 512,
     .function_last = 96,
     .function_opcodes = 104,
     .function_file = 168,
     .function_line = 176}, /* 8.5 */
};

enum { PHP_LOOP, PHP_MODULES, PHP_GLOBALS, PHP_GLOBALS_OFFSET, PHP_BLOCK_OFFSET };
static const char *const php_symbols[] = {"execute_ex", "module_registry", "executor_globals", "executor_globals_offset",
                                          "tsrm_get_ls_cache_tcb_offset"};
#define PHP_SYMBOLS_NEEDED 2

/* The beginning of a zend_module_entry (Zend/zend_modules.h): any module of PHP's own tells what it was built for. */
typedef struct php_module {
  uint16_t size;
  uint32_t version;
  uint8_t debug, thread_safe;
} php_module;

/* The beginning of a zend_array (Zend/zend_types.h), whose buckets begin with a pointer to a module here. */
typedef struct php_table {
  uint64_t references, flags, buckets;
  uint32_t used;
} php_table;

/* The first module of the registry; false: there is none yet. */
static bool php_first_module(const onstack_frame_memory *memory, uint64_t registry, php_module *module) {
  php_table table;
  uint64_t address;
  return memory->read(registry, &table, sizeof(table)) && table.used > 0 &&
         memory->read(table.buckets, &address, sizeof(address)) && memory->read(address, module, sizeof(*module)) &&
         module->size > sizeof(*module);
}

static const onstack_php_layout *php_layout(const php_module *module) {
  if (module->debug) return NULL;
  for (size_t i = 0; i < ONSTACK_COUNT_OF(php_layouts); i++)
    if (php_layouts[i].version == module->version) return &php_layouts[i];
  return NULL;
}

/* With its handlers as labels in the loop; otherwise that has a few instructions, which call them. */
#define PHP_LOOP_OF_LABELS 16384u

static int php_loops(const onstack_loop_code *found, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  loops[0] = found[PHP_LOOP];
  return loops[0].high - loops[0].low < PHP_LOOP_OF_LABELS ? 1 : 1 | ONSTACK_LOOP_JUMPS;
}

/* What the function at `address` returns, which does nothing but load a constant of the linker's: mov place(%rip),%rax, or as a
   linker relaxes it mov $value,%rax; ret. Returns false if it does more. Not tried on other processors. */
static bool php_constant(const onstack_frame_memory *memory, uint64_t address, uint64_t *value) {
#if defined(__x86_64__)
  static const uint8_t branch_target[] = {0xf3, 0x0f, 0x1e, 0xfa};
  uint8_t code[16];
  int32_t operand;
  if (!memory->read(address, code, sizeof(code))) return false;
  const size_t at = memcmp(code, branch_target, sizeof(branch_target)) == 0 ? sizeof(branch_target) : 0;
  const uint8_t *load = code + at;
  if (load[0] != 0x48 || load[7] != 0xc3) return false;
  memcpy(&operand, load + 3, sizeof(operand));
  *value = (uint64_t)(int64_t)operand;
  if (load[1] == 0xc7 && load[2] == 0xc0) return true;
  return load[1] == 0x8b && load[2] == 0x05 && memory->read(address + at + 7 + *value, value, sizeof(*value));
#else
  (void)memory, (void)address, (void)value;
  return false;
#endif
}

/* Where the globals of a thread are found (TSRM/TSRM.c). False: this build does not tell. */
static bool php_find_threads(const onstack_frame_memory *memory, const onstack_loop_code *found, onstack_php *php) {
  const uint64_t tell = found[PHP_BLOCK_OFFSET].low, offset = found[PHP_GLOBALS_OFFSET].low;
  if (tell == 0 || offset == 0 || !memory->read(offset, &php->globals_offset, sizeof(php->globals_offset))) return false;
  /* 0: the model of thread-local storage is another one. */
  if (!php_constant(memory, tell, &php->block_offset)) return false;
  return php->globals_offset != 0 && php->block_offset != 0;
}

static bool php_find(const onstack_frame_memory *memory, const onstack_loop_code *found, const php_module *module,
                     onstack_php *php) {
  php->layout = php_layout(module);
  php->globals = found[PHP_GLOBALS].low;
  return php->layout && (module->thread_safe ? php_find_threads(memory, found, php) : php->globals != 0);
}

static int php_prepare(void *data, const onstack_frame_memory *memory, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  (void)data;
  onstack_php *php = &onstack_php_found;
  onstack_loop_code found[ONSTACK_COUNT_OF(php_symbols)];
  if (!memory->find(memory, php_symbols, ONSTACK_COUNT_OF(php_symbols), PHP_SYMBOLS_NEEDED, found)) return 0;
  if (onstack_frames_observe(&php->ready))
    return php->loop == found[PHP_LOOP].low ? php_loops(found, loops) : ONSTACK_E_UNSUPPORTED;
  php_module module;
  if (!php_first_module(memory, found[PHP_MODULES].low, &module)) return -EAGAIN;
  if (!php_find(memory, found, &module, php)) return ONSTACK_E_UNSUPPORTED;
  php->loop = found[PHP_LOOP].low;
  onstack_frames_publish(&php->ready, 1u);
  return php_loops(found, loops);
}

/* Names of PHP's frames, out of their functions: read some milliseconds after the sample, and doubted. */

#define PHP_CLASS_NAME 8u /* zend_class_entry.name */
#define PHP_STRING_LENGTH 16u
#define PHP_STRING_DATA 24u
#define PHP_OPCODE_BYTES 32u /* zend_op */
#define PHP_OPCODE_LINE 24u

/* A zend_string's bytes, cut where it is longer; what is no text of a name becomes '?'. */
static bool php_string(const onstack_frame_memory *memory, uint64_t address, char *out, size_t capacity) {
  _Alignas(8) uint8_t head[PHP_STRING_DATA];
  if (!memory->read(address, head, sizeof(head))) return false;
  const uint64_t length = onstack_frames_word(head, PHP_STRING_LENGTH);
  const size_t bytes = length < capacity - 1 ? (size_t)length : capacity - 1;
  if (bytes == 0 || !memory->read(address + PHP_STRING_DATA, out, (uint32_t)bytes)) return false;
  out[bytes] = 0;
  for (size_t i = 0; i < bytes; i++)
    if ((uint8_t)out[i] < 0x20 || out[i] == 0x7f) out[i] = '?';
  return true;
}

static uint32_t php_number(const onstack_frame_memory *memory, uint64_t address) {
  uint32_t number = 0;
  return memory->read(address, &number, sizeof(number)) ? number : 0;
}

/* Of the opcode whose address has this lower half. */
static uint32_t php_line(const onstack_frame_memory *memory, const onstack_interpreted_frame *frame, uint64_t opcodes) {
  const uint32_t offset = frame->position - (uint32_t)opcodes;
  const uint32_t last = php_number(memory, frame->function + onstack_php_found.layout->function_last);
  if (offset % PHP_OPCODE_BYTES != 0 || offset / PHP_OPCODE_BYTES >= last) return 0;
  return php_number(memory, opcodes + offset + PHP_OPCODE_LINE);
}

static bool php_name(const onstack_frame_memory *memory, const uint64_t identity[ONSTACK_IDENTITY], uint8_t type, char *out,
                     size_t capacity) {
  char name[sizeof(((onstack_frame_text *)0)->function)], scope[sizeof(name)];
  if (identity[ONSTACK_PHP_NAME] == 0) { /* of a file, whose functions lie in it */
    snprintf(out, capacity, type == ONSTACK_PHP_EVAL ? "<eval>" : "<main>");
    return true;
  }
  if (!php_string(memory, identity[ONSTACK_PHP_NAME], name, sizeof(name))) return false;
  uint64_t text = 0;
  const bool method = identity[ONSTACK_PHP_SCOPE] != 0 &&
                      memory->read(identity[ONSTACK_PHP_SCOPE] + PHP_CLASS_NAME, &text, sizeof(text)) &&
                      php_string(memory, text, scope, sizeof(scope));
  snprintf(out, capacity, "%.120s%s%.130s", method ? scope : "", method ? "::" : "", name);
  return true;
}

static bool php_read(const onstack_frame_memory *memory, const onstack_interpreted_frame *frame,
                     const uint64_t identity[ONSTACK_IDENTITY], uint8_t *scratch, onstack_frame_text *text) {
  (void)scratch;
  const uint8_t type = (uint8_t)(identity[ONSTACK_PHP_OPCODES] >> 56);
  if (!php_name(memory, identity, type, text->function, sizeof(text->function))) return false;
  text->flags = type == ONSTACK_PHP_INTERNAL ? ONSTACK_TEXT_NATIVE : 0;
  if (type == ONSTACK_PHP_INTERNAL) return true;
  if (!php_string(memory, identity[ONSTACK_PHP_FILE], text->file, sizeof(text->file))) text->file[0] = 0;
  text->start_line = php_number(memory, frame->function + onstack_php_found.layout->function_line);
  text->line = php_line(memory, frame, identity[ONSTACK_PHP_OPCODES] << 8 >> 8);
  return true;
}

static const onstack_language php_language = {onstack_php_identify, php_read};

static int php_describe(void *data, const onstack_frame_memory *memory, const onstack_interpreted_frame *frame,
                        onstack_frame_text *text) {
  (void)data;
  return onstack_frames_observe(&onstack_php_found.ready) ? onstack_names_describe(&php_language, memory, frame, text)
                                                          : -ESRCH;
}

ONSTACK_INTERNAL_DEFINE const onstack_frame_provider onstack_php_provider = {.size = sizeof(onstack_frame_provider),
                                                                             .stack_bytes = 512,
                                                                             .name = "php",
                                                                             .prepare = php_prepare,
                                                                             .copy = onstack_php_copy,
                                                                             .copy_of = onstack_php_copy_of,
                                                                             .describe = php_describe};

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/php.h"

#include "platform/atomics.h"
#include "platform/process.h"
#include "sampler/interpreter/instructions.h"
#include "sampler/interpreter/known.h"
#include "sampler/interpreter/symbols.h"
#include "sampler/unwind/generated_code.h"

#include <errno.h>
#include <stdio.h>

/* Finds PHP by its exported symbols. */

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
static const onstack_symbols_wanted php_wanted = {
    5, 2, {"execute_ex", "module_registry", "executor_globals", "executor_globals_offset", "tsrm_get_ls_cache_tcb_offset"}};

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

static bool php_fetch(uint64_t address, void *to, size_t bytes) {
  return onstack_process_memory_copy(address, to, bytes) == bytes;
}

/* The first module of the registry; false: there is none yet. */
static bool php_first_module(uint64_t registry, php_module *module) {
  php_table table;
  uint64_t address;
  return php_fetch(registry, &table, sizeof(table)) && table.used > 0 &&
         php_fetch(table.buckets, &address, sizeof(address)) && php_fetch(address, module, sizeof(*module)) &&
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

/* The loop's code, and what its compiler makes, if that is jumped to from there. */
static int php_loops(const onstack_symbols_found *found, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  const uint64_t loop = found->address[PHP_LOOP], size = found->size[PHP_LOOP];
  onstack_jumped_code *jumped = &onstack_code_jumped;
  uint64_t frame_size;
  int count = onstack_symbols_loop(found, PHP_LOOP, loops);
  if (size < PHP_LOOP_OF_LABELS || !onstack_instructions_frame(loop, &frame_size)) return count;
  onstack_store_relaxed(&jumped->frame_size, frame_size);
  onstack_publish(&jumped->from, loop + size / 2);
  const uint64_t bytes = onstack_observe(&jumped->bytes), low = onstack_load_relaxed(&jumped->low);
  if (bytes != 0 && count < ONSTACK_LOOP_CODES) loops[count++] = (onstack_loop_code){low, low + bytes};
  return count;
}

/* A session of its own may have been told of more. */
bool onstack_php_lives(const onstack_loop_code *loops, uint32_t count) {
  const onstack_jumped_code *jumped = &onstack_code_jumped;
  if (onstack_observe(&jumped->from) == 0 || onstack_observe(&jumped->bytes) == 0 || count == ONSTACK_LOOP_CODES)
    return true;
  const uint64_t low = onstack_load_relaxed(&jumped->low);
  for (uint32_t i = 0; i < count; i++)
    if (onstack_load_relaxed(&loops[i].low) == low) return true;
  return false;
}

/* Where the globals of a thread are found (TSRM/TSRM.c). False: this build does not tell. */
static bool php_find_threads(const onstack_symbols_found *found, onstack_php *php) {
  const uint64_t tell = found->address[PHP_BLOCK_OFFSET], offset = found->address[PHP_GLOBALS_OFFSET];
  if (tell == 0 || offset == 0 || !php_fetch(offset, &php->globals_offset, sizeof(php->globals_offset))) return false;
  /* 0: the model of thread-local storage is another one. */
  if (!onstack_instructions_constant(tell, &php->block_offset)) return false;
  return php->globals_offset != 0 && php->block_offset != 0;
}

static bool php_find(const onstack_symbols_found *found, const php_module *module, onstack_php *php) {
  php->layout = php_layout(module);
  php->globals = found->address[PHP_GLOBALS];
  return php->layout && (module->thread_safe ? php_find_threads(found, php) : php->globals != 0);
}

int onstack_php_prepare(void *data, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  (void)data;
  onstack_php *php = &onstack_php_found;
  static onstack_symbols_memory memory;
  onstack_symbols_found found;
  if (!onstack_symbols_look(&php_wanted, &memory, &found)) return 0;
  if (onstack_observe(&php->ready))
    return php->loop == found.address[PHP_LOOP] ? php_loops(&found, loops) : ONSTACK_E_UNSUPPORTED;
  php_module module;
  if (!php_first_module(found.address[PHP_MODULES], &module)) return -EAGAIN;
  if (!php_find(&found, &module, php)) return ONSTACK_E_UNSUPPORTED;
  php->loop = found.address[PHP_LOOP];
  onstack_publish(&php->ready, 1u); /* pairs with the observe in sampler/interpreter/php_handler.c */
  return php_loops(&found, loops);
}

/* Names of PHP's frames, out of their functions: read some milliseconds after the sample, and doubted. */

#define PHP_CLASS_NAME 8u /* zend_class_entry.name */
#define PHP_STRING_LENGTH 16u
#define PHP_STRING_DATA 24u
#define PHP_OPCODE_BYTES 32u /* zend_op */
#define PHP_OPCODE_LINE 24u

static bool php_identify(const onstack_interpreted_frame *frame, uint64_t identity[ONSTACK_IDENTITY]) {
  uint8_t bytes[ONSTACK_PHP_FUNCTION_BYTES];
  return onstack_php_identify(&onstack_known_memory, frame->function, bytes, identity);
}

/* A zend_string's bytes, cut where it is longer; what is no text of a name becomes '?'. */
static bool php_string(uint64_t address, char *out, size_t capacity) {
  uint8_t head[PHP_STRING_DATA];
  if (!onstack_process_memory_read(address, head, sizeof(head))) return false;
  const uint64_t length = onstack_known_word(head, PHP_STRING_LENGTH);
  const size_t bytes = length < capacity - 1 ? (size_t)length : capacity - 1;
  if (bytes == 0 || !onstack_process_memory_read(address + PHP_STRING_DATA, out, bytes)) return false;
  out[bytes] = 0;
  for (size_t i = 0; i < bytes; i++)
    if ((uint8_t)out[i] < 0x20 || out[i] == 0x7f) out[i] = '?';
  return true;
}

static uint32_t php_number(uint64_t address) {
  uint32_t number = 0;
  return onstack_process_memory_read(address, &number, sizeof(number)) ? number : 0;
}

/* Of the opcode whose address has this lower half. */
static uint32_t php_line(const onstack_interpreted_frame *frame, uint64_t opcodes) {
  const uint32_t offset = frame->position - (uint32_t)opcodes;
  const uint32_t last = php_number(frame->function + onstack_php_found.layout->function_last);
  if (offset % PHP_OPCODE_BYTES != 0 || offset / PHP_OPCODE_BYTES >= last) return 0;
  return php_number(opcodes + offset + PHP_OPCODE_LINE);
}

static bool php_name(const uint64_t identity[ONSTACK_IDENTITY], uint8_t type, char *out, size_t capacity) {
  char name[sizeof(((onstack_frame_text *)0)->function)], scope[sizeof(name)];
  if (identity[ONSTACK_PHP_NAME] == 0) { /* of a file, whose functions lie in it */
    snprintf(out, capacity, type == ONSTACK_PHP_EVAL ? "<eval>" : "<main>");
    return true;
  }
  if (!php_string(identity[ONSTACK_PHP_NAME], name, sizeof(name))) return false;
  uint64_t text = 0;
  const bool method = identity[ONSTACK_PHP_SCOPE] != 0 &&
                      onstack_process_memory_read(identity[ONSTACK_PHP_SCOPE] + PHP_CLASS_NAME, &text, sizeof(text)) &&
                      php_string(text, scope, sizeof(scope));
  snprintf(out, capacity, "%.120s%s%.130s", method ? scope : "", method ? "::" : "", name);
  return true;
}

static bool php_read(const onstack_interpreted_frame *frame, const uint64_t identity[ONSTACK_IDENTITY], uint8_t *scratch,
                     onstack_frame_text *text) {
  (void)scratch;
  const uint8_t type = (uint8_t)(identity[ONSTACK_PHP_OPCODES] >> 56);
  if (!php_name(identity, type, text->function, sizeof(text->function))) return false;
  text->flags = type == ONSTACK_PHP_INTERNAL ? ONSTACK_TEXT_NATIVE : 0;
  if (type == ONSTACK_PHP_INTERNAL) return true;
  if (!php_string(identity[ONSTACK_PHP_FILE], text->file, sizeof(text->file))) text->file[0] = 0;
  text->start_line = php_number(frame->function + onstack_php_found.layout->function_line);
  text->line = php_line(frame, identity[ONSTACK_PHP_OPCODES] << 8 >> 8);
  return true;
}

static const onstack_known_reader php_reader = {php_identify, php_read};

int onstack_php_describe(void *data, const onstack_interpreted_frame *frame, onstack_frame_text *text) {
  (void)data;
  return onstack_observe(&onstack_php_found.ready) ? onstack_known_describe(&php_reader, frame, text) : -ESRCH;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds PHP by its exported symbols. */
#include "control/interpreter/php.h"

#include "base/atomics.h"
#include "control/interpreter/symbols.h"
#include "base/process_memory.h"
#include "handler/interpreter/php.h"

#include <errno.h>

/* From the headers of each version (Zend/zend_globals.h, zend_compile.h); tests/interpreters compares. */
static const onstack_php_layout php_layouts[] = {
    {.version = 20220829,
     .globals_page = 472,
     .globals_frame = 488,
     .function_last = 80,
     .function_opcodes = 88,
     .function_file = 152,
     .function_line = 160}, /* 8.2 */
    {.version = 20240924,
     .globals_page = 472,
     .globals_frame = 488,
     .function_last = 96,
     .function_opcodes = 104,
     .function_file = 168,
     .function_line = 176}, /* 8.4 */
};

enum { PHP_LOOP, PHP_MODULES, PHP_GLOBALS };
static const onstack_symbols_wanted php_wanted = {3, 2, {"execute_ex", "module_registry", "executor_globals"}};

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
  if (module->debug || module->thread_safe) return NULL;
  for (size_t i = 0; i < ONSTACK_COUNT_OF(php_layouts); i++)
    if (php_layouts[i].version == module->version) return &php_layouts[i];
  return NULL;
}

int onstack_php_prepare(void *data, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  (void)data;
  onstack_php *php = &onstack_php_found;
  onstack_symbols_found found;
  if (!onstack_symbols_look(&php_wanted, &found)) return 0;
  if (onstack_observe(&php->ready))
    return php->globals == found.address[PHP_GLOBALS] ? onstack_symbols_loop(&found, PHP_LOOP, loops)
                                                      : ONSTACK_E_UNSUPPORTED;
  if (found.address[PHP_GLOBALS] == 0) return ONSTACK_E_UNSUPPORTED; /* with thread safety there are none of the process */
  php_module module;
  if (!php_first_module(found.address[PHP_MODULES], &module)) return -EAGAIN;
  const onstack_php_layout *layout = php_layout(&module);
  if (!layout) return ONSTACK_E_UNSUPPORTED;
  php->layout = layout;
  php->globals = found.address[PHP_GLOBALS];
  onstack_publish(&php->ready, 1u); /* pairs with the observe in handler/interpreter/php.c */
  return onstack_symbols_loop(&found, PHP_LOOP, loops);
}

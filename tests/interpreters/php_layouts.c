/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Compares what the plug-in knows of a version of PHP with that version's headers. Compiled by run.sh, once for each. */
#include <php.h>

#include <zend_globals.h>
#include <zend_modules.h>

#include "plugins/interpreters/php.c"

#include <stddef.h>
#include <stdio.h>

static int failed;

static void compare(const char *what, size_t known, size_t true_one) {
  if (known == true_one) return;
  printf("php %s: %s is %zu, not %zu\n", PHP_VERSION, what, true_one, known);
  failed = 1;
}

int main(void) {
  const php_module module = {.version = ZEND_MODULE_API_NO};
  const onstack_php_layout *layout = php_layout(&module);
  if (!layout) {
    printf("php %s: not known\n", PHP_VERSION);
    return 1;
  }
  compare("the stack's page", layout->globals_page, offsetof(zend_executor_globals, vm_stack));
  compare("the frame", layout->globals_frame, offsetof(zend_executor_globals, current_execute_data));
  compare("how many opcodes", layout->function_last, offsetof(zend_op_array, last));
  compare("the opcodes", layout->function_opcodes, offsetof(zend_op_array, opcodes));
  compare("the file", layout->function_file, offsetof(zend_op_array, filename));
  compare("the first line", layout->function_line, offsetof(zend_op_array, line_start));
  compare("a frame's opcode", 0, offsetof(zend_execute_data, opline));
  compare("a frame's function", 24, offsetof(zend_execute_data, func));
  compare("a frame's flags", 40, offsetof(zend_execute_data, This) + offsetof(zval, u1));
  compare("a frame's caller", 48, offsetof(zend_execute_data, prev_execute_data));
  compare("a call of the loop", 0x20000, ZEND_CALL_TOP);
  compare("a function's name", 8, offsetof(zend_function, common.function_name));
  compare("a function's class", 16, offsetof(zend_function, common.scope));
  compare("a class's name", 8, offsetof(zend_class_entry, name));
  compare("an opcode", 32, sizeof(zend_op));
  compare("an opcode's line", 24, offsetof(zend_op, lineno));
  compare("a text's length", 16, offsetof(zend_string, len));
  compare("a text", 24, offsetof(zend_string, val));
  compare("a module's version", offsetof(php_module, version), offsetof(zend_module_entry, zend_api));
  compare("a module's threads", offsetof(php_module, thread_safe), offsetof(zend_module_entry, zts));
  compare("a table's buckets", offsetof(php_table, buckets), offsetof(zend_array, arData));
  compare("a table's number", offsetof(php_table, used), offsetof(zend_array, nNumUsed));
  if (!failed) printf("php %s: as its headers say\n", PHP_VERSION);
  return failed;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names of PHP's frames, out of their functions: read some milliseconds after the sample, and doubted. */
#include "sampler/interpreter/php_names.h"

#include "platform/atomics.h"
#include "platform/process_memory.h"
#include "sampler/interpreter/known.h"
#include "sampler/interpreter/php.h"

#include <errno.h>
#include <stdio.h>

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

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/labels/span.h"

#include "platform/sys.h"
#include "platform/context.h"
#include "sampler/unwind/memory.h"

ONSTACK_INTERNAL_DEFINE onstack_span_place onstack_span_of_threads;

#define SPAN_TRACE_ID 16u
#define SPAN_ID 8u
#define SPAN_VALID 24u
#define SPAN_RECORD 28u /* up to attributes of its own, which are left alone */

/* glibc (csu/libc-tls.c, dl-dtv.h): a count before the first entry, pairs. musl (src/internal/pthread_impl.h): the count is
   entry 0. */
static const onstack_span_layout span_layouts[ONSTACK_SPAN_LAYOUTS] = {
    {ONSTACK_ARCH_DTV_GLIBC, -16, 16},
    {ONSTACK_ARCH_DTV_MUSL, 0, 8},
};

ONSTACK_HANDLER uint64_t onstack_span_pointer(onstack_span_place place) {
  const uint64_t offset = place & (((uint64_t)1 << ONSTACK_SPAN_OFFSET_BITS) - 1);
  const uint64_t module = place >> ONSTACK_SPAN_OFFSET_BITS & (((uint64_t)1 << ONSTACK_SPAN_MODULE_BITS) - 1);
  const onstack_span_layout *layout = &span_layouts[(place >> (ONSTACK_SPAN_OFFSET_BITS + ONSTACK_SPAN_MODULE_BITS)) - 1];
  uint64_t address = onstack_arch_thread_pointer() + (uint64_t)(int64_t)layout->dtv, words[2];
  if (onstack_memory_copy_many(&address, 1, words) != 1) return 0;
  const uint64_t addresses[] = {words[0] + (uint64_t)(int64_t)layout->count, words[0] + module * layout->entry};
  if (onstack_memory_copy_many(addresses, 2, words) != 2 || module > words[0]) return 0;
  /* The loader makes some blocks only when they are used first, and marks them by all ones until then. */
  return words[1] == 0 || words[1] == UINT64_MAX ? 0 : words[1] + offset;
}

static ONSTACK_HANDLER bool span_read(uint64_t pointer, uint8_t *record) {
  uint64_t address;
  if (onstack_memory_copy_many(&pointer, 1, &address) != 1 || address == 0) return false;
  struct onstack_vector local = {(uint64_t)(uintptr_t)record, SPAN_RECORD}, remote = {address, SPAN_RECORD};
  if (onstack_sys_process_vm_readv(&local, 1, &remote, 1) != SPAN_RECORD || record[SPAN_VALID] != 1) return false;
  uint8_t trace = 0, span = 0;
  for (uint32_t i = 0; i < SPAN_TRACE_ID; i++) trace |= record[i];
  for (uint32_t i = 0; i < SPAN_ID; i++) span |= record[SPAN_TRACE_ID + i];
  return trace != 0 && span != 0;
}

static ONSTACK_HANDLER char *span_put_text(char *out, const char *text) {
  do *(volatile char *)out++ = *text; /* volatile: no call of memcpy */
  while (*text++);
  return out;
}

static ONSTACK_HANDLER char *span_put_id(char *out, const uint8_t *id, uint32_t bytes) {
  for (uint32_t i = 0; i < 2 * bytes; i++) {
    const uint8_t digit = i % 2 == 0 ? id[i / 2] >> 4 : id[i / 2] & 15;
    *out++ = (char)(digit < 10 ? '0' + digit : 'a' + digit - 10);
  }
  *out++ = 0;
  return out;
}

ONSTACK_HANDLER_APART uint32_t onstack_span_copy(char *out) {
  const onstack_span_place place = onstack_load_relaxed(&onstack_span_of_threads); /* all that it says is in the word */
  uint8_t record[SPAN_RECORD];
  if (place == 0) return 0;
  const uint64_t pointer = onstack_span_pointer(place);
  if (pointer == 0 || !span_read(pointer, record)) return 0;
  out = span_put_id(span_put_text(out, "trace_id"), record, SPAN_TRACE_ID);
  span_put_id(span_put_text(out, "span_id"), record + SPAN_TRACE_ID, SPAN_ID);
  return ONSTACK_SPAN_BYTES;
}

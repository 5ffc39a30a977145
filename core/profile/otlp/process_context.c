/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/otlp/process_context.h"

#include <stdlib.h>
#include <string.h>

#ifdef __linux__
#include "platform/proc.h"
#include "platform/process_memory.h"

#define ONSTACK_PROCESS_CONTEXT_TRIES 10 /* while it is being changed */

typedef struct process_context_head {
  char signature[8];
  uint32_t version;
  uint32_t payload_bytes;
  uint64_t published_ns; /* CLOCK_BOOTTIME; 0: it is being changed, and it is never the same twice */
  uint64_t payload;
} process_context_head;
_Static_assert(sizeof(process_context_head) == 32, "others write as much");

static bool process_context_head_at(uint64_t address, process_context_head *head) {
  return onstack_process_memory_read(address, head, sizeof(*head)) && memcmp(head->signature, "OTEL_CTX", 8) == 0 &&
         head->version == 2;
}

/* Whoever made the mapping may have named it, its file, or both. */
static void process_context_visit(void *data, const onstack_mapping *mapping) {
  static const char *const names[] = {"[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]", "/memfd:OTEL_CTX"};
  uint64_t *address = data;
  process_context_head head;
  for (size_t i = 0; *address == 0 && i < sizeof(names) / sizeof(*names); i++) {
    const size_t length = strlen(names[i]);
    if (mapping->path_length < length || memcmp(mapping->path, names[i], length) != 0) continue;
    if (process_context_head_at(mapping->low, &head)) *address = mapping->low;
  }
}

static uint8_t *process_context_try(uint64_t address, size_t *length) {
  process_context_head head, after;
  if (!process_context_head_at(address, &head) || head.published_ns == 0) return NULL;
  if (head.payload_bytes == 0 || head.payload_bytes > ONSTACK_PROCESS_CONTEXT_BYTES) return NULL;
  uint8_t *payload = malloc(head.payload_bytes);
  if (payload && onstack_process_memory_read(head.payload, payload, head.payload_bytes) &&
      process_context_head_at(address, &after) && after.published_ns == head.published_ns) {
    *length = head.payload_bytes;
    return payload;
  }
  free(payload);
  return NULL;
}

uint8_t *onstack_process_context_copy(size_t *length) {
  uint64_t address = 0;
  uint8_t *payload = NULL;
  if (onstack_proc_maps_each(process_context_visit, &address) != 0 || address == 0) return NULL;
  for (int i = 0; !payload && i < ONSTACK_PROCESS_CONTEXT_TRIES; i++) payload = process_context_try(address, length);
  return payload;
}
#else
uint8_t *onstack_process_context_copy(size_t *length) {
  *length = 0;
  return NULL;
}
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What an OpenTelemetry library publishes about its process, with any content. Promises: nothing outside of it is read, and
 * what is written is a whole message whose texts are UTF-8, whatever was published.
 */
#include "fuzz.h"

#include "platform/proc.h"
#include "onstack/profile.h"
#include "profile/store/output.h"
#include "profile/store/store.h"

typedef struct context_head {
  char signature[8];
  uint32_t version, payload_bytes;
  uint64_t published_ns, payload;
} context_head;

static context_head head;

int __wrap_onstack_proc_maps_each(void (*visit)(void *data, const onstack_mapping *mapping), void *data);

/* The only mapping that the core is told of. */
int __wrap_onstack_proc_maps_each(void (*visit)(void *data, const onstack_mapping *mapping), void *data) {
  static const char path[] = "[anon:OTEL_CTX]";
  onstack_mapping mapping = {.low = (uint64_t)(uintptr_t)&head,
                             .high = (uint64_t)(uintptr_t)(&head + 1),
                             .readable = true,
                             .path = path,
                             .path_length = sizeof(path) - 1};
  visit(data, &mapping);
  return 0;
}

static int check_bytes(void *data, const void *bytes, size_t length) {
  (void)data;
  onstack_protobuf_reader request = {bytes, (const uint8_t *)bytes + length}, inner, resource, pair, value;
  onstack_protobuf_field field;
  size_t named = 0, attributes = 0;
  fuzz_check(onstack_protobuf_next(&request, &field) && field.number == 1);
  inner = onstack_protobuf_read(&field);
  fuzz_check(onstack_protobuf_next(&inner, &field) && field.number == 1);
  for (resource = onstack_protobuf_read(&field); onstack_protobuf_next(&resource, &field); attributes++) {
    pair = onstack_protobuf_read(&field);
    fuzz_check(onstack_protobuf_next(&pair, &field) && field.number == 1 && field.length > 0);
    for (size_t at = 0, step; at < field.length; at += step) {
      step = onstack_profile_utf8_length((const char *)field.bytes + at, field.length - at);
      fuzz_check(step > 0);
    }
    named += field.length == 12 && memcmp(field.bytes, "service.name", 12) == 0;
    fuzz_check(onstack_protobuf_next(&pair, &field) && field.number == 2 && pair.at == pair.end);
    value = onstack_protobuf_read(&field);
    fuzz_check(onstack_protobuf_next(&value, &field) && value.at == value.end);
  }
  fuzz_check(named == 1 && attributes >= named && resource.at == resource.end);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const onstack_attribute given = {"given", "a"};
  const onstack_otlp_options options = {.size = sizeof(options), .resource_count = size % 2, .resource = &given};
  onstack_profile *profile;
  head = (context_head){"OTEL_CTX", 2, (uint32_t)size, 1, (uint64_t)(uintptr_t)data};
  if (onstack_profile_new(NULL, &profile) != 0) abort();
  fuzz_check(onstack_profile_write_otlp(profile, NULL, &options, check_bytes, NULL) == 0);
  onstack_profile_free(profile);
  return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the OTLP writer refuses, and whose profile it says it is. tests/otlp reads all else by OpenTelemetry's own library. */
#include "test_profile_support.h"

static const uint64_t frames[] = {0x11000, 0x12001, 0x13001};

static memory write_otlp(onstack_profile *profile, const onstack_attribute *resource, uint32_t count) {
  const onstack_otlp_options otlp = {.size = sizeof(otlp), .resource_count = count, .resource = resource};
  memory into = {0};
  cr_assert_eq(onstack_profile_write_otlp(profile, NULL, &otlp, memory_write, &into), 0);
  return into;
}

static bool contains(const memory *in, const char *text) { return memmem(in->bytes, in->length, text, strlen(text)); }

/* A KeyValue with a text, as it lies in a Resource. */
static bool has_attribute(const memory *in, const char *key, const char *value) {
  char bytes[256];
  int length = sprintf(bytes, "\x0a%c%s\x12%c\x0a%c%s", (char)strlen(key), key, (char)(strlen(value) + 2),
                       (char)strlen(value), value);
  return memmem(in->bytes, in->length, bytes, (size_t)length);
}

Test(profile_otlp, the_first_of_two_attributes_with_one_key_stands) {
  static const onstack_attribute resource[] = {{"service.name", "shop"}, {"env", ""}, {"service.name", "other"}};
  onstack_profile *profile = profile_of(NULL);
  feed(profile, frames, 3);
  memory out = write_otlp(profile, resource, 3);
  cr_assert(has_attribute(&out, "service.name", "shop"));
  cr_assert(has_attribute(&out, "env", ""));
  cr_assert(!contains(&out, "other") && !contains(&out, "unknown_service"));
  free(out.bytes);
  onstack_profile_free(profile);
}

Test(profile_otlp, without_a_name_the_service_is_called_after_the_program) {
  char name[600];
  onstack_profile *profile = profile_of(NULL);
  memory out = write_otlp(profile, NULL, 0);
  snprintf(name, sizeof(name), "unknown_service:%s", program_name());
  cr_assert(has_attribute(&out, "service.name", name));
  cr_assert(contains(&out, onstack_version()));
  free(out.bytes);
  onstack_profile_free(profile);
}

Test(profile_otlp, bad_options_write_nothing) {
  static const onstack_attribute bad[][1] = {{{NULL, "a"}}, {{"", "a"}}, {{"a", NULL}}};
  onstack_profile *profile = profile_of(NULL);
  memory into = {0};
  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
    const onstack_otlp_options otlp = {.size = sizeof(otlp), .resource_count = 1, .resource = bad[i]};
    cr_assert_eq(onstack_profile_write_otlp(profile, NULL, &otlp, memory_write, &into), ONSTACK_E_OPTIONS);
  }
  const onstack_otlp_options none = {.size = sizeof(none), .resource_count = 1};
  const onstack_write_options unknown = {.size = sizeof(unknown), .kind = 99};
  cr_assert_eq(onstack_profile_write_otlp(profile, NULL, &none, memory_write, &into), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_profile_write_otlp(profile, &unknown, NULL, memory_write, &into), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_profile_write_otlp(profile, NULL, NULL, NULL, NULL), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_profile_write_otlp(NULL, NULL, NULL, memory_write, &into), ONSTACK_E_OPTIONS);
  cr_assert_eq(into.calls, 0);
  onstack_profile_free(profile);
}

Test(profile_otlp, a_writer_that_refuses_ends_the_write) {
  onstack_profile *profile = profile_of(NULL);
  memory into = {.refuse_at = 1};
  feed(profile, frames, 3);
  cr_assert_eq(onstack_profile_write_otlp(profile, NULL, NULL, memory_write, &into), ONSTACK_E_OUTPUT);
  cr_assert_eq(into.calls, 1);
  onstack_profile_free(profile);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the OTLP writer refuses, and whose profile it says it is. tests/otlp reads all else by OpenTelemetry's own library. */
#include "test_profile_support.h"

#include <sys/mman.h>
#include <sys/prctl.h>

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

/* ---- what a library in this process has published (OTEP 4719) ---- */

typedef struct context_head {
  char signature[8];
  uint32_t version, payload_bytes;
  uint64_t published_ns, payload;
} context_head;

/* Resource with service.name "by context", "n" 5 and "list" ["x"]; then one attribute that is not the resource's. */
static char payload[] = "\x0a\x3a"
                        "\x0a\x1c\x0a\x0cservice.name\x12\x0c\x0a\x0a"
                        "by context"
                        "\x0a\x07\x0a\x01n\x12\x02\x18\x05"
                        "\x0a\x11\x0a\x04list\x12\x09\x2a\x07\x0a\x03\x0a\x01x\x10\x01"
                        "\x12\x09\x0a\x03oth\x12\x02\x18\x01";

static context_head *publish(void) {
  int file = memfd_create("OTEL_CTX", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  cr_assert_geq(file, 0);
  cr_assert_eq(ftruncate(file, sizeof(context_head)), 0);
  context_head *head = mmap(NULL, sizeof(*head), PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  cr_assert_neq(head, MAP_FAILED);
  close(file);
  *head = (context_head){"OTEL_CTX", 2, sizeof(payload) - 1, 1, (uint64_t)(uintptr_t)payload};
  prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, head, sizeof(*head), "OTEL_CTX");
  return head;
}

Test(profile_otlp, what_the_process_has_published_says_the_rest) {
  static const onstack_attribute resource[] = {{"n", "given"}};
  onstack_profile *profile = profile_of(NULL);
  publish();
  memory out = write_otlp(profile, resource, 1);
  cr_assert(has_attribute(&out, "service.name", "by context"));
  cr_assert(has_attribute(&out, "n", "given"));
  cr_assert(memmem(out.bytes, out.length, "\x0a\x04list\x12\x07\x2a\x05\x0a\x03\x0a\x01x", 15));
  cr_assert(!contains(&out, "oth") && !contains(&out, "unknown_service"));
  free(out.bytes);

  const onstack_otlp_options off = {.size = sizeof(off), .process_context = ONSTACK_OFF};
  memory without = {0};
  cr_assert_eq(onstack_profile_write_otlp(profile, NULL, &off, memory_write, &without), 0);
  cr_assert(contains(&without, "unknown_service") && !contains(&without, "by context"));
  free(without.bytes);
  onstack_profile_free(profile);
}

Test(profile_otlp, what_cannot_be_read_is_as_if_it_were_not_there) {
  onstack_profile *profile = profile_of(NULL);
  context_head *head = publish(), good = *head;
  void *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const context_head bad[] = {
      {"OTEL_CTX", 1, good.payload_bytes, 1, good.payload},
      {"OTEL_CTY", 2, good.payload_bytes, 1, good.payload},
      {"OTEL_CTX", 2, good.payload_bytes, 0, good.payload},
      {"OTEL_CTX", 2, 1u << 20, 1, good.payload},
      {"OTEL_CTX", 2, 0, 1, good.payload},
      {"OTEL_CTX", 2, 100, 1, (uint64_t)(uintptr_t)gone},
      {"OTEL_CTX", 2, 100, 1, 0},
  };
  for (size_t i = 0; i <= sizeof(bad) / sizeof(*bad); i++) {
    *head = i < sizeof(bad) / sizeof(*bad) ? bad[i] : good;
    memory out = write_otlp(profile, NULL, 0);
    cr_assert_eq(contains(&out, "unknown_service"), i < sizeof(bad) / sizeof(*bad), "case %zu", i);
    free(out.bytes);
  }
  onstack_profile_free(profile);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The OTLP writer on what fuzz_pprof.c takes: an error that is documented, or a whole message. OpenTelemetry's own reader is
 * the judge of the bytes: with ONSTACK_FUZZ_PAIRS=FILE each profile goes there as pprof and as OTLP, behind the two lengths,
 * and tests/otlp compares them.
 */
#include "samples.h"

typedef struct written {
  uint8_t *bytes;
  size_t length;
  bool refuse;
} written;

static int take_bytes(void *data, const void *bytes, size_t length) {
  written *to = data;
  if (to->refuse) return 1;
  to->bytes = realloc(to->bytes, to->length + length + 1);
  if (!to->bytes) abort();
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
  return 0;
}

static void hand_over(const written *pprof, const written *otlp) {
  static FILE *file;
  const char *path = getenv("ONSTACK_FUZZ_PAIRS");
  const uint64_t head[] = {pprof->length, otlp->length};
  if (!path) return;
  if (!file && !(file = fopen(path, "wb"))) abort();
  if (fwrite(head, sizeof(head), 1, file) != 1 || fwrite(pprof->bytes, 1, pprof->length, file) != pprof->length ||
      fwrite(otlp->bytes, 1, otlp->length, file) != otlp->length || fflush(file) != 0)
    abort();
}

static void check(const samples_world *world, const written *to, int result) {
  if (world->asked && world->fails)
    fuzz_check(result == -1);
  else
    fuzz_check(result == (to->refuse ? ONSTACK_E_OUTPUT : 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  samples_world world;
  if (!samples_make(&world, &input)) return 0;
  if (world.write.duration_ns == 0) world.write.duration_ns = 1; /* the same in both */
  written pprof = {0}, otlp = {.refuse = size % 64 == 63};
  const onstack_attribute resource[] = {{"service.name", world.strings[0]}, {"a", world.strings[1]}, {"a", "b"}};
  const onstack_otlp_options options = {.size = sizeof(options), .resource_count = size % 4, .resource = resource};
  world.write.comments = world.strings[2];
  check(&world, &otlp, onstack_profile_write_otlp(world.profile, &world.write, &options, take_bytes, &otlp));
  world.asked = false;
  check(&world, &pprof, onstack_profile_write_pprof(world.profile, &world.write, take_bytes, &pprof));
  if (pprof.length > 0 && otlp.length > 0) hand_over(&pprof, &otlp);
  free(pprof.bytes);
  free(otlp.bytes);
  samples_free(&world);
  return 0;
}

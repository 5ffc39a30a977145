/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The writers, pprof and folded, on samples, threads, labels, names and answers of a symbolizer of any content. Promises:
 * an error that is documented, or a whole file; nothing is lost on the way (sums), and folded stacks keep their form
 * whatever is in a name.
 *
 * pprof's own reader and the rules of profile servers are the judges of the pprof bytes: with ONSTACK_FUZZ_PROFILES=FILE
 * each profile goes there behind a head of four numbers, and bindings/go/internal/judge reads them (run.sh does, over the
 * kept inputs and over what a fuzzing found).
 */
#include "samples.h"

#include "profile/string_table.h"

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
  to->bytes[to->length] = 0;
  return 0;
}

static void hand_to_judge(const samples_world *world, const written *pprof) {
  static FILE *file;
  const char *path = getenv("ONSTACK_FUZZ_PROFILES");
  uint64_t head[4] = {pprof->length, world->ticks, world->time_ns, world->samples};
  if (!path) return;
  if (!file && !(file = fopen(path, "wb"))) abort();
  if (fwrite(head, sizeof(head), 1, file) != 1 || fwrite(pprof->bytes, 1, pprof->length, file) != pprof->length ||
      fflush(file) != 0)
    abort();
}

static const char *next_line(const char *line, uint64_t *ticks) {
  const char *end = strchr(line, '\n');
  fuzz_check(end && end > line);
  const char *number = end;
  while (number > line && number[-1] >= '0' && number[-1] <= '9') number--;
  fuzz_check(number < end && number > line && number[-1] == ' ');
  *ticks += strtoull(number, NULL, 10);
  for (const char *at = line; at < end;) {
    size_t step = onstack_profile_utf8_length(at, (size_t)(end - at));
    fuzz_check(step > 0 && *at != '\r');
    at += step;
  }
  return end + 1;
}

static void check_folded(const samples_world *world, const written *folded) {
  uint64_t ticks = 0, lines = 0;
  for (size_t at = 0; at < folded->length; lines++)
    at = (size_t)(next_line((const char *)folded->bytes + at, &ticks) - (const char *)folded->bytes);
  fuzz_check(ticks == world->ticks);
  fuzz_check(lines <= world->samples);
}

static void check_totals(const samples_world *world) {
  uint64_t samples, ticks, time_ns;
  onstack_profile_totals(world->profile, &samples, &ticks, &time_ns);
  fuzz_check(samples == world->samples && ticks == world->ticks && time_ns == world->time_ns);
}

typedef int (*write_form)(onstack_profile *, const onstack_write_options *, onstack_writer, void *);

static bool write_one(samples_world *world, write_form write, written *to) {
  world->asked = false;
  int result = write(world->profile, &world->write, take_bytes, to);
  if (world->asked && world->fails)
    fuzz_check(result == -1);
  else
    fuzz_check(result == (to->refuse ? ONSTACK_E_OUTPUT : 0));
  return result == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  samples_world world;
  if (!samples_make(&world, &input)) return 0;
  check_totals(&world);
  written pprof = {.refuse = size % 64 == 63}, folded = {0};
  if (write_one(&world, onstack_profile_write_pprof, &pprof)) hand_to_judge(&world, &pprof);
  if (write_one(&world, onstack_profile_write_folded, &folded)) check_folded(&world, &folded);
  free(pprof.bytes);
  free(folded.bytes);
  samples_free(&world);
  return 0;
}

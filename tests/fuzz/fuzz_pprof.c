/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The writers, pprof and folded, on samples, threads, labels, names and results of a symbolizer of any content. Promises:
 * an error that is documented, or a whole file; nothing is lost on the way (sums), and folded stacks keep their form
 * whatever is in a name.
 *
 * pprof's own reader and the rules of profile servers check the pprof bytes: with ONSTACK_FUZZ_PROFILES=FILE
 * each profile goes there behind a head of numbers, and bindings/go/internal/checker reads them (run.sh does, over the
 * kept inputs and over what a fuzzing found).
 */
#include "samples.h"

#include "profile/store/store.h"

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

static uint64_t samples_of(const samples_world *world) {
  uint64_t samples = 0;
  for (uint32_t kind = 0; kind < SAMPLES_KINDS; kind++) samples += world->sums[kind].samples;
  return samples;
}

static void hand_to_checker(const samples_world *world, const written *pprof) {
  static FILE *file;
  const char *path = getenv("ONSTACK_FUZZ_PROFILES");
  const samples_sum *of = world->sums;
  uint64_t head[] = {pprof->length,
                     samples_of(world),
                     of[ONSTACK_KIND_CPU].weight + of[ONSTACK_KIND_WALL].weight,
                     of[ONSTACK_KIND_CPU].value,
                     of[ONSTACK_KIND_WALL].value,
                     of[ONSTACK_KIND_ALLOCATION].weight,
                     of[ONSTACK_KIND_ALLOCATION].value,
                     of[ONSTACK_KIND_DUMP].value};
  if (!path) return;
  if (!file && !(file = fopen(path, "wb"))) abort();
  if (fwrite(head, sizeof(head), 1, file) != 1 || fwrite(pprof->bytes, 1, pprof->length, file) != pprof->length ||
      fflush(file) != 0)
    abort();
}

static const char *next_line(const char *line, uint64_t *sum) {
  const char *end = strchr(line, '\n');
  fuzz_check(end && end > line);
  const char *number = end;
  while (number > line && number[-1] >= '0' && number[-1] <= '9') number--;
  fuzz_check(number < end && number > line && number[-1] == ' ');
  *sum += strtoull(number, NULL, 10);
  for (const char *at = line; at < end;) {
    size_t step = onstack_profile_utf8_length(at, (size_t)(end - at));
    fuzz_check(step > 0 && *at != '\r');
    at += step;
  }
  return end + 1;
}

/* A number that more than 64 bits hold has lost its upper ones in the line of each stack already. */
static void check_folded(const samples_world *world, onstack_kind kind, const written *folded) {
  const samples_sum *of = &world->sums[kind];
  uint64_t sum = 0, lines = 0;
  for (size_t at = 0; at < folded->length; lines++)
    at = (size_t)(next_line((const char *)folded->bytes + at, &sum) - (const char *)folded->bytes);
  fuzz_check(sum == (kind == ONSTACK_KIND_CPU || kind == ONSTACK_KIND_WALL ? of->weight : of->value));
  fuzz_check(lines <= of->samples);
}

static void check_totals(const samples_world *world) {
  for (onstack_kind kind = 0; kind < SAMPLES_KINDS + 2; kind++) {
    samples_sum sum;
    onstack_profile_totals(world->profile, kind, &sum.samples, &sum.weight, &sum.value);
    const samples_sum of = kind < SAMPLES_KINDS ? world->sums[kind] : (samples_sum){0};
    fuzz_check(sum.samples == of.samples && sum.weight == of.weight && sum.value == of.value);
  }
}

static uint32_t kinds_of(const samples_world *world) {
  uint32_t kinds = 0;
  for (uint32_t kind = 0; kind < SAMPLES_KINDS; kind++) kinds += world->sums[kind].samples > 0;
  return kinds;
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
  if (write_one(&world, onstack_profile_write_pprof, &pprof)) hand_to_checker(&world, &pprof);
  free(pprof.bytes);
  if (kinds_of(&world) > 1) { /* each by itself */
    world.asked = false;
    int result = onstack_profile_write_folded(world.profile, &world.write, take_bytes, &folded);
    fuzz_check(folded.length == 0 && result == (world.asked && world.fails ? -1 : ONSTACK_E_KINDS));
  }
  for (onstack_kind kind = 1; kind < SAMPLES_KINDS; kind++) {
    written one = {0};
    world.write.kind = kind;
    if (write_one(&world, onstack_profile_write_folded, &one)) check_folded(&world, kind, &one);
    free(one.bytes);
  }
  samples_free(&world);
  return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * PROGRAM LAYOUT tables library=NAME: what a rule table costs to make and to look up in. LAYOUT: rows4 (onstack's),
 * rows4-coarse, rows8, rows8-chunked. Prints figures as the other programs do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "sampler/modules/rule_table.h"
#include "layouts.h"
#include "section.h"

#define DERIVATIONS 7
#define LOOK_UPS 4096
#define HOT 64
#define REPEATS 50
#define EVICTION_BYTES (48u << 20)

static volatile uint64_t sum; /* results are used */

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 20;
}

static const onstack_rule_table *derive(const section *from) {
  double times[DERIVATIONS];
  const onstack_rule_table *table = NULL;
  for (int i = 0; i < DERIVATIONS; i++) {
    onstack_rule_table_free(table);
    uint64_t begin = bench_thread_cpu_ns();
    onstack_cfi_section cfi = {.bytes = from->bytes, .size = from->size, .address = from->address};
    onstack_rule_table_derive(&cfi, from->base, from->text_high, &table);
    times[i] = (double)(bench_thread_cpu_ns() - begin) / 1e6;
    if (!table) bench_fail("no table could be made");
  }
  bench_emit("derive", "ms", bench_median(times, DERIVATIONS));
  bench_emit("rows", "rows", table->row_count);
  bench_emit("rules", "distinct rules", table->rule_count);
  return table;
}

/* Offsets that have a rule. Every layout must give what onstack's own gives. */
static void choose_offsets(const section *from, const onstack_rule_table *table, const layout *way, const void *made,
                           uint64_t *offsets) {
  uint64_t state = 1;
  for (int i = 0; i < LOOK_UPS;) {
    uint64_t offset = from->text_low - from->base + next_random(&state) % (from->text_high - from->text_low);
    uint64_t wanted = layouts[0].look_up(table, offset);
    if (!wanted) continue;
    if (way->look_up(made, offset) != wanted && wanted >> 4 < 0x3ffff)
      bench_fail("%s differs at %llx", way->name, (unsigned long long)offset);
    offsets[i++] = offset;
  }
}

static double time_look_ups(const layout *way, const void *made, const uint64_t *offsets, int distinct, int count) {
  uint64_t all = 0, begin = bench_now_ns();
  /* Each waits for the one before, as the steps of a walk do. */
  for (int i = 0; i < count; i++) all += way->look_up(made, offsets[i % distinct] + (all >> 63));
  double ns = (double)(bench_now_ns() - begin) / count;
  sum = all;
  return ns;
}

static void evict(uint8_t *memory) {
  memset(memory, (int)sum, EVICTION_BYTES);
  for (size_t i = 0; i < EVICTION_BYTES; i += 64) sum += memory[i];
}

static void look_up_all(const layout *way, const void *made, const uint64_t *offsets) {
  double hot[REPEATS], random[REPEATS], cold[REPEATS];
  uint8_t *memory = malloc(EVICTION_BYTES);
  if (!memory) bench_fail("no memory to fill the caches with");
  time_look_ups(way, made, offsets, LOOK_UPS, LOOK_UPS);
  for (int i = 0; i < REPEATS; i++) {
    hot[i] = time_look_ups(way, made, offsets, HOT, HOT * 20);
    random[i] = time_look_ups(way, made, offsets, LOOK_UPS, LOOK_UPS);
    evict(memory);
    /* As many as the frames of one sample: later ones would find warm what the first have fetched. */
    cold[i] = time_look_ups(way, made, offsets + i * 20, 20, 20);
  }
  bench_emit("look-up-hot", "ns", bench_median(hot, REPEATS));
  bench_emit("look-up-random", "ns", bench_median(random, REPEATS));
  bench_emit("look-up-cold", "ns", bench_median(cold, REPEATS));
  free(memory);
}

static const layout *find_layout(const char *name) {
  for (size_t i = 0; i < layout_count; i++)
    if (strcmp(layouts[i].name, name) == 0) return &layouts[i];
  return NULL;
}

int main(int argc, char **argv) {
  static const char setting[] = "library=";
  const layout *way = argc == 4 ? find_layout(argv[1]) : NULL;
  if (!way || strcmp(argv[2], "tables") != 0 || strncmp(argv[3], setting, sizeof setting - 1) != 0) {
    fprintf(stderr, "usage: %s rows4|rows4-coarse|rows8|rows8-chunked tables library=FILE\n", argv[0]);
    return BENCH_EXIT_USAGE;
  }
  section from;
  const char *library = argv[3] + sizeof setting - 1, *why = section_load(library, &from);
  if (why) {
    fprintf(stderr, "%s: %s\n", library, why);
    return BENCH_EXIT_UNAVAILABLE;
  }
  static uint64_t offsets[LOOK_UPS];
  const onstack_rule_table *table = derive(&from);
  size_t bytes;
  void *made = way->make(table, &bytes);
  if (!made) bench_fail("no memory for the table");
  bench_emit("size", "KiB", (double)bytes / 1024);
  choose_offsets(&from, table, way, made, offsets);
  look_up_all(way, made, offsets);
  return 0;
}

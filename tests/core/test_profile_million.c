/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* As many stacks as a profile keeps, of a program whose stacks share their ends: all are written, in bounded memory. */
#include "support.h"
#include "test_profile_support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define STACKS (1u << 20)
#define TOO_MANY 5u
#define DEPTH 20u
#define FUNCTIONS 20000u
#define MEMORY_KIB (300l * 1024) /* at its peak, of the whole process */

static uint64_t mixed(uint64_t number) {
  number = (number ^ number >> 31) * 0x9e3779b97f4a7c15u;
  number = (number ^ number >> 29) * 0xbf58476d1ce4e5b9u;
  return number ^ number >> 32;
}

/* Eight callees for each caller in the last seven frames; no two have the same. Look-up addresses. */
static void make_stack(uint64_t stack, uint64_t frames[DEPTH]) {
  for (uint64_t from_leaf = 0; from_leaf < DEPTH; from_leaf++) {
    const uint64_t branch = from_leaf < 7 ? stack >> 3 * from_leaf : 0;
    frames[from_leaf] = 0x400000 + 16 * (mixed(branch << 8 | from_leaf) % FUNCTIONS);
  }
  frames[0] = 0x800000 + 16 * (stack % FUNCTIONS);
  frames[1] = 0x900000 + 16 * (stack / FUNCTIONS);
}

static uint32_t weight_of(uint64_t stack) { return 1 + (uint32_t)(stack % 7); }

static void feed_stack(onstack_profile *profile, uint64_t stack) {
  uint64_t frames[DEPTH];
  make_stack(stack, frames);
  for (uint32_t i = 1; i < DEPTH; i++) frames[i]++; /* return addresses */
  onstack_sample sample = sample_of(frames, DEPTH);
  weigh(&sample, weight_of(stack));
  if (onstack_profile_sink(profile, &sample) != 0) cr_assert_fail("stack %lu", (unsigned long)stack);
}

static int file_write(void *data, const void *bytes, size_t length) {
  return write(*(const int *)data, bytes, length) != (ssize_t)length;
}

static long peak_kib(void) {
  char line[128];
  long kib = -1;
  FILE *status = fopen("/proc/self/status", "r");
  cr_assert_not_null(status);
  while (kib < 0 && fgets(line, sizeof(line), status))
    if (sscanf(line, "VmHWM: %ld kB", &kib) != 1) kib = -1;
  fclose(status);
  return kib;
}

/* Addresses by location; they come after the samples. */
static uint64_t *read_locations(cursor in, size_t *count) {
  uint64_t *addresses = calloc(4 * FUNCTIONS, sizeof(*addresses)), number;
  uint32_t field;
  cursor body = {NULL, NULL};
  *count = 0;
  while (d_field(&in, &field, &number, &body)) {
    if (field != 4) continue;
    d_location location = {0};
    d_read_location(&location, body);
    cr_assert(location.id == ++*count && location.id < 4 * FUNCTIONS, "location %lu", (unsigned long)location.id);
    addresses[location.id] = location.address;
  }
  return addresses;
}

static void expect_stack(const d_sample *sample, uint64_t stack, const uint64_t *addresses, size_t count) {
  uint64_t frames[DEPTH];
  make_stack(stack, frames);
  bool same = sample->location_count == DEPTH && sample->value_count == 2 && sample->values[0] == weight_of(stack);
  for (uint32_t i = 0; same && i < DEPTH; i++)
    same = sample->locations[i] <= count && addresses[sample->locations[i]] == frames[i];
  if (!same) cr_assert_fail("stack %lu is not what it was", (unsigned long)stack);
}

static void expect_all(cursor in) {
  size_t locations, stacks = 0, overflows = 0;
  uint64_t *addresses = read_locations(in, &locations), number, weight = 0, wanted = 0;
  uint32_t field;
  cursor body = {NULL, NULL};
  while (d_field(&in, &field, &number, &body)) {
    if (field != 2) continue;
    static d_sample sample;
    sample.location_count = sample.value_count = sample.key_count = 0;
    d_read_sample(&sample, body);
    weight += sample.values[0];
    if (stacks < STACKS)
      expect_stack(&sample, stacks++, addresses, locations);
    else
      overflows++;
  }
  for (uint64_t i = 0; i < STACKS + TOO_MANY; i++) wanted += weight_of(i);
  cr_assert_eq(stacks, STACKS);
  cr_assert_eq(overflows, 1);
  cr_assert_eq(weight, wanted);
  free(addresses);
}

Test(profile_million, is_written_whole_in_bounded_memory) {
  char path[] = "/tmp/onstack-million-XXXXXX";
  struct stat status;
  int file = mkstemp(path);
  cr_assert_geq(file, 0);
  unlink(path);
  onstack_profile *profile = profile_of(NULL);
  const double begin = t_process_cpu();
  for (uint64_t i = 0; i < STACKS + TOO_MANY; i++) feed_stack(profile, i);
  const double fed = t_process_cpu();
  cr_assert_eq(onstack_profile_write_pprof(profile, NULL, file_write, &file), 0);
  const double written = t_process_cpu();
  const long peak = peak_kib();
  onstack_profile_free(profile);
  fprintf(stderr, "%u stacks: %.2f s of CPU time to count, %.2f s to write, %ld MiB at the peak\n", STACKS, fed - begin,
          written - fed, peak / 1024);
  cr_assert_eq(fstat(file, &status), 0);
  const uint8_t *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  cr_assert_neq(bytes, MAP_FAILED);
  expect_all((cursor){bytes, bytes + status.st_size});
  close(file);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they have memory of their own */
  cr_assert_leq(peak, MEMORY_KIB);
#endif
}

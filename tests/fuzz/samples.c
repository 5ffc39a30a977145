/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "samples.h"

#include "platform/proc.h"

#define SAMPLES_FRAMES 40u
#define SAMPLES_SIZE_0_1 88u /* of a sample of version 0.1: a shorter one is refused */

static uint64_t take_number(fuzz_input *input) {
  uint32_t kind = (uint32_t)fuzz_take(input, 1);
  uint64_t value = fuzz_take(input, kind & 7);
  return kind & 8 ? ~value : value;
}

static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ b) * 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}

/* Half of them from a few, so that stacks and addresses repeat; some in code that is mapped, some nowhere. */
static uint64_t take_address(fuzz_input *input) {
  static const uint64_t odd[] = {0, 1, 2, 0xfff, UINT64_MAX, UINT64_MAX - 1, (uint64_t)1 << 63, 0x7fffffffffff};
  uint64_t kind = fuzz_take(input, 1);
  if (kind < 128) return 0x10000 + kind % 16;
  if (kind < 192) return odd[kind & 7];
  if (kind == 192) return (uint64_t)(uintptr_t)samples_make;
  return take_number(input);
}

/*
 * What the core is told of this process' mappings (the linker's --wrap=onstack_proc_maps_each; the true ones would be read
 * several times an input): code around the addresses above, of files that do not exist and have any name, two of them
 * overlapping; and this program.
 */
static onstack_mapping own_mapping;
static char own_path[600];
static const samples_world *mapped_for;

int __wrap_onstack_proc_maps_each(void (*visit)(void *data, const onstack_mapping *mapping), void *data);
int __real_onstack_proc_maps_each(void (*visit)(void *data, const onstack_mapping *mapping), void *data);

static void find_own_mapping(void *data, const onstack_mapping *mapping) {
  uint64_t own = (uint64_t)(uintptr_t)samples_make;
  (void)data;
  if (own < mapping->low || own >= mapping->high) return;
  own_mapping = *mapping;
  own_mapping.path_length = (size_t)snprintf(own_path, sizeof(own_path), "%s", mapping->path);
  own_mapping.path = own_path;
}

static size_t put_path(char *at, const char *string) {
  char *begin = at;
  at += sprintf(at, "/nowhere/");
  for (; *string; string++) /* as the kernel writes them */
    at += *string == '\n' ? sprintf(at, "\\012") : sprintf(at, "%c", *string);
  return (size_t)(at - begin);
}

int __wrap_onstack_proc_maps_each(void (*visit)(void *data, const onstack_mapping *mapping), void *data) {
  char line[1024];
  onstack_mapping mapping;
  if (!own_mapping.path && __real_onstack_proc_maps_each(find_own_mapping, NULL) != 0) abort();
  int used = sprintf(line, "00010000-00010008 r-xp 00001000 fd:01 %u ", (unsigned)mapped_for->seed & 3);
  size_t length = (size_t)used + put_path(line + used, mapped_for->strings[mapped_for->seed >> 2 & 7]);
  if (onstack_proc_maps_parse(line, length, &mapping)) visit(data, &mapping);
  used = sprintf(line, "%08x-00010010 r-xp 00000000 fd:01 9 ", mapped_for->seed & 0x80 ? 0x10008u : 0x1000cu);
  length = (size_t)used + put_path(line + used, mapped_for->strings[mapped_for->seed >> 5 & 7]);
  if (onstack_proc_maps_parse(line, length, &mapping)) visit(data, &mapping);
  visit(data, &own_mapping);
  used = sprintf(line, "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]");
  if (onstack_proc_maps_parse(line, (size_t)used, &mapping)) visit(data, &mapping);
  return 0;
}

static const char *pick_string(const samples_world *world, uint64_t bits) {
  return bits % (SAMPLES_STRINGS + 1) == SAMPLES_STRINGS ? NULL : world->strings[bits % (SAMPLES_STRINGS + 1)];
}

static int symbolize(void *data, const uint64_t *addresses, size_t count, onstack_symbol_table *table) {
  samples_world *world = data;
  world->asked = true;
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = mix(addresses[i], world->seed);
    for (uint64_t inlined = bits & 3; inlined > 0; inlined--) {
      onstack_symbol_line line = {.size = sizeof(line)};
      bits = mix(bits, inlined);
      line.name = pick_string(world, bits >> 8);
      line.system_name = pick_string(world, bits >> 16);
      line.file = pick_string(world, bits >> 24);
      line.line = bits & 4 ? (int64_t)(bits >> 32) : -(int64_t)(bits >> 1);
      line.start_line = bits & 8 ? INT64_MIN : (int64_t)(bits >> 40);
      int result = onstack_symbol_add(table, i, &line);
      fuzz_check(result == 0 || result == ONSTACK_E_OPTIONS);
      if (result != 0) return result;
    }
  }
  if (world->adds_wrong) {
    onstack_symbol_line line = {.size = sizeof(line), .name = "nobody"};
    fuzz_check(onstack_symbol_add(table, count, &line) == ONSTACK_E_OPTIONS);
  }
  return world->fails ? -1 : 0;
}

static void take_strings(samples_world *world, fuzz_input *input) {
  for (uint32_t i = 0; i < SAMPLES_STRINGS; i++) {
    uint64_t length = fuzz_take(input, 1) % sizeof(world->strings[0]);
    for (uint64_t at = 0; at < length; at++) world->strings[i][at] = (char)fuzz_take(input, 1);
  }
}

/* Pairs as the core makes them, or anything. */
static uint32_t take_labels(const samples_world *world, fuzz_input *input, char *labels, uint32_t room) {
  uint64_t kind = fuzz_take(input, 1);
  uint32_t used = 0;
  if (kind < 128) return 0;
  if (kind < 160) {
    for (uint64_t length = kind & 31; length > 0; length--) labels[used++] = (char)fuzz_take(input, 1);
    return used;
  }
  if (kind >= 240)
    used = (uint32_t)sprintf(labels, "trace_id%c%032x%cspan_id%c%016x", 0, (unsigned)world->seed, 0, 0, 7) + 1;
  for (uint64_t pairs = kind & 3; pairs > 0; pairs--) {
    const char *value = world->strings[fuzz_take(input, 1) % SAMPLES_STRINGS];
    used += (uint32_t)snprintf(labels + used, room - used, "key%u", (unsigned)pairs) + 1;
    used += (uint32_t)snprintf(labels + used, room - used, "%s", value) + 1;
  }
  return used;
}

static onstack_unit unit_of(onstack_kind kind) {
  return kind == ONSTACK_KIND_ALLOCATION ? ONSTACK_UNIT_BYTES
         : kind == ONSTACK_KIND_DUMP     ? ONSTACK_UNIT_COUNT
                                         : ONSTACK_UNIT_NANOSECONDS;
}

static bool is_sound(const onstack_sample *sample) {
  uint32_t strings = 0;
  for (uint32_t i = 0; i < sample->label_bytes; i++) strings += sample->labels[i] == 0;
  bool labels = sample->label_bytes == 0 || (strings % 2 == 0 && sample->labels[sample->label_bytes - 1] == 0);
  return sample->weight > 0 && sample->kind > 0 && sample->kind < SAMPLES_KINDS && sample->unit == unit_of(sample->kind) &&
         sample->frame_count > 0 && sample->size >= SAMPLES_SIZE_0_1 && labels;
}

static void feed_one(samples_world *world, fuzz_input *input) {
  uint64_t bits = fuzz_take(input, 2), count = bits % SAMPLES_FRAMES;
  char labels[256];
  uint64_t *frames = malloc(count * sizeof(*frames) + 1);
  if (!frames) abort();
  onstack_sample sample = {.size = bits >> 14 == 3 ? SAMPLES_SIZE_0_1 - 8u : sizeof(sample), .frames = frames};
  sample.frame_count = (uint32_t)count;
  sample.weight = bits & 0x100 ? (uint32_t)take_number(input) : 1;
  sample.period = bits & 0x200 ? take_number(input) : 10000000;
  sample.value = sample.weight * sample.period;
  sample.tid = bits & 0x400 ? (int32_t)take_number(input) : 7;
  sample.truncation = bits & 0x800 ? (uint32_t)take_number(input) : 0;
  sample.kind = (bits >> 12 & 3) == 3 ? (uint32_t)fuzz_take(input, 1) % 8 : (bits >> 12 & 3) == 2 ? 2 : 1;
  sample.unit = sample.kind == 7 ? (uint32_t)take_number(input) : unit_of(sample.kind);
  sample.thread_name = pick_string(world, fuzz_take(input, 1));
  sample.label_bytes = take_labels(world, input, labels, sizeof(labels));
  sample.labels = sample.label_bytes ? (char *)fuzz_copy((uint8_t *)labels, sample.label_bytes) : NULL;
  for (uint64_t i = 0; i < count; i++) frames[i] = take_address(input);
  int result = onstack_profile_sink(world->profile, &sample);
  fuzz_check(result == (is_sound(&sample) ? 0 : ONSTACK_E_OPTIONS));
  if (result == 0) {
    world->sums[sample.kind].samples++;
    world->sums[sample.kind].weight += sample.weight;
    world->sums[sample.kind].value += sample.value;
  }
  world->refused += result != 0;
  free((char *)sample.labels);
  free(frames);
}

bool samples_make(samples_world *world, fuzz_input *input) {
  onstack_profile_options options = {.size = sizeof(options)};
  uint64_t bits = fuzz_take(input, 2);
  memset(world, 0, sizeof(*world));
  int64_t start = (int64_t)take_number(input), duration = (int64_t)take_number(input);
  world->seed = fuzz_take(input, 4);
  take_strings(world, input);
  mapped_for = world;
  options.thread_names = bits & 3, options.thread_ids = bits >> 2 & 3;
  options.max_stacks = bits & 0x10 ? (uint32_t)(bits >> 5 & 7) : 0;
  int result = onstack_profile_new(&options, &world->profile);
  fuzz_check(result == (options.thread_names == 3 || options.thread_ids == 3 ? ONSTACK_E_OPTIONS : 0));
  if (result != 0) return false;
  world->with_names = options.thread_names != ONSTACK_OFF, world->with_ids = options.thread_ids != ONSTACK_OFF;
  world->write = (onstack_write_options){.size = sizeof(world->write), .symbolize = bits >> 8 & 3};
  world->write.start_time_unix_ns = start, world->write.duration_ns = duration;
  if (world->write.symbolize == 3) world->write.symbolize = 0;
  if (bits & 0x400) world->write.symbolizer = symbolize, world->write.symbolizer_data = world;
  world->fails = (bits & 0xf000) == 0xf000, world->adds_wrong = (bits & 0xf000) == 0x1000;
  for (uint32_t i = 0; i < SAMPLES_MOST && input->left > 0; i++) feed_one(world, input);
  return true;
}

void samples_free(samples_world *world) { onstack_profile_free(world->profile); }

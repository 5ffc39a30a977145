/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Samples made by hand, writers into memory, and a decoder of pprof that shares nothing with the encoder. */
#ifndef TEST_PROFILE_SUPPORT_H
#define TEST_PROFILE_SUPPORT_H

#include "onstack/onstack.h"
#include "onstack/profile.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))
#define PERIOD_NS 10000000u

/* ---- samples ---- */

static UNUSED onstack_sample sample_of(const uint64_t *frames, uint32_t count) {
  return (onstack_sample){.size = sizeof(onstack_sample),
                          .kind = ONSTACK_KIND_CPU,
                          .value = PERIOD_NS,
                          .period = PERIOD_NS,
                          .unit = ONSTACK_UNIT_NANOSECONDS,
                          .weight = 1,
                          .tid = 100,
                          .thread_name = "worker",
                          .frames = frames,
                          .frame_count = count};
}

static UNUSED void weigh(onstack_sample *sample, uint32_t weight) {
  sample->weight = weight;
  sample->value = weight * sample->period;
}

static UNUSED onstack_profile *profile_of(const onstack_profile_options *options) {
  onstack_profile *profile = NULL;
  cr_assert_eq(onstack_profile_new(options, &profile), 0);
  cr_assert_not_null(profile);
  return profile;
}

static UNUSED void feed(onstack_profile *profile, const uint64_t *frames, uint32_t count) {
  onstack_sample sample = sample_of(frames, count);
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
}

/* The last component of the program's path. argv[0] says something else in Criterion's workers. */
static UNUSED const char *program_name(void) {
  static char path[512];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  cr_assert_gt(length, 0);
  path[length] = '\0';
  return strrchr(path, '/') + 1;
}

/* ---- writers ---- */

typedef struct memory {
  char *bytes; /* NUL-terminated */
  size_t length;
  size_t calls;
  size_t refuse_at; /* the call that is refused, from 1; 0: none */
} memory;

static UNUSED int memory_write(void *data, const void *bytes, size_t length) {
  memory *into = data;
  if (++into->calls == into->refuse_at) return 1;
  into->bytes = realloc(into->bytes, into->length + length + 1);
  memcpy(into->bytes + into->length, bytes, length);
  into->length += length;
  into->bytes[into->length] = '\0';
  return 0;
}

static UNUSED char *folded_text(onstack_profile *profile, const onstack_write_options *options) {
  memory into = {.bytes = calloc(1, 1)};
  cr_assert_eq(onstack_profile_write_folded(profile, options, memory_write, &into), 0);
  return into.bytes;
}

/* ---- decoder ---- */

#define MANY 4096
#define DEEP 1100

typedef struct d_line {
  uint64_t function;
  int64_t line;
} d_line;
typedef struct d_location {
  uint64_t id, mapping, address;
  d_line lines[8];
  size_t line_count;
} d_location;
typedef struct d_function {
  uint64_t id, name, system_name, file;
  int64_t start_line;
} d_function;
typedef struct d_mapping {
  uint64_t id, start, limit, offset, file, build_id, functions, files, lines, inlines;
} d_mapping;
typedef struct d_sample {
  uint64_t locations[DEEP];
  size_t location_count;
  uint64_t values[10];
  size_t value_count;
  const char *thread; /* NULL: no label */
  int64_t thread_id;
  uint64_t keys[64]; /* of the labels */
  size_t key_count;
} d_sample;
typedef struct decoded {
  char *texts[MANY];
  d_sample samples[2048];
  d_location locations[MANY];
  d_function functions[MANY];
  d_mapping mappings[MANY];
  uint64_t types[20]; /* sample types and units in turn */
  uint64_t default_type;
  uint64_t period_type[2];
  uint64_t comments[8];
  size_t comment_count;
  size_t string_count, sample_count, location_count, function_count, mapping_count, type_count;
  int64_t time_ns, duration_ns, period;
} decoded;

typedef struct cursor {
  const uint8_t *at, *end;
} cursor;

static UNUSED uint64_t d_varint(cursor *in) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    cr_assert(in->at < in->end, "varint beyond the end");
    uint8_t byte = *in->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  cr_assert_fail("varint of more than 10 bytes");
  return 0;
}

/* The next field; for length-delimited ones `body` is its content, otherwise *number its value. */
static UNUSED bool d_field(cursor *in, uint32_t *field, uint64_t *number, cursor *body) {
  if (in->at == in->end) return false;
  uint64_t key = d_varint(in);
  *field = (uint32_t)(key >> 3);
  *number = d_varint(in);
  if ((key & 7) == 0) return true;
  cr_assert_eq(key & 7, 2, "wire type %u", (unsigned)(key & 7));
  cr_assert_leq(*number, (uint64_t)(in->end - in->at));
  *body = (cursor){in->at, in->at + *number};
  in->at += *number;
  return true;
}

static UNUSED void d_numbers(cursor in, uint64_t **slots, size_t count) {
  uint32_t field;
  uint64_t number;
  cursor body;
  while (d_field(&in, &field, &number, &body)) {
    cr_assert(field >= 1 && field <= count, "unknown field %u", field);
    *slots[field - 1] = number;
  }
}

static UNUSED void d_read_location(d_location *location, cursor in) {
  uint32_t field;
  uint64_t number;
  cursor body;
  while (d_field(&in, &field, &number, &body)) {
    if (field == 1) location->id = number;
    if (field == 2) location->mapping = number;
    if (field == 3) location->address = number;
    if (field != 4) continue;
    d_line *line = &location->lines[location->line_count++];
    uint64_t *slots[] = {&line->function, (uint64_t *)&line->line};
    d_numbers(body, slots, 2);
  }
}

static UNUSED void d_read_sample(d_sample *sample, cursor in) {
  uint32_t field;
  uint64_t number;
  cursor body;
  while (d_field(&in, &field, &number, &body)) {
    while (field == 1 && body.at < body.end) sample->locations[sample->location_count++] = d_varint(&body);
    while (field == 2 && body.at < body.end) sample->values[sample->value_count++] = d_varint(&body);
    if (field != 3) continue;
    uint64_t key = 0, text = 0, value = 0, unit = 0, *slots[] = {&key, &text, &value, &unit};
    d_numbers(body, slots, 4);
    cr_assert_neq(key, 0, "a label without a key");
    for (size_t i = 0; i < sample->key_count; i++) cr_assert_neq(sample->keys[i], key, "two labels with one key");
    sample->keys[sample->key_count++] = key;
    /* Strings may come later in the file: keep the number, replaced by the text at the end. */
    if (text != 0) sample->thread = (const char *)(uintptr_t)text;
    if (text == 0) sample->thread_id = (int64_t)value;
  }
}

static UNUSED void d_read_field(decoded *out, uint32_t field, uint64_t number, cursor body) {
  if (field == 2) d_read_sample(&out->samples[out->sample_count++], body);
  if (field == 4) d_read_location(&out->locations[out->location_count++], body);
  if (field == 9) out->time_ns = (int64_t)number;
  if (field == 10) out->duration_ns = (int64_t)number;
  if (field == 12) out->period = (int64_t)number;
  if (field == 14) out->default_type = number;
  if (field == 13) out->comments[out->comment_count++] = number;
  if (field == 1) {
    uint64_t *slots[] = {&out->types[out->type_count], &out->types[out->type_count + 1]};
    out->type_count += 2;
    d_numbers(body, slots, 2);
  }
  if (field == 11) {
    uint64_t *slots[] = {&out->period_type[0], &out->period_type[1]};
    d_numbers(body, slots, 2);
  }
  if (field == 3) {
    d_mapping *m = &out->mappings[out->mapping_count++];
    uint64_t *slots[] = {&m->id,       &m->start,     &m->limit, &m->offset, &m->file,
                         &m->build_id, &m->functions, &m->files, &m->lines,  &m->inlines};
    d_numbers(body, slots, 10);
  }
  if (field == 5) {
    d_function *f = &out->functions[out->function_count++];
    uint64_t *slots[] = {&f->id, &f->name, &f->system_name, &f->file, (uint64_t *)&f->start_line};
    d_numbers(body, slots, 5);
  }
  if (field == 6) {
    char *text = calloc(1, number + 1);
    memcpy(text, body.at, number);
    out->texts[out->string_count++] = text;
  }
}

static UNUSED const char *d_text(const decoded *out, uint64_t number) {
  cr_assert_lt(number, out->string_count, "string number beyond the table");
  return out->texts[number];
}

static UNUSED const d_function *d_find_function(const decoded *out, uint64_t id) {
  for (size_t i = 0; i < out->function_count; i++) {
    if (out->functions[i].id == id) return &out->functions[i];
  }
  cr_assert_fail("no function %lu", (unsigned long)id);
  return NULL;
}

static UNUSED const d_location *d_find_location(const decoded *out, uint64_t id) {
  for (size_t i = 0; i < out->location_count; i++) {
    if (out->locations[i].id == id) return &out->locations[i];
  }
  cr_assert_fail("no location %lu", (unsigned long)id);
  return NULL;
}

static UNUSED const d_mapping *d_find_mapping(const decoded *out, uint64_t id) {
  for (size_t i = 0; i < out->mapping_count; i++) {
    if (out->mappings[i].id == id) return &out->mappings[i];
  }
  cr_assert_fail("no mapping %lu", (unsigned long)id);
  return NULL;
}

/* Profile servers want ids 1, 2, ... in the order of each table, and references that lead somewhere. The whole of their
   rules stands in bindings/go/internal/pprofcheck, which other suites ask. */
static UNUSED void d_check_tables(const decoded *out) {
  for (size_t i = 0; i < out->mapping_count; i++) {
    cr_assert_eq(out->mappings[i].id, i + 1, "mapping %lu at place %zu", (unsigned long)out->mappings[i].id, i + 1);
  }
  for (size_t i = 0; i < out->function_count; i++) {
    cr_assert_eq(out->functions[i].id, i + 1, "function %lu at place %zu", (unsigned long)out->functions[i].id, i + 1);
    d_text(out, out->functions[i].name);
    d_text(out, out->functions[i].system_name);
    d_text(out, out->functions[i].file);
  }
  for (size_t i = 0; i < out->location_count; i++) {
    const d_location *location = &out->locations[i];
    cr_assert_eq(location->id, i + 1, "location %lu at place %zu", (unsigned long)location->id, i + 1);
    cr_assert_leq(location->mapping, out->mapping_count);
    for (size_t l = 0; l < location->line_count; l++) {
      cr_assert(location->lines[l].function >= 1 && location->lines[l].function <= out->function_count);
    }
  }
  for (size_t i = 0; i < out->sample_count; i++) {
    const d_sample *sample = &out->samples[i];
    for (size_t f = 0; f < sample->location_count; f++) {
      cr_assert(sample->locations[f] >= 1 && sample->locations[f] <= out->location_count);
    }
  }
}

static UNUSED decoded *decode(const memory *from) {
  decoded *out = calloc(1, sizeof(*out));
  cursor in = {(const uint8_t *)from->bytes, (const uint8_t *)from->bytes + from->length}, body = {NULL, NULL};
  uint32_t field;
  uint64_t number;
  while (d_field(&in, &field, &number, &body)) d_read_field(out, field, number, body);
  cr_assert_gt(out->string_count, 0);
  cr_assert_str_eq(out->texts[0], "");
  for (size_t i = 0; i < out->sample_count; i++) {
    d_sample *sample = &out->samples[i];
    cr_assert_eq(sample->value_count, out->type_count / 2);
    if (sample->thread) sample->thread = d_text(out, (uint64_t)(uintptr_t)sample->thread);
  }
  d_check_tables(out);
  return out;
}

static UNUSED void decoded_free(decoded *out) {
  for (size_t i = 0; i < out->string_count; i++) free(out->texts[i]);
  free(out);
}

static UNUSED decoded *write_and_decode(onstack_profile *profile, const onstack_write_options *options) {
  memory into = {0};
  cr_assert_eq(onstack_profile_write_pprof(profile, options, memory_write, &into), 0);
  decoded *out = decode(&into);
  free(into.bytes);
  return out;
}

/* "leaf;inlined into;...;root", names for people. */
static UNUSED const char *d_stack(const decoded *out, size_t sample) {
  static char text[65536];
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < out->samples[sample].location_count; i++) {
    const d_location *location = d_find_location(out, out->samples[sample].locations[i]);
    for (size_t l = 0; l < location->line_count; l++) {
      const char *name = d_text(out, d_find_function(out, location->lines[l].function)->name);
      used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used == 0 ? "" : ";", name);
    }
  }
  return text;
}

#endif

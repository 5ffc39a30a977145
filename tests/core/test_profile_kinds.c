/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a profile holds: value types and units by kind, several kinds in one profile, and one chosen of them. */
#include "test_profile_support.h"

static const uint64_t frames[] = {0x11000, 0x12001, 0x13001};

#define ANY_KIND (onstack_kind)0

typedef struct of_kind {
  onstack_kind kind;
  onstack_unit unit;
  const char *types[8]; /* type and unit of each column */
  int64_t values[4];    /* of two samples of weight 3 and value 700 */
  const char *period;   /* its type */
  const char *number;   /* in folded stacks */
} of_kind;

static const of_kind all_kinds[] = {
    {ONSTACK_KIND_CPU, ONSTACK_UNIT_NANOSECONDS, {"samples", "count", "cpu", "nanoseconds"}, {6, 1400}, "cpu", " 6\n"},
    {ONSTACK_KIND_WALL, ONSTACK_UNIT_NANOSECONDS, {"samples", "count", "wall", "nanoseconds"}, {6, 1400}, "wall", " 6\n"},
    {ONSTACK_KIND_ALLOCATION,
     ONSTACK_UNIT_BYTES,
     {"alloc_objects", "count", "alloc_space", "bytes", "inuse_objects", "count", "inuse_space", "bytes"},
     {6, 1400, 0, 0},
     "space",
     " 1400\n"},
    {ONSTACK_KIND_DUMP, ONSTACK_UNIT_COUNT, {"threads", "count"}, {1400}, "threads", " 1400\n"},
};

#define KINDS (sizeof(all_kinds) / sizeof(all_kinds[0]))

static void feed_kind(onstack_profile *profile, const of_kind *of) {
  onstack_sample sample = sample_of(frames, 3);
  sample.kind = of->kind;
  sample.unit = of->unit;
  sample.weight = 3;
  sample.value = 700;
  sample.period = 100 + of->kind;
  for (int i = 0; i < 2; i++) cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
}

static decoded *decode_kind(onstack_profile *profile, onstack_kind kind) {
  onstack_write_options options = {.size = sizeof(options), .kind = kind};
  return write_and_decode(profile, &options);
}

static void check_types(const decoded *out, const of_kind *of) {
  size_t texts = 0;
  while (texts < 8 && of->types[texts]) texts++;
  cr_assert_eq(out->type_count, texts);
  for (size_t i = 0; i < texts; i++) cr_assert_str_eq(d_text(out, out->types[i]), of->types[i]);
  cr_assert_str_eq(d_text(out, out->period_type[0]), of->period);
  cr_assert_str_eq(d_text(out, out->period_type[1]), of->types[texts - 1]);
  cr_assert_str_eq(d_text(out, out->default_type), of->kind == ONSTACK_KIND_ALLOCATION ? "inuse_space" : "");
}

Test(profile_kinds, one_kind_has_its_types_and_units) {
  for (size_t i = 0; i < KINDS; i++) {
    const of_kind *of = &all_kinds[i];
    onstack_profile *profile = profile_of(NULL);
    uint64_t samples, weight, value;
    feed_kind(profile, of);
    decoded *out = decode_kind(profile, ANY_KIND);
    check_types(out, of);
    cr_assert_eq(out->sample_count, 1);
    for (size_t c = 0; c < out->samples[0].value_count; c++) cr_assert_eq(out->samples[0].values[c], of->values[c]);
    cr_assert_eq(out->period, (int64_t)(100 + of->kind));
    decoded_free(out);
    char *text = folded_text(profile, NULL);
    cr_assert_str_eq(strrchr(text, ' '), of->number);
    free(text);
    onstack_profile_totals(profile, of->kind, &samples, &weight, &value);
    cr_assert(samples == 2 && weight == 6 && value == 1400);
    onstack_profile_free(profile);
  }
}

Test(profile_kinds, several_kinds_have_columns_of_their_own) {
  static const char *const expected[] = {
      "samples",     "count", "cpu",           "nanoseconds", "wall",        "nanoseconds", "alloc_objects", "count",
      "alloc_space", "bytes", "inuse_objects", "count",       "inuse_space", "bytes",       "threads",       "count"};
  static const int64_t values[KINDS][8] = {{6, 1400}, {6, 0, 1400}, {0, 0, 0, 6, 1400}, {0, 0, 0, 0, 0, 0, 0, 1400}};
  onstack_profile *profile = profile_of(NULL);
  for (size_t i = 0; i < KINDS; i++) feed_kind(profile, &all_kinds[i]);
  decoded *out = decode_kind(profile, ANY_KIND);
  cr_assert_eq(out->type_count, 16);
  for (size_t i = 0; i < 16; i++) cr_assert_str_eq(d_text(out, out->types[i]), expected[i]);
  cr_assert_str_eq(d_text(out, out->period_type[0]), "cpu");
  cr_assert_eq(out->period, 100 + ONSTACK_KIND_CPU);
  cr_assert_str_eq(d_text(out, out->default_type), "cpu");
  cr_assert_eq(out->sample_count, KINDS, "the same stack, once for each kind");
  for (size_t i = 0; i < KINDS; i++) {
    cr_assert_eq(out->samples[i].value_count, 8);
    for (size_t c = 0; c < 8; c++) cr_assert_eq(out->samples[i].values[c], values[i][c], "sample %zu, column %zu", i, c);
  }
  decoded_free(out);
  onstack_profile_free(profile);
}

Test(profile_kinds, one_of_several_can_be_written) {
  onstack_profile *profile = profile_of(NULL);
  memory folded = {0};
  for (size_t i = 0; i < KINDS; i++) feed_kind(profile, &all_kinds[i]);
  cr_assert_eq(onstack_profile_write_folded(profile, NULL, memory_write, &folded), ONSTACK_E_KINDS);
  cr_assert_eq(folded.calls, 0, "nothing is written then");
  for (size_t i = 0; i < KINDS; i++) {
    onstack_write_options options = {.size = sizeof(options), .kind = all_kinds[i].kind};
    decoded *out = decode_kind(profile, all_kinds[i].kind);
    check_types(out, &all_kinds[i]);
    cr_assert_eq(out->sample_count, 1);
    decoded_free(out);
    char *text = folded_text(profile, &options);
    cr_assert_str_eq(strrchr(text, ' '), all_kinds[i].number);
    cr_assert_eq(strchr(text, '\n') - text + 1, (long)strlen(text), "one line");
    free(text);
  }
  onstack_profile_free(profile);
}

Test(profile_kinds, a_kind_that_is_not_held_is_an_empty_profile_of_that_kind) {
  onstack_profile *profile = profile_of(NULL);
  feed_kind(profile, &all_kinds[0]);
  for (size_t i = 1; i < KINDS; i++) {
    decoded *out = decode_kind(profile, all_kinds[i].kind);
    check_types(out, &all_kinds[i]);
    cr_assert_eq(out->sample_count, 0);
    decoded_free(out);
  }
  onstack_write_options wrong = {.size = sizeof(wrong), .kind = 77};
  memory bytes = {0};
  cr_assert_eq(onstack_profile_write_pprof(profile, &wrong, memory_write, &bytes), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_profile_write_folded(profile, &wrong, memory_write, &bytes), ONSTACK_E_OPTIONS);
  onstack_profile_free(profile);
}

/* Each kind keeps its own sum, also of what comes when there is no room for another stack. */
Test(profile_kinds, too_many_stacks_overflow_by_kind) {
  onstack_profile_options options = {.size = sizeof(options), .max_stacks = 1};
  onstack_profile *profile = profile_of(&options);
  for (size_t i = 0; i < KINDS; i++) feed_kind(profile, &all_kinds[i]);
  decoded *out = decode_kind(profile, ANY_KIND);
  cr_assert_eq(out->sample_count, KINDS);
  int64_t sums[8] = {0};
  for (size_t i = 0; i < out->sample_count; i++)
    for (size_t c = 0; c < 8; c++) sums[c] += out->samples[i].values[c];
  static const int64_t expected[8] = {12, 1400, 1400, 6, 1400, 0, 0, 1400};
  for (size_t c = 0; c < 8; c++) cr_assert_eq(sums[c], expected[c], "column %zu", c);
  decoded_free(out);
  onstack_write_options dumps = {.size = sizeof(dumps), .kind = ONSTACK_KIND_DUMP};
  char *text = folded_text(profile, &dumps);
  cr_assert_str_eq(text, "[onstack: too many stacks] 1400\n");
  free(text);
  onstack_profile_free(profile);
}

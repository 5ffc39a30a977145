/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "verdict.h"
#include "onstack/profile.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static truth_verdict verdict_of(const uint64_t *truth, size_t truth_count, const uint64_t *frames, onstack_walk_result walk,
                                uint32_t *differs) {
  size_t common = 0, seen = 0;
  while (common < truth_count && common < walk.frame_count && truth[common] == frames[common]) common++;
  *differs = (uint32_t)common;
  if (common == walk.frame_count) {
    if (walk.truncation != ONSTACK_TRUNCATED_NOT) return TRUTH_TRUNCATED;
    return common == truth_count ? TRUTH_EXACT : TRUTH_FALSE_ROOT;
  }
  for (size_t i = 0; i < truth_count && seen < walk.frame_count; i++) seen += truth[i] == frames[seen];
  return seen == walk.frame_count ? TRUTH_SKIPPED : TRUTH_INVENTED;
}

void truth_counts_add(truth_counts *counts, const uint64_t *truth, size_t truth_count, const uint64_t *frames,
                      onstack_walk_result walk) {
  uint32_t differs;
  truth_verdict verdict = verdict_of(truth, truth_count, frames, walk, &differs);
  counts->compared++;
  counts->verdicts[verdict]++;
  counts->rooted += walk.truncation == ONSTACK_TRUNCATED_NOT;
  if (verdict == TRUTH_TRUNCATED) counts->truncated[walk.truncation % ONSTACK_TRUNCATION_COUNT]++;
  if (truth_count > counts->deepest) counts->deepest = truth_count;
  if (verdict == TRUTH_EXACT) return;
  /* The frame whose step went wrong is the culprit, be it the leaf or not. */
  uint64_t pc = truth[differs > 0 ? differs - 1 : 0];
  truth_place *place = counts->places, *end = counts->places + counts->place_count;
  while (place < end && (place->pc != pc || place->verdict != verdict || (place->at == 1) != (differs == 1))) place++;
  if (place == end) {
    if (counts->place_count == TRUTH_PLACES) return;
    counts->place_count++;
    *place = (truth_place){.pc = pc,
                           .verdict = verdict,
                           .truncation = walk.truncation,
                           .at = differs,
                           .got = differs < walk.frame_count ? frames[differs] : 0,
                           .wanted = differs < truth_count ? truth[differs] : 0};
  }
  place->count++;
}

static int verdict_by_count(const void *left, const void *right) {
  const truth_place *a = left, *b = right;
  return a->count > b->count ? -1 : a->count < b->count;
}

typedef struct verdict_name {
  char text[160];
  size_t length;
} verdict_name;

static int verdict_take(void *data, const void *bytes, size_t length) {
  verdict_name *name = data;
  size_t room = sizeof(name->text) - 1 - name->length;
  if (length > room) length = room;
  memcpy(name->text + name->length, bytes, length);
  name->length += length;
  return 0;
}

/* The library's own symbolizer, by its public face: a profile of one sample with one frame. */
static void verdict_symbol(uint64_t pc, verdict_name *name) {
  onstack_profile_options options = {.size = sizeof(options), .thread_names = ONSTACK_OFF};
  onstack_sample sample = {.size = sizeof(sample),
                           .kind = ONSTACK_KIND_DUMP,
                           .value = 1,
                           .unit = ONSTACK_UNIT_COUNT,
                           .weight = 1,
                           .thread_name = "",
                           .frames = &pc,
                           .frame_count = 1};
  onstack_profile *profile;
  memset(name, 0, sizeof(*name));
  if (pc == 0 || onstack_profile_new(&options, &profile) != 0) return;
  if (onstack_profile_sink(profile, &sample) == 0) onstack_profile_write_folded(profile, NULL, verdict_take, name);
  onstack_profile_free(profile);
  char *end = strstr(name->text, " 1\n");
  if (end) *end = 0;
}

static void verdict_print_address(const char *label, uint64_t pc, FILE *out) {
  verdict_name name;
  Dl_info info;
  verdict_symbol(pc, &name);
  const char *object = "?";
  uint64_t base = 0;
  if (dladdr((void *)(uintptr_t)pc, &info) && info.dli_fname) {
    const char *slash = strrchr(info.dli_fname, '/');
    object = slash ? slash + 1 : info.dli_fname;
    base = (uint64_t)(uintptr_t)info.dli_fbase;
  }
  fprintf(out, "%s %s (%s+0x%llx)", label, name.text, object, (unsigned long long)(pc - base));
}

static const char *const verdict_names[TRUTH_VERDICTS] = {"exact", "truncated", "false root", "skipped", "INVENTED"};
static const char *const verdict_reasons[ONSTACK_TRUNCATION_COUNT] = {
    "not",        "depth",        "unreadable", "misaligned", "not rising",
    "bad return", "stack switch", "by design",  "unwinder",   "no rule"};

void truth_counts_print(truth_counts *counts, const char *name, uint32_t places, FILE *out) {
  double all = counts->compared ? (double)counts->compared : 1;
  fprintf(out,
          "%s: steps %llu compared %llu overwritten %llu exact %.4f%% rooted %.4f%% invented %llu skipped %llu "
          "false-root %llu truncated %llu deepest %llu",
          name, (unsigned long long)counts->steps, (unsigned long long)counts->compared,
          (unsigned long long)counts->overwritten, 100 * (double)counts->verdicts[TRUTH_EXACT] / all,
          100 * (double)counts->rooted / all, (unsigned long long)counts->verdicts[TRUTH_INVENTED],
          (unsigned long long)counts->verdicts[TRUTH_SKIPPED], (unsigned long long)counts->verdicts[TRUTH_FALSE_ROOT],
          (unsigned long long)counts->verdicts[TRUTH_TRUNCATED], (unsigned long long)counts->deepest);
  for (uint32_t i = 0; i < ONSTACK_TRUNCATION_COUNT; i++)
    if (counts->truncated[i]) fprintf(out, " (%s %llu)", verdict_reasons[i], (unsigned long long)counts->truncated[i]);
  fputc('\n', out);
  qsort(counts->places, counts->place_count, sizeof(*counts->places), verdict_by_count);
  for (uint32_t i = 0; i < counts->place_count && i < places; i++) {
    const truth_place *place = &counts->places[i];
    fprintf(out, "  %6llu %s at frame %u", (unsigned long long)place->count, verdict_names[place->verdict], place->at);
    if (place->truncation) fprintf(out, " (%s)", verdict_reasons[place->truncation % ONSTACK_TRUNCATION_COUNT]);
    verdict_print_address("; after", place->pc, out);
    if (place->got) verdict_print_address("; got", place->got, out);
    if (place->wanted) verdict_print_address("; wanted", place->wanted, out);
    fputc('\n', out);
  }
}

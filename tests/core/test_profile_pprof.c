/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The pprof output, decoded independently; writers that refuse; options of a write. */
#include "test_profile_support.h"

#include <errno.h>
#include <link.h>
#include <time.h>
#include <unistd.h>

static const uint64_t frames[] = {0x11000, 0x12001, 0x13001};

static __attribute__((noinline)) int pprof_leaf(int x) { return x * 3; }

Test(profile_pprof, head_says_types_period_and_time) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  onstack_profile *profile = profile_of(NULL);
  feed(profile, frames, 3);
  decoded *out = write_and_decode(profile, NULL);
  static const char *const expected[] = {"samples", "count", "cpu", "nanoseconds"};
  cr_assert_eq(out->type_count, 4);
  for (size_t i = 0; i < 4; i++) cr_assert_str_eq(d_text(out, out->types[i]), expected[i]);
  cr_assert_str_eq(d_text(out, out->period_type[0]), "cpu");
  cr_assert_str_eq(d_text(out, out->period_type[1]), "nanoseconds");
  cr_assert_eq(out->period, PERIOD_NS);
  cr_assert_lt(llabs(out->time_ns - (now.tv_sec * 1000000000ll + now.tv_nsec)), 10000000000ll);
  cr_assert(out->duration_ns > 0 && out->duration_ns < 10000000000ll);
  cr_assert_str_eq(out->samples[0].thread, "worker");
  cr_assert_eq(out->samples[0].thread_id, 100);
  decoded_free(out);
  onstack_write_options options = {.size = sizeof(options), .start_time_unix_ns = -5, .duration_ns = 12345};
  out = write_and_decode(profile, &options);
  cr_assert_eq(out->time_ns, -5);
  cr_assert_eq(out->duration_ns, 12345);
  decoded_free(out);
  onstack_profile_free(profile);
}

Test(profile_pprof, an_empty_profile_is_a_profile) {
  onstack_profile *profile = profile_of(NULL);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_eq(out->sample_count, 0);
  cr_assert_eq(out->location_count, 0);
  cr_assert_eq(out->mapping_count, 1); /* the program */
  cr_assert_eq(out->period, 0);
  decoded_free(out);
  onstack_write_options options = {.size = sizeof(options), .period = 77};
  out = write_and_decode(profile, &options);
  cr_assert_eq(out->period, 77);
  decoded_free(out);
  feed(profile, frames, 3);
  out = write_and_decode(profile, &options);
  cr_assert_eq(out->period, PERIOD_NS);
  decoded_free(out);
  onstack_profile_free(profile);
}

/* The program's build id as the dynamic linker shows its notes; "" when it was linked without one. */
static int read_program_build_id(struct dl_phdr_info *info, size_t size, void *data) {
  char *text = data;
  (void)size;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_NOTE) continue;
    const char *at = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    const char *end = at + info->dlpi_phdr[i].p_memsz;
    size_t step = info->dlpi_phdr[i].p_align == 8 ? 8 : 4;
    while (at < end) {
      const ElfW(Nhdr) *note = (const void *)at;
      const unsigned char *content = (const void *)(at + ((sizeof(*note) + note->n_namesz + step - 1) & ~(step - 1)));
      for (size_t b = 0; note->n_type == NT_GNU_BUILD_ID && b < note->n_descsz; b++) {
        sprintf(text + 2 * b, "%02x", content[b]);
      }
      at = (const char *)content + ((note->n_descsz + step - 1) & ~(step - 1));
    }
  }
  return 1; /* the first is the program */
}

Test(profile_pprof, the_program_is_the_first_mapping_and_has_its_build_id) {
  onstack_profile *profile = profile_of(NULL);
  uint64_t mine[] = {(uint64_t)(uintptr_t)getppid, (uint64_t)(uintptr_t)pprof_leaf + 1};
  feed(profile, mine, 2);
  decoded *out = write_and_decode(profile, NULL);
  const d_mapping *first = &out->mappings[0];
  cr_assert_eq(first->id, 1);
  cr_assert(first->start <= mine[1] && mine[1] < first->limit);
  cr_assert_not_null(strstr(d_text(out, first->file), program_name()));
  char build_id[256] = "";
  dl_iterate_phdr(read_program_build_id, build_id);
  cr_assert_str_eq(d_text(out, first->build_id), build_id);
  cr_assert_eq(first->functions, 1);
  cr_assert_eq(first->files, 0);
  const d_location *leaf = d_find_location(out, out->samples[0].locations[0]);
  cr_assert_not_null(strstr(d_text(out, d_find_mapping(out, leaf->mapping)->file), "libc"));
  cr_assert_eq(d_find_location(out, out->samples[0].locations[1])->mapping, 1);
  decoded_free(out);
  onstack_profile_free(profile);
}

Test(profile_pprof, without_symbols_there_are_addresses_and_mappings_only) {
  onstack_profile *profile = profile_of(NULL);
  uint64_t mine[] = {(uint64_t)(uintptr_t)pprof_leaf};
  onstack_sample sample = sample_of(mine, 1);
  sample.truncation = ONSTACK_TRUNCATED_DEPTH;
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  onstack_write_options options = {.size = sizeof(options), .symbolize = ONSTACK_OFF};
  decoded *out = write_and_decode(profile, &options);
  const d_location *location = d_find_location(out, out->samples[0].locations[0]);
  cr_assert_eq(location->line_count, 0);
  cr_assert_eq(location->address, mine[0]);
  cr_assert_eq(location->mapping, 1);
  cr_assert_eq(out->mappings[0].functions, 0);
  cr_assert_eq(out->function_count, 1);
  cr_assert_str_eq(d_stack(out, 0), "[truncated: deeper than the maximal depth]");
  decoded_free(out);
  char *text = folded_text(profile, &options);
  char expected[256];
  snprintf(expected, sizeof(expected), "];%s+0x", program_name());
  cr_assert_not_null(strstr(text, expected));
  cr_assert_null(strstr(text, "pprof_leaf"));
  free(text);
  onstack_profile_free(profile);
}

Test(profile_pprof, comments_are_comments_line_by_line) {
  onstack_profile *profile = profile_of(NULL);
  feed(profile, frames, 3);
  onstack_write_options options = {.size = sizeof(options), .comments = "one line\n\nsamples\xff"};
  decoded *out = write_and_decode(profile, &options);
  cr_assert_eq(out->comment_count, 2);
  cr_assert_str_eq(d_text(out, out->comments[0]), "one line");
  cr_assert_str_eq(d_text(out, out->comments[1]), "samples\xef\xbf\xbd"); /* what is no text becomes U+FFFD */
  decoded_free(out);
  options.comments = "";
  out = write_and_decode(profile, &options);
  cr_assert_eq(out->comment_count, 0);
  decoded_free(out);
  onstack_profile_free(profile);
}

/* Servers drop the samples of a place with neither address nor function. */
Test(profile_pprof, a_call_through_a_null_pointer_has_a_name_without_symbols_too) {
  onstack_profile *profile = profile_of(NULL);
  uint64_t null_leaf[] = {0, 0x12001};
  feed(profile, null_leaf, 2);
  onstack_write_options options = {.size = sizeof(options), .symbolize = ONSTACK_OFF};
  decoded *out = write_and_decode(profile, &options);
  cr_assert_str_eq(d_stack(out, 0), "0x0");
  cr_assert_eq(out->function_count, 1);
  decoded_free(out);
  onstack_profile_free(profile);
}

/* pprof.Do takes any key. Servers refuse a profile in which one is empty, or twice in one sample (d_read_sample). */
Test(profile_pprof, labels_have_a_key_each_of_its_own) {
  static const char labels[] = "\0nobody\0job\0first\0thread\0mine\0job\0second\0thread_id\0free";
  onstack_profile *profile = profile_of(NULL);
  onstack_sample sample = sample_of(frames, 2);
  sample.labels = labels;
  sample.label_bytes = sizeof(labels);
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_eq(out->samples[0].key_count, 3);
  static const char *const keys[] = {"thread", "thread_id", "job"};
  for (size_t i = 0; i < 3; i++) cr_assert_str_eq(d_text(out, out->samples[0].keys[i]), keys[i]);
  cr_assert_eq(out->samples[0].thread_id, 100);
  decoded_free(out);
  onstack_profile_free(profile);
}

/* Reasons in any order, one of them twice: ids stay without a gap (d_check_tables). */
Test(profile_pprof, ids_have_no_gap_whatever_was_cut) {
  static const onstack_truncation reasons[] = {ONSTACK_TRUNCATED_UNWINDER, ONSTACK_TRUNCATED_DEPTH, 4000000000u,
                                               ONSTACK_TRUNCATED_BAD_RETURN, ONSTACK_TRUNCATED_DEPTH};
  onstack_profile *profile = profile_of(NULL);
  for (uint32_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
    onstack_sample sample = sample_of(frames, 1 + i % 3);
    sample.truncation = reasons[i];
    sample.tid = 100 + i;
    cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  }
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_eq(out->location_count, 3 + 4);
  decoded_free(out);
  onstack_profile_free(profile);
}

Test(profile_pprof, a_stack_cut_short_says_so_at_its_root) {
  static const struct {
    onstack_truncation why;
    const char *frame;
  } cases[] = {{ONSTACK_TRUNCATED_NOT, NULL},
               {ONSTACK_TRUNCATED_DEPTH, "[truncated: deeper than the maximal depth]"},
               {ONSTACK_TRUNCATED_UNREADABLE, "[truncated: unreadable stack memory]"},
               {ONSTACK_TRUNCATED_MISALIGNED, "[truncated: misaligned frame pointer]"},
               {ONSTACK_TRUNCATED_NOT_RISING, "[truncated: frame pointer does not rise]"},
               {ONSTACK_TRUNCATED_BAD_RETURN, "[truncated: no return address]"},
               {ONSTACK_TRUNCATED_STACK_SWITCH, "[truncated: switch of stacks]"},
               {ONSTACK_TRUNCATED_BY_DESIGN, NULL},
               {ONSTACK_TRUNCATED_UNWINDER, "[truncated: by the unwinder]"},
               {4000000000u, "[truncated: unknown reason]"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char pprof[128], folded[128];
    onstack_profile *profile = profile_of(NULL);
    onstack_sample sample = sample_of(frames, 2);
    sample.truncation = cases[i].why;
    cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
    const char *frame = cases[i].frame;
    snprintf(pprof, sizeof(pprof), "0x11000;0x12000%s%s", frame ? ";" : "", frame ? frame : "");
    snprintf(folded, sizeof(folded), "worker;%s%s0x12000;0x11000 1\n", frame ? frame : "", frame ? ";" : "");
    decoded *out = write_and_decode(profile, NULL);
    cr_assert_str_eq(d_stack(out, 0), pprof);
    if (frame) {
      const d_location *root = d_find_location(out, out->samples[0].locations[2]);
      cr_assert_eq(root->address, 0);
      cr_assert_eq(root->mapping, 0);
    }
    decoded_free(out);
    char *text = folded_text(profile, NULL);
    cr_assert_str_eq(text, folded);
    free(text);
    onstack_profile_free(profile);
  }
}

Test(profile_pprof, a_writer_that_refuses_ends_the_write) {
  onstack_profile *profile = profile_of(NULL);
  for (uint64_t i = 0; i < 40000; i++) { /* several buffers of output */
    uint64_t mine[3] = {0x100000 + 16 * i, 0x200000 + i * 16, 0x300000};
    feed(profile, mine, 3);
  }
  for (size_t at = 1; at <= 3; at++) {
    memory into = {.refuse_at = at};
    cr_assert_eq(onstack_profile_write_pprof(profile, NULL, memory_write, &into), ONSTACK_E_OUTPUT);
    cr_assert_eq(into.calls, at, "called again after it had refused");
    free(into.bytes);
    into = (memory){.refuse_at = at};
    cr_assert_eq(onstack_profile_write_folded(profile, NULL, memory_write, &into), ONSTACK_E_OUTPUT);
    cr_assert_eq(into.calls, at);
    free(into.bytes);
  }
  char *text = folded_text(profile, NULL); /* and the profile is as good as before */
  cr_assert_eq(strncmp(text, "worker;0x2fffff;", 16), 0);
  free(text);
  onstack_profile_free(profile);
}

Test(profile_pprof, bad_arguments_of_a_write) {
  onstack_profile *profile = profile_of(NULL);
  memory into = {0};
  onstack_write_options options = {.size = sizeof(options), .symbolize = 9};
  cr_assert_eq(onstack_profile_write_pprof(profile, NULL, NULL, NULL), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_profile_write_pprof(NULL, NULL, memory_write, &into), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_profile_write_folded(NULL, NULL, memory_write, &into), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_profile_write_folded(profile, NULL, NULL, NULL), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_profile_write_pprof(profile, &options, memory_write, &into), ONSTACK_E_OPTIONS);
  options = (onstack_write_options){.size = sizeof(options), .reserved0 = {0, 0, 1}};
  cr_assert_eq(onstack_profile_write_folded(profile, &options, memory_write, &into), ONSTACK_E_OPTIONS);
  options = (onstack_write_options){.size = 2};
  cr_assert_eq(onstack_profile_write_folded(profile, &options, memory_write, &into), ONSTACK_E_OPTIONS);
  cr_assert_eq(into.calls, 0);
  onstack_profile_free(profile);
}

/* A writer that feeds and clears the profile that is being written: no lock is held while it runs. */
static int meddling_write(void *data, const void *bytes, size_t length) {
  onstack_profile *profile = data;
  (void)bytes, (void)length;
  feed(profile, frames, 3);
  onstack_profile_clear(profile);
  onstack_profile_totals(profile, ONSTACK_KIND_CPU, NULL, NULL, NULL);
  return 0;
}

Test(profile_pprof, a_writer_may_use_the_profile) {
  onstack_profile *profile = profile_of(NULL);
  for (uint64_t i = 0; i < 20000; i++) {
    uint64_t mine[2] = {0x100000 + 16 * i, 0x300000};
    feed(profile, mine, 2);
  }
  cr_assert_eq(onstack_profile_write_pprof(profile, NULL, meddling_write, profile), 0);
  cr_assert_eq(onstack_profile_write_folded(profile, NULL, meddling_write, profile), 0);
  onstack_profile_free(profile);
}

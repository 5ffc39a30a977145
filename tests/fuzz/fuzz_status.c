/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The text of statistics for modules with paths of any content. Promises: one line of counters, then one a module, whatever
 * stands in a path; and a reader that undoes the octal numbers has the path again.
 * Input: for each module one byte of reasons and two of its path's length, then the path; NULs become 'x'.
 */
#include "fuzz.h"

#include "sampler/api/statistics_text.c" /* its buffer */

#include "profile/store/store.h"

#define MODULES 24u
#define ROOM (MODULES * sizeof(((statistics_text *)NULL)->line))

static const onstack_source source_of_none; /* without a line of its own */
static onstack_session session = {.settings = {.source = &source_of_none}};
static onstack_module_stats modules[MODULES];
static uint32_t module_count;
static char *written;
static size_t written_bytes;

int onstack_session_stats(const onstack_session *of, onstack_stats *stats) {
  (void)of;
  stats->ticks = UINT64_MAX;
  stats->clock = "cpu", stats->unwinder = "rules", stats->reader = "probe";
  return 0;
}

int onstack_session_modules(onstack_session *of, int (*visit)(void *data, const onstack_module_stats *module), void *data) {
  (void)of;
  for (uint32_t i = 0; i < module_count; i++)
    if (visit(data, &modules[i]) != 0) return 1;
  return 0;
}

static int take_line(void *data, const void *bytes, size_t length) {
  (void)data;
  fuzz_check(length <= ROOM - written_bytes);
  memcpy(written + written_bytes, bytes, length);
  written_bytes += length;
  return 0;
}

static char *take_path(fuzz_input *input) {
  size_t length = (size_t)fuzz_take(input, 2) % (TEXT_PATH + 200);
  if (length > input->left && length < TEXT_PATH - 100) length = input->left;
  char *path = malloc(length + 1);
  if (!path) abort();
  for (size_t i = 0; i < length; i++) {
    char c = input->left ? (char)fuzz_take(input, 1) : '\n';
    path[i] = c ? c : 'x';
  }
  path[length] = 0;
  return path;
}

static void take_modules(fuzz_input *input) {
  for (module_count = 0; module_count < MODULES && input->left > 0; module_count++) {
    uint64_t reasons = fuzz_take(input, 1);
    onstack_module_stats *module = &modules[module_count];
    *module = (onstack_module_stats){.lost = reasons ? UINT64_MAX : 0};
    for (uint32_t i = 0; i < 16; i++) module->lost_by[i] = reasons >> (i % 8) & 1 ? UINT64_MAX : 0;
    module->path = take_path(input);
  }
}

/* The path of a line, as a reader takes it; `line` is changed. */
static size_t undo(char *path) {
  size_t used = 0;
  for (const char *at = path; *at; used++) {
    bool number = *at == '\\';
    if (number) fuzz_check(strspn(at + 1, "01234567") >= 3);
    path[used] = number ? (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + at[3] - '0') : *at;
    at += number ? 4 : 1;
  }
  return used;
}

static void check_line(char *line, const onstack_module_stats *module) {
  size_t length = strlen(line);
  fuzz_check(strncmp(line, "onstack.module lost=", 20) == 0);
  for (size_t i = 0, step; i < length; i += step) {
    step = onstack_profile_utf8_length(line + i, length - i);
    fuzz_check(step > 0 && (unsigned char)line[i] >= 0x20 && line[i] != 0x7f);
  }
  char *path = strstr(line, " path=");
  fuzz_check(path);
  path += 6;
  size_t bytes = undo(path), wanted = strnlen(module->path, TEXT_PATH);
  fuzz_check(bytes == wanted && memcmp(path, module->path, wanted) == 0);
}

static uint32_t wanted_lines(void) {
  uint32_t lines = 0;
  while (lines < module_count && lines < TEXT_MODULES && modules[lines].lost > 0) lines++;
  return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  take_modules(&input);
  written = malloc(ROOM);
  if (!written) abort();
  written_bytes = 0;
  fuzz_check(onstack_session_stats_text(&session, take_line, NULL) == 0);
  fuzz_check(written_bytes > 0 && written_bytes < ROOM && written[written_bytes - 1] == '\n');
  uint32_t lines = 0;
  for (char *at = written, *end; at < written + written_bytes; at = end + 1, lines++) {
    end = memchr(at, '\n', (size_t)(written + written_bytes - at));
    *end = 0;
    if (lines == 0)
      fuzz_check(strncmp(at, "onstack.stats ticks=", 20) == 0);
    else
      check_line(at, &modules[lines - 1]);
  }
  fuzz_check(lines == 1 + wanted_lines());
  for (uint32_t i = 0; i < module_count; i++) free((void *)(uintptr_t)modules[i].path);
  free(written);
  return 0;
}

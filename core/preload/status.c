/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/status.h"

#include "preload/allocator.h"
#include "preload/first_ticks_store.h"
#include "profile/text.h"
#include "sampler/api/statistics_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static onstack_statistics_more status_more(uint64_t before) {
  onstack_statistics_more more = onstack_first_ticks_count();
  more.unattributed += before;
  return more;
}

static int status_write(onstack_new_file *output, const char *pattern, onstack_new_file_last *last, onstack_session *session,
                        uint64_t before, bool modules) {
  int error = onstack_new_file_begin(output, pattern, -1, last);
  if (error < 0) return error;
  const onstack_statistics_more more = status_more(before);
  error = onstack_statistics_write(session, &more, modules, onstack_new_file_write, output);
  if (error == 0) error = onstack_first_ticks_tell(onstack_new_file_write, output);
  int ended = onstack_new_file_end(output, error == 0);
  return error < 0 && error != ONSTACK_E_OUTPUT ? error : ended;
}

int onstack_status_write(const char *pattern, onstack_new_file_last *last, onstack_session *session, uint64_t before,
                         bool modules) {
  onstack_new_file *output = malloc(sizeof(*output));
  int error = output ? status_write(output, pattern, last, session, before, modules) : -ENOMEM;
  free(output);
  return error;
}

typedef struct status_text {
  char *text;
  size_t length;
  bool failed;
} status_text;

static int status_append(void *data, const void *bytes, size_t length) {
  status_text *into = data;
  char *text = into->failed ? NULL : realloc(into->text, into->length + length + 1);
  into->failed = !text;
  if (!text) return 1;
  memcpy(text + into->length, bytes, length);
  into->length += length;
  text[into->length] = 0;
  into->text = text;
  return 0;
}

/* As of the last look. */
static status_text status_unseen;

void onstack_status_find_unseen(void) {
  status_text found = {0};
  onstack_allocator_unseen(status_append, &found);
  free(status_unseen.text);
  status_unseen = found;
}

static uint64_t status_sampled(const onstack_session *session) {
  onstack_stats stats = {.size = sizeof(stats)};
  return onstack_session_stats(session, &stats) == 0 ? stats.heap_in_use : 0;
}

char *onstack_status_text(onstack_session *session, uint64_t before, bool modules, bool heap, bool ask_malloc) {
  status_text into = {0};
  const onstack_statistics_more more = status_more(before);
  bool whole = onstack_statistics_write(session, &more, modules, status_append, &into) == 0;
  if (whole) onstack_first_ticks_tell(status_append, &into);
  if (whole && heap)
    onstack_memory_text(status_sampled(session), NULL, ask_malloc, status_append, &into); /* without /proc there is none */
  if (heap && ask_malloc) onstack_status_find_unseen();
  if (whole && heap && status_unseen.text) status_append(&into, status_unseen.text, status_unseen.length);
  whole = whole && !into.failed;
  if (whole) return into.text;
  free(into.text);
  return NULL;
}

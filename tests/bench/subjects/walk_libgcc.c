/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libgcc's unwinder, which C++ exceptions use. It begins in the handler and steps over the signal frame. */
#include <unwind.h>

#include "walker.h"

typedef struct collection {
  uint64_t *frames;
  size_t count, capacity;
} collection;

static _Unwind_Reason_Code collect(struct _Unwind_Context *context, void *data) {
  collection *c = data;
  if (c->count == c->capacity) return _URC_END_OF_STACK;
  c->frames[c->count++] = _Unwind_GetIP(context);
  return _URC_NO_REASON;
}

static size_t walk(void *ucontext, uint64_t *frames, size_t capacity) {
  collection c = {frames, 0, capacity};
  (void)ucontext;
  _Unwind_Backtrace(collect, &c);
  return c.count;
}

/* The first walk loads and allocates, which is not for a handler. */
static const char *prepare(const char *variant) {
  uint64_t frames[16];
  (void)variant;
  walk(NULL, frames, 16);
  return NULL;
}

const walker walker_linked = {"libgcc", prepare, walk};

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/readers.h"

#include "platform/atomics.h"
#include "sampler/unwind/traceback_walk.h"

static bool (*readers_left)(void); /* NULL: no session has begun yet */

void onstack_readers_are_asked_by(bool (*left)(void)) { onstack_publish(&readers_left, left); }

bool onstack_readers_have_left(void) {
  bool (*const left)(void) = onstack_observe(&readers_left);
  return !onstack_traceback_is_busy() && (!left || left());
}

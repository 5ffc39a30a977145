/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/unwind/readers.h"

#include "base/atomics.h"
#include "handler/unwind/traceback_walk.h"

static bool (*readers_left)(void); /* NULL: no session has begun yet */

void onstack_readers_are_asked_by(bool (*left)(void)) { onstack_publish(&readers_left, left); }

bool onstack_readers_have_left(void) {
  bool (*const left)(void) = onstack_observe(&readers_left);
  return !onstack_traceback_is_busy() && (!left || left());
}

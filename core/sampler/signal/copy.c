/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/copy.h"

#include "platform/defs.h"
#include "sampler/unwind/memory.h"

#include "onstack/onstack.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static onstack_copy *copies_lowest(void) {
  onstack_copy *lowest = &onstack_copy_self, *other;
  for (uint32_t i = 0; (other = onstack_copy_other(&onstack_copy_self, i)); i++)
    if ((uintptr_t)other < (uintptr_t)lowest) lowest = other;
  return lowest;
}

onstack_copy *onstack_copies_lock(bool wait) {
  for (;;) {
    onstack_copy *lowest = copies_lowest();
    uint32_t expected = 0;
    if (onstack_cas(&lowest->lock, &expected, 1u)) {
      if (!onstack_copies_outgrew(lowest)) return lowest;
      onstack_copies_unlock(lowest);
    } else if (wait) {
      onstack_sys_sleep(50000); /* a handful of system calls, elsewhere */
    } else {
      return NULL;
    }
  }
}

void onstack_copies_unlock(onstack_copy *locked) { onstack_publish(&locked->lock, 0u); }

bool onstack_copies_outgrew(const onstack_copy *locked) { return copies_lowest() != locked; }

/* Whichever copy's handler runs first: only the calling thread exists, and it holds none of them. */
void onstack_copies_after_fork(void) {
  onstack_copy *other;
  if (onstack_copy_self.lock != 0) onstack_copy_self.lock = 0;
  for (uint32_t i = 0; (other = onstack_copy_other(&onstack_copy_self, i)); i++)
    if (other->lock != 0) other->lock = 0;
}

/* No copy takes another's lock: a place is taken by compare-and-swap, and never given back. */
static bool copies_add(onstack_copy *to, onstack_copy *other) {
  if (to == other) return true;
  for (uint32_t i = 0; i < ONSTACK_COPIES; i++) {
    onstack_copy *known = NULL;
    if (onstack_cas(&to->others[i], &known, other) || known == other) return true;
  }
  return false;
}

static bool copies_introduce(onstack_copy *copy) {
  bool good = copies_add(&onstack_copy_self, copy) && copies_add(copy, &onstack_copy_self);
  onstack_copy *third;
  for (uint32_t i = 0; good && (third = onstack_copy_other(copy, i)); i++)
    good = copies_add(&onstack_copy_self, third) && copies_add(third, &onstack_copy_self);
  return good;
}

int onstack_copies_meet(uint64_t handler, onstack_copy **copy) {
  uint64_t mark[2], head[2];
  char text[ONSTACK_COPY_MARK_BYTES];
  uint64_t start = handler - sizeof(onstack_handler_head);
  *copy = NULL;
  if (handler < ONSTACK_ADDRESS_LOW) return 0;
  /* Read by the kernel: the address is anybody's. */
  if (!onstack_memory_copy_pair(start + offsetof(onstack_handler_head, mark), mark)) return 0;
  memcpy(text, mark, sizeof(text));
  const char *own = (const char *)((uintptr_t)onstack_handler_trampoline - sizeof(text));
  if (memcmp(text, own, sizeof(text) - 1) != 0) return 0;
  if (text[sizeof(text) - 1] != own[sizeof(text) - 1]) return ONSTACK_E_VERSION;
  if (!onstack_memory_copy_pair(start, head)) return 0;
  onstack_copy *found = (onstack_copy *)(uintptr_t)(start + head[0]);
  if (!copies_introduce(found)) return -ENOMEM;
  *copy = found;
  return 0;
}

const onstack_copy *onstack_copies_running(int signal) {
  const onstack_copy *other;
  for (uint32_t i = 0; (other = onstack_copy_other(&onstack_copy_self, i)); i++)
    if (onstack_copy_runs(other, signal)) break;
  return other;
}

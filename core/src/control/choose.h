/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_CONTROL_CHOOSE_H
#define ONSTACK_CONTROL_CHOOSE_H

#include "handler/unwind/memory.h"
#include "handler/unwind/unwinder.h"

/* By name; NULL name: the default. NULL if there is none of that name. Start only. */
ONSTACK_INTERNAL const onstack_unwinder_ops *onstack_unwinder_find(const char *name);

/* The best reader whose self-test passes on this system, now. Start only. *copy_works tells `probe` whether it has
   `copy` to fall back to; otherwise it has `pipe`, if that works. */
ONSTACK_INTERNAL const onstack_reader *onstack_reader_choose(bool *copy_works);

#endif

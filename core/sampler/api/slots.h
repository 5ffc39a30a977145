/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A slot's life: taken and given back; in between its source starts and stops. All under the control lock unless it says
 * otherwise.
 *
 * The control lock is the outermost lock of the library (then the map lock). It is never held while a sink or a drain
 * thread is waited for, nor in a fork handler.
 */
#ifndef ONSTACK_SAMPLER_API_SLOTS_H
#define ONSTACK_SAMPLER_API_SLOTS_H

#include "sampler/session/settings.h"
#include "sampler/session/slot.h"

/* False, and nothing taken, if this very thread holds the lock already (a signal handler that interrupted start). */
ONSTACK_INTERNAL bool onstack_control_lock(void);
ONSTACK_INTERNAL bool onstack_control_try_lock(void); /* false also when somebody else holds it */
ONSTACK_INTERNAL void onstack_control_unlock(void);

/* Takes a free slot and fills it in for the settings; its state becomes STARTING. Returns 0, ONSTACK_E_* or -errno. */
ONSTACK_INTERNAL int onstack_slot_take(const onstack_settings *settings, onstack_slot **out);

/* Gives the slot back. Nobody reads its ring any more. */
ONSTACK_INTERNAL void onstack_slot_give_back(onstack_slot *slot);

/* True if this thread is inside a sink (tid: of the thread). Signal-safe. */
ONSTACK_INTERNAL bool onstack_slots_in_sink(int32_t tid);

/* Sampling is over in the child of a fork: no timer exists there, no other thread. Async-signal-safe, no lock. */
ONSTACK_INTERNAL void onstack_slots_after_fork(void);

#endif

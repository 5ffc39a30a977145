/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Native stacks on demand: what the experimental part of the public header promises, put together from the walk
 * (traceback_walk.h), the tables (sampler/modules/) and the names (profile/elf/symbol_index.h). No session is needed.
 */
#include "platform/loader.h"
#include "platform/sys.h"
#include "platform/calls.h"
#include "sampler/api/options.h"
#include "sampler/session/code_map_update.h"
#include "sampler/api/session.h"
#include "sampler/modules/modules.h"
#include "platform/context.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/walk.h"
#include "profile/elf/symbol_index.h"
#include "onstack/traceback.h"

#include <errno.h>
#include <stdlib.h>

#define TRACEBACK_RETIRED 64u

static const onstack_symbol_set *traceback_names; /* publish / observe */
static onstack_symbol_set *traceback_retired[TRACEBACK_RETIRED];
static size_t traceback_retired_count;

static bool traceback_enter(void) {
  int32_t self = onstack_sys_getpid(), holder = onstack_load_relaxed(&onstack_traceback.preparing);
  return holder != self && onstack_cas(&onstack_traceback.preparing, &holder, self);
}

/* First of all: a child that is made while the preparation goes on is put in order, and then prepares for itself. */
static int traceback_know_children(void) {
  if (onstack_observe(&onstack_traceback.ready)) return 0;
  if (!onstack_control_lock()) return ONSTACK_E_CONTEXT;
  const int result = onstack_fork_prepare();
  onstack_control_unlock();
  return result;
}

/* Once: how memory is read. */
static void traceback_begin(void) {
  if (onstack_observe(&onstack_traceback.ready)) return;
  onstack_traceback.reader = onstack_reader_choose(&onstack_traceback.copy_works);
}

static void traceback_retire(const onstack_symbol_set *set) {
  /* With no room left it stays: a few KiB. */
  if (set && traceback_retired_count < TRACEBACK_RETIRED)
    traceback_retired[traceback_retired_count++] = (onstack_symbol_set *)(uintptr_t)set;
  if (onstack_traceback_is_busy()) return;
  while (traceback_retired_count > 0) free(traceback_retired[--traceback_retired_count]);
}

static onstack_loader_counts traceback_named; /* when the names were read */

/* Generated code comes without the loader, and has no names: only its addresses are new then. */
static int traceback_read_names(void) {
  onstack_loader_counts loaded = traceback_named;
  onstack_loader_count(&loaded);
  if (traceback_names && onstack_loader_same(&loaded, &traceback_named)) return 0;
  onstack_profile_maps *maps = onstack_profile_maps_read();
  onstack_symbol_set *set = maps ? onstack_symbol_set_new(maps) : NULL;
  if (maps) onstack_profile_maps_free(maps);
  if (!set) return -ENOMEM;
  const onstack_symbol_set *old = traceback_names;
  onstack_publish(&traceback_names, set);
  traceback_retire(old);
  traceback_named = loaded;
  return 0;
}

int onstack_traceback_prepare(void) {
  ONSTACK_UNCANCELLED;
  onstack_fork_repair();
  int result = traceback_know_children();
  if (result != 0 || !traceback_enter()) return result;
  traceback_begin();
  onstack_store_relaxed(&onstack_traceback.stale, 0u); /* first: what a walk meets from now on counts again */
  result = onstack_code_map_refresh(NULL);
  while (result == 0 && onstack_modules_refresh(SIZE_MAX / 2)) continue;
  if (result == 0) result = traceback_read_names();
  if (result == 0) onstack_publish(&onstack_traceback.ready, 1u);
  onstack_store_relaxed(&onstack_traceback.preparing, 0);
  return result;
}

int onstack_traceback_is_stale(void) { return (int)onstack_load_relaxed(&onstack_traceback.stale); }

ONSTACK_HANDLER void onstack_traceback_interrupted(const void *ucontext, onstack_registers *out) {
  onstack_registers_from(out, ucontext);
}

ONSTACK_HANDLER __attribute__((noinline)) int onstack_traceback_caller(uint32_t skip, onstack_registers *out) {
  const uint64_t *record = __builtin_frame_address(0);
  *out = (onstack_registers){.pc = onstack_address_strip((uint64_t)(uintptr_t)__builtin_return_address(0)) - 1,
                             .sp = (uint64_t)(uintptr_t)__builtin_dwarf_cfa(),
                             .fp = record[0]};
  for (uint32_t i = 0; i < skip; i++)
    if (!onstack_traceback_step(out)) return ONSTACK_E_UNSUPPORTED;
  return 0;
}

ONSTACK_HANDLER uint32_t onstack_traceback_walk(const onstack_registers *from, uint64_t *frames, uint32_t capacity) {
  return onstack_traceback_run(from, frames, capacity);
}

ONSTACK_HANDLER const char *onstack_traceback_symbol(uint64_t address, uint64_t *entry) {
  const char *name = NULL;
  *entry = 0;
  onstack_traceback_enter();
  const onstack_symbol_set *set = onstack_observe(&traceback_names); /* pairs with the publish after a read */
  if (set) name = onstack_symbol_set_find(set, address, entry);
  onstack_traceback_leave();
  return name;
}

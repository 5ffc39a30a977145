/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names that generated code had when it was sampled, for those engines that take them back when the code goes: the list that
 * they keep for GDB is asked for each new address soon after its first sample. The profile's lock covers every call but the
 * asking.
 */
#ifndef ONSTACK_PROFILE_GENERATED_KEPT_NAMES_H
#define ONSTACK_PROFILE_GENERATED_KEPT_NAMES_H

#include "profile/elf/elf_symbols.h"
#include "profile/elf/symbol_table.h"
#include "profile/generated/generated.h"
#include "profile/maps/maps.h"

typedef struct onstack_kept_name {
  uint64_t address;   /* the mapping set's */
  const char *name;   /* NULL: nobody said one */
  const char *engine; /* whose code it is; of what has a name */
} onstack_kept_name;

/* All zero: empty. */
typedef struct onstack_kept_names {
  onstack_profile_hash_index index;
  onstack_kept_name *items;
  size_t count, capacity;
  size_t asked;               /* the first of them */
  onstack_profile_arena text; /* never moves: views have copies of the items */
} onstack_kept_names;

/* The addresses that are being asked for. */
typedef struct onstack_kept_batch {
  onstack_profile_maps *maps; /* a reference */
  onstack_generated_item *items;
  onstack_elf_query *queries; /* beside the items */
  const char **engines;       /* the same */
  size_t count;
  onstack_profile_arena names;
} onstack_kept_batch;

/* Notes an address, once. Where there is no room it has no name. */
ONSTACK_INTERNAL void onstack_kept_names_want(onstack_kept_names *kept, uint64_t address);
ONSTACK_INTERNAL void onstack_kept_names_release(onstack_kept_names *kept);

/* Takes all that was not asked for yet. False: there is nothing, or no memory. */
ONSTACK_INTERNAL bool onstack_kept_batch_begin(onstack_kept_batch *batch, onstack_kept_names *kept,
                                               onstack_profile_maps *maps);
/* Reads the lists: without any lock. */
ONSTACK_INTERNAL void onstack_kept_batch_ask(onstack_kept_batch *batch);
ONSTACK_INTERNAL void onstack_kept_batch_store(const onstack_kept_batch *batch, onstack_kept_names *kept);
ONSTACK_INTERNAL void onstack_kept_batch_end(onstack_kept_batch *batch);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What describes a PC, remembered: the same few hundred return addresses come back in every sample. Shared by all
 * threads and sessions, without locks: an entry is two words, the value and a check word that is the PC mixed with the
 * value and the epoch's seal. A torn or outdated entry does not check and is a miss. All 64 bits of the epoch count: an
 * entry may lie here for as long as the process lives, and what it names is unmapped.
 *
 * The epoch changes whenever the module map does, before a table that it named can be unmapped: a handler that is inside
 * may still use the old epoch and the old table, one that begins later can do neither.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_PC_CACHE_H
#define ONSTACK_SAMPLER_UNWIND_PC_CACHE_H

#include "platform/atomics.h"
#include "platform/defs.h"

#define ONSTACK_PC_CACHE_ENTRIES 2048u /* 32 KiB */

/* The lowest bit of a value: no call has been seen in front of this return address yet (call_site_check_handler.c). */
#define ONSTACK_PC_UNPROVEN 1u

typedef struct onstack_pc_entry {
  uint64_t check;
  uint64_t value; /* an even address of a rule, or a small number that the user of the cache gives a meaning; 0: empty */
} onstack_pc_entry;

ONSTACK_INTERNAL_DATA onstack_pc_entry onstack_pc_cache[ONSTACK_PC_CACHE_ENTRIES];
ONSTACK_INTERNAL_DATA uint64_t onstack_pc_epoch;

/* The factors are odd: no two epochs and no two values give the same product. */
static inline __attribute__((always_inline, unused)) uint64_t onstack_pc_seal(uint64_t epoch) {
  return epoch * 0xd1b54a32d192ed03u;
}

static inline __attribute__((always_inline, unused)) uint64_t onstack_pc_mix(uint64_t pc, uint64_t value, uint64_t seal) {
  return pc ^ (value * 0x9e3779b97f4a7c15u) ^ seal;
}

static inline __attribute__((always_inline, unused)) onstack_pc_entry *onstack_pc_entry_of(uint64_t pc) {
  return &onstack_pc_cache[(pc * 0x9e3779b97f4a7c15u) >> 53]; /* the upper 11 bits: 2048 entries */
}

/* The value remembered for a PC in the epoch of this seal; 0: none. Signal-safe. */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER uint64_t onstack_pc_recall(uint64_t pc, uint64_t seal) {
  const onstack_pc_entry *entry = onstack_pc_entry_of(pc);
  uint64_t value = onstack_load_relaxed(&entry->value);
  return onstack_load_relaxed(&entry->check) == onstack_pc_mix(pc, value, seal) ? value : 0;
}

static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER void onstack_pc_remember(uint64_t pc, uint64_t value,
                                                                                              uint64_t seal) {
  onstack_pc_entry *entry = onstack_pc_entry_of(pc);
  onstack_store_relaxed(&entry->value, value);
  onstack_store_relaxed(&entry->check, onstack_pc_mix(pc, value, seal));
}

#endif

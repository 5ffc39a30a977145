/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Unwind rules: for each instruction of a module, how to get from a frame to its caller. Derived slowly from .eh_frame
 * in ordinary threads (sampler/modules/rule_table.c), executed quickly here.
 *
 * A table is position independent (offsets from the module's lowest address) and compact: four bytes a row. The text is
 * cut into chunks of 2 KiB; a row holds the low 16 bits of its offset and the number of a rule; `first_row[chunk]` is
 * where a chunk's rows begin. A row holds until the next one, across chunks too. Whole libraries have a few hundred to a
 * thousand distinct rules. 16 bits would allow chunks of 64 KiB; the finer index takes 3 % more memory and a quarter of
 * the time off a look-up (tests/bench/tables).
 *
 * Tables are immutable once published and are unmapped only after no handler can still be reading them
 * (sampler/modules/modules.c).
 */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_H
#define ONSTACK_SAMPLER_UNWIND_RULES_H

#include "platform/atomics.h"

/* How the canonical frame address (the caller's SP) is found. */
#define ONSTACK_CFA_NONE 0u     /* no rule here: fall back to frame pointers */
#define ONSTACK_CFA_SP 1u       /* SP + offset */
#define ONSTACK_CFA_FP 2u       /* FP + offset */
#define ONSTACK_CFA_BX 3u       /* RBX + offset (x86_64: the lazy resolver) */
#define ONSTACK_CFA_DEREF_FP 4u /* the word at FP + offset, plus `after` words (x86_64: a realigned stack, without them) */
#define ONSTACK_CFA_PLT 5u      /* x86_64 .plt: SP + 8, or + 16 when PC mod 16 >= offset */
#define ONSTACK_CFA_SIGNAL 6u   /* the signal trampoline: registers are in the kernel's frame at SP */
#define ONSTACK_CFA_ROOT 7u     /* return address undefined: the stack ends here */
#define ONSTACK_CFA_DEREF_SP 8u /* the word at SP + offset, plus `after` words (x86_64: OpenSSL's assembly and its kin) */
/* described, but not in words that we have: the walk ends. Frame pointers would guess: code that is described is free
   to use the register for anything */
#define ONSTACK_CFA_LOST 9u

/* the register of the DWARF number `after` + offset: known for the first frame only (x86_64: OpenSSL's RSA, gcc's
   realigning prologues; aarch64: alike) */
#define ONSTACK_CFA_REGISTER 10u

/* Where a register of the caller is. Anything else than these is not representable: no rule. */
#define ONSTACK_AT_SAME INT16_MIN /* unchanged */
#define ONSTACK_AT_FP INT16_MAX   /* where the frame pointer points; only for the frame pointer itself */
/* otherwise: at CFA + 8 * value */

typedef struct onstack_rule {
  uint8_t cfa;        /* ONSTACK_CFA_* */
  uint8_t after;      /* DEREF_SP, DEREF_FP: words; REGISTER: its number */
  int16_t fp;         /* saved frame pointer: ONSTACK_AT_SAME or words from the CFA */
  int16_t ra;         /* return address: words from the CFA; SAME: in the link register (aarch64) */
  int16_t bx;         /* saved RBX */
  int32_t cfa_offset; /* bytes; for PLT the threshold */
} onstack_rule;

/* The CFA is some words above a word in memory: as a rule a link to another stack, which that of a coroutine's parent is. */
static inline __attribute__((unused)) ONSTACK_HANDLER bool onstack_rule_is_link(const onstack_rule *rule) {
  return (rule->cfa == ONSTACK_CFA_DEREF_FP || rule->cfa == ONSTACK_CFA_DEREF_SP) && rule->after != 0;
}

typedef struct onstack_rule_row {
  uint16_t offset; /* the low 16 bits */
  uint16_t rule;
} onstack_rule_row;

#define ONSTACK_RULE_CHUNK_BITS 11u /* at most 16, the bits of a row's offset */

typedef struct onstack_rule_table {
  uint32_t chunk_count;
  uint32_t row_count;
  uint32_t rule_count;
  uint32_t bytes;            /* of the whole mapping, for statistics and for the end */
  const uint32_t *first_row; /* chunk_count + 1 */
  const onstack_rule_row *rows;
  const onstack_rule *rules;
} onstack_rule_table;

/* What is loaded where. */
typedef struct onstack_module {
  uint64_t low; /* executable part of the object */
  uint64_t high;
  uint64_t base;                   /* what offsets in the table are relative to */
  const onstack_rule_table *table; /* NULL: no rules (yet) */
  uint16_t number;                 /* of its path (sampler/modules/modules.h), from 1 on; 0: not known */
  uint16_t pending;                /* its rules have not been derived yet */
  uint32_t since;                  /* the sequence number of the map from which on it has been here, and nothing else */
} onstack_module;

#define ONSTACK_MODULES_FIRST 1024u /* entries of the first array; it is doubled when more objects are loaded */

/*
 * A new state of the map is written into an array that the current state does not use, so a walk has to wait for nothing. An
 * array that has become too small stays mapped, because a handler may be reading it.
 */
typedef struct onstack_module_map {
  onstack_seqlock lock; /* its writer holds the modules' lock; its sequence number tells one state of the map from others */
  uint32_t count;
  uint32_t loads;          /* how often the loader's list was found changed */
  uint32_t gone;           /* the last sequence number without some that had been there */
  uint32_t left_out;       /* objects that there was no memory for: an unknown address may be theirs */
  onstack_module *modules; /* sorted by address, disjoint */
} onstack_module_map;

ONSTACK_INTERNAL_DATA onstack_module_map onstack_modules;

typedef enum onstack_modules_status {
  ONSTACK_MODULE_NONE,
  ONSTACK_MODULE_HERE,
  ONSTACK_MODULES_CHANGING, /* not known: the map is being replaced at this moment, or it lacks objects */
} onstack_modules_status;

/* Finds the module that holds an address; *last as below. Signal-safe. */
ONSTACK_INTERNAL onstack_modules_status onstack_modules_find(uint64_t address, onstack_module *last);

/* The rule at an address; NULL: none. *last keeps the module of the last hit (start it as zeros). Signal-safe. */
ONSTACK_INTERNAL const onstack_rule *onstack_rules_find(uint64_t address, onstack_module *last);

/*
 * Rules of single addresses in modules without a table. Entries are those of the PC cache: they check or are a miss. Their
 * epoch is the map's `loads`, which changes when objects come or go, and not with each table that is made. Buckets, since two
 * addresses of one stack must not displace each other for ever. 128 KiB, of which only used pages are in memory.
 */
#define ONSTACK_DESCRIBED_BUCKETS 1024u
#define ONSTACK_DESCRIBED_BUCKET 8u

/* NULL: none is known. Signal-safe. */
ONSTACK_INTERNAL const onstack_rule *onstack_described_find(uint64_t address);

/* The rule stays for good. The writer of the map. */
ONSTACK_INTERNAL void onstack_described_put(uint64_t address, const onstack_rule *rule);

/* The rule of an offset in a table; NULL: none. Signal-safe. */
ONSTACK_INTERNAL const onstack_rule *onstack_rules_lookup(const onstack_rule_table *table, uint64_t offset);

#endif

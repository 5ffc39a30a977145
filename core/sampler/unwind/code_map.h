/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the walkers know about the process's code, for the whole copy of the library:
 *   - ranges of executable memory: a return address outside them is refused, so that no frame is invented;
 *   - the Go functions at which stacks are switched.
 * Written in ordinary threads (code_map_update.c), read in the handler without locks. Static memory, never freed.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_CODE_MAP_H
#define ONSTACK_SAMPLER_UNWIND_CODE_MAP_H

#include "platform/atomics.h"

typedef struct onstack_code_range {
  uint64_t low;
  uint64_t high;
} onstack_code_range;

#define ONSTACK_CODE_RANGES 2048u

/* How a walk goes on behind an address in a Go function that is not like the others. */
#define ONSTACK_GO_PLAIN 0u      /* it is */
#define ONSTACK_GO_BY_G 1u       /* asmcgocall: goroutine -> C on g0; continue by g and depth */
#define ONSTACK_GO_BY_FP 2u      /* systemstack, cgocallback, ...: the saved frame pointer leads to the other stack */
#define ONSTACK_GO_CROSSCALL2 3u /* C -> Go: it has two records on top of each other */
#define ONSTACK_GO_EXACT 4u      /* asyncPreempt, sigpanic: not called; the address above it is an interrupted PC */
#define ONSTACK_GO_ROOT 5u       /* goexit, mstart: nothing above */
#define ONSTACK_GO_LOST 6u       /* the stack is changed inside, without a trace */
#define ONSTACK_GO_GROWS 7u      /* morestack: the goroutine waits at its g.sched (sampler/unwind/go_stack.h) */
#define ONSTACK_GO_SCHEDULES 8u  /* schedule: whoever called it has given up its goroutine */
#define ONSTACK_GO_LEAVES 9u     /* mcall: goroutine -> g0 for good; nothing above */
#define ONSTACK_GO_RESUMES 10u   /* gogo: g0 -> goroutine for good */

#define ONSTACK_GO_SPECIALS 48u /* names with their ABI0 bodies and wrappers */
#define ONSTACK_GO_RUNTIMES 4u  /* Go runtimes in one process (several c-shared libraries) */

/* Go's function table (runtime/symtab.go): the program's own, or of a library a copy that lives as long as its entry. */
typedef struct onstack_go_functions {
  const uint8_t *functab;   /* `count` pairs of 32-bit offsets {entry from text, record from functions}, one entry more */
  const uint8_t *functions; /* records (_func) */
  const uint8_t *pctab;
  const uint8_t *end; /* of all of it */
  uint64_t text;
  uint32_t count;
  uint32_t quantum; /* of PC deltas: 1 on amd64, 4 on arm64 */
} onstack_go_functions;

typedef struct onstack_go_special {
  onstack_code_range body;
  uint32_t kind;      /* ONSTACK_GO_* */
  uint32_t switch_at; /* GROWS, LEAVES, RESUMES: the offset from which on SP is the other stack's;
                         BY_G: that of the call of C, up to which RBP (amd64) or x2 (arm64) is good. 0: not known */
} onstack_go_special;

/* Offsets in the runtime's structures (sampler/modules/go_runtime.h); m.g0 is m's first word, g.stack g's first two. */
typedef struct onstack_go_layout {
  uint64_t tls_g; /* from the thread pointer: the current g */
  uint32_t g_m;
  uint32_t sched_sp; /* g.sched */
  uint32_t sched_pc;
  uint32_t sched_lr; /* arm64 only, else 0 */
  uint32_t m_curg;
  uint32_t g_labels; /* set by the host, see sampler/labels/labels.h; 0: not known */
  bool known;
} onstack_go_layout;

typedef struct onstack_go_runtime {
  onstack_code_range text; /* high 0: the entry describes nothing (sampler/modules/go_runtime.c) */
  onstack_go_functions functions;
  onstack_code_range span; /* from the first special to the last: most Go code lies outside */
  uint32_t special_count;
  uint32_t reserved;
  onstack_go_layout layout;
  onstack_go_special specials[ONSTACK_GO_SPECIALS];
} onstack_go_runtime;

typedef struct onstack_code_map {
  onstack_seqlock lock; /* of `ranges` and `count`; its writer holds the map lock */
  uint32_t count;
  uint32_t stale;    /* a walk met a return address that no range holds: look again */
  uint32_t missed;   /* code ran that no range holds: look before its samples are delivered */
  uint32_t go_count; /* entries of `go` that may be read; it only ever grows (publish / observe) */
  onstack_code_range ranges[ONSTACK_CODE_RANGES]; /* sorted, disjoint */
  onstack_go_runtime go[ONSTACK_GO_RUNTIMES];
} onstack_code_map;

ONSTACK_INTERNAL_DATA onstack_code_map onstack_code;

/*
 * True if `address` is executable as far as known. *last keeps the range of the last hit between calls (start it as
 * zeros): neighbouring frames mostly share it. While the ranges are being rewritten every address is accepted, and
 * *last does not hold it. Signal-safe.
 */
ONSTACK_INTERNAL bool onstack_code_is_executable(uint64_t address, onstack_code_range *last);
/* The same of what may be a number and no address: that is no reason to look at the mappings again. Signal-safe. */
ONSTACK_INTERNAL bool onstack_code_is_known(uint64_t address, onstack_code_range *last);

/* The Go runtime whose text holds `address` (inside the instruction: a return address minus 1); NULL: none. Signal-safe. */
ONSTACK_INTERNAL const onstack_go_runtime *onstack_code_find_go(uint64_t address);

/* The special function that holds an address of this runtime's text; NULL: an ordinary one. Signal-safe. */
ONSTACK_INTERNAL const onstack_go_special *onstack_code_go_special(const onstack_go_runtime *go, uint64_t address);

/* The kind of Go function (ONSTACK_GO_*) of an address in this runtime's text. Signal-safe. */
ONSTACK_INTERNAL uint32_t onstack_code_go_kind(const onstack_go_runtime *go, uint64_t address);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the walkers know about the process's code, for the whole copy of the library:
 *   - ranges of executable memory: a return address outside them is refused, so that no frame is invented;
 *   - the Go functions at which stacks are switched.
 * Written in ordinary threads (control/code_map_*.c), read in the handler without locks. Static memory, never freed.
 */
#ifndef ONSTACK_HANDLER_CODE_MAP_H
#define ONSTACK_HANDLER_CODE_MAP_H

#include "base/atomics.h"
#include "base/defs.h"

#define ONSTACK_CODE_RANGES 2048u

/* Go functions with a treatment of their own. */
#define ONSTACK_GO_ASMCGOCALL 0u  /* goroutine -> C on g0: continue by g and depth */
#define ONSTACK_GO_SYSTEMSTACK 1u /* goroutine -> g0: the saved frame pointer leads back */
#define ONSTACK_GO_CGOCALLBACK 2u /* C on g0 -> goroutine: the saved frame pointer leads back to C */
#define ONSTACK_GO_FUNCTIONS 3u
#define ONSTACK_GO_ENTRIES 2u /* bodies of one name: the ABI0 one and its wrapper */
#define ONSTACK_GO_RUNTIMES 4u /* Go runtimes in one process (several c-shared libraries) */

typedef struct onstack_code_range {
  uint64_t low;
  uint64_t high;
} onstack_code_range;

typedef struct onstack_go_runtime {
  onstack_code_range text;
  onstack_code_range functions[ONSTACK_GO_FUNCTIONS][ONSTACK_GO_ENTRIES]; /* high 0: not there */
} onstack_go_runtime;

typedef struct onstack_code_map {
  uint32_t turn;  /* sequence lock of `ranges`: odd while they are written. One writer: the control lock's holder */
  uint32_t count;
  uint32_t stale; /* a walk met a return address that no range holds: look again */
  uint32_t go_count; /* entries of `go` that may be read; they are only ever added (publish / observe) */
  onstack_code_range ranges[ONSTACK_CODE_RANGES]; /* sorted, disjoint */
  onstack_go_runtime go[ONSTACK_GO_RUNTIMES];
} onstack_code_map;

ONSTACK_INTERNAL_DATA onstack_code_map onstack_code;

/*
 * True if `address` is executable as far as known. *last keeps the range of the last hit between calls (start it as
 * zeros): neighbouring frames mostly share it. While the ranges are being rewritten every address is accepted: a walk
 * in that moment keeps its frames. Signal-safe.
 */
ONSTACK_INTERNAL bool onstack_code_is_executable(uint64_t address, onstack_code_range *last);

/* ONSTACK_GO_* if a return address lies in one of these functions, else ONSTACK_GO_FUNCTIONS. Signal-safe. */
ONSTACK_INTERNAL uint32_t onstack_code_go_function(uint64_t return_address);

/* True if the address lies in Go text. Signal-safe. */
ONSTACK_INTERNAL bool onstack_code_is_go(uint64_t address);

#endif

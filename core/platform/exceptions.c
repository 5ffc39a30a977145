/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/exceptions.h"

/* Of <unwind.h>, which not every C compiler brings. */
#define EXCEPTIONS_SEARCH_PHASE 1 /* _UA_SEARCH_PHASE */
#define EXCEPTIONS_FAIL 3         /* _URC_FATAL_PHASE1_ERROR */
#define EXCEPTIONS_GO_ON 8        /* _URC_CONTINUE_UNWIND */

__attribute__((used)) int onstack_exceptions_stop(int version, int actions, uint64_t kind, void *exception, void *context) {
  (void)version, (void)kind, (void)exception, (void)context;
  return actions & EXCEPTIONS_SEARCH_PHASE ? EXCEPTIONS_FAIL : EXCEPTIONS_GO_ON;
}

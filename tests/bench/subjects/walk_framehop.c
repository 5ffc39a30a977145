/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The framehop crate as lean as it can be used: framehop/src/lib.rs. */
#include <ucontext.h>

#include "walker.h"

const char *bench_framehop_prepare(void);
size_t bench_framehop_walk(uint64_t pc, uint64_t sp, uint64_t fp, uint64_t lr, uint64_t *frames, size_t capacity);

static size_t walk(void *ucontext, uint64_t *frames, size_t capacity) {
  const ucontext_t *context = ucontext;
#if defined(__x86_64__)
  const greg_t *r = context->uc_mcontext.gregs;
  return bench_framehop_walk((uint64_t)r[REG_RIP], (uint64_t)r[REG_RSP], (uint64_t)r[REG_RBP], 0, frames, capacity);
#else
  const mcontext_t *m = &context->uc_mcontext;
  return bench_framehop_walk(m->pc, m->sp, m->regs[29], m->regs[30], frames, capacity);
#endif
}

static const char *prepare(const char *variant) {
  (void)variant;
  return bench_framehop_prepare();
}

const walker walker_linked = {"framehop", prepare, walk};

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/interpreter.h"

#include "platform/defs.h"
#include "platform/sys.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/rules.h"
#include "sampler/unwind/memory.h"

#include <errno.h>

ONSTACK_INTERNAL_DEFINE uint32_t onstack_interpreted_switches;
static uint32_t interpreter_refusals; /* process_vm_readv has failed for another reason than the address; relaxed */

/* The kernel copies: memory of an interpreter may be given back by another thread at any instant. */
static ONSTACK_HANDLER uint32_t interpreter_read(uint64_t address, void *to, uint32_t bytes) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)to, bytes}, remote = {address, bytes};
  if (!onstack_address_plausible(address)) return false;
  const long result = onstack_sys_process_vm_readv(&local, 1, &remote, 1);
  if (result < 0 && result != -EFAULT) onstack_store_relaxed(&interpreter_refusals, 1u);
  return result == (long)bytes;
}

/* A filter refuses (seccomp, which a thread can have alone). */
static ONSTACK_HANDLER bool interpreter_is_refused(void) {
  uint64_t word = 0, copy;
  return onstack_load_relaxed(&interpreter_refusals) != 0 &&
         !interpreter_read((uint64_t)(uintptr_t)&word, &copy, sizeof(copy));
}

/* As the reader `probe` (memory_handler.c): the kernel says whether the page is there, and nobody takes it away
   from a thread that stands still in our handler. Where a filter answers instead it is copied. */
static ONSTACK_HANDLER uint32_t interpreter_read_own(uint64_t address, uint64_t *word) {
  if (address & 7 || !onstack_address_plausible(address)) return false;
  const long result = onstack_sys_sigprocmask(~0, (const onstack_kernel_sigset *)(uintptr_t)address, NULL);
  if (result == -EFAULT) return false;
  if (result != -EINVAL) return interpreter_read(address, word, sizeof(*word));
  *word = *(const volatile uint64_t *)(uintptr_t)address;
  return true;
}

/* The rule of an instruction by which its frame's end is found without the registers of others; NULL: there is none. */
static ONSTACK_HANDLER const onstack_rule *interpreter_rule(uint64_t address, bool by_fp) {
  onstack_module module = {.low = 0};
  const onstack_rule *rule = onstack_rules_find(address, &module);
  return rule && (rule->cfa == ONSTACK_CFA_SP || (by_fp && rule->cfa == ONSTACK_CFA_FP)) ? rule : NULL;
}

static ONSTACK_HANDLER uint8_t interpreter_place_leaf(const onstack_registers *registers, uint64_t place) {
  const onstack_rule *rule = interpreter_rule(registers->pc, true);
  if (!rule) return ONSTACK_INTERPRETED_LEAF_UNKNOWN;
  const uint64_t base = rule->cfa == ONSTACK_CFA_SP ? registers->sp : registers->fp;
  return place < base + (uint64_t)(int64_t)rule->cfa_offset ? ONSTACK_INTERPRETED_LEAF_IS : ONSTACK_INTERPRETED_LEAF_IS_NOT;
}

/* A loop that has called others: its frame begins behind the return address, which is looked for from the leaf on. Where it is
   passed in a register, it lies anywhere in the callee's frame. */
static ONSTACK_HANDLER uint8_t interpreter_place_caller(const onstack_registers *registers, uint64_t return_address,
                                                        uint64_t place, uint64_t *words) {
  if (ONSTACK_ARCH_LINK_REGISTER) return ONSTACK_INTERPRETED_LEAF_UNKNOWN;
  const onstack_rule *rule = interpreter_rule(return_address - 1, false);
  const uint64_t bytes = place - registers->sp;
  if (!rule || bytes > ONSTACK_FRAME_SCRATCH || !interpreter_read(registers->sp, words, (uint32_t)bytes))
    return ONSTACK_INTERPRETED_LEAF_UNKNOWN;
  for (uint64_t i = 0; i < bytes / sizeof(*words); i++) {
    if (((const volatile uint64_t *)words)[i] != return_address) continue;
    const uint64_t begins = (i + 1) * sizeof(*words);
    return bytes < begins + (uint64_t)(int64_t)rule->cfa_offset ? ONSTACK_INTERPRETED_LEAF_CALLED
                                                                : ONSTACK_INTERPRETED_LEAF_GONE;
  }
  return ONSTACK_INTERPRETED_LEAF_UNKNOWN;
}

/* With more calls of the loop on the native stack than the frames tell of, an end that is not seen, or stacks that are
   switched, a search; otherwise next to nothing. */
static ONSTACK_HANDLER uint8_t interpreter_leaf(const onstack_interpreter *interpreter,
                                                const onstack_interrupted *interrupted, const onstack_interpreted *copied,
                                                uint64_t place, void *scratch) {
  uint32_t loops = 0, calls = 0, innermost = 0;
  if (place < interrupted->registers->sp) return ONSTACK_INTERPRETED_LEAF_GONE;
  for (uint32_t i = 0; i < copied->count; i++) calls += copied->frames[i].flags & ONSTACK_INTERPRETED_ENTRY;
  for (uint32_t i = interrupted->frame_count; i-- > 0;) {
    if (!onstack_interpreter_is_loop(interpreter, interrupted->frames, i)) continue;
    innermost = i;
    loops++;
  }
  if (loops == 0) return ONSTACK_INTERPRETED_LEAF_UNKNOWN;
  if (innermost > 0 && loops <= calls && interrupted->whole && !onstack_load_relaxed(&onstack_interpreted_switches))
    return ONSTACK_INTERPRETED_LEAF_UNKNOWN;
  const uint8_t leaf =
      innermost == 0 ? interpreter_place_leaf(interrupted->registers, place)
                     : interpreter_place_caller(interrupted->registers, interrupted->frames[innermost], place, scratch);
  if (loops > calls && !copied->cut && (leaf == ONSTACK_INTERPRETED_LEAF_IS || leaf == ONSTACK_INTERPRETED_LEAF_CALLED))
    onstack_store_relaxed(&onstack_interpreted_switches, 1u);
  return leaf;
}

ONSTACK_HANDLER_APART void onstack_interpreted_copy(const onstack_interpreter *interpreters, uint32_t count,
                                                    const onstack_interrupted *interrupted, uint32_t capacity,
                                                    onstack_interpreted *out) {
  uint64_t place = 0;
  onstack_frame_memory memory = {.read = interpreter_read,
                                 .read_own = interpreter_read_own,
                                 .scratch = out->frames + capacity,
                                 .scratch_bytes = ONSTACK_FRAME_SCRATCH,
                                 .tid = interrupted->tid,
                                 .place = &place};
  out->count = 0;
  out->named = 0;
  out->cut = 0;
  out->interpreter = 0; /* none may be ready */
  out->leaf = ONSTACK_INTERPRETED_LEAF_UNKNOWN;
  for (uint32_t i = 0; i < count && out->count == 0; i++) {
    if (!onstack_observe(&interpreters[i].ready)) continue; /* pairs with the publish in sampler/api/interpreters.c */
    const onstack_frame_provider *provider = interpreters[i].provider;
    if (memory.thread_pointer == 0) memory.thread_pointer = onstack_thread_pointer(); /* 0 on a thread of a raw clone */
    const uint32_t result = provider->copy(provider->data, &memory, out->frames, capacity);
    const uint32_t frames = result & ~ONSTACK_INTERPRETED_CUT;
    out->count = (uint16_t)(frames < capacity ? frames : capacity);
    out->cut = (result & ONSTACK_INTERPRETED_CUT) != 0;
    out->interpreter = (uint8_t)i;
    if (place != 0) out->leaf = interpreter_leaf(&interpreters[i], interrupted, out, place, memory.scratch);
  }
  out->refused = out->count == 0 && interpreter_is_refused();
}

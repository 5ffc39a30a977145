/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The part of unwinder_rules_handler.c that each processor has its own of, from the files that are named after it;
 * included there and nowhere else. They define
 *
 *   rules_step_signal             from the signal trampoline to what was interrupted
 *   rules_read_register           a general register of the interrupted code by its DWARF number
 *   rules_step_undescribed        native code that no rule describes
 *   rules_step_go_interrupted     an interrupted Go function whose pcsp entry is known
 *   rules_step_go_undescribed     ... is not known
 *   rules_step_go_by_record       a Go function that was called, by its frame record
 *   rules_step_go_by_table        ... by pcsp: a caller on a goroutine whose stack is being moved
 *   rules_leave_injected          from asyncPreempt or sigpanic to what it was put before
 */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_ARCH_H
#define ONSTACK_SAMPLER_UNWIND_RULES_ARCH_H

#if defined(__x86_64__)
#include "sampler/unwind/rules_native_x86_64.h"
#include "sampler/unwind/rules_go_x86_64.h"
#elif defined(__aarch64__)
#include "sampler/unwind/rules_native_aarch64.h"
#include "sampler/unwind/rules_go_aarch64.h"
#endif

#endif

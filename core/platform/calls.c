/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/calls.h"

#include "onstack/onstack.h"

#include <string.h>

/* Of <unwind.h>, which not every C compiler brings. */
#define EXCEPTIONS_SEARCH_PHASE 1 /* _UA_SEARCH_PHASE */
#define EXCEPTIONS_FAIL 3         /* _URC_FATAL_PHASE1_ERROR */
#define EXCEPTIONS_GO_ON 8        /* _URC_CONTINUE_UNWIND */

__attribute__((used)) int onstack_exceptions_stop(int version, int actions, uint64_t kind, void *exception, void *context) {
  (void)version, (void)kind, (void)exception, (void)context;
  return actions & EXCEPTIONS_SEARCH_PHASE ? EXCEPTIONS_FAIL : EXCEPTIONS_GO_ON;
}

_Static_assert(offsetof(onstack_options, fork_sink_data) == ONSTACK_OPTIONS_SIZE_0_1, "old sizes stay known");

/* 0: not a size. */
static uint32_t sized_read(const void *given, size_t least_bytes) {
  uint32_t size;
  memcpy(&size, given, sizeof(size));
  return size >= sizeof(size) && size >= least_bytes && size <= ONSTACK_SIZED_LIMIT ? size : 0;
}

int onstack_sized_check(const void *given, size_t known_bytes, size_t least_bytes) {
  const uint32_t size = sized_read(given, least_bytes);
  if (size == 0) return ONSTACK_E_OPTIONS;
  for (size_t i = known_bytes; i < size; i++)
    if (((const char *)given)[i] != 0) return ONSTACK_E_OPTIONS;
  return 0;
}

int onstack_sized_copy(void *known, size_t known_bytes, size_t least_bytes, const void *given) {
  const int error = onstack_sized_check(given, known_bytes, least_bytes);
  if (error != 0) return error;
  const uint32_t size = sized_read(given, least_bytes);
  memset(known, 0, known_bytes);
  memcpy(known, given, size < known_bytes ? size : known_bytes);
  return 0;
}

int onstack_sized_fill(void *given, size_t least_bytes, const void *known, size_t known_bytes) {
  const uint32_t size = sized_read(given, least_bytes);
  if (size == 0) return ONSTACK_E_OPTIONS;
  const uint32_t used = size < known_bytes ? size : (uint32_t)known_bytes;
  memset(given, 0, size);
  memcpy(given, known, used);
  memcpy(given, &used, sizeof(used));
  return 0;
}

int onstack_options_init(onstack_options *options, size_t size) {
  if (!options || size < ONSTACK_OPTIONS_SIZE_0_1) return ONSTACK_E_VERSION;
  uint8_t *bytes = (uint8_t *)options;
  for (size_t i = 0; i < size; i++) bytes[i] = 0;
  options->size = (uint32_t)size;
  return 0;
}

int onstack_switch_read(uint8_t value, bool *on) {
  if (value > ONSTACK_OFF) return ONSTACK_E_OPTIONS;
  *on = value != ONSTACK_OFF;
  return 0;
}

#define ERRORS_TEXT(value) ERRORS_TEXT_OF(value)
#define ERRORS_TEXT_OF(value) #value

const char *onstack_version(void) {
  return ERRORS_TEXT(ONSTACK_VERSION_MAJOR) "." ERRORS_TEXT(ONSTACK_VERSION_MINOR) "." ERRORS_TEXT(ONSTACK_VERSION_PATCH);
}

const char *onstack_strerror(int code) {
  switch (code) {
  case 0:
    return "success";
  case ONSTACK_E_FREQUENCY:
    return "frequency out of range: give 1 to 10000 Hz";
  case ONSTACK_E_OPTIONS:
    return "an argument has a value that it cannot have (of a session's options onstack_options_fault says which), or comes "
           "from a newer header: call onstack_options_init first, and compare the values with onstack.h";
  case ONSTACK_E_UNWINDER:
    return "no such unwinder (there are rules, frame_pointer and pc_only), or the given one is incomplete";
  case ONSTACK_E_SIGNAL:
    return "this signal cannot be used: it cannot be caught, is reserved, reports faults, or ends, stops or continues "
           "processes (in a process with a Go runtime only SIGPROF can be used); leave it at SIGPROF";
  case ONSTACK_E_SESSIONS:
    return "all 8 sessions are running, or the one that a heap can have: stop one first";
  case ONSTACK_E_STOPPED:
    return "the session has been stopped already";
  case ONSTACK_E_OUTPUT:
    return "the profile could not be written: the writer refused the bytes";
  case ONSTACK_E_UNSUPPORTED:
    return "not available on this system or in this version: sessions need Linux on x86_64 or aarch64; for an option see "
           "onstack.h";
  case ONSTACK_E_VERSION:
    return "header and library do not fit together, or another copy of the library in this process is of another version: "
           "build all of "
           "them against one";
  case ONSTACK_E_CONTEXT:
    return "called from a sink, an unwinder or a signal handler, where it must not be: call it from an ordinary thread";
  case ONSTACK_E_CLOCK:
    return "nothing can tick here: timer_create(2) is refused, and a signal sent by a thread of ours carries no value "
           "(tried: CPU timers, rt_tgsigqueueinfo); allow them in the seccomp filter, or raise RLIMIT_SIGPENDING; for "
           "real time, /proc must show this PID namespace, and /proc/self/task/*/syscall be readable (else take the clock "
           "that "
           "signals: wall-signal)";
  case ONSTACK_E_KINDS:
    return "the profile holds several kinds of samples, and folded stacks have one number: choose one by the write option "
           "kind, or write pprof";
  default:
    return code < 0 && code > -4096 ? "a system call failed (the code is a negative errno)" : "unknown onstack error";
  }
}

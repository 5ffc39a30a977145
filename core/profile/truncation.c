/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/truncation.h"

#include "onstack/onstack.h"

#include <string.h>

#define TRUNCATION_FRAME "[truncated: "
#define TRUNCATION_NEITHER                                                                                                  \
  "it has neither unwind tables nor frame pointers: build it with -fasynchronous-unwind-tables or -fno-omit-frame-pointer"

typedef struct truncation_text {
  const char *key;
  const char *frame;  /* NULL: stands in no stack */
  const char *advice; /* NULL: no fault of the module */
} truncation_text;

static const truncation_text truncation_texts[ONSTACK_TRUNCATION_COUNT] = {
    [ONSTACK_TRUNCATED_DEPTH] = {"depth", TRUNCATION_FRAME "deeper than the maximal depth]",
                                 "stacks there are deeper than the session keeps: raise max_depth"},
    [ONSTACK_TRUNCATED_UNREADABLE] =
        {"unreadable", TRUNCATION_FRAME "unreadable stack memory]",
         "its frames lead to memory that cannot be read: wrong unwind information, or code that "
         "keeps no frame pointers; build it with -fasynchronous-unwind-tables"},
    [ONSTACK_TRUNCATED_MISALIGNED] = {"misaligned", TRUNCATION_FRAME "misaligned frame pointer]", TRUNCATION_NEITHER},
    [ONSTACK_TRUNCATED_NOT_RISING] = {"not_rising", TRUNCATION_FRAME "frame pointer does not rise]", TRUNCATION_NEITHER},
    [ONSTACK_TRUNCATED_BAD_RETURN] = {"bad_return", TRUNCATION_FRAME "no return address]",
                                      "its callers lie in no executable memory that was known: code generated or loaded in "
                                      "the last moments, the stack of a coroutine whose beginning has been overwritten "
                                      "since (greenlet), or wrong unwind information"},
    [ONSTACK_TRUNCATED_STACK_SWITCH] = {"stack_switch", TRUNCATION_FRAME "switch of stacks]",
                                        "it runs on a stack of its own, and who entered that is not known: generated code "
                                        "that was called there, or a function that changes stacks"},
    [ONSTACK_TRUNCATED_BY_DESIGN] = {"by_design", NULL, NULL},
    [ONSTACK_TRUNCATED_UNWINDER] = {"unwinder", TRUNCATION_FRAME "by the unwinder]",
                                    "the unwinder that was given ended there"},
    [ONSTACK_TRUNCATED_NO_RULE] =
        {"no_rule", TRUNCATION_FRAME "no unwind information]",
         "parts of it have no unwind information: assembly (add .cfi directives, or -g for the assembler), or compiled code "
         "whose callers only its runtime knows, since it keeps a stack or registers of its own (Haskell, Guile, qemu; let "
         "its compiler keep frame pointers if it can, as Erlang's by +JPperf true)"},
    [ONSTACK_TRUNCATED_PENDING] = {"pending", TRUNCATION_FRAME "unwind information not read yet]",
                                   "its unwind information was still being read, as in the first moments after it is loaded "
                                   "or a profile begins: later samples have their callers"},
};

/* Counters that somebody can do something about. */
static const struct {
  const char *key, *advice;
} truncation_counters[] = {
    {"blocked", "ticks of threads that block the profiling signal (SIGPROF, most often) and have no samples: let them take "
                "it (pthread_sigmask); "
                "libraries' own threads often block all signals, as jemalloc's do (background_thread:false)"},
    {"cpu_ns",
     "it is more than ticks * period_ns: threads, or processes, ended before a tick met them, and weigh too little; "
     "a higher frequency meets more of them"},
    {"dropped_ring_full", "ticks that found the buffer full: raise buffer_bytes, or lower frequency"},
    {"dropped_no_stack", "ticks on alternate signal stacks (sigaltstack) without room for a handler: make them 4096 bytes "
                         "larger"},
    {"dropped_unwinder", "ticks for which the unwinder that was given returned no frame; with the clock wall also the time "
                         "of threads until they are "
                         "found, and of threads that end before a look"},
    {"dropped_sink", "samples that the sink refused; a profile refuses where memory runs out"},
    {"heap_untracked",
     "sampled blocks without a place among those in use (heap_objects): they are in alloc and never in inuse; "
     "raise it, or the bytes between two samples"},
    {"threads_unarmed",
     "attempts to give a thread a timer that failed: those threads' samples are coarser; raise the limit of "
     "pending signals (ulimit -i)"},
    {"generated_replaced",
     "addresses of generated code that had several functions one after the other: their samples have the name of one"},
    {"timeline_lost",
     "samples whose time found no room (timeline_bytes), mostly the later ones: pictures of time lack them; profile for a "
     "shorter while, or at a lower frequency"},
};

const char *onstack_profile_truncation_frame(uint32_t truncation) {
  if (truncation >= ONSTACK_TRUNCATION_COUNT) return TRUNCATION_FRAME "unknown reason]";
  return truncation_texts[truncation].frame;
}

const char *onstack_profile_truncation_key(uint32_t truncation) {
  return truncation < ONSTACK_TRUNCATION_COUNT ? truncation_texts[truncation].key : NULL;
}

/* Whether it is the text between "[truncated: " and "]". */
static bool truncation_is_reason(const char *frame, const char *text) {
  size_t head = strlen(TRUNCATION_FRAME), length = strlen(text);
  return frame && strlen(frame) == head + length + 1 && strncmp(frame + head, text, length) == 0;
}

ONSTACK_API const char *onstack_advice(const char *key) {
  if (!key) return NULL;
  for (uint32_t i = 0; i < ONSTACK_TRUNCATION_COUNT; i++) {
    const truncation_text *text = &truncation_texts[i];
    if (text->key && (strcmp(text->key, key) == 0 || truncation_is_reason(text->frame, key))) return text->advice;
  }
  for (size_t i = 0; i < ONSTACK_COUNT_OF(truncation_counters); i++) {
    if (strcmp(truncation_counters[i].key, key) == 0) return truncation_counters[i].advice;
  }
  return NULL;
}

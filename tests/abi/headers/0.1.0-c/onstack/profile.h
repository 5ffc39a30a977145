/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * onstack: a sink that adds samples up, and writers for pprof, folded stacks and dumps.
 * onstack/onstack.h explains the terms, the contexts and the results; onstack_profile(3) has more.
 */
#ifndef ONSTACK_PROFILE_H
#define ONSTACK_PROFILE_H

#include "onstack/onstack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- profiles ----------------------------------------------------------------------------------------------- */

/*
 * Samples, added up by stack. A frame gets its name from the file that was mapped at its address when the sample was taken. If
 * other code takes the place of a library, frames of that code are called "[replaced code]" until the profile is cleared or a
 * new one begins.
 */
typedef struct onstack_profile onstack_profile;

typedef struct onstack_profile_options {
  uint32_t size;               /* sizeof(onstack_profile_options) */
  onstack_switch thread_names; /* keep threads of different names apart: the label "thread" in pprof, the first frame in
                                  folded stacks; default on */
  onstack_switch thread_ids;   /* keep threads apart: the label "thread_id" in pprof; default on */
  uint8_t reserved0[2];        /* 0 */
  uint32_t max_stacks;         /* distinct stacks; 0: 1,048,576. Later ones are added to "[onstack: too many stacks]" */
  uint32_t timeline_bytes; /* memory for the times of CPU and real-time samples, about 4 bytes each and 64 for each stack;
                                  0: no times. The profile counts times that find no room */
} onstack_profile_options;

/* A timeline_bytes for an hour of 16 busy threads at 99 Hz. */
#define ONSTACK_TIMELINE_BYTES (64u << 20)

/* Creates an empty profile. `options` may be NULL. Context: any thread. Ownership: free *out. Errors: OPTIONS, -ENOMEM. */
ONSTACK_API int onstack_profile_new(const onstack_profile_options *options, onstack_profile **out);

/* Frees a profile that is no session's sink any more. Ignores NULL. Context: any thread. */
ONSTACK_API void onstack_profile_free(onstack_profile *profile);

/*
 * Adds a sample. Set options.sink to this function and options.sink_data to the profile; several sessions may share one.
 * Context: any thread. In the child of a fork, only with a profile that the child created or gave to
 *   onstack_profile_after_fork.
 * Returns: 0. The session counts a refused sample in `dropped_sink`.
 * Errors: OPTIONS for a malformed sample or an unknown kind, -ENOMEM.
 */
ONSTACK_API int onstack_profile_sink(void *profile, const onstack_sample *sample);

/* Removes all samples. To report again and again use onstack_profile_take, which loses none. Context: any thread. */
ONSTACK_API void onstack_profile_clear(onstack_profile *profile);

/*
 * Moves all samples into a new profile with the same options, and leaves `profile` empty. Each sample is in exactly one of
 * them.
 * Context: any thread; sinks and writers may run meanwhile.
 * Ownership: free *out. It is NULL on failure.
 * Errors: OPTIONS, -ENOMEM; nothing is moved then.
 */
ONSTACK_API int onstack_profile_take(onstack_profile *profile, onstack_profile **out);

/*
 * Makes the child's copy of a profile usable after a fork, and empties it. If another thread of the parent held the profile's
 * lock, the memory that the lock protected is lost. Sessions with ONSTACK_FORK_FOLLOW call it for their own profile.
 * Context: the child of a fork, before another of its threads uses the profile.
 */
ONSTACK_API void onstack_profile_after_fork(onstack_profile *profile);

/* Sums up the samples of one kind: their number, weights and values. Any pointer may be NULL. Context: any thread. */
ONSTACK_API void onstack_profile_totals(const onstack_profile *profile, onstack_kind kind, uint64_t *samples,
                                        uint64_t *weight, uint64_t *value);

/* ---- names -------------------------------------------------------------------------------------------------- */

/* One function at an address. Strings need to live until onstack_symbol_add returns. */
typedef struct onstack_symbol_line {
  uint32_t size;           /* sizeof(onstack_symbol_line) */
  uint32_t reserved;       /* 0 */
  const char *name;        /* for people (demangled); NULL: system_name */
  const char *system_name; /* as in the symbol table; NULL: name */
  const char *file;        /* the source file; NULL: unknown */
  int64_t line;            /* 0: unknown */
  int64_t start_line;      /* the function's first line; 0: unknown */
} onstack_symbol_line;

/* The table that a symbolizer fills. */
typedef struct onstack_symbol_table onstack_symbol_table;

/*
 * Adds a function for addresses[index]. Add the innermost inlined function first and the function with the code last.
 * Context: inside a symbolizer, on its thread.
 * Errors: OPTIONS if the index is out of range, -ENOMEM.
 */
ONSTACK_API int onstack_symbol_add(onstack_symbol_table *table, size_t index, const onstack_symbol_line *line);

/*
 * Names addresses with onstack_symbol_add. The library names those that are left out: from ELF symbols, and for generated code
 * from a jitdump or a perf map. Each address is inside the instruction: a return address minus 1.
 * Returns: 0, or another number to end the write with it.
 */
typedef int (*onstack_symbolizer)(void *data, const uint64_t *addresses, size_t count, onstack_symbol_table *table);

/*
 * Writes the demangled form of a symbol's name into `out`. The library asks once for each name without a form for people.
 * `capacity` is 16,384 bytes.
 * Returns: the length, or 0 to keep the name.
 */
typedef size_t (*onstack_demangler)(void *data, const char *system_name, char *out, size_t capacity);

/* ---- writers ------------------------------------------------------------------------------------------------ */

typedef struct onstack_write_options {
  uint32_t size;                 /* sizeof(onstack_write_options) */
  onstack_switch symbolize;      /* name the frames; default on. If off, pprof has addresses and mappings only */
  uint8_t reserved0[3];          /* 0 */
  onstack_symbolizer symbolizer; /* names addresses before the library does; NULL: none */
  void *symbolizer_data;         /* the first argument of `symbolizer` */
  int64_t start_time_unix_ns;    /* pprof's time_nanos; 0: when the profile was created or cleared */
  int64_t duration_ns;           /* pprof's duration_nanos; 0: until now. A profile of allocations alone has none */
  const char *comments;          /* lines that become comments of the profile; NULL: none */
  onstack_demangler demangler;   /* demangles names; NULL: names stay as in the symbol table */
  void *demangler_data;          /* the first argument of `demangler` */
  uint64_t period;               /* the period of a profile without samples, in nanoseconds, or in bytes for allocations */
  onstack_kind kind;             /* write samples of this kind only; 0: all kinds */
  uint32_t reserved1;            /* 0 */
  uint64_t heap_age_ns;          /* count an allocation as in use if it has been so for this time, in nanoseconds; 0: all */
} onstack_write_options;

/* The number of the field of pprof's Sample with the times of samples; onstack_profile(3) has its format. */
#define ONSTACK_PPROF_SAMPLE_TIMES 1000

/*
 * Writes the profile as an uncompressed pprof protobuf. Compress it with gzip for a .pb.gz file. onstack_profile(3) lists the
 * sample types of each kind. `options` may be NULL.
 * Context: any thread; samples may arrive meanwhile.
 * Errors: OPTIONS, OUTPUT, -ENOMEM, the symbolizer's result.
 * Source: github.com/google/pprof/proto/profile.proto.
 */
ONSTACK_API int onstack_profile_write_pprof(onstack_profile *profile, const onstack_write_options *options,
                                            onstack_writer writer, void *writer_data);

/*
 * Writes sorted folded stacks, outermost frame first, for flame graph tools: "thread;main;f;g 12\n". The number is in ticks for
 * CPU and real time, and the value for other kinds. A ';' in a name becomes ':', and a line end becomes a space.
 * Context and errors: as onstack_profile_write_pprof; also KINDS if the profile has several kinds and options->kind is 0.
 */
ONSTACK_API int onstack_profile_write_folded(onstack_profile *profile, const onstack_write_options *options,
                                             onstack_writer writer, void *writer_data);

/* ---- dumps: the stacks of all threads now ------------------------------------------------------------------- */

/*
 * Writes the stacks of all threads as text, to find out why a program hangs. No thread is stopped. A session of its own runs
 * for 30 ms, or 0.3 s at most. onstack_dump(3) shows the text. `options` may be NULL; only the members for names count.
 * Context: start/stop.
 * Errors: those of onstack_session_start for ONSTACK_CLOCK_WALL (CLOCK if /proc does not show blocked threads), OUTPUT,
 *   -ENOMEM, the symbolizer's result.
 */
ONSTACK_API int onstack_dump(const onstack_write_options *options, onstack_writer writer, void *writer_data);

/*
 * Adds the stacks of all threads to a profile: one sample of ONSTACK_KIND_DUMP for each, with the labels state, wait, on and
 * holder, and the thread's own.
 * Context and errors: as onstack_dump.
 * Returns: the number of threads without a stack.
 */
ONSTACK_API int onstack_dump_take(onstack_profile *profile);

#ifdef __cplusplus
}
#endif

#endif /* ONSTACK_PROFILE_H */

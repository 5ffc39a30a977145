/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names and lines of generated code as compilers at run time dump them for perf: jit-PID.dump, a file of records (Linux,
 * tools/perf/Documentation/jitdump-specification.txt) that its writer keeps mapped, so that it can be found. wasmtime with
 * ProfilingStrategy::JitDump, node --perf-prof, LLVM's perf listener, Java's libperf-jvmti and others do.
 */
#ifndef ONSTACK_PROFILE_GENERATED_JITDUMP_H
#define ONSTACK_PROFILE_GENERATED_JITDUMP_H

#include "profile/elf/symbol_table.h"
#include "profile/maps/maps.h"

/*
 * Names addresses without a name that lie in no program or library. Of records that hold an address the last one counts: it
 * is the newest, and code that is gone since keeps its name. Only a file that is ours is read. Errors: -ENOMEM.
 */
ONSTACK_INTERNAL int onstack_profile_symbolize_by_jitdump(onstack_symbol_table *table, const onstack_profile_maps *maps);

#endif

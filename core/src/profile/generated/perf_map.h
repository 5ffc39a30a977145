/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names of generated code as compilers at run time write them for perf: lines "START SIZE NAME", in hexadecimal, in
 * /tmp/perf-PID.map (Linux, tools/perf/Documentation/jit-interface.txt). node --perf-basic-prof, Java's jcmd
 * Compiler.perfmap, LuaJIT, wasmtime and others do.
 */
#ifndef ONSTACK_PROFILE_GENERATED_PERF_MAP_H
#define ONSTACK_PROFILE_GENERATED_PERF_MAP_H

#include "profile/elf/symbol_table.h"
#include "profile/maps/maps.h"

/*
 * Names addresses without a name that lie in no program or library. Of lines that hold an address the last one counts: it is
 * the newest. Everybody may write to that directory: a file of somebody else's, or a link, is not read. Errors: -ENOMEM.
 */
ONSTACK_INTERNAL int onstack_profile_symbolize_by_perf_map(onstack_symbol_table *table, const onstack_profile_maps *maps);

#endif

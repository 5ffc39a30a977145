# SPDX-License-Identifier: MIT OR Apache-2.0
"""The aims for onstack's own figures. One that is not reached says why, and what is planned; page.py asks for it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Aim:
    text: str
    case: str
    metric: str
    subject: str
    limit: float
    divide: float
    unit: str
    at_least: bool = False
    why: str = ""
    plan: str = ""


_SHORT_RUNS = (
    "the runs take 0.2 to 1.5 s of CPU time. What is added to each is two threads, names at the end for what was sampled, and rules, "
    "one by one, for each address that a stack has (a compiler's second has 600 of them); tables are made in no run of less than three "
    "seconds (perf, schedstat). Later the library's threads take some 0.3 % of one processor: a round each fourth period while the "
    "program works and does nothing new."
)
_LONGER_RUNS = "none yet; names could be found by whoever reads the profile."

AIMS = (
    Aim(
        "a sample at depth 20, warm", "handler-cost/20", "warm", "onstack-rules", 0.4, 1000, "us",
        why="the sample has 27 frames at some ten nanoseconds each (the difference between depth 20 and 100); a handler without any "
        "walk takes nearly a tenth of a microsecond (*PC only*).",
        plan="as for depth 100.",
    ),
    Aim(
        "a sample at depth 100, warm", "handler-cost/100", "warm", "onstack-rules", 1.3, 1000, "us",
        why="107 frames at some ten nanoseconds each are nearly all of it.",
        plan="none yet: a step has one look at the PC cache and up to three words of the stack; what of that could go is to be measured.",
    ),
    Aim(
        "a new stack of depth 20", "handler-cold/20", "new", "onstack-rules", 6, 1000, "us",
        why="each new return address is a look-up in a table of rules.",
        plan="to fetch the caller's row while the frame's words are being read; to be measured before it is taken.",
    ),
    Aim(
        "a new stack of depth 20, caches evicted", "handler-cold/20", "cold", "onstack-rules", 6, 1000, "us",
        why="some 25 return addresses are each looked up in a table that is out of the inner caches (*cold* under Rule tables), "
        "several reads that wait for each other; that is about the difference to a new stack with warm caches.",
        plan="to fetch the caller's row while the frame's words are being read; to be measured before it is taken.",
    ),
    Aim("Go calling C, warm", "go-native/cgo", "warm", "go-host", 1, 1000, "us"),
    Aim(
        "Go calling wasmtime, warm", "go-wasmtime/compile", "warm", "go-wasmtime", 1, 1000, "us",
        why="the compiler's frames lie on many pages of its stack, which the kernel is asked about, two at a time.",
        plan="none: one process_vm_readv that touches several pages takes 3 to 10 times as long, and MADV_POPULATE_READ as long from 8 "
        "pages on.",
    ),
    Aim(
        "a sample with thirty frames of Python, warm", "python/30", "warm", "python-frames", 1.85, 1000, "us",
        why="1.5 us beside the interpreter's own frames is the aim, and one copy by the kernel takes 1.2: 3.11 needs three, the thread's "
        "state, its frames, and who called the loop.",
        plan="to ask for the state and the frames in one call, by where they lay at the sample before, and to read the caller of the loop "
        "as the stack that it lies on.",
    ),
    Aim("whole stacks without frame pointers", "exact/20", "exact", "onstack-rules", 99.9, 1, "%", True),
    Aim(
        "libc's table", "tables/libc.so.6", "derive", "rows4", 1, 1, "ms",
        why="half of the time (perf) makes a rule of the state at each row, looks it up among those that are known, and appends it; a fifth "
        "runs the CFI, and a fifth is page faults of fresh memory.",
        plan="to compare a row's state with the last one before it becomes a rule.",
    ),
    Aim(
        "libLLVM-14's table", "tables/libLLVM-14.so.1", "derive", "rows4", 25, 1, "ms",
        why="as libc's.",
        plan="as for libc's.",
    ),
    Aim(
        "libLLVM-14's table", "tables/libLLVM-14.so.1", "size", "rows4", 3, 1024, "MiB",
        why="a row of 4 bytes for each place at which the rule changes: prologues and epilogues have several.",
        plan="none yet.",
    ),
    Aim(
        "a pair of malloc(64) and free, nothing switched on", "heap/pair", "off-adds", "heap-onstack", 0.3, 1, "ns",
        why="the call goes through the preload: one jump and one look at a word for malloc, as many for free.",
        plan="nothing: a preloaded function is called so.",
    ),
    Aim("a pair of malloc(64) and free, a sample each 512 KiB", "heap/pair", "on-adds", "heap-onstack", 3, 1, "ns",
        why="nearly all of it is paid with nothing switched on, too (above): two calls go through the preload. A session adds a count of "
        "bytes to malloc, and to free a look at the table of marks.",
        plan="nothing for the calls.",
    ),
    Aim(
        "the same on 16 threads", "heap/pair-16", "on-adds", "heap-onstack", 3, 1, "ns",
        why="as above: of what threads share, the table that free looks at, most calls only read.",
        plan="as above.",
    ),
    Aim(
        "a sampled malloc under 30 frames", "heap/sampled", "sampled", "heap-onstack", 1, 1000, "us",
        why="five system calls are half of it: two that block signals and let them again, so that no handler nests over a claimed "
        "entry and none leaves the visit by a jump, and the questions whether pages of the stack can be read.",
        plan="to measure a visit that blocks nothing but leaves a mark for handlers.",
    ),
    Aim(
        "a sampled malloc under Go and C", "heap/go-sampled", "sampled", "heap-onstack", 1, 1000, "us",
        why="as above; and the goroutine's stack is another one than C runs on, so that its words are copied by the kernel until "
        "housekeeping knows its bounds, which change with each goroutine.",
        plan="to fetch several words of a goroutine's stack by one call.",
    ),
    Aim(
        "the profiler's memory, at 8,000 samples in use", "heap/held", "own-memory", "heap-onstack", 5.53, 1024, "MiB",
        why="the aim is 4 MiB and 200 bytes for each of them. The buffer has 1 MiB; the rest is the table of what is in use, and tables of rules.",
        plan="to count the parts.",
    ),
    Aim(
        "redis, a sample each 512 KiB", "heap/redis", "adds", "heap-onstack", 1, 1, "%",
        why="in runs of a second or two the library's own threads take some 2 % (schedstat): they derive tables, and save the profile "
        "while the program goes on. In a run five times as long it is 1 %. The rest is no more than the interval beside it.",
        plan="to save heap profiles less often.",
    ),
    Aim(
        "RocksDB, a sample each 512 KiB", "heap/rocksdb", "adds", "heap-onstack", 1, 1, "%",
        why="as redis.", plan="as for redis.",
    ),
    Aim(
        "Go + wasmtime, a sample each 512 KiB", "heap/go-service", "adds", "heap-onstack", 1, 1, "%",
        why="as redis.", plan="as for redis.",
    ),
    *(
        Aim(
            f"{title} at 99 Hz: the interval's lower end", f"whole/{program}", "least", "whole-onstack", 0.5, 1, "%",
            why=_SHORT_RUNS, plan=_LONGER_RUNS,
        )
        for program, title in (("postgresql", "PostgreSQL"), ("redis", "redis"), ("nginx", "nginx"), ("duckdb", "Go + DuckDB"),
                               ("axum", "axum"), ("clang", "clang"), ("javac", "javac"))
    ),
    Aim(
        "PostgreSQL with a process for each transaction: the interval's lower end", "whole/postgresql-connect", "least", "whole-onstack", 3, 1, "%",
        why="a child of fork costs 0.3 to 0.4 ms, and its parent 0.1 (measured by itself): a thread, some sixty pages that two processes have to "
        "copy, and the timer. PostgreSQL's child lives for 5 ms. The rest is the start, as above.",
        plan="nothing: a child without a thread could begin no session.",
    ),
    Aim("a command of a shell's loop", "whole/shell", "each", "whole-onstack", 1, 1, "ms"),
    Aim(
        "clang --version", "whole/clang-version", "each", "whole-onstack", 1, 1, "ms",
        why="it uses some 20 ms: a run with more than that, or with a tick, has a session: to look for Go in libraries of 100 MiB, to read "
        "the mappings, and to fill the buffer's pages (perf); names and the file follow where there was a tick.",
        plan="none yet.",
    ),
)

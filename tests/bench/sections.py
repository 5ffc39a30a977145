# SPDX-License-Identifier: MIT OR Apache-2.0
"""What stands on the page docs/BENCHMARKS.md: its tables, what each figure means, and the aims."""

from collections.abc import Callable
from dataclasses import dataclass

import remarks

CAPTIONS = {
    "onstack-rules": "**onstack** (default: rules)",
    "onstack-fp": "onstack, frame pointers",
    "onstack-pc-only": "onstack, PC only",
    "onstack-libunwind": "onstack with libunwind's walk",
    "pprof-rs-default": "pprof-rs, default",
    "pprof-rs-fp": "pprof-rs, frame-pointer",
    "pprof-rs-framehop": "pprof-rs, framehop",
    "gperftools": "gperftools, libunwind",
    "gperftools-fp": "gperftools, frame pointers",
    "framehop": "framehop, bare",
    "libunwind-context": "libunwind, bare: `unw_step`",
    "libunwind-backtrace": "libunwind, bare: `unw_backtrace`",
    "libgcc": "libgcc, bare: `_Unwind_Backtrace`",
    "go-onstack": "onstack, in a Go program",
    "go-pprof": "Go's runtime/pprof, in a Go program",
    "reference-1us": "*a handler that spins for 1 us*",
    "reference-itimer": "*a bare ITIMER_PROF counter*",
    "go-host": "**onstack** under Go",
    "go-pprof-host": "Go's runtime/pprof",
    "go-wasmtime": "**onstack** under Go",
    "python-native": "**onstack**, native frames",
    "python-frames": "**onstack**, with Python's frames",
    "whole-onstack": "**onstack**, preloaded",
    "whole-gperftools": "gperftools, preloaded",
    "heap-onstack": "**onstack**, over libc's malloc",
    "heap-jemalloc": "jemalloc's profiler",
    "heap-tcmalloc": "gperftools, sampling (tcmalloc)",
    "heap-gperftools": "gperftools, each allocation",
    "heap-heaptrack": "heaptrack, each allocation",
    "rows4": "**4 bytes a row (onstack)**",
    "rows4-coarse": "4 bytes, index of each 64 KiB",
    "rows8": "8 bytes, one search",
    "rows8-chunked": "8 bytes, index of each 64 KiB",
}
OURS = ("onstack-rules", "onstack-fp", "onstack-pc-only", "onstack-libunwind", "go-onstack", "go-host", "go-wasmtime", "python-native", "python-frames",
        "heap-onstack", "whole-onstack")
# Whose work is another: they are compared with ours in the same program.
HEAP_RIVALS = ("heap-jemalloc", "heap-tcmalloc", "heap-gperftools", "heap-heaptrack")
RIVALS = {"go-pprof": "go-onstack", "go-pprof-host": "go-host", "whole-gperftools": "whole-onstack",
          **dict.fromkeys(HEAP_RIVALS, "heap-onstack")}
# No profilers, or layouts of the same table: nothing to be ahead of.
NEUTRAL = ("reference-1us", "reference-itimer", "rows4", "rows4-coarse", "rows8", "rows8-chunked")

LESS, MORE, ONE, NEITHER = "less is better", "more is better", "1.00 is right", ""


@dataclass(frozen=True)
class Column:
    case: str
    metric: str
    title: str
    better: str = LESS
    divide: float = 1.0


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    columns: tuple
    remark: Callable | None = None  # lines made of the figures: what chance does
    noise: str = ""  # the subject whose spread is what the run cannot tell apart
    note: str = ""


def _costs(case, metric):
    return tuple(Column(f"{case}/{depth}", metric, f"depth {depth}, us", LESS, 1000) for depth in (20, 100))


IN_GO = (
    ("go-native/go20", "Go 20"),
    ("go-native/go100", "Go 100"),
    ("go-native/cgo", "Go-C"),
    ("go-native/nested", "Go-C-Go-C"),
    ("go-wasmtime/compile", "wasmtime"),
)

SECTIONS = (
    Section(
        "A sample, warm",
        "Time inside the signal handler for one sample, without delivery: 50 calls in a row on each tick, median of the last "
        "40. All code below has frame pointers. *Bare* unwinders run in a handler that does nothing else: no check of the "
        "memory that they read, no other threads, no overruns.",
        _costs("handler-cost", "warm"),
    ),
    Section(
        "A sample on a real tick",
        "The same handler, called once a tick at 250 Hz: what a program pays. The caches are partly cold, and these figures "
        "swing most with other load.",
        _costs("handler-cost", "tick"),
    ),
    Section(
        "The first sample of a stack",
        "Each tick meets a chain of functions without an earlier sample (8,192 generated functions). *Cold*: the program also "
        "reads 48 MiB before the tick, so that code, tables and stack are out of the inner caches.",
        (
            Column("handler-cold/20", "new", "new, depth 20, us", LESS, 1000),
            Column("handler-cold/20", "cold", "cold, depth 20, us", LESS, 1000),
            Column("handler-cold/100", "new", "new, depth 100, us", LESS, 1000),
            Column("handler-cold/100", "cold", "cold, depth 100, us", LESS, 1000),
        ),
    ),
    Section(
        "Whole stacks in code without frame pointers",
        "C by `gcc -O2`, RBP used for data: chains of 20 functions with a leaf in libc and a callback, interrupted anywhere. "
        "The true stack of every sample is known. *Exact*: all frames from the interrupted PC to `main`. *Truncated*: right as "
        "far as it goes. *No leaf*: it does not begin with the interrupted PC. *Wrong*: a caller is missing in the middle, or "
        "invented. Frames of the handler count against nobody.",
        (
            Column("exact/20", "exact", "exact, %", MORE),
            Column("exact/20", "truncated", "truncated, %", NEITHER),
            Column("exact/20", "no-leaf", "no leaf, %", NEITHER),
            Column("exact/20", "wrong", "wrong, %", LESS),
        ),
        note="What frame pointers get wrong here are missing callers, none invented. In a prologue or epilogue the frame pointer still leads "
        "to the record of a framed function further out; a walker without rules cannot see that callers between are missing. "
        "Where the frame pointer holds data the stack ends.",
    ),
    Section(
        "In Go and across languages, warm",
        "Go burning in Go under 20 and under 100 frames (of its own; nearly thirty of Go and C lie further out), Go calling C, Go "
        "calling C calling Go calling C, and Go calling wasmtime's compiler in Rust; below, the frames that were recorded. "
        "Of the profilers measured here only onstack follows C and Go in one stack; Go's own records the Go frames among them, at "
        "most 64. OpenTelemetry's eBPF profiler follows both since 2026, on x86_64 by the frame pointer that Go keeps across the "
        "change of stacks. It samples from outside of the process and needs privileges, and is not measured here.",
        tuple(Column(case, "warm", f"{title}, us", LESS, 1000) for case, title in IN_GO)
        + tuple(Column(case, "warm-frames", f"{title}: frames", NEITHER) for case, title in IN_GO),
    ),
    Section(
        "In Go and across languages, on a real tick",
        "The same, called once a tick.",
        tuple(Column(case, "tick", f"{title}, us", LESS, 1000) for case, title in IN_GO),
    ),
    Section(
        "In Python",
        "A loop thirty calls deep, in the system's Python: what its frames cost beside the interpreter's own. The kernel copies each "
        "piece of memory of the interpreter, which another thread could give back; on this machine a copy takes 1.2 us.",
        (
            Column("python/30", "warm", "warm, us", LESS, 1000),
            Column("python/30", "tick", "on a real tick, us", LESS, 1000),
            Column("python/30", "warm-frames", "frames", NEITHER),
        ),
    ),
    Section(
        "Weight",
        "CPU time that the profile accounts for, over the true CPU time of that many busy threads, 100 Hz, all alive for the "
        "whole session. Profilers without weights: samples x period. All but the last column were measured by themselves.",
        tuple(Column(f"weights/{n}", "weight", f"{n:,} thread{'s' if n > 1 else ''}", ONE) for n in (1, 8, 64, 1000))
        + (Column("short-threads", "weight", "threads of 20 ms", ONE),),
        remark=remarks.weights,
    ),
    Section(
        "In one process with Go's profiler",
        "A C program with Go linked in (c-archive): every order of start and stop once, two rounds, with the profiler in "
        "onstack's place, while two goroutines burn in Go (*pure*) or in C calls (*native*). *Crashed*: the process died. "
        "*Hung*: it took 8 s for some seconds' work. *Refused*: a start or stop returned an error, or the work stood still. "
        "*Keeps*: over the runs that ended, the sampled part of the CPU time over that of the same profiler alone; a profiler "
        "that crashes beside Go's threads alone has no such figure. Go's own profile of C calls swings by itself and is not "
        "compared. [MATRIX.md](MATRIX.md) has onstack in other kinds of hosts.",
        tuple(
            Column(f"coexist/{mix}", metric, f"{mix}: {title}", better, 100 if better == ONE else 1)
            for mix in ("pure", "native")
            for metric, title, better in (
                ("crashed", "crashed, %", LESS),
                ("hung", "hung, %", LESS),
                ("refused", "refused, %", LESS),
                ("go-keeps", "Go's profile keeps", ONE),
                ("own-keeps", "its own keeps", ONE),
            )
        ),
    ),
    Section(
        "Back on top",
        "Another handler is installed over onstack's 100 times in a busy process, at most six times a second; until onstack's is "
        "on top again. None of the other profilers measured here reinstalls its handler. onstack looks each 50 to 250 ms at a process "
        "that has only begun to work.",
        tuple(Column("displacement", metric, f"{metric}, ms") for metric in ("median", "p99", "longest")),
    ),
    Section(
        "From stop to flame graph",
        "A Rust program with debug information, 4 s at 250 Hz: from the end of sampling to the finished SVG in memory, and the "
        "memory that this takes at its peak. gperftools and Go write files, of which other programs make pictures.",
        (
            Column("flame-graph", "picture", "picture, ms"),
            Column("flame-graph", "peak", "memory, KiB"),
            Column("flame-graph", "stacks", "stacks", NEITHER),
        ),
    ),
    Section(
        "From stop to a finished profile",
        "A Go program, 4 s of CPU time at 250 Hz: from the end of sampling to the finished pprof file in memory, with names and "
        "inlined functions, and the memory that this takes at its peak.",
        (
            Column("finished-profile", "finished", "profile, ms"),
            Column("finished-profile", "peak", "memory, KiB"),
            Column("finished-profile", "stacks", "stacks", NEITHER),
        ),
    ),
    Section(
        "The whole program",
        "CPU time of the same work without, with and again without the profiler, in turns of 0.1 s; the middle against the mean "
        "of its neighbours, median over the turns. Most of it is the kernel's timer interrupt and signal delivery, as for the "
        "bare counter. The two in a Go program do Go's work.",
        (
            Column("overhead/99", "overhead", "99 Hz, %"),
            Column("overhead/250", "overhead", "250 Hz, %"),
        ),
        remark=remarks.overhead,
        noise=remarks.COUNTER,
    ),
    Section(
        "Programs of others",
        "CPU time that a preloaded profiler adds at 99 Hz to programs and their children: PostgreSQL under pgbench's select, with two "
        "connections, and with one for each transaction (*connect*: a process for each); redis under redis-benchmark; nginx, which "
        "compresses; Go that asks DuckDB; a service in Rust (axum); clang; javac. The same work with and without, both at once, each "
        "on a processor of its own, and then the other way round, ten times: mean of the twenty pairs (of gperftools' at least ten), and half "
        "of its 95 % interval. What a run takes once that hardly works is told apart: threads, the file. "
        "Runs take 0.2 to 1.5 s, so that rules and names of what is sampled weigh in them. Below it what each "
        "command of a shell's loop costs: `true`, and `clang --version`, which loads 100 MiB. gperftools leaves the children of a "
        "fork out.",
        tuple(
            Column(f"whole/{program}", metric, f"{title}{ending}", better)
            for program, title in (("postgresql", "PostgreSQL"), ("postgresql-connect", "connect"), ("redis", "redis"), ("nginx", "nginx"),
                                   ("duckdb", "Go + DuckDB"), ("axum", "axum"), ("clang", "clang"), ("javac", "javac"))
            for metric, ending, better in (("adds", ", %", LESS), ("interval", " +-", NEITHER), ("once", " once, ms", LESS))
        ) + tuple(
            Column(f"whole/{program}", metric, f"{title}{ending}", better)
            for program, title in (("shell", "true"), ("clang-version", "clang --version"))
            for metric, ending, better in (("each", ", ms", LESS), ("interval", " +-", NEITHER))
        ),
    ),
    Section(
        "Memory",
        "Resident memory that a running profiler adds: one second after the start, and after 5 s of CPU time at 250 Hz.",
        (
            Column("memory/start", "added", "after start, KiB"),
            Column("memory/busy", "added", "busy, KiB"),
        ),
    ),
    Section(
        "Start and stop",
        "The first start of a process (tables, self-tests), and later starts and stops, with one thread and with 64.",
        (
            Column("start-stop/1", "first-start", "first start, us"),
            Column("start-stop/1", "start", "start, us"),
            Column("start-stop/1", "stop", "stop, us"),
            Column("start-stop/64", "start", "start, 64 threads, us"),
            Column("start-stop/64", "stop", "stop, 64 threads, us"),
        ),
    ),
    Section(
        "Heap profiles: malloc and free",
        "What a heap profiler adds to a malloc(64) and its free, over the same allocator without it, each in a process of its own, in "
        "turns: with nothing switched on, and with a sample each 512 KiB; of one block, of the oldest of 64, and on 16 threads. Then "
        "what one sampled malloc takes under 30 frames of C, and under 15 of Go and 15 of C, where each is sampled; and the memory that "
        "is added for 512 MiB in blocks of 4 KiB with a sample each 64 KiB (some 8,000 samples in use). onstack and heaptrack "
        "work over libc's malloc here, the others bring their allocator. heaptrack and gperftools' profiler record each allocation.",
        (
            Column("heap/pair", "off-adds", "pair, off, ns"),
            Column("heap/pair", "on-adds", "pair, ns"),
            Column("heap/pair-of-64", "on-adds", "of 64, ns"),
            Column("heap/pair-16", "on-adds", "16 threads, ns"),
            Column("heap/sampled", "sampled", "sampled, us", LESS, 1000),
            Column("heap/go-sampled", "sampled", "sampled, Go-C, us", LESS, 1000),
            Column("heap/held", "own-memory", "memory, KiB"),
        ),
    ),
    Section(
        "Heap profiles: whole programs",
        "CPU time that a heap profiler adds, with a sample each 512 KiB (heaptrack: each allocation; gperftools' profiler of each "
        "allocation takes minutes for what the others do in seconds, and is left out): redis "
        "under redis-benchmark (Debian's redis brings jemalloc; onstack and heaptrack are measured over that), RocksDB's db_bench, "
        "and a Go program that compiles modules with wasmtime. The same work with and without, both at once, each on a "
        "processor of its own, and then the other way round: mean of the pairs, and half of its 95 % interval. What a run takes once, "
        "for start and end, is told apart (not of redis, which is measured between them): tables, names and the file of the profile, "
        "which jemalloc and tcmalloc do not write by themselves. What heaptrack writes is thrown away unread. These cells were measured by "
        "themselves, 40 seconds each.",
        tuple(
            Column(f"heap/{program}", metric, f"{title}{ending}", better)
            for program, title in (("redis", "redis"), ("rocksdb", "RocksDB"), ("go-service", "Go + wasmtime"))
            for metric, ending, better in (("adds", ", %", LESS), ("interval", " +-", NEITHER), ("once", " once, ms", LESS))
            if (program, metric) != ("redis", "once")
        ),
    ),
) + tuple(
    Section(
        f"Rule tables of {library}",
        "CPU time to derive onstack's table from .eh_frame, its size, and one look-up without the PC cache: of 64 addresses "
        "again and again, of 4,096 random ones, and of 20 random ones after 48 MiB have been read. The same rules in "
        "other layouts beside it.",
        tuple(
            Column(f"tables/{library}", metric, title)
            for metric, title in (
                ("derive", "derive, ms"),
                ("size", "size, KiB"),
                ("look-up-hot", "hot, ns"),
                ("look-up-random", "random, ns"),
                ("look-up-cold", "cold, ns"),
            )
        ),
    )
    for library in ("libc.so.6", "libLLVM-14.so.1")
)


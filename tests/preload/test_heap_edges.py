# SPDX-License-Identifier: MIT OR Apache-2.0
"""Heap profiles where allocation is unusual: large blocks, ends of threads and of the process, handlers, forks, C++, a loader
that allocates, and other allocators below or before the preload."""
import ctypes.util
import glob
import pathlib
import signal
import subprocess
import time

from harness import HEAP, LIBRARY, Run, Skip, built, case, check, equal, rarer
from test_heap import ALLOC_SPACE, INUSE_SPACE, LEAKS, account, books, counter, heap
from test_musl import musl

def edges(*flags, name="heap_edges"):
    return built(name, "heap_edges.c", *flags)


def as_without(chosen, preload=str(LIBRARY), below="", program=None):
    """Status and output with a heap profile, seldom and of each allocation, are those of the program alone."""
    program = program or edges()
    with Run(program, chosen, LD_PRELOAD=below) as alone:
        equal(alone.status, 0, f"the program alone ({alone.errors})")
    for rate in ("524288", "1"):
        with Run(program, chosen, LD_PRELOAD=preload, ONSTACK_PROFILE="out", ONSTACK_HEAP="1", ONSTACK_HEAP_RATE=rate) as run:
            equal((run.status, run.output, run.errors[:500]), (alone.status, alone.output, alone.errors), f"rate {rate}")
            check(run.profile().comments, "a profile")


@case
def heap_edges_memory_is_as_without():
    """Small blocks that come and go do not come to lie apart; large ones stay unmade, and move without a copy."""
    with Run(edges(), "large", ONSTACK_PROFILE="out", ONSTACK_HEAP="1", ONSTACK_HEAP_RATE="8192") as run:
        equal((run.status, run.errors), (0, ""), "status and errors")
        equal(run.output, "small blocks lie together\ngrowing took its own size\nzeroed memory is not there\n", "what it says")
        equal(run.profile().sum(INUSE_SPACE, "large_zeroed"), 512 << 20, "bytes in use of a large calloc")
    as_without("large")


@case
def heap_edges_destructors_of_threads_may_allocate():
    as_without("threads")


@case
def heap_edges_handlers_may_allocate_on_their_own_stack():
    as_without("handlers")
    with Run(edges(), "handlers", ONSTACK_PROFILE="out", ONSTACK_HEAP="1", ONSTACK_HEAP_RATE="1") as run:
        profile = run.profile()
        equal(profile.sum(ALLOC_SPACE, "handler_allocates"), handlers_allocate(profile), "bytes of the handler's")
        equal(profile.sum(ALLOC_SPACE, "handler_works"), profile.sum(ALLOC_SPACE, "handler_allocates"),
              "bytes that lead on into the code that was interrupted")


def handlers_allocate(profile):
    """Each signal's: 500 + SIGALRM, and 2000. There may be some more than are waited for."""
    calls, rest = divmod(profile.sum(ALLOC_SPACE, "handler_allocates"), 514 + 2000)
    check(calls >= 300 and rest == 0, f"{calls} calls of the handler, and {rest} bytes")
    return calls * (514 + 2000)


@case
def heap_edges_odd_requests_are_answered_as_without():
    as_without("odd")


@case
def heap_edges_forks_and_exec():
    as_without("forks")


@case
def heap_edges_the_process_ends():
    as_without("ends")


@case
def heap_edges_the_process_ends_inside_malloc():
    """Nobody waits for its lock: the profile is there, at once."""
    begun = time.monotonic()
    with heap_of(edges(), "breaks") as run:
        equal(run.status, 7, f"exit status ({run.errors})")
        equal(run.profile().sum(INUSE_SPACE, "before_the_end"), 1000, "bytes in use")
    check(time.monotonic() - begun < 4, f"{time.monotonic() - begun:.1f} s: it was waited for malloc")


@case
def heap_edges_saves_of_a_process_that_goes_on_do_not_ask_malloc():
    """Its answer takes the locks of all arenas."""
    with heap_of(edges(), "killed") as run:
        equal(run.status, -9, f"exit status ({run.errors})")
        parts = account(run.profile())
        equal(sum(parts.values()), 2 * parts["resident"], f"twice the resident size, in {parts}")
        check("native, in use, in the profile" in parts and "native, free in the allocator" not in parts, f"parts: {parts}")
    with heap_of(edges(), "ends") as run:
        # Of what little is resident here its free memory may find nothing left.
        said = {"native, free in the allocator", "native, in use, not in the profile"}
        check(said & set(account(run.profile())), "at the end it is asked")


@case
def heap_edges_a_loader_that_allocates_and_constructors_before_and_behind():
    library = built("heap_library.so", "heap_library.c", "-shared", "-fPIC")
    for order in (f"{LIBRARY}:{library}", f"{library}:{LIBRARY}"):
        for rate in ("524288", "1"):
            with Run(edges(), "ends", LD_PRELOAD=order, ONSTACK_PROFILE="out", ONSTACK_HEAP="1", ONSTACK_HEAP_RATE=rate) as run:
                equal((run.status, run.output, run.errors[:500]), (0, "at exit\n", "library: names were looked up\n"), order)
        with Run(edges(), "ends", LD_PRELOAD=order) as run:
            equal((run.status, run.output, run.errors), (0, "at exit\n", "library: names were looked up\n"), f"{order}, off")


NEW = {  # bytes a round: allocated and kept
    "new_plain": (400, 200), "new_array": (1200, 600), "new_nothrow": (400, 200), "new_sized": (1500, 500),
    "new_aligned": (2 * 192 + 8192 + 2 * 192, 192), "new_aligned_nothrow": (384, 192), "new_aligned_sized": (1024, 512),
    "new_by_library": (700 + 100 + 200 + 24, 0)}


@case
def heap_edges_every_form_of_new_and_delete():
    rounds = 500
    program = built("heap_new", "heap_new.cpp", "-faligned-new", compiler="g++", standard="c++17")
    with Run(program, rounds, LD_PRELOAD="") as alone, heap_of(program, rounds) as run:
        equal((run.status, run.output, run.errors), (0, alone.output, ""), "status, output and errors")
        profile = run.profile()
        equal(counter(profile, "onstack.stats", "dropped_ring_full"), 0, "samples that found no room")
        for function, (allocated, keeps) in NEW.items():
            books(profile, function, rounds, allocated, keeps)


def heap_of(program, *arguments, **variables):
    return Run(program, *arguments, ONSTACK_PROFILE="out", ONSTACK_HEAP="1", ONSTACK_HEAP_RATE="1", **variables)


def allocator(name):
    found = sorted(glob.glob(f"/usr/lib/*/lib{name}.so.*")) or [ctypes.util.find_library(name)]
    if not found[0]:
        raise Skip(f"lib{name} is not installed")
    return found[0]


def unseen(profile):
    lines = [text[len("onstack.unseen function="):] for text in profile.comments if text.startswith("onstack.unseen ")]
    return dict(line.split(" path=") for line in lines)


@case
def heap_edges_functions_that_allocate_past_malloc_are_named():
    for name, functions in ("jemalloc", {"operator new"}), ("tcmalloc", {"operator new", "tc_malloc"}):
        other = allocator(name)
        with heap_of(edges(), "ends", LD_PRELOAD=f"{LIBRARY}:{other}") as run:
            equal(run.status, 0, f"exit status ({run.errors})")
            equal(unseen(run.profile()), dict.fromkeys(functions, other), f"said of {name}")
    with heap_of(built("heap_new", "heap_new.cpp", "-faligned-new", compiler="g++", standard="c++17"), 1) as run:
        equal(unseen(run.profile()), {}, "said of libstdc++, whose operator new calls malloc")


@case
def heap_edges_an_allocator_that_is_linked_in_is_named():
    program = built("heap_hidden", "heap_hidden.c")
    stripped = pathlib.Path(f"{program}.stripped")
    with heap_of(program) as run:
        equal((run.status, run.errors), (0, ""), "status and errors")
        equal(unseen(run.profile()), {"shop_je_malloc": str(program)}, "said of a hidden malloc")
    rust = built("heap_hidden_mi", "heap_hidden.c", "-DALLOCATE=mi_malloc_aligned")
    with heap_of(rust) as run:
        equal(unseen(run.profile()), {"mi_malloc_aligned": str(rust)}, "said of mimalloc as Rust programs have it")
    with heap_of(program, "out") as run:
        equal(run.status, -signal.SIGKILL, "status")
        equal(unseen(run.profile()), {"shop_je_malloc": str(program)}, "said of a program that is killed")
    subprocess.run(["strip", "-o", stripped, program], check=True)
    with heap_of(stripped) as run:
        equal(unseen(run.profile()), {}, "said of a program without symbols")


def above(name):
    """The other allocator does the work, and the books are exact all the same."""
    rounds = 300
    other = allocator(name)
    with heap(rounds, 0, "plain", rate=1, LD_PRELOAD=f"{LIBRARY}:{other}") as run:
        equal(run.status, 0, f"exit status ({run.errors})")
        profile = run.profile()
        equal(counter(profile, "onstack.stats", "dropped_ring_full"), 0, "samples that found no room")
        for function, allocated, kept in LEAKS:
            books(profile, function, rounds, allocated, kept)
    for chosen in ("large", "threads", "ends"):
        as_without(chosen, f"{LIBRARY}:{other}", other)


def below(name):
    """Then nothing would be seen: a line instead, and the program is as without."""
    other = allocator(name)
    refused(edges(), "ends", other, LD_PRELOAD=f"{other}:{LIBRARY}")


def refused(program, argument, who, **variables):
    with Run(program, argument, ONSTACK_PROFILE="out", ONSTACK_HEAP="1", **variables) as run:
        equal((run.status, run.output, run.names), (0, "at exit\n", []), "status, output and files")
        lines = run.errors.splitlines()
        check(len(lines) == 1 and lines[0].startswith(f"onstack: ONSTACK_HEAP=1: malloc is that of {who}"), f"errors: {run.errors!r}")
    with Run(program, argument, ONSTACK_PROFILE="out", **variables) as run:
        equal((run.status, run.output, run.errors), (0, "at exit\n", ""), "with a profile of CPU time")


@rarer
def heap_edges_above_jemalloc():
    above("jemalloc")


@rarer
def heap_edges_above_tcmalloc():
    above("tcmalloc")


@rarer
def heap_edges_behind_jemalloc_nothing_would_be_seen():
    below("jemalloc")


@rarer
def heap_edges_behind_tcmalloc_nothing_would_be_seen():
    below("tcmalloc")


@rarer
def heap_edges_a_program_at_fixed_addresses():
    """Where it takes malloc's address, that is in the program; calls lead here all the same, or to who comes first."""
    program = built("heap_address", "heap_address.c", "-fno-pie", "-no-pie")
    with heap_of(program) as run:
        equal((run.status, run.output, run.errors), (0, "at exit\n", ""), "status, output and errors")
        check(sum(values[INUSE_SPACE] for values in run.profile().values) >= 300 * 1000, "bytes in use")
    refused(program, "", allocator("jemalloc"), LD_PRELOAD=f"{allocator('jemalloc')}:{LIBRARY}")


@case
def heap_edges_address_sanitizer():
    """Its malloc in the program itself is refused; as a library it ends the program by itself, whatever is preloaded."""
    inside = edges("-fsanitize=address", "-static-libasan", name="heap_asan_static")
    refused(inside, "ends", inside, ASAN_OPTIONS="detect_leaks=0")
    library = edges("-fsanitize=address", name="heap_asan")
    with Run(library, "ends", ONSTACK_PROFILE="out", ONSTACK_HEAP="1") as run:
        check(run.status != 0 and "ASan runtime does not come first" in run.errors, f"status {run.status}: {run.errors}")
        equal(run.names, [], "files")
    with Run(library, "ends", ONSTACK_PROFILE="out", ONSTACK_HEAP="1", ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0") as run:
        equal((run.status, run.output, run.errors), (0, "at exit\n", ""), "where it is told to bear that")


@rarer
def heap_edges_another_libc():
    rounds = 300
    built_with = musl("heap.c")
    with heap_of(built_with, rounds, 4) as run:
        equal((run.status, run.output, run.errors), (0, f"{4 * rounds}\n", ""), "status, output and errors")
    with heap_of(built_with, rounds) as run:
        profile = run.profile()
        for function, allocated, kept in LEAKS:
            books(profile, function, rounds, allocated, kept)
    program = musl("heap_edges.c")
    for chosen in ("large", "threads", "handlers", "ends"):
        as_without(chosen, program=program)

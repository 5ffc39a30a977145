# SPDX-License-Identifier: MIT OR Apache-2.0
"""Heap profiles by the preload, against a program whose counts are exact."""
from harness import HEAP, Run, built, case, check, equal, one_line

ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE = range(4)


def heap(*arguments, rate, **variables):
    return Run(HEAP, *arguments, ONSTACK_PROFILE="out", ONSTACK_HEAP="1", ONSTACK_HEAP_RATE=str(rate), **variables)


def counter(profile, line, key):
    words = next(text for text in profile.comments if text.startswith(line)).split()
    return int(next(word for word in words if word.startswith(key + "=")).split("=")[1])


LEAKS = (("leak_malloc", 1000, 0), ("leak_calloc", 1000, 1000), ("leak_realloc", 1010, 0))  # bytes a round: allocated, kept


def books(profile, function, rounds, allocated, kept, blocks=1):
    """Exact, but for blocks in use at an address at which more have ended than the consumer takes in a round: they are counted."""
    untracked = counter(profile, "onstack.heap", "untracked")
    equal(profile.sum(ALLOC_SPACE, function), allocated * rounds, f"bytes that {function} allocated")
    inuse, objects = profile.sum(INUSE_SPACE, function), profile.sum(INUSE_OBJECTS, function)
    least = max(0, rounds * blocks - untracked) if kept else 0
    check(least <= objects <= (rounds * blocks if kept else 0), f"blocks in use of {function}: {objects}, untracked {untracked}")
    equal(inuse, objects * kept // blocks, f"bytes in use of {function}")


@case
def heap_books_are_exact_where_each_allocation_is_counted():
    rounds = 500
    with heap(rounds, rate=1) as run:
        equal(run.status, 0, f"exit status ({run.errors})")
        profile = run.profile()
        equal(counter(profile, "onstack.stats", "dropped_ring_full"), 0, "samples that found no room")
        for function, allocated, kept in (*LEAKS, ("leak_aligned", 1000 + 8192 + 700 + 700, 1000), ("ends_by_size", 1000 + 1024, 0)):
            books(profile, function, rounds, allocated, kept)
        rooted = sum(values[ALLOC_SPACE] for values, sample in zip(profile.values, profile.samples) if "main" in sample[2])
        check(rooted >= 0.99 * profile.sum(ALLOC_SPACE), f"{rooted} bytes of {profile.sum(ALLOC_SPACE)} lead to main")


@case
def heap_blocks_of_many_threads_end():
    with heap(100, 8, rate=2000) as run:
        equal(run.status, 0, f"exit status ({run.errors})")
        profile = run.profile()
        lost = counter(profile, "onstack.stats", "dropped_ring_full")
        equal(profile.sum(INUSE_SPACE, "thread"), 0, "bytes in use that threads have freed")
        equal(profile.sum(INUSE_SPACE, "key_ends"), 0, "bytes in use of destructors of thread-local data")
        wanted = 8 * 3000 * (500 + 3000 + 100 + 5)
        found = profile.sum(ALLOC_SPACE, "thread")
        # 43,000 samples: half a per cent is one standard deviation
        check(lost > 0 or abs(found - wanted) < 0.03 * wanted, f"{found} bytes of {wanted}")


def account(profile):
    """The parts of the process's memory, in bytes."""
    lines = [text[len("onstack.memory bytes="):] for text in profile.comments if text.startswith("onstack.memory ")]
    return {part: int(number) for number, part in (line.split(" of=", 1) for line in lines)}


@case
def heap_account_adds_up_to_the_resident_size():
    with heap(5000, rate=4096) as run:
        equal(run.status, 0, f"exit status ({run.errors})")
        parts = account(run.profile())
        whole = parts.pop("resident")
        equal(sum(parts.values()), whole, f"the sum of the parts {parts}")
        check(parts["unexplained"] * 20 <= whole, f"unexplained: {parts['unexplained']} of {whole}")
        # Half of 4 x 5,000 blocks of 1,000 bytes; 2,400 samples.
        native = sum(bytes for part, bytes in parts.items() if part.startswith("native, in use"))
        check(native >= 10_000_000 * 0.8, f"{native} bytes of native memory in use")


@case
def heap_blocks_that_are_young_do_not_count_as_in_use():
    with heap(500, rate=1, ONSTACK_HEAP_AGE="3600") as run:
        equal(run.status, 0, f"exit status ({run.errors})")
        equal(run.profile().sum(INUSE_SPACE), 0, "bytes in use for an hour")
        check(run.profile().sum(ALLOC_SPACE, "leak_malloc") == 500 * 1000, "bytes that were allocated")
    with heap(500, rate=1, ONSTACK_HEAP_AGE="0") as run:
        # Where many ends at one address wait for the consumer, a block beside them may find no place (docs/MEMORY.md).
        found = run.profile().sum(INUSE_SPACE, "leak_calloc")
        check(490 * 1000 <= found <= 500 * 1000, f"{found} bytes in use of 500,000")


@case
def heap_has_what_the_first_line_allocates():
    with Run(built("heap_first", "heap_first.c"), ONSTACK_PROFILE="out", ONSTACK_HEAP="1") as run:
        equal((run.status, run.errors), (0, ""), "status and errors")
        equal(run.profile().sum(INUSE_SPACE, "load_table") >> 20, 64, "MiB in use of the first function")


@case
def heap_of_every_child_is_its_own():
    with Run(HEAP, 50, ONSTACK_PROFILE="out.%p", ONSTACK_HEAP="1", ONSTACK_HEAP_RATE="1") as run:
        equal(run.status, 0, f"exit status ({run.errors})")
        parent = max(run.profiles(), key=lambda profile: profile.sum(ALLOC_SPACE, "leak_malloc"))
        equal(parent.sum(INUSE_SPACE, "leak_calloc"), 50 * 1000, "in use in the parent, whose child has freed its copies")


@case
def heap_settings_that_are_wrong_are_refused():
    for variables, word in (({"ONSTACK_HEAP": "yes"}, "ONSTACK_HEAP=yes"), ({"ONSTACK_HEAP_RATE": "0"}, "ONSTACK_HEAP_RATE=0"),
                            ({"ONSTACK_HEAP_AGE": "1.5"}, "ONSTACK_HEAP_AGE=1.5"),
                            ({"ONSTACK_CLOCK": "cpu"}, "ONSTACK_HEAP=1")):
        settings = {"ONSTACK_PROFILE": "out", "ONSTACK_HEAP": "1", **variables}
        with Run(HEAP, 1, **settings) as run:
            equal(run.status, 0, "exit status")
            one_line(run, word, "not profiled")
            equal(run.names, [], "files")


@case
def heap_switched_off_changes_nothing():
    with Run(HEAP, 100, 4, ONSTACK_PROFILE="out", ONSTACK_HEAP="0") as run:
        equal((run.status, run.output, run.errors), (0, "400\n", ""), "what it says")
        check(not any("inuse" in text for text in run.profile().comments), "no heap in a profile of CPU time")
    with Run(HEAP, 100, 4) as run:
        equal((run.status, run.output, run.names), (0, "400\n", []), "what it says without a profile")

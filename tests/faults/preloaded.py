#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The n-th failure of each system call and allocation that the preloaded library makes: n = 1, 2, ... until none is left,
each once and as the first of a lasting failure. Which calls there are is learnt from a run.

The program (host.c) ends as it does alone; there is a whole profile, or a line that says why there is none; the counters
add up; no part of a file is left.

Usage: tests/faults/preloaded.py [heap] [all] [CALL ...]    heap: of a heap profile, in host-heap
                                                            all: every n and every end; else n up to 4, and then 8, 16, ...
77: no seccomp notifications here
"""
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "preload"))
sys.dont_write_bytecode = True

from profiles import Profile

BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
OUT = BUILD / "tests" / "faults"
LIBRARY = BUILD / "lib" / "libonstack-preload.so"
ENDS = {"return": 7, "_exit": 7, "pthread_exit": 0}  # and the status, both of host.c
EACH = 4  # of the calls that come first, all
MOST = 4096  # far above the calls that a run makes: who comes so far has no end, and that is a failure
HOST = "host-heap" if "heap" in sys.argv[1:] else "host"
SECONDS = (0.03, 0.3, 2)  # of work; the later ones where a starved machine ended the program before a sample came
MUST_FAIL = {"host": ("mmap", "timer_create", "rt_sigaction", "clone3", "openat", "write", "allocations"),
             "host-heap": ("mmap", "clone3", "openat", "write")}

# injected: how many calls failed; said: lines on stderr; complaint: "" if all was as it should be
Result = collections.namedtuple("Result", "injected profile said complaint")


class Wrong(Exception):
    """What a run must not do."""


class Empty(Wrong):
    """No sample, as where the program is over before the library has begun."""


def failing(directory, seconds, end, *how):
    """The program under the library; only the program: LD_PRELOAD is set behind the one that makes calls fail."""
    settings = [f"LD_PRELOAD={LIBRARY}", "ONSTACK_PROFILE=out", "ONSTACK_STATUS=status"]
    settings += ["ONSTACK_HEAP=1", "ONSTACK_HEAP_RATE=200000"] if HOST == "host-heap" else ["ONSTACK_FREQUENCY=1000"]
    command = [OUT / "failing", *how, ENDS[end], "env", *settings, OUT / HOST, seconds, end]
    done = subprocess.run([str(part) for part in command], cwd=directory, stdin=subprocess.DEVNULL, check=False,
                          capture_output=True, timeout=120)
    if done.returncode == 77:
        raise SystemExit(done.stderr.decode())
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def check(condition, text, kind=Wrong):
    if not condition:
        raise kind(text)


def counters(path):
    found = dict(re.findall(r"(\w+)=(\d+)", path.read_text().splitlines()[0]))
    return {name: int(value) for name, value in found.items()}


def check_accounting(directory, profile):
    stats = counters(directory / "status")
    lost = sum(stats[name] for name in stats if name.startswith("dropped_") and name != "dropped_sink")
    check(stats["ticks"] == stats["recorded"] + stats["unattributed"] + lost, f"the accounting does not close: {stats}")
    if profile and stats["dropped_sink"] == 0:
        found = sum(ticks for ticks, _, _ in profile.samples)
        check(found == stats["recorded"], f"{found} ticks in the profile, {stats['recorded']} recorded")


def read_profile(directory):
    try:
        return Profile(directory / "out") if (directory / "out").exists() else None
    except Exception as broken:  # whatever a broken file makes the reader stumble over
        raise Wrong(f"the profile is broken: {broken!r}") from broken


# Who can never write, or look at what it writes to, or open it, says nothing. Where a mask is not put back, no tick is let through.
MUTE = ("write", "newfstatat", "fstat")
BLIND = ("rt_sigprocmask",)


def check_run(directory, mute, blind, output, errors):
    """Returns whether there is a profile, and what was said."""
    lines = errors.splitlines()
    names = {entry.name for entry in directory.iterdir()}
    check(output == "done\n", f"its output is {output!r}")
    check(names <= {"out", "status"}, f"left: {sorted(names)}")
    check(len(lines) <= 2 and all(re.match(r"onstack: .{15}", line) for line in lines), f"it says {errors!r}")
    profile = read_profile(directory)
    if "status" in names:
        check_accounting(directory, profile)
    if not lines and not mute:
        check(profile, "neither a profile nor a word")
        check(profile.samples or blind, "an empty profile, and not a word", Empty)
        check("status" in names or not profile.samples, "no counters, and not a word")
    return profile is not None, lines


def attempt(call, n, always, end, seconds):
    with tempfile.TemporaryDirectory(dir=OUT, prefix="case-") as name:
        output, errors = failing(name, seconds, end, call, n, "always" if always else "once")
        output, _, verdict = output.rstrip("\n").rpartition("\n")
        injected, _, complaint = verdict.split(" ", 2)
        try:
            check(not complaint, complaint)
            profile, said = check_run(pathlib.Path(name), always and call in MUTE, call in BLIND, output + "\n", errors)
            return Result(int(injected), profile, said, ""), False
        except Wrong as wrong:
            return Result(int(injected), False, [], str(wrong)), isinstance(wrong, Empty)


def run(call, n, always, end):
    for seconds in SECONDS:
        result, empty = attempt(call, n, always, end, seconds)
        if not empty:
            break
    what = f"{call}, failure {n}{' and all later ones' if always else ''}, end {end}"
    return result._replace(complaint=result.complaint and f"FAILED: {what}: {result.complaint}")


def every(call, thorough):
    """The n at which it ended, and all runs in which it failed or something was wrong."""
    n, results, some = 1, [], list(ENDS)
    while n <= MOST and sum(result.complaint != "" for result in results) < 8:
        ways = [(always, end) for always in (False, True)
                for end in (some if thorough else [some[(n + always) % len(some)]])]
        found = [result for result in (run(call, n, *way) for way in ways) if result.injected or result.complaint]
        results += found
        if not found:
            break
        n = n + 1 if thorough or n < EACH else 2 * n
    if n > MOST:
        results.append(Result(0, False, [], f"FAILED: {call}: {MOST} calls and more, not all of them tried"))
    return call, n, results


def report(call, n, results):
    name = f"{call:18} up to {n:2}:"
    print(f"{name} {len(results):3} runs, {sum(result.profile for result in results):3} profiles")
    said = collections.Counter(re.sub(r": /\S+:", ":", line) for result in results for line in result.said)
    for line, times in said.items():
        print(f"{name} {times:3} times: {line}")
    for result in results:
        if result.complaint:
            print(result.complaint)
    sys.stdout.flush()


def learn():
    with tempfile.TemporaryDirectory(dir=OUT) as directory:
        output, errors = failing(directory, SECONDS[0], "return", "calls")
    kinds = [line.split("\t") for line in output.splitlines() if "\t" in line]
    if errors or not kinds:
        print(f"FAILED: without a failure it says {errors!r}, and calls are {kinds}")
        sys.exit(1)
    for call, _, reason in kinds:
        if reason:
            print(f"{call:18} not made to fail: {reason}")
    own = ["allocations"] if HOST == "host" else []  # where the program's malloc is ours
    return own + [call for call, _, reason in kinds if not reason]


def main():
    only = [word for word in sys.argv[1:] if word not in ("all", "heap")]
    thorough = "all" in sys.argv[1:]
    calls = only or learn()
    results = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for call, n, found in pool.map(lambda call: every(call, thorough), calls):
            report(call, n, found)
            results[call] = found
    every_run = [result for found in results.values() for result in found]
    failed = sum(result.complaint != "" for result in every_run)
    injected = sum(result.injected > 0 for result in every_run)
    missed = [call for call in only or MUST_FAIL[HOST] if not any(result.injected for result in results.get(call, []))]
    if missed:
        print("FAILED: never failed:", *missed)
    print(f"preloaded{' (heap)' if HOST == 'host-heap' else ''}: {injected} runs with a failure in the library, of {len(results)} kinds of calls; {failed} failed")
    sys.exit(1 if failed or missed else 0)


try:
    main()
except SystemExit as end:
    if isinstance(end.code, int):
        raise
    print(end.code.strip())
    sys.exit(77)

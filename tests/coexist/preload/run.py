#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The preload as one more copy: in a C program over a Go c-archive with the C library linked in, and in the Go program
with three copies of its own. Usage: run.py BUILD   (where the matrix's c-archive, `copies` and its plugin are built)"""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean
sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "matrix"))

import checker

HERTZ = 400
ORDERS = (  # the host's steps, and the shares that the profiles alone would have
    ("around", "O+ w:300 G+ w:600 G- w:300 O-"),
    ("inside", "G+ w:300 O+ w:600 O- w:300 G-"),
    ("left-straddling", "O+ w:300 G+ w:600 O- w:300 G-"),
    ("right-straddling", "G+ w:300 O+ w:600 G- w:300 O-"),
    ("two-after", "O+ w:300 O- G+ w:600 G- G+ w:300 G-"),
)
failures = 0


def check(good, name, text):
    global failures
    failures += not good
    print(f"{'ok' if good else 'not ok'} preload, {name}: {text}", flush=True)


def run(build, command, directory):
    """Standard output, the preload's counters, and the CPU seconds of the process."""
    status = Path(directory, "status")
    environment = dict(
        os.environ,
        LD_PRELOAD=str(build / "lib/libonstack-preload.so"),
        ONSTACK_PROFILE=str(Path(directory, "profile.pb.gz")),
        ONSTACK_FREQUENCY=str(HERTZ),
        ONSTACK_STATUS=str(status),
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=150)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode != 0:
        raise RuntimeError(f"exit status {ended.returncode}: {ended.stdout[-1000:]}")
    counters = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", status.read_text())}
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ended.stdout, counters, cpu


def shares(name, events, counters, cpu):
    theirs_cpu = theirs = ours_cpu = ours = 0
    for first, last in checker.windows(events, "G+", "G-"):
        theirs_cpu += checker.cpu_ms(events[first], events[last]) / 1e3
        theirs += events[last]["result"] / 100
    for first, last in checker.windows(events, "O+", "O-"):
        counted = events[last]["ours"]
        ours_cpu += checker.cpu_ms(events[first], events[last]) / 1e3
        ours += counted["ticks"] * counted["period"] / 1e9
    parts = theirs / theirs_cpu, ours / ours_cpu, counters["ticks"] / HERTZ / cpu
    check(
        0.7 < parts[0] < 1.15 and 0.85 < parts[1] < 1.1 and 0.85 < parts[2] < 1.1,
        f"c-archive, {name}",
        "of the CPU time Go's profile has {:.3f}, the library's {:.3f}, the preload's {:.3f}".format(*parts),
    )


def main():
    build = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as directory:
        for name, steps in ORDERS:
            command = [str(build / "matrix/c-archive"), "pure", "L+", *steps.split(), "L-", "H"]
            try:
                out, counters, cpu = run(build, command, directory)
                shares(name, json.loads(out)["events"], counters, cpu)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                check(False, f"c-archive, {name}", str(error))
        try:
            out, counters, cpu = run(build, [str(build / "coexist/copies"), str(build / "coexist/newer-plugin.so")], directory)
            print(re.sub(r"^(ok|not ok) copies", r"\1 preload and copies", out, flags=re.M), end="")
            share = counters["ticks"] / HERTZ / cpu
            check(0.85 < share < 1.1, "beside three copies", f"{share:.3f} of the CPU time")
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            check(False, "beside three copies", str(error))
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())

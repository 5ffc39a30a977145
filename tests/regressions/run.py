#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""How often `onstack diff --fail-above` finds a slowdown of 3, 5 and 10 % that was put into a Go benchmark, and how often it
accuses the same program. By real recordings of some three seconds, of which sides of ten are drawn at random.

Usage: tests/regressions/run.py [RECORDINGS]     of each program (20, ten minutes; of the unchanged one twice as many)
Called by `make regressions`, and not by `make test`: what is found depends on how quiet the machine is.
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
COMMAND = pathlib.Path(os.environ.get("ONSTACK", BUILD / "rust/debug/onstack"))
PRELOAD = BUILD / "lib/libonstack-preload.so"
SIDE = 10
DRAWS = 200
OPERATIONS = 300_000
LIMIT = 1.5  # percent: half of the smallest slowdown

CODE = """package work

import ("os"; "strconv"; "testing")

var slower, _ = strconv.ParseFloat(os.Getenv("SLOWER"), 64) // percent of the whole, all of it in parse
var sink int

//go:noinline
func parse(n int) (sum int) { for i := 0; i < n; i++ { sum += i * i % 7 }; return sum }

//go:noinline
func render(n int) (sum int) { for i := 0; i < n; i++ { sum += i * i % 7 }; return sum }

//go:noinline
func store(n int) (sum int) { for i := 0; i < n; i++ { sum += i * i % 7 }; return sum }

func BenchmarkPage(b *testing.B) {
	more := int(slower * 100)
	for i := 0; i < b.N; i++ { sink += parse(3000 + more) + render(5000) + store(2000) }
}
"""


def build(place):
    subprocess.run(["go", "test", "-c", "-ldflags=-linkmode=external", "-o", "work.test"], cwd=place, check=True)


def record(place, name, recordings, slower):
    """The profiles of a program, in the order in which they were taken. All runs do the same number of operations."""
    environment = dict(os.environ, SLOWER=str(slower), ONSTACK_PRELOAD=str(PRELOAD))
    profiles = [place / f"{name}-{number}.pb.gz" for number in range(recordings)]
    for profile in profiles:
        subprocess.run([COMMAND, "record", "--quiet", "-F", "997", "-o", profile, "--", place / "work.test", "-test.run=^$", "-test.bench=.",
                        f"-test.benchtime={OPERATIONS}x"], cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)
    return profiles


def accused(before, after, limit):
    more = [word for option, profiles in (("--before", before), ("--after", after)) for profile in profiles[1:] for word in (option, profile)]
    done = subprocess.run([COMMAND, "diff", "--fail-above", f"{limit}%", *more, before[0], after[0]], capture_output=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr.decode())
    return done.returncode == 3


def main():
    recordings = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(dir=BUILD) as work:
        place = pathlib.Path(work)
        (place / "go.mod").write_text("module example.com/work\ngo 1.22\n")
        (place / "work_test.go").write_text(CODE)
        build(place)
        same = record(place, "same", recordings, 0) + record(place, "again", recordings, 0)
        alarms = 0
        for _ in range(DRAWS):
            drawn = chance.sample(same, 2 * SIDE)
            alarms += accused(drawn[:SIDE], drawn[SIDE:], LIMIT)
        print(f"the same program: {alarms} false alarms in {DRAWS} comparisons of {SIDE} and {SIDE} recordings", flush=True)
        for slower in (3, 5, 10):
            profiles = record(place, f"slower-{slower}", recordings, slower)
            found = sum(accused(chance.sample(same, SIDE), chance.sample(profiles, SIDE), LIMIT) for _ in range(DRAWS // 2))
            print(f"{slower} % slower: found in {found} of {DRAWS // 2} comparisons", flush=True)


main()

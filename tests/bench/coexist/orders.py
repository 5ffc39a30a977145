#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Every order of the coexistence matrix (tests/matrix/cells.py) once, with a neighbour in onstack's place, in a C program with
Go linked in: orders.py PROGRAM VARIANT CASE mix=MIX. Prints figures as the benchmark's programs do.
"""

import json
import sys
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "matrix"))

import cells
import checker
import programs

PATIENCE = 8  # seconds; one that ends takes two
HOST = next(host for host in cells.HOSTS if host.name == "c-archive")
ENDED, CRASHED, HUNG, REFUSED = "ended", "crashed", "hung", "refused"
# What its programs end with: Go's own fatal errors are an exit with 2, a step that returns an error one with 1.
FATAL, STEP_FAILED = "exit 2", "exit 1"


def shares(events):
    """(sampled, burnt) in ms of Go's profile and of the neighbour's."""
    go, own = [0, 0], [0, 0]
    for first, last in checker.windows(events, "G+", "G-"):
        go[0] += events[last]["result"] * checker.THEIR_PERIOD_MS
        go[1] += checker.cpu_ms(events[first], events[last])
    for first, last in checker.windows(events, "O+", "O-"):
        own[0] += events[last]["sampled_ms"]
        own[1] += checker.cpu_ms(events[first], events[last])
    return go, own


def kind_of_end(text):
    """The name of an end that was none, from what programs.RunFailed says."""
    if text.startswith("hung"):
        return HUNG
    return REFUSED if text.startswith(STEP_FAILED) else CRASHED


def run(program, variant, mix, order):
    """How the process ended, and the two shares if it came to its end."""
    cell = cells.Cell(HOST, mix, order, cells.LIVE)
    try:
        return ENDED, shares(programs.run_program([program, variant, mix, *cell.steps(True)], PATIENCE))
    except programs.RunFailed as error:
        print(f"{mix}, {order.name}: {str(error).splitlines()[0]}", file=sys.stderr)
        return kind_of_end(str(error)), None


def part(pairs):
    sampled, burnt = (sum(values) for values in zip(*pairs, (0, 0)))
    return sampled / burnt if burnt else 0


def emit(metric, unit, value):
    print(json.dumps({"metric": metric, "unit": unit, "value": value}))


def emit_kept(mix, alone, ended):
    # Go's own profile of a mix with C calls swings between nothing and all by itself: there is nothing to keep.
    for which, name in enumerate(("go", "own")):
        whole = part([result[which] for result in alone])
        if whole and ended and not (name == "go" and mix in cells.ERRATIC):
            emit(f"{name}-keeps", "%", 100 * part([result[which] for result in ended]) / whole)


def main():
    program, variant, setting = sys.argv[1], sys.argv[2], sys.argv[-1]
    mix = setting.removeprefix("mix=")
    baselines = (cells.GO_ALONE, cells.OURS_ALONE)
    alone = [result for _, result in (run(program, variant, mix, order) for order in baselines) if result]
    results = [run(program, variant, mix, order) for order in cells.ORDERS]
    ends = Counter(end for end, _ in results)
    for name in (ENDED, CRASHED, HUNG, REFUSED):
        emit(name, "%", 100 * ends[name] / len(results))
    emit_kept(mix, alone, [result for _, result in results if result])


if __name__ == "__main__":
    main()

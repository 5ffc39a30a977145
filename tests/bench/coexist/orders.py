#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Every order of the coexistence matrix (tests/matrix/cells.py) once, with a neighbour in onstack's place, in a C program with
Go linked in: orders.py PROGRAM VARIANT. Prints figures as the benchmark's programs do.
"""

import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "matrix"))

import cells
import judge
import programs

MIX, PATIENCE = "pure", 20
HOST = next(host for host in cells.HOSTS if host.name == "c-archive")


def shares(events):
    """(sampled, burnt) in ms of Go's profile and of the neighbour's."""
    go, own = [0, 0], [0, 0]
    for first, last in judge.windows(events, "G+", "G-"):
        go[0] += events[last]["result"] * judge.THEIR_PERIOD_MS
        go[1] += judge.cpu_ms(events[first], events[last])
    for first, last in judge.windows(events, "O+", "O-"):
        own[0] += events[last]["sampled_ms"]
        own[1] += judge.cpu_ms(events[first], events[last])
    return go, own


def run(program, variant, order):
    """The two shares, or None when the process did not come to its end."""
    cell = cells.Cell(HOST, MIX, order, cells.LIVE)
    try:
        return shares(programs.run_program([program, variant, MIX, *cell.steps(True)], PATIENCE))
    except programs.RunFailed as error:
        print(f"{order.name}: {str(error).splitlines()[0]}", file=sys.stderr)
        return None


def part(pairs):
    sampled, burnt = (sum(values) for values in zip(*pairs, (0, 0)))
    return sampled / burnt if burnt else 0


def emit(metric, unit, value):
    print(json.dumps({"metric": metric, "unit": unit, "value": value}))


def main():
    program, variant = sys.argv[1:3]
    alone = [result for result in (run(program, variant, order) for order in cells.BASELINES) if result]
    ended = [result for result in (run(program, variant, order) for order in cells.ORDERS) if result]
    emit("ended", "%", 100 * len(ended) / len(cells.ORDERS))
    for which, name in enumerate(("go", "own")):
        whole = part([result[which] for result in alone])
        if whole and ended:
            emit(f"{name}-keeps", "%", 100 * part([result[which] for result in ended]) / whole)


if __name__ == "__main__":
    main()

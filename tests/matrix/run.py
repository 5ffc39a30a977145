#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The coexistence matrix: onstack and another owner of SIGPROF in one process, in every order of start and stop.
README.md says what is checked. Broken off, it goes on where it was; --fresh begins anew."""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean

import cells
import checker
import programs
from results import KEEPS, Pool, Results

# Part of the weight alone that each profile must keep beside the other. Chance comes on top (results.weight_of).
KEEPS_QUICK, KEEPS_FULL = 0.85, 0.97


def progress(text, end="\n"):
    print(text, end=end, file=sys.stderr, flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every host and every order once, short windows")
    parser.add_argument("--runs", type=int, help="runs of each cell (20; 1 with --quick)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cells whose name (host/mix/order/flavour) contains it")
    parser.add_argument("--minutes", type=float, metavar="N", help="begin no run after N minutes; the next call goes on")
    parser.add_argument("--fresh", action="store_true", help="forget the results so far")
    parser.add_argument("--output", type=Path, default=programs.BUILD / "matrix.json", help="build/matrix.json")
    parser.add_argument("--list", action="store_true", help="name the cells, and end")
    arguments = parser.parse_args()
    if arguments.runs is None:
        arguments.runs = 1 if arguments.quick else 20
    if arguments.runs < 1:
        parser.error("--runs starts at 1")
    return parser, arguments


def choose(only, quick):
    """Cells with the text in their name, and the baselines of their hosts and mixes."""
    chosen = []
    for host in cells.HOSTS:
        everything = cells.cells_of(host, quick)
        wanted = [c for c in everything if only in c.name and c.order not in cells.BASELINES]
        mixes = {c.mix for c in wanted}
        chosen += [c for c in everything if c in wanted or c.order in cells.BASELINES and c.mix in mixes]
    return chosen


def run_once(cell, quick, digest):
    """One process; its record."""
    try:
        events = programs.run(cell.host.name, [cell.mix, *cell.steps(quick)], timeout=60 if quick else 180)
        record = checker.check(cell, events).as_dict()
    except programs.RunFailed as error:
        record = checker.Verdict().as_dict()
        record["checks"] = {checker.ALIVE: 1}
        record["problems"] = [[checker.ALIVE, str(error)]]
    return {"digest": digest, **record}


def run_all(chosen, arguments, results):
    """Round after round over all cells, so that a baseline is never far from what it is compared with."""
    pool, ran, alone, left = Pool(), [], {}, 0
    end = time.monotonic() + 60 * arguments.minutes if arguments.minutes else float("inf")
    digests = {host: programs.digest(host) for host in dict.fromkeys(c.host.name for c in chosen)}
    for number in range(1, arguments.runs + 1):
        for cell in chosen:
            key = f"{cell.name}/{'quick' if arguments.quick else 'full'}/{number}"
            digest = digests[cell.host.name]
            if not results.has(key, digest):
                if time.monotonic() > end:
                    left += 1
                    continue
                begin = time.monotonic()
                record = run_once(cell, arguments.quick, digest)
                if cell.host.name + cell.mix in alone and record["notes"]:
                    problem = checker.compare_final(cell, record, alone[cell.host.name + cell.mix])
                    record["checks"][checker.ACTION_FINAL] = record["checks"].get(checker.ACTION_FINAL, 0) + 1
                    record["problems"] += [problem] if problem else []
                results.add(key, record)
                said = "; ".join(f"FAILED {name}: {text}" for name, text in record["problems"]) or "ok"
                progress(f"[{number}/{arguments.runs}] {cell.name} {time.monotonic() - begin:.1f} s {said}")
            record = results.records[key]
            if cell.order in cells.THEIRS_ALONE and record["notes"]:
                alone[cell.host.name + cell.mix] = record
            pool.add(cell, record)
            ran.append((cell, record))
    return pool, ran, left


def check_weights(pool, least):
    """Prints the table; returns the number of weights checked and those below `least`."""
    print(f"\n{'host':14}{'mix':10}{'order':20}{'theirs':>8}{'ours':>8}   of the weight alone, chance")
    checked, failed = 0, []
    for (host, mix, order), weights in sorted(pool.weights().items()):
        shown = ["-" if w is None else f"{w[0]:.3f}" for w in weights]
        chance = max((w[1] for w in weights if w), default=0)
        print(f"{host:14}{mix:10}{order:20}{shown[0]:>8}{shown[1]:>8}{chance:23.3f}")
        for which, weight in zip(("theirs", "ours"), weights):
            if weight is None or which == "theirs" and mix in cells.ERRATIC:
                continue
            checked += 1
            if weight[0] + weight[1] < least:
                failed.append(f"{host}/{mix}/{order}: {which} {KEEPS}: {weight[0]:.3f} + {weight[1]:.3f} < {least}")
    return checked, failed


LEAST_CHANCE = 0.001  # below it, chance is not what made their weights beside us smaller


def check_distributions(pool, least):
    """Of the erratic mixes; prints a table, and returns the same two as check_weights."""
    checked, failed = 0, []
    for number, ((host, mix, baseline), (runs, beside, alone, chance)) in enumerate(pool.distributions(least).items()):
        if number == 0:
            print(f"\n{'host':14}{'mix':10}{'same steps alone':18}{'runs':>9}{'beside us':>11}{'alone':>7}   theirs, of the CPU time; chance of less than {least} of it")
        checked += chance is not None
        said = "too few runs" if chance is None else f"{chance:.3f}"
        print(f"{host:14}{mix:10}{baseline:18}{runs[0]:5} {runs[1]:3}{beside:11.3f}{alone:7.3f}{said:>15}")
        if chance is not None and chance < LEAST_CHANCE:
            text = f"theirs {KEEPS}: {beside:.3f} beside us, {alone:.3f} alone, by chance {chance:.5f}"
            failed.append(f"{host}/{mix}/{baseline}: {text}")
    return checked, failed


def print_checks(ran):
    made, failed = Counter(), Counter()
    for _, record in ran:
        made.update(record["checks"])
        failed.update(name for name, _ in record["problems"])
    print(f"\n{'check':56}{'made':>8}{'failed':>8}")
    for name in sorted(made):
        print(f"{name:56}{made[name]:8}{failed[name]:8}")
    waits = sorted(us for _, record in ran for us in record["notes"].get("on_top_us", ()))
    if waits:
        print(f"\nback on top, idle process: median {waits[len(waits) // 2] / 1000:.1f} ms, longest {waits[-1] / 1000:.1f} ms")


def main():
    parser, arguments = parse_arguments()
    chosen = choose(arguments.only, arguments.quick)
    if not chosen:
        parser.error(f"no cell has '{arguments.only}' in its name; --list names them")
    if arguments.list:
        print("\n".join(c.name for c in chosen))
        return 0
    try:
        for host in dict.fromkeys(c.host.name for c in chosen):
            progress(f"building {host} ...")
            programs.build(host)
    except programs.RunFailed as error:
        progress(f"a host cannot be built:\n{error}")
        return 1
    results = Results(arguments.output, arguments.fresh)
    begin = time.monotonic()
    try:
        pool, ran, left = run_all(chosen, arguments, results)
    finally:
        results.close()
    least = KEEPS_QUICK if arguments.quick else KEEPS_FULL
    checked, failed_weights = check_weights(pool, least)
    more, failed_distributions = check_distributions(pool, least)
    checked, failed_weights = checked + more, failed_weights + failed_distributions
    print_checks(ran)
    failures = [f"{c.name}: {name}: {text}" for c, record in ran for name, text in record["problems"]] + failed_weights
    for failure in failures:
        print(f"FAILED {failure}")
    broken = sum(1 for _, record in ran if record["problems"]) + len(failed_weights)
    total = len(ran) + checked
    if left:
        print(f"\n{left} runs are left for the next call")
    print(f"\n{total - broken} passed, {broken} failed ({time.monotonic() - begin:.0f} s; {arguments.output})")
    return 1 if broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nbroken off; the next call goes on here")

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
build/matrix.json -> docs/MATRIX.md, with what it is made of kept beside it as docs/matrix.json.

With --check nothing is written: the page must be what the kept figures give.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean
sys.path.append(str(Path(__file__).resolve().parent.parent / "bench"))

import cells
import machine
from results import Pool
from run import KEEPS_FULL, LEAST_CHANCE

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "MATRIX.md"
KEPT = ROOT / "docs" / "matrix.json"
TOLD = ("cpu", "cores", "kernel", "CONFIG_HZ", "libc", "compiler", "rustc", "go")


def runs_of(path):
    """(cell, record) of all runs of the full matrix in that file."""
    everything = {cell.name: cell for host in cells.HOSTS for cell in cells.cells_of(host, False)}
    for key, record in json.loads(path.read_text())["runs"].items():
        name, form, _ = key.rsplit("/", 2)
        if form == "full" and name in everything:
            yield everything[name], record


def weight_rows(pool):
    """One for each host and mix: both profiles over all orders, and the order that is worst beside its chance."""
    table = pool.weights()
    for host, mix in sorted({key[:2] for key in table}):
        row = {"host": host, "mix": mix}
        for which, name in enumerate(("theirs", "ours")):
            checked = [(w[which], order) for (h, m, order), w in table.items() if (h, m) == (host, mix) and w[which]]
            whole = [weight for weight, order in checked if order == "all orders"]
            single = [(weight[0], weight[1], order) for weight, order in checked if order != "all orders"]
            row[name] = whole[0] if whole else None
            row[f"{name} worst"] = min(single, key=lambda s: s[0] + s[1], default=None)
        yield row


def summary(runs):
    pool, cell_runs, made, failed, waits, problems = Pool(), Counter(), Counter(), Counter(), [], []
    differences = Counter()
    for cell, record in runs:
        pool.add(cell, record)
        cell_runs[cell.name] += 1
        made.update(record["checks"])
        failed.update(name for name, _ in record["problems"])
        problems += [f"{cell.name}: {name}: {text}" for name, text in record["problems"]]
        waits += record["notes"].get("on_top_us", [])
        differences.update(record["notes"].get("forwarded_less_samples", []))
    waits.sort()
    return {
        "about": {
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "machine": {name: value for name, value in machine.facts() if name in TOLD},
            "cells": len(cell_runs),
            "runs": [min(cell_runs.values()), max(cell_runs.values()), sum(cell_runs.values())],
        },
        "checks": {name: [made[name], failed[name]] for name in sorted(made)},
        "problems": sorted(problems),
        "timer ticks forwarded, less Go's samples": {str(number): differences[number] for number in sorted(differences)},
        "weights": list(weight_rows(pool)),
        "distributions": [[*key, *values] for key, values in pool.distributions(KEEPS_FULL).items()],
        "on top, ms": [waits[len(waits) // 2] / 1000, waits[len(waits) * 99 // 100] / 1000, waits[-1] / 1000] if waits else None,
    }


def ticks(differences):
    """What Go's profiles counted of the timer ticks that we forwarded, in words."""
    total, same = sum(differences.values()), differences.get("0", 0)
    others = ", ".join(f"{int(number):+d} in {count}" for number, count in differences.items() if number != "0")
    return [
        f"In {same:,} of {total:,} profiles of Go's threads alone, Go has as many samples as onstack forwarded ticks of Go's",
        f"timers{f' (the others: {others})' if others else ''}. A difference of one or two is Go's own: a tick in its start, samples of libc",
        "and the vDSO that are no timer's, ticks that it drops on a C program's main thread.",
    ]


def extremes(rows, name):
    shares = [100 * row[name][0] for row in rows if row[name] and not (name == "theirs" and row["mix"] in cells.ERRATIC)]
    return f"{min(shares):.1f} to {max(shares):.1f} %"


def outcome(figures):
    """What the page shows, in a few lines."""
    made = sum(number for number, _ in figures["checks"].values())
    failed = sum(number for _, number in figures["checks"].values())
    rows = figures["weights"]
    return [
        f"- {made:,} checks in {figures['about']['runs'][2]:,} runs: {failed if failed else 'none'} failed.",
        f"- onstack keeps {extremes(rows, 'ours')} of the weight that it has alone, the other profile {extremes(rows, 'theirs')}",
        "  (a row for each host and mix of load, over all orders).",
    ]


def kept(weight):
    return f"{100 * weight[0]:.1f} (+- {100 * weight[1]:.1f})" if weight else "-"


def worst(single):
    return f"{100 * single[0]:.0f} (+- {100 * single[1]:.0f}), {single[2]}" if single else "-"


def weights(rows):
    lines = ["| host | mix | ours keeps, % | its worst order | theirs keeps, % | its worst order |", "|---|---|---|---|---|---|"]
    for row in rows:
        erratic = row["mix"] in cells.ERRATIC
        theirs = ["below"] * 2 if erratic else [kept(row["theirs"]), worst(row["theirs worst"])]
        lines.append(f"| {row['host']} | {row['mix']} | {kept(row['ours'])} | {worst(row['ours worst'])} | {' | '.join(theirs)} |")
    return lines


def distributions(rows):
    lines = ["| host | mix | orders | runs | beside us | runs | alone | chance of less |", "|---|---|---|---|---|---|---|---|"]
    fair_to = {baseline.name: ", ".join(orders) for baseline, orders in cells.SAME_STEPS.items()}
    for host, mix, baseline, (besides, alones), beside, alone, chance in rows:
        said = "too few runs" if chance is None else f"{chance:.3f}"
        lines.append(f"| {host} | {mix} | {fair_to[baseline]} | {besides} | {beside:.3f} | {alones} | {alone:.3f} | {said} |")
    return lines


def page(figures):
    about = figures["about"]
    low, high, total = about["runs"]
    each = f"{low}" if low == high else f"{low} to {high}"
    runs = "run" if high == 1 else "runs"
    lines = [
        "# Coexistence: what the matrix shows",
        "",
        "<!-- Made by tests/matrix/page.py from docs/matrix.json; do not edit. -->",
        "",
        "For readers who want to know whether onstack disturbs another profiler, or is disturbed. onstack and another owner of",
        f"SIGPROF ran in one process, in every order of start and stop: {about['cells']} cells, {each} {runs} of each.",
        "[tests/matrix/README.md](../tests/matrix/README.md) has hosts, mixes and orders, and how to run it.",
        "",
        "## Summary",
        "",
        *outcome(figures),
        "",
        "| | |",
        "|---|---|",
        *[f"| {name} | {value} |" for name, value in about["machine"].items()],
        "",
        "## What holds in every run",
        "",
        "| check | made | failed |",
        "|---|---|---|",
        *[f"| {name} | {made:,} | {failed} |" for name, (made, failed) in figures["checks"].items()],
        "",
        *[f"- {problem}" for problem in figures["problems"]],
        *ticks(figures["timer ticks forwarded, less Go's samples"]),
        "",
        "## Weights",
        "",
        "The sampled part of the CPU time, pooled over the runs, in % of what the same profile samples alone. At least",
        f"{100 * KEEPS_FULL:.0f} % is asked for; +- is what chance may do (two standard deviations of a count).",
        "",
        *weights(figures["weights"]),
        "",
        "Go's own profile of the other mixes swings between nothing and all without us. So single runs are compared with runs",
        "alone that take the same steps: mean share of the CPU time, and how often chance would bring as little if",
        f"{100 * KEEPS_FULL:.0f} % were kept (rank sum test; below {LEAST_CHANCE} fails).",
        "",
        *distributions(figures["distributions"]),
    ]
    if figures["on top, ms"]:
        median, most, longest = figures["on top, ms"]
        lines += ["", "## Back on top", ""]
        lines.append(f"With the load at rest, from their start to our handler on top again: median {median:.1f} ms, 99 of 100 within")
        lines.append(f"{most:.1f} ms, longest {longest:.1f} ms. (A process that works is looked at each 10 to 40 ms, one at rest each 50 to 250.)")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=ROOT / "build" / "matrix.json", help="what run.py wrote")
    parser.add_argument("--check", action="store_true", help="is the page what the kept figures give?")
    arguments = parser.parse_args()
    if arguments.check:
        if not KEPT.is_file() or not PAGE.is_file() or PAGE.read_text() != page(json.loads(KEPT.read_text())):
            sys.exit(f"{PAGE.name} is not what {KEPT.name} gives: python3 tests/matrix/page.py")
        return
    try:
        text = json.dumps(summary(runs_of(arguments.results)), indent=1) + "\n"
    except OSError as error:
        sys.exit(f"page.py: {arguments.results}: {error.strerror}; run `make matrix` first")
    KEPT.write_text(text)
    PAGE.write_text(page(json.loads(text)))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Heap profilers, each against the same allocator without it, in turns: measure.py TOOL CASE [key=value ...]. Prints figures as
the benchmark's programs do. Cases: pair, sampled, go-sampled, held; redis, rocksdb, go-service (whole/programs.py).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.dont_write_bytecode = True  # the source tree stays clean
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1] / "whole"))

import pairs
import programs
import tools

OUT = tools.BUILD / "bench"
UNAVAILABLE = 77
PATIENCE = 60


def emit(metric, unit, value):
    print(json.dumps({"metric": metric, "unit": unit, "value": value}), flush=True)


def run(program, arguments, variables, scratch):
    done = subprocess.run([OUT / program, *arguments], env=tools.environment(variables), cwd=scratch, capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"status {done.returncode}: {done.stderr.strip()[-200:]}")
    return float(done.stdout.split()[-1])


def in_turns(program, arguments, settings, repeats, scratch):
    """By setting: a figure of each turn. Neighbours in time are compared, and nobody is always first."""
    figures = {name: [] for name in settings}
    for turn in range(repeats):
        for name in list(settings) if turn % 2 == 0 else reversed(list(settings)):
            figures[name].append(run(program, arguments, settings[name], scratch))
    return figures


def differences(figures, name):
    return [with_it - without for with_it, without in zip(figures[name], figures["base"])]


def settings_of(tool):
    return {"base": tool.base, "on": tool.on} | ({"off": tool.off} if tool.off is not None else {})


def pair(name, asked, scratch):
    arguments = ["pair", *(f"{key}={asked[key]}" for key in ("threads", "live") if key in asked), f"seconds={asked.get('seconds', '0.3')}"]
    tool = tools.tool(name, tools.RATE, scratch)
    if tool.counts_each:  # and takes microseconds: no batch needs to be so long that samples are even in it
        arguments.append("batch=5000")
    figures = in_turns("heap-pairs", arguments, settings_of(tool), 2, scratch)
    emit("without", "ns", median(figures["base"]))
    for setting in ("off", "on"):
        if setting in figures:
            emit(f"{setting}-adds", "ns", median(differences(figures, setting)))
    emit("ratio", "x without", median([a / b for a, b in zip(figures["on"], figures["base"])]))


def sampled(program, arguments):
    def measure(name, _asked, scratch):
        tool = tools.tool(name, 1, scratch)
        if name == "tcmalloc":
            raise tools.Missing("its sampler cannot be asked for each allocation")
        figures = in_turns(program, arguments, {"base": tool.base, "on": tool.on}, 1, scratch)
        emit("sampled", "ns", median(differences(figures, "on")))

    return measure


def held(name, asked, scratch):
    mib, rate = 512, 64 << 10
    tool = tools.tool(name, rate, scratch)
    figures = in_turns("heap-pairs", ["held", f"mib={mib}", "depth=20"], {"base": tool.base, "on": tool.on}, 1, scratch)
    emit("own-memory", "KiB", median(differences(figures, "on")))


def whole(program):
    def measure(name, asked, scratch):
        tool = tools.tool(name, tools.RATE, scratch)
        pairs.relative(emit, pairs.in_pairs(program, tool.base, tool.on, scratch, float(asked["seconds"]), 3, 16))

    return measure


CASES = {
    "pair": pair,
    "sampled": sampled("heap-pairs", ["sampled", "depth=30"]),
    "go-sampled": sampled("heap-go", ["sampled", "depth=15"]),
    "held": held,
    "redis": whole(programs.redis),
    "rocksdb": whole(programs.rocksdb),
    "go-service": whole(programs.go_service),
}


def main():
    name, case = sys.argv[1:3]
    asked = dict(setting.split("=", 1) for setting in sys.argv[3:])
    with tempfile.TemporaryDirectory(prefix="onstack-heap-") as scratch:
        try:
            CASES[case](name, asked, scratch)
        except tools.Missing as missing:
            print(missing, file=sys.stderr)
            sys.exit(UNAVAILABLE)


if __name__ == "__main__":
    main()

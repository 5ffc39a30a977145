#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Whole programs under a CPU profiler that is preloaded, at 99 Hz, with their children: measure.py TOOL PROGRAM [seconds=N]
[pairs=N]. Prints figures as the benchmark's programs do. TOOL: onstack, gperftools
"""

import json
import os
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1] / "heap"))

import pairs
import programs
import tools

UNAVAILABLE = 77
PAIRS = {"onstack": 20, "gperftools": 10}
PROGRAMS = {
    "postgresql": programs.postgresql("12000"),
    "postgresql-connect": programs.postgresql("100", "-C"),
    "redis": programs.redis,
    "nginx": programs.nginx,
    "duckdb": programs.duckdb,
    "axum": programs.axum,
    "clang": programs.clang,
    "javac": programs.javac,
    "shell": programs.shell,
    "clang-version": programs.clang_version,
}


def emit(metric, unit, value):
    print(json.dumps({"metric": metric, "unit": unit, "value": value}), flush=True)


def on(tool, scratch):
    if tool == "onstack":
        return {"LD_PRELOAD": str(tools.PRELOAD), "ONSTACK_PROFILE": f"{scratch}/onstack.%p.pb.gz", "ONSTACK_FREQUENCY": "99", "ONSTACK_FORK": "follow"}
    if tool == "gperftools":  # children of a fork are not profiled
        return {"LD_PRELOAD": tools.library("libprofiler.so.0"), "CPUPROFILE": f"{scratch}/gperftools", "CPUPROFILE_FREQUENCY": "99"}
    raise ValueError(tool)


def main():
    tool, name = sys.argv[1:3]
    asked = dict(setting.split("=", 1) for setting in sys.argv[3:])
    with tempfile.TemporaryDirectory(prefix="onstack-whole-") as scratch:
        try:
            program = PROGRAMS[name]
            os.chmod(scratch, 0o777)  # PostgreSQL's user writes there
            double = -(-int(asked.get("pairs", PAIRS[tool])) // 2)  # both ways round
            turns = pairs.in_pairs(program, {}, on(tool, scratch), scratch, float(asked.get("seconds", "0")), double, double)
            if count := programs.of_commands(program):
                pairs.for_each(emit, turns, count)
            else:
                pairs.relative(emit, turns)
        except tools.Missing as error:
            print(error, file=sys.stderr)
            sys.exit(UNAVAILABLE)


if __name__ == "__main__":
    main()

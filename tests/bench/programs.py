# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds and runs the benchmark programs. A program that cannot be had is a reason in words, never an exception."""

import json
import os
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
OUT = BUILD / "bench"
TELLING = re.compile(r"error(:|\[)|not found|No rule to make target|No such file|cannot find|undefined reference")
UNAVAILABLE = 77  # BENCH_EXIT_UNAVAILABLE


class RunFailed(Exception):
    """A run gave no figures; the text says why."""


def _reason(log):
    """The line of a build log that a person looks for first."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if TELLING.search(line)]
    return (errors or lines or ["no output"])[0]


def build(program):
    """Makes one program. Returns None, or why it is not available; the whole output lies in build/bench/PROGRAM.log."""
    OUT.mkdir(parents=True, exist_ok=True)
    try:
        made = subprocess.run(
            ["make", "-s", "-C", str(HERE), f"BUILD={BUILD}", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    except OSError as error:
        return f"make cannot be run: {error}"
    (OUT / f"{program}.log").write_text(made.stdout)
    return None if made.returncode == 0 else _reason(made.stdout)


def run(program, variant, arguments, timeout):
    """One process. Returns its figures as a list of (metric, unit, value)."""
    command = [str(OUT / program), variant, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=_environment())
    except subprocess.TimeoutExpired:
        raise RunFailed(f"hung for {timeout:g} s in '{' '.join(arguments)}'") from None
    except OSError as error:
        raise RunFailed(str(error)) from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}"
        raise RunFailed(last if done.returncode == UNAVAILABLE else f"{how}: {last}")
    return [(f["metric"], f["unit"], f["value"]) for f in map(json.loads, done.stdout.splitlines())]


def _environment():
    """The caller's, without what would switch a profiler on or change one behind the benchmark's back."""
    prefixes = ("CPUPROFILE", "HEAPPROFILE", "MALLOC_CONF", "ONSTACK_", "LD_PRELOAD", "TCMALLOC_")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}

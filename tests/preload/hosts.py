#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that others wrote, with and without the preload: what they print and how they end must not differ, servers must
answer every request while they fork, reload and are profiled, and each profile left must be one that google/pprof reads.

Usage: tests/preload/hosts.py [--heap | --wall] [host...]    (default: all; some five minutes)
--heap: heap profiles instead of those of CPU time; --wall: those of real time, 100 looks a second at each thread. The programs
must not differ either.
Hosts that are not installed are installed from Debian where that is possible (ci/deps.sh). It fails where one is missing, so
that nobody takes for tried what was not; ONSTACK_NO_INSTALL=1 leaves those out.
"""
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import harness
import hosts_programs, hosts_servers, hosts_large, hosts_stacks  # noqa: F401, E401  they register their hosts
import hosts_common
from hosts_common import hosts


def run(name, host):
    begun = time.monotonic()
    try:
        told = host()
        print(f"ok {name}: {told} ({time.monotonic() - begun:.0f} s)", flush=True)
        return "passed"
    except harness.Missing as reason:
        print(f"skip {name}: {reason}", flush=True)
        return "missing"
    except harness.Skip as reason:
        print(f"skip {name}: {reason}", flush=True)
        return "skipped"
    except (AssertionError, OSError, subprocess.SubprocessError, ValueError, KeyError) as failure:
        print(f"not ok {name}: {failure}", flush=True)
        return "failed"


def main():
    subprocess.run(["make", "-s", "--no-print-directory", "-C", str(harness.ROOT), "-f", "core/Makefile", "lib"],
                   check=True, stdout=subprocess.DEVNULL)
    harness.OUT.mkdir(parents=True, exist_ok=True)
    hosts_common.heap = "--heap" in sys.argv
    hosts_common.wall = "--wall" in sys.argv
    chosen = [name for name in sys.argv[1:] if name not in ("--heap", "--wall")] or list(hosts)
    unknown = [name for name in chosen if name not in hosts]
    if unknown:
        sys.exit(f"hosts.py: no such host: {' '.join(unknown)}; there are {' '.join(hosts)}")
    results = [run(name, hosts[name]) for name in chosen]
    missing = [name for name, result in zip(chosen, results) if result == "missing"]
    wanted = missing and os.environ.get("ONSTACK_NO_INSTALL") != "1"
    if wanted:
        print(f"not ok hosts: missing: {' '.join(missing)}; as root, type: ONSTACK_DEPS=hosts ci/deps.sh "
              "(ONSTACK_NO_INSTALL=1: left out)")
    print("hosts: " + ", ".join(f"{results.count(kind)} {kind}" for kind in ("passed", "failed", "skipped", "missing")))
    sys.exit(1 if "failed" in results or "passed" not in results or wanted else 0)


main()

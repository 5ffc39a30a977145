#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The preload, in half a minute: every case prints a line, and the last line counts them. Two cases run at a time: each
has a directory of its own, and most of them wait.

Usage: tests/preload/run.py [--few | --rest] [word...]    few: without those that need an idle machine and the rarer ones; rest:
those; only cases whose names contain one of the words
A case that fails leaves its directory in build/tests/preload. The hosts (python, redis, nginx, ...): hosts.py
"""
import concurrent.futures
import pathlib
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import harness
import test_ends, test_children, test_commands, test_dump, test_output, test_environment, test_format, test_heap, test_heap_edges, test_musl, test_php, test_python, test_signals  # noqa: F401, E401  they register their cases


def build():
    make = ["make", "-s", "--no-print-directory", "-C", str(harness.ROOT)]
    subprocess.run([*make, "-f", "core/Makefile", "lib"], check=True, stdout=subprocess.DEVNULL)
    harness.OUT.mkdir(parents=True, exist_ok=True)
    for program in (harness.PROGRAM, harness.SIGNALS, harness.HEAP):
        subprocess.run(["cc", *harness.FLAGS, HERE / f"{program.name}.c", "-o", program, "-lpthread", "-ldl"], check=True)
    subprocess.run(["cc", *harness.FLAGS, "-shared", "-fPIC", HERE / "stub.c", "-o", harness.STUB, "-ldl"], check=True)
    core = harness.ROOT / "core"
    compile = ["cc", *harness.FLAGS, "-I", core, "-I", core / "src", "-I", core / "include", HERE / "compress_filter.c"]
    subprocess.run([*compile, core / "preload" / "compress_none.c", "-o", harness.OUT / "compress_none"], check=True)
    built = harness.LIBRARY.parent.parent / "obj" / "preload" / "compress.o"  # the one of the two that is in the library
    subprocess.run([*compile, built, "-o", harness.OUT / "compress"], check=True)


ATTEMPTS = 4  # of a case that found too little


def run(case, attempts=ATTEMPTS):
    begun = time.monotonic()
    name = case.__name__.replace("_", " ")
    try:
        case()
        print(f"ok {name} ({time.monotonic() - begun:.1f} s)", flush=True)
        return "passed"
    except harness.Skip as reason:
        print(f"skip {name}: {reason}", flush=True)
        return "skipped"
    except harness.TooLittle as failure:
        print(f"#  {name}: {failure}", flush=True)
        if attempts > 1:
            return run(case, attempts - 1)
        print(f"not ok {name}: {ATTEMPTS} times too little", flush=True)
        return "failed"
    except Exception as failure:  # a case that breaks in any way has failed; the others go on
        where = traceback.extract_tb(failure.__traceback__)
        line = next((frame.lineno for frame in reversed(where) if "/test_" in frame.filename), "?")
        print(f"not ok {name}: line {line}: {failure}", flush=True)
        return "failed"


def main():
    build()
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    chosen = [case for case in harness.cases if not words or any(word in case.__name__ for word in words)]
    in_few = lambda case: not hasattr(case, "by_itself") and not hasattr(case, "rarer")
    chosen = [case for case in chosen if ("--rest" if in_few(case) else "--few") not in sys.argv]
    alone = [case for case in chosen if hasattr(case, "by_itself")]
    together = [case for case in chosen if not hasattr(case, "by_itself")]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as two:
        results = list(two.map(run, together))
    results += [run(case) for case in alone]
    print("preload: " + ", ".join(f"{results.count(kind)} {kind}" for kind in ("passed", "failed", "skipped")))
    sys.exit(1 if "failed" in results or "passed" not in results else 0)


main()

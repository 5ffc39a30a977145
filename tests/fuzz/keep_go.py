#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Copies what fuzzing left in Go's cache to testdata/fuzz, where `go test` replays it: small inputs, few of them, that
together run what the seeds and the inputs which are kept already do not.
Usage: tests/fuzz/keep_go.py FuzzName...     FUZZ_KEEP: how many (40), FUZZ_KEEP_BYTES: the size of each (4096)
The toolchain merges no corpora. What an input covers is how often, in powers of two, each block runs."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

MODULE = pathlib.Path(__file__).resolve().parents[2] / "bindings/go"
MOST = int(os.environ.get("FUZZ_KEEP", 40))
BYTES = int(os.environ.get("FUZZ_KEEP_BYTES", 4096))
# What is fuzzed is also what our functions hand the input to.
COVERED = "./...,github.com/google/pprof/profile,github.com/ianlancetaylor/demangle,debug/dwarf,debug/elf,net/url"


def go(*arguments, where=MODULE):
    return subprocess.run(["go", *arguments], cwd=where, check=True, capture_output=True, text=True).stdout.strip()


class Target:
    def __init__(self, name, work):
        source = next(path for path in MODULE.rglob("*_fuzz_test.go") if f"func {name}(" in path.read_text())
        self.name, self.package, self.place = name, source.parent, work / name
        self.kept = self.package / "testdata/fuzz" / name
        self.cache = pathlib.Path(go("env", "GOCACHE"), "fuzz", go("list", ".", where=self.package), name)
        shutil.copytree(self.package / "testdata", self.place / "testdata", ignore=shutil.ignore_patterns("fuzz"),
                        dirs_exist_ok=True) if (self.package / "testdata").is_dir() else self.place.mkdir()
        go("test", "-c", "-covermode=count", f"-coverpkg={COVERED}", "-o", self.place / "test",
           "./" + str(self.package.relative_to(MODULE)))

    def covers(self, path=None):
        """Of the seeds alone, where there is no path."""
        inputs = self.place / "testdata/fuzz" / self.name
        shutil.rmtree(inputs, ignore_errors=True)
        inputs.mkdir(parents=True)
        which = "seed#"
        if path:
            shutil.copy(path, inputs / "one")
            which = "^one$"
        profile = self.place / "profile"
        subprocess.run(["./test", f"-test.run=^{self.name}$/{which}", f"-test.coverprofile={profile}"], cwd=self.place,
                       check=True, capture_output=True, timeout=60)
        counts = (line.rsplit(" ", 1) for line in profile.read_text().splitlines()[1:])
        return {(block, int(count).bit_length()) for block, count in counts if count != "0"}

    def keep(self):
        already = sorted(self.kept.iterdir()) if self.kept.is_dir() else []
        known = self.covers().union(*map(self.covers, already))
        found = [path for path in self.cache.iterdir() if path.stat().st_size <= BYTES] if self.cache.is_dir() else []
        new = {path: covered for path in sorted(found) if (covered := self.covers(path) - known)}
        chosen = []
        while new and len(already) + len(chosen) < MOST:
            best = max(new, key=lambda path: (len(new[path]), -path.stat().st_size))
            chosen.append(best)
            covered = new.pop(best)
            new = {path: rest for path, others in new.items() if (rest := others - covered)}
        self.kept.mkdir(parents=True, exist_ok=True)
        for path in chosen:
            shutil.copy(path, self.kept)
        print(f"keep: go/{self.name}: {len(already) + len(chosen)} inputs, {len(chosen)} new of {len(found)}")


if len(sys.argv) < 2:
    sys.exit(__doc__)
with tempfile.TemporaryDirectory() as work:
    for name in sys.argv[1:]:
        Target(name, pathlib.Path(work)).keep()

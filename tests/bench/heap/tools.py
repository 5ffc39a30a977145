# SPDX-License-Identifier: MIT OR Apache-2.0
"""Heap profilers as environments of a program: without, there with nothing switched on, and on."""

import glob
import os
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(os.environ.get("BUILD", Path(__file__).resolve().parents[3] / "build")).resolve()
PRELOAD = BUILD / "lib" / "libonstack-preload.so"
RATE = 512 << 10
HEAPTRACK = ("/usr/lib/heaptrack/libheaptrack_preload.so", "/usr/lib/x86_64-linux-gnu/heaptrack/libheaptrack_preload.so")


class Missing(Exception):
    """The tool is not installed."""


def library(pattern):
    found = sorted(glob.glob(f"/usr/lib/*/{pattern}")) + sorted(glob.glob(f"/usr/lib64/{pattern}"))
    if not found:
        raise Missing(f"{pattern} not found")
    return found[0]


@dataclass(frozen=True)
class Tool:
    base: dict  # the same allocator without the profiler
    on: dict
    off: dict | None = None  # there, and nothing switched on; None: it cannot be
    counts_each: bool = False  # it samples nothing: `rate` changes nothing


def tool(name, rate, scratch):
    """`rate`: mean bytes between two samples; 1: each allocation."""
    if name == "onstack":
        there = {"LD_PRELOAD": str(PRELOAD)}
        return Tool({}, there | {"ONSTACK_HEAP": "1", "ONSTACK_HEAP_RATE": str(rate), "ONSTACK_PROFILE": f"{scratch}/onstack.pb"}, there)
    if name == "jemalloc":
        base = {"LD_PRELOAD": library("libjemalloc.so.2")}
        prof = f"prof:true,lg_prof_sample:{rate.bit_length() - 1}"
        return Tool(base, base | {"MALLOC_CONF": prof}, base | {"MALLOC_CONF": prof + ",prof_active:false"})
    if name == "tcmalloc":
        base = {"LD_PRELOAD": library("libtcmalloc.so.4")}
        return Tool(base, base | {"TCMALLOC_SAMPLE_PARAMETER": str(rate)})
    if name == "gperftools":
        base = {"LD_PRELOAD": library("libtcmalloc.so.4")}
        # No dumps on the way: they are not what an allocation costs.
        quiet = {f"HEAP_PROFILE_{what}_INTERVAL": "0" for what in ("ALLOCATION", "INUSE")}
        return Tool(base, base | quiet | {"HEAPPROFILE": f"{scratch}/gperftools"}, counts_each=True)
    if name == "heaptrack":
        found = [path for path in HEAPTRACK if os.path.exists(path)]
        if not found:
            raise Missing("libheaptrack_preload.so not found")
        # What it writes goes nowhere: the program that reads it is left out.
        return Tool({}, {"LD_PRELOAD": found[0], "DUMP_HEAPTRACK_OUTPUT": "/dev/null"}, counts_each=True)
    raise ValueError(name)


def environment(variables, beside=""):
    """The caller's without any of a profiler's; `beside`: what the program itself preloads."""
    prefixes = ("CPUPROFILE", "ONSTACK_", "LD_PRELOAD", "TCMALLOC_", "HEAPPROFILE", "HEAP_PROFILE", "MALLOC_CONF", "DUMP_HEAPTRACK")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    clean.update(variables)
    if beside and "LD_PRELOAD" in variables:
        clean["LD_PRELOAD"] = f"{variables['LD_PRELOAD']}:{beside}"
    return clean

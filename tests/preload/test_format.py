# SPDX-License-Identifier: MIT OR Apache-2.0
"""What others read, and what it costs."""
import gzip
import os
import random
import shutil
import subprocess
import time

from harness import LIBRARY, OUT, Skip, case, check, equal, program


def has_static_zlib():
    found = subprocess.run(["cc", "-print-file-name=libz.a"], capture_output=True, text=True).stdout
    header = subprocess.run(["cc", "-E", "-x", "c", "-"], input="#include <zlib.h>\n", capture_output=True, text=True)
    return "/" in found and header.returncode == 0


@case
def compressed_bytes_come_back():
    random.seed(1)
    words = [bytes(random.choices(b"abcdefgh_:", k=random.randint(2, 20))) for _ in range(300)]
    inputs = [b"", b"a", b"\0" * 200_000, os.urandom(70_000), b"".join(random.choices(words, k=50_000)), bytes(range(256)) * 600]
    inputs += [b"abcd" * 20_000 + os.urandom(size) for size in (0, 1, 65_535, 65_536, 65_537)]
    for name in ("compress", "compress_none"):
        zlib = name == "compress" and has_static_zlib()
        for data in inputs:
            packed = subprocess.run([OUT / name], input=data, stdout=subprocess.PIPE, check=True).stdout
            check((gzip.decompress(packed) if zlib else packed) == data, f"{name}: {len(data)} bytes do not come back")
            check(len(packed) < len(data) * 1.01 + 40, f"{name}: {len(data)} bytes became {len(packed)}")
        check(len(packed) < len(data) if zlib else packed == data, f"{name}: {len(data)} bytes became {len(packed)}")


@case
def a_write_that_fails_is_the_last():
    data = os.urandom(300_000)
    for name in ("compress", "compress_none"):
        for writes in range(6):
            ended = subprocess.run([OUT / name, str(writes)], input=data, stdout=subprocess.PIPE)
            equal(ended.returncode, 3, f"{name}: exit status after {writes} writes")
            check(len(ended.stdout) < len(data), f"{name}: {len(ended.stdout)} bytes after {writes} writes")


@case
def the_library_needs_libc_alone_and_shows_nothing_of_zlib():
    if not shutil.which("readelf"):
        raise Skip("readelf is not installed")
    dynamic = subprocess.run(["readelf", "-dW", LIBRARY], capture_output=True, text=True, check=True).stdout
    needed = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line]
    # Where libpthread and libdl are libraries of their own (glibc before 2.34), they are libc's.
    check(all(name.split(".")[0] in ("libc", "libpthread", "libdl") for name in needed) and needed, f"it needs {needed}")
    symbols = subprocess.run(["readelf", "-W", "--dyn-syms", LIBRARY], capture_output=True, text=True, check=True).stdout
    shown = [line.split()[-1] for line in symbols.splitlines() if " deflate" in line or " crc32" in line or "guard" in line]
    equal(shown, [], "names of zlib that other libraries could bind to, or that bind to theirs")


@case
def the_profile_carries_its_counters():
    with program(0.3, "exit") as run:
        profile = run.profile()
        counters = [line for line in profile.comments if line.startswith("onstack.stats ")]
        equal(len(counters), 1, "lines of counters")
        words = dict(word.split("=") for word in counters[0].split()[1:])
        equal(int(words["recorded"]), sum(ticks for ticks, _, _ in profile.samples), "ticks in the profile's own accounting")
        equal(words["running"], "0", "whether it still runs")


@case
def google_pprof_reads_it():
    if not shutil.which("go"):
        raise Skip("go is not installed")
    with program(0.3, "exit") as run:
        shown = subprocess.run(["go", "tool", "pprof", "-top", "-cum", "out"], cwd=run.directory, capture_output=True,
                               text=True, check=True).stdout
        for word in ("program_parent_work", "program_spin", "main", "Type: cpu"):
            check(word in shown, f"{word} is not in what pprof shows:\n{shown}")


def seconds(environment):
    begun = time.perf_counter()
    subprocess.run(["/bin/true"], env=environment, check=True)
    return time.perf_counter() - begun


@case
def what_a_program_that_does_nothing_pays():
    """Shown, and checked only on a machine that does nothing else: ONSTACK_TEST_TIMES=1."""
    plain = {"PATH": os.environ["PATH"]}
    for name in os.listdir(OUT):  # of a run before this one
        if name.startswith("true.out."):
            (OUT / name).unlink()
    for name in (None, "true.out", "true.out.%p"):
        under = dict(plain, LD_PRELOAD=str(LIBRARY))
        if name:
            under["ONSTACK_PROFILE"] = str(OUT / name)
        pairs = sorted(seconds(under) - seconds(plain) for _ in range(101))
        print(f"#  true, {name or 'no profile asked for'}: {pairs[50] * 1e3:+.2f} ms (quarters {pairs[25] * 1e3:+.2f}, {pairs[75] * 1e3:+.2f})")
        check(pairs[50] < 0.002 or not os.environ.get("ONSTACK_TEST_TIMES"), f"{pairs[50] * 1e3:.2f} ms more")
    left = [name for name in os.listdir(OUT) if name.startswith("true.out.")]
    equal(left, [], "profiles without a sample, among many")

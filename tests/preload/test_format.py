# SPDX-License-Identifier: MIT OR Apache-2.0
"""What others read, and what it costs."""
import gzip
import os
import random
import shutil
import subprocess
import time

from harness import LIBRARY, OUT, Skip, case, check, equal, program


@case
def compressed_bytes_come_back():
    random.seed(1)
    words = [bytes(random.choices(b"abcdefgh_:", k=random.randint(2, 20))) for _ in range(300)]
    inputs = [b"", b"a", b"\0" * 200_000, os.urandom(70_000), b"".join(random.choices(words, k=50_000)), bytes(range(256)) * 600]
    inputs += [b"abcd" * 20_000 + os.urandom(size) for size in (0, 1, 65_535, 65_536, 65_537)]
    for data in inputs:
        packed = subprocess.run([OUT / "gzip"], input=data, stdout=subprocess.PIPE, check=True).stdout
        check(gzip.decompress(packed) == data, f"{len(data)} bytes do not come back")
        check(len(packed) < len(data) * 1.15 + 40, f"{len(data)} bytes became {len(packed)}")
    check(len(packed) < len(data), "nothing is compressed")


@case
def the_profile_carries_its_counters():
    with program(0.3, "exit") as run:
        profile = run.profile()
        counters = [line for line in profile.comments if line.startswith("onstack.stats ")]
        equal(len(counters), 1, "lines of counters")
        words = dict(word.split("=") for word in counters[0].split()[1:])
        equal(int(words["recorded"]), sum(ticks for ticks, _, _ in profile.samples), "ticks in the profile's own books")
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
    """Shown, and judged only on a machine that does nothing else: ONSTACK_TEST_TIMES=1."""
    plain = {"PATH": os.environ["PATH"]}
    for name in (None, "true.out", "true.out.%p"):
        under = dict(plain, LD_PRELOAD=str(LIBRARY))
        if name:
            under["ONSTACK_PROFILE"] = str(OUT / name)
        pairs = sorted(seconds(under) - seconds(plain) for _ in range(101))
        print(f"#  true, {name or 'no profile asked for'}: {pairs[50] * 1e3:+.2f} ms (quarters {pairs[25] * 1e3:+.2f}, {pairs[75] * 1e3:+.2f})")
        check(pairs[50] < 0.002 or not os.environ.get("ONSTACK_TEST_TIMES"), f"{pairs[50] * 1e3:.2f} ms more")
    left = [name for name in os.listdir(OUT) if name.startswith("true.out.")]
    equal(left, [], "profiles without a sample, among many")

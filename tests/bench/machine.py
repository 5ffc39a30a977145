# SPDX-License-Identifier: MIT OR Apache-2.0
"""What one must know of the machine to read the figures."""

import gzip
import os
import platform
import re
import subprocess
from pathlib import Path


def _text(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _config_hz():
    try:
        with gzip.open("/proc/config.gz", "rt") as config:
            text = config.read()
    except OSError:
        text = _text(f"/boot/config-{platform.release()}")
    found = re.search(r"^CONFIG_HZ=(\d+)$", text, re.MULTILINE)
    return found.group(1) if found else "not readable"


def _cpu_model():
    found = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    model = found.group(1) if found else platform.machine()
    return model + (" (virtual machine)" if " hypervisor" in _text("/proc/cpuinfo") else "")


def _output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def _locked_version(directory, crate):
    lock = _text(Path(__file__).parent / directory / "Cargo.lock")
    found = re.search(f'name = "{crate}"\nversion = "([^"]+)"', lock)
    return found.group(1) if found else "unknown"


def _debian(package):
    return _output("dpkg-query", "-W", "-f=${Version}", package) or "not available"


def load():
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def facts():
    """(name, value) pairs for the header of the table."""
    return [
        ("cpu", _cpu_model()),
        ("cores", f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}"),
        ("kernel", f"{platform.system()} {platform.release()}"),
        ("CONFIG_HZ", _config_hz()),
        ("clock source", _text("/sys/devices/system/clocksource/clocksource0/current_clocksource").strip() or "unknown"),
        ("libc", " ".join(platform.libc_ver())),
        ("compiler", _output("cc", "--version").split("\n")[0]),
        ("rustc", _output("rustc", "--version") or "not available"),
        ("go", _output("go", "version").removeprefix("go version ") or "not available"),
        ("pprof-rs", _locked_version("pprof-rs", "pprof")),
        ("framehop", _locked_version("framehop", "framehop")),
        ("gperftools", _output("pkg-config", "--modversion", "libprofiler") or "not available"),
        ("jemalloc", _debian("libjemalloc2")),
        ("heaptrack", _debian("heaptrack")),
        ("libunwind", _output("pkg-config", "--modversion", "libunwind") or "not available"),
    ]

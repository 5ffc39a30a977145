#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The crates that the command `onstack` is built from, for builds without a network.

    vendor.py DIRECTORY       `cargo vendor` of bindings/rust/Cargo.lock into DIRECTORY, which must not exist

What only other systems, tests or benchmarks need is a third of a gigabyte, much of it prebuilt for Windows. Cargo wants to see
each crate of the lock file, but compiles none of these: their manifests stay, their files go.
"""
import json
import pathlib
import subprocess
import sys

RUST = pathlib.Path(__file__).resolve().parent.parent / "bindings/rust"
PROGRAM = "onstack-cli"
TARGETS = [f"{processor}-unknown-linux-{libc}" for processor in ("x86_64", "aarch64") for libc in ("gnu", "musl")]


def metadata(target):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=RUST, check=True, stdout=subprocess.PIPE).stdout)


def needed(target):
    """(name, version) of what goes into the program, and what its build scripts need."""
    data = metadata(target)
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] == PROGRAM]
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            if dependency["pkg"] not in seen and any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return {(packages[key]["name"], packages[key]["version"]) for key in seen}


def hollow(crate):
    """Leaves the manifest, without the targets that it names files for, and a library without contents."""
    checksums = json.loads((crate / ".cargo-checksum.json").read_text())
    for path in sorted(crate.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        elif path != crate / "Cargo.toml":
            path.unlink()
    (crate / "src").mkdir()
    (crate / "src/lib.rs").write_text("")
    (crate / ".cargo-checksum.json").write_text(json.dumps({"files": {}, "package": checksums["package"]}))


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    place = pathlib.Path(sys.argv[1]).absolute()
    if place.exists():
        sys.exit(f"vendor: {place} exists")
    wanted = set().union(*(needed(target) for target in TARGETS))
    command = ["cargo", "vendor", "--locked", "--quiet", "--versioned-dirs", str(place)]
    subprocess.run(command, cwd=RUST, check=True, stdout=subprocess.DEVNULL)
    whole = {f"{name}-{version}" for name, version in wanted}
    crates = sorted(place.iterdir())
    for crate in crates:
        if crate.name not in whole:
            hollow(crate)
    kept = sum(crate.name in whole for crate in crates)
    print(f"vendor: {kept} crates, and the manifests of {len(crates) - kept} that are not compiled")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every place that names onstack's version names the header's.

    check-versions.py          compares; says where it differs
    check-versions.py --write  writes the header's version there, but for the changelogs, which a person writes
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = "core/include/onstack/onstack.h"
NUMBER = r"(\d+\.\d+\.\d+)"
SHORT = r"(\d+\.\d+)"
OURS = r'name = "onstack(?!-fuzz")[a-z-]*"\nversion = "%s"\n(?!source)'
RUST = "bindings/rust/Cargo.toml"
# (files, pattern whose group is the version, how many of them there are at least in each file)
PLACES = [
    (RUST, r'^version = "%s"' % NUMBER, 1),
    (RUST, r'^onstack[a-z-]* = \{ version = "=%s"' % NUMBER, 2),
    ("bindings/rust/onstack-sys/build.rs", r'range_version\("%s"\.\.' % SHORT, 1),
    ("bindings/go/onstackhttp/otlp.go", r'^const scopeVersion = "%s"$' % NUMBER, 1),
    ("docs/man/onstack.3", r"^\.Qq %s \." % NUMBER, 1),
    ("README.md docs/ABI.md examples/c/CMakeLists.txt examples/cxx/CMakeLists.txt", r"find_package\(onstack %s" % SHORT, 1),
    ("docs/MIGRATING.md", r'package = "onstack-pprof-compat", version = "%s"' % SHORT, 1),
]
CHANGELOGS = [
    ("CHANGELOG.md", r"\A.*?^## %s" % NUMBER),
    ("core/package/debian/changelog", r"\Aonstack \(%s-\d+\)" % NUMBER),
]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def header_version():
    return ".".join(re.search(rf"^#define ONSTACK_VERSION_{part} (\d+)$", read(HEADER), re.M)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def fitting(version, found):
    """As many numbers of the version as stand there."""
    return ".".join(version.split(".")[: found.count(".") + 1])


def lock_files():
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("**/Cargo.lock") if not {"build", "target"} & set(path.relative_to(ROOT).parts))


def places():
    for files, pattern, least in PLACES:
        for path in files.split():
            yield path, pattern, least
    for path in lock_files():
        # The examples and tests that have one may depend on onstack from the registry, or not at all.
        yield path, OURS % NUMBER, 2 if path == "bindings/rust/Cargo.lock" else 0


def differing(version):
    count = 0
    for path, pattern, least in places():
        found = [match[1] for match in re.finditer(pattern, read(path), re.M)]
        count += len(found)
        if len(found) < least:
            yield f"{path} names no version where this check looks for it: {pattern}", 0
        yield from ((f"{path} says {one}", 0) for one in found if one != fitting(version, one))
    for path, pattern in CHANGELOGS:
        match = re.search(pattern, read(path), re.M | re.S)
        if not match or match[1] != version:
            yield f"{path} begins with {match[1] if match else 'no version'}; write what is new", 0
        count += 1
    for path in sorted((ROOT / "bindings/rust").glob("onstack*/Cargo.toml")):
        if "version.workspace = true" not in path.read_text():
            yield f"{path.relative_to(ROOT)} has a version of its own, not the workspace's", 0
    yield "", count


def write(version):
    def replaced(match):
        return match[0].replace(match[1], fitting(version, match[1]))

    for path, pattern, _ in places():
        text = read(path)
        new = re.sub(pattern, replaced, text, flags=re.M)
        if new != text:
            (ROOT / path).write_text(new, encoding="utf-8")
            print(f"check-versions: wrote {path}")


def main():
    if sys.argv[1:] not in ([], ["--write"]):
        sys.exit(__doc__)
    version = header_version()
    if sys.argv[1:] == ["--write"]:
        write(version)
    wrong, count = [], 0
    for text, number in differing(version):
        wrong += [text] if text else []
        count += number
    for line in wrong:
        print(f"check-versions: {HEADER} says {version}: {line}", file=sys.stderr)
    if wrong:
        print("check-versions: `ci/check-versions.py --write` writes all but the changelogs", file=sys.stderr)
        sys.exit(1)
    print(f"check-versions: {version} in {count} places")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes a cpio archive (newc), the kernel's format for an initial file system.

Usage: initramfs.py OUT NAME=FILE ...   NAME is the path inside; its directories are made.
"""
import os
import sys

NEWC = "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x"  # ino mode uid gid nlink mtime size dev x4 name check


def entry(number, name, mode, data=b"", device=(0, 0)):
    head = NEWC % (number, mode, 0, 0, 1, 0, len(data), 0, 0, device[0], device[1], len(name) + 1, 0)
    text = head.encode() + name.encode() + b"\0"
    text += b"\0" * (-len(text) % 4) + data
    return text + b"\0" * (-len(data) % 4)


def main():
    out, pairs = sys.argv[1], [argument.split("=", 1) for argument in sys.argv[2:]]
    directories = {"dev"}
    for name, _ in pairs:
        while name := os.path.dirname(name):
            directories.add(name)
    entries = [(name, 0o040755, b"", (0, 0)) for name in sorted(directories)]
    # The kernel opens it for the first process before anything is mounted.
    entries.append(("dev/console", 0o020600, b"", (5, 1)))
    for name, path in pairs:
        with open(path, "rb") as file:
            entries.append((name, 0o100755, file.read(), (0, 0)))
    entries.append(("TRAILER!!!", 0, b"", (0, 0)))
    with open(out, "wb") as archive:
        for number, one in enumerate(entries, 1):
            archive.write(entry(number, *one))


if __name__ == "__main__":
    main()

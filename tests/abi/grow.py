#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes the headers as a later version could have them: every structure that begins with its size has two more members.

    grow.py DIRECTORY NEW_DIRECTORY
"""
import pathlib
import re
import sys

STRUCT = re.compile(r"((?:typedef )?struct (\w+) \{\n  uint32_t size;.*?)(\n\}(?: \2)?;)", re.S)
old, new = map(pathlib.Path, sys.argv[1:])
total = 0
for header in sorted(old.glob("*.h")):
    text, count = STRUCT.subn(r"\1\n  uint64_t grown;\n  const char *grown_text;\3", header.read_text())
    total += count
    text = text.replace("#define ONSTACK_VERSION_MINOR 1", "#define ONSTACK_VERSION_MINOR 99\n#define GROWN 1")
    (new / header.name).write_text(text)
if total < 5:
    sys.exit(f"grow.py: found only {total} structures that begin with their size; its pattern no longer fits the headers")

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints a header as a later version could have it: every structure that begins with its size has two more members.

    grow.py HEADER >NEW_HEADER
"""
import re
import sys

STRUCT = re.compile(r"(typedef struct (\w+) \{\n  uint32_t size;.*?)(\n\} \2;)", re.S)
text, count = STRUCT.subn(r"\1\n  uint64_t grown;\n  const char *grown_text;\3", open(sys.argv[1]).read())
if count < 5:
    sys.exit(f"grow.py: found only {count} structures that begin with their size; its pattern no longer fits the header")
print(text.replace("#define ONSTACK_VERSION_MINOR 1", "#define ONSTACK_VERSION_MINOR 99\n#define GROWN 1"), end="")

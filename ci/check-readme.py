#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the README as a newcomer would, in an empty directory beside a checkout.

A block is marked by a comment on the line before it:
    <!-- ci: file NAME -->   the block becomes the file NAME
    <!-- ci: run -->         the block is run with bash -e
    <!-- ci: run DIR -->     the same in DIR
In the empty directory `onstack` is a link to the checkout. An unmarked block is only shown.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- ci: (file|run) ?(\S*) -->\n```\w*\n(.*?)```", re.DOTALL)


def main() -> int:
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    if not blocks:
        print("check-readme: the README has no marked block: the pattern or the README is wrong")
        return 1
    with tempfile.TemporaryDirectory() as place:
        here = pathlib.Path(place)
        (here / "onstack").symlink_to(ROOT)
        for number, (kind, argument, text) in enumerate(blocks, 1):
            if kind == "file":
                target = here / argument
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
                continue
            print(f"-- README block {number}:\n{text}", end="", flush=True)
            done = subprocess.run(["bash", "-euc", text], cwd=here / argument, timeout=500, check=False)
            if done.returncode != 0:
                print(f"check-readme: block {number} failed with {done.returncode}")
                return 1
    print(f"README: {len(blocks)} blocks ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the README, and what else has marked blocks, as a newcomer would: in an empty directory beside a checkout.

    check-readme.py [DOCUMENT...]      default: README.md, CONTRIBUTING.md, docs/**/*.md
    check-readme.py --shell HEADING    print that section of the README as a shell script, for a machine without Python

A block is marked by a comment on the line before it:
    <!-- ci: file NAME -->   the block becomes the file NAME
    <!-- ci: run -->         the block is run with bash -e
    <!-- ci: run DIR -->     the same in DIR
In the empty directory, one for each document, `onstack` is a link to the checkout. An unmarked block is only shown.
Links from a document to a file must lead to one.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- ci: (file|run) ?(\S*) -->\n```\w*\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def run_blocks(document: pathlib.Path, blocks: list) -> bool:
    with tempfile.TemporaryDirectory() as place:
        here = pathlib.Path(place)
        (here / "onstack").symlink_to(ROOT)
        for number, (kind, argument, text) in enumerate(blocks, 1):
            if kind == "file":
                target = here / argument
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
                continue
            print(f"-- {document.name} block {number}:\n{text}", end="", flush=True)
            done = subprocess.run(["bash", "-euc", text], cwd=here / argument, timeout=500, check=False)
            if done.returncode != 0:
                print(f"check-readme: {document.name} block {number} failed with {done.returncode}")
                return False
    return True


def dead_links(document: pathlib.Path) -> list:
    targets = [target.split("#")[0] for target in LINK.findall(document.read_text())]
    return [target for target in targets if target and "://" not in target and not (document.parent / target).exists()]


def shell_of(heading: str) -> int:
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", (ROOT / "README.md").read_text(), re.M | re.S)
    blocks = BLOCK.findall(section.group(1)) if section else []
    if not blocks:
        print(f"check-readme: the README has no section '{heading}' with marked blocks", file=sys.stderr)
        return 1
    for kind, argument, text in blocks:
        if kind == "file":
            print(f"mkdir -p {pathlib.Path(argument).parent}\ncat >{argument} <<'END_OF_FILE'\n{text}END_OF_FILE")
        else:
            print(f"(cd ./{argument}\n{text})")
    return 0


def main() -> int:
    if sys.argv[1:2] == ["--shell"]:
        return shell_of(" ".join(sys.argv[2:]))
    named = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    documents = named or [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    counts = []
    for document in documents:
        dead = dead_links(document)
        if dead:
            print(f"check-readme: {document.name} links to files that are not there: {', '.join(dead)}")
            return 1
        blocks = BLOCK.findall(document.read_text())
        if document.name == "README.md" and not blocks:
            print("check-readme: the README has no marked block: the pattern or the README is wrong")
            return 1
        if not run_blocks(document, blocks):
            return 1
        if blocks:
            counts.append(f"{document.name} {len(blocks)}")
    print(f"blocks ok: {', '.join(counts)}; links of {len(documents)} documents lead somewhere")
    return 0


if __name__ == "__main__":
    sys.exit(main())

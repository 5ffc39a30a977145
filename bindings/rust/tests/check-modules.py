#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Modules of a crate depend on each other in one direction: what is said of one can be read without the other.

Usage: check-modules.py [directory with lib.rs or main.rs ...]   (default: those of this workspace)
Looks at `crate::name` outside of comments and tests; a name that lib.rs re-exports counts as its module.
"""
import pathlib
import re
import sys
from graphlib import CycleError, TopologicalSorter

HERE = pathlib.Path(__file__).resolve().parent.parent


def code_of(path):
    text = re.sub(r"#\[cfg\(test\)\]\s*mod \w+ \{.*", "", path.read_text(), flags=re.S)  # tests stand last
    return re.sub(r"//.*", "", text)


def names_in(code):
    for plain in re.findall(r"\bcrate::(\w+)", code):
        yield plain
    for group in re.findall(r"\bcrate::\{([^;]*)\}", code):
        yield from re.findall(r"(?:^|[,{])\s*(\w+)", group)


def module_of(path, root):
    parts = path.relative_to(root).with_suffix("").parts
    return parts[0]  # the files of a directory are one module


def graph_of(root):
    files = [path for path in sorted(root.rglob("*.rs")) if path.name not in ("lib.rs", "main.rs")]
    modules = {module_of(path, root) for path in files}
    tops = "".join(code_of(root / top) for top in ("lib.rs", "main.rs") if (root / top).exists())
    exports = {}
    for module, names in re.findall(r"pub use (\w+)::([^;]+);", tops):
        exports.update(dict.fromkeys(re.findall(r"\w+", names), module))
    graph = {module: set() for module in modules}
    for path in files:
        module = module_of(path, root)
        found = (exports.get(name, name) for name in names_in(code_of(path)))
        graph[module] |= {name for name in found if name in modules and name != module}
    return graph


def main():
    crates = ("onstack", "onstack-profile", "onstack-pprof-compat", "onstack-http", "onstack-tracing", "onstack-cli")
    roots = [pathlib.Path(name) for name in sys.argv[1:]] or [HERE / crate / "src" for crate in crates]
    edges = 0
    for root in roots:
        graph = graph_of(root)
        edges += sum(map(len, graph.values()))
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            sys.exit(f"check-modules: {root}: these modules depend on each other in a circle: {' <- '.join(error.args[1])}")
    if edges == 0:
        sys.exit(f"check-modules: no dependency found below {', '.join(map(str, roots))}; is the path right?")
    print(f"check-modules: {edges} dependencies between Rust modules, no circle")


if __name__ == "__main__":
    main()

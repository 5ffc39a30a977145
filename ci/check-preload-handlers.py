#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the preload's signal handlers reach calls nothing of libc but what ALLOWED names.

Follows the direct calls in the linked library (objdump) from each handler and lists the imports that are reached. Calls by pointer
are not followed: those are the host's own handler, and providers, whose objects ci/check-handler.sh looks at.
Usage: ci/check-preload-handlers.py [library]   (default: build/lib/libonstack-preload.so)
"""
import os
import re
import subprocess
import sys

# What sigaction of core/preload installs, and the session's own handler as it is linked here.
HANDLERS = ("host_handler", "lifecycle_on_signal", "onstack_handler_entry")
ALLOWED = {
    "clock_gettime": "async-signal-safe (POSIX), bound at load time (-z now); waits for the library's own threads, where a handler"
    " that is installed inside another one comes",
}

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
# Prefixes come before: bnd, data16, rex.W. A call through the table of addresses (-fno-plt) has its name in a comment.
BRANCH = re.compile(
    r"^\s*[0-9a-f]+:\s+(?:[\w.]+ )*(?:callq?|j\w+|bl|b|b\.\w+|cbn?z|tbn?z)\s[^<]*<([^+>]+?)(?:[+-]0x[0-9a-f]+)?>")


def calls(library):
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], check=True, capture_output=True, text=True).stdout
    graph, function = {}, None
    for line in text.splitlines():
        if match := FUNCTION.match(line):
            function = match[1]
            graph.setdefault(function, set())  # two static ones may have one name
        elif function and (match := BRANCH.match(line)):
            graph[function].add(match[1])
    return graph


def reached(graph, handler):
    """Each function that is reached, with the one that calls it."""
    callers, todo = {handler: None}, [handler]
    while todo:
        function = todo.pop()
        for called in graph.get(function, ()):
            if called not in callers:
                callers[called] = function
                todo.append(called)
    return callers


def path(callers, function):
    names = []
    while function:
        names.append(function)
        function = callers[function]
    return " <- ".join(names)


def main():
    library = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BUILD", "build") + "/lib/libonstack-preload.so"
    if "NOW" not in subprocess.run(["readelf", "-dW", library], check=True, capture_output=True, text=True).stdout:
        sys.exit(f"check-preload-handlers: {library} is bound lazily: link it with -z now")
    graph = calls(library)
    bad, seen = [], set()
    for handler in HANDLERS:
        if handler not in graph:
            sys.exit(f"check-preload-handlers: {library} has no function {handler}: say in HANDLERS what is installed now")
        callers = reached(graph, handler)
        if len(callers) < 2:
            sys.exit(f"check-preload-handlers: {handler} calls nothing: the disassembly is not understood")
        seen.update(callers)
        bad += [path(callers, name) for name in sorted(callers) if "@" in name and name.split("@")[0] not in ALLOWED]
    if bad:
        sys.exit("check-preload-handlers: libc in a signal handler:\n  " + "\n  ".join(bad))
    unreached = set(ALLOWED) - {name.split("@")[0] for name in seen}
    if unreached:
        sys.exit(f"check-preload-handlers: {', '.join(unreached)}: not reached: take it out of ALLOWED, or calls are not understood")
    print(f"check-preload-handlers: {len(seen)} functions are reached, none of libc but {', '.join(ALLOWED)}")


if __name__ == "__main__":
    main()

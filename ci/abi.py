#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What programs that were built with the public headers depend on, as text, and whether newer headers keep it (docs/ABI.md).

    ci/abi.py dump DIRECTORY             print constants, types, functions and the layout of every structure
    ci/abi.py compatible OLD NEW         fail if NEW breaks a program that was built with OLD

Each directory holds the headers and is named onstack.

The layout is asked of the compiler (CC, cc by default). Experimental functions are those of the node
ONSTACK_EXPERIMENTAL in core/onstack.map; they are listed, and may change.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CC = os.environ.get("CC", "cc").split()

DEFINE = re.compile(r"^#\s*define (ONSTACK_\w+) (\S.*?)\s*(?:/\*.*)?$", re.M)
NOT_CONSTANTS = re.compile(r"ONSTACK_(API|VERSION_\w+|[A-Z]+_H)$")
STRUCT = re.compile(r"(?:typedef )?struct (\w+) \{(.*?)\}(?: \1)?;", re.S)
OPAQUE = re.compile(r"typedef struct (\w+) \1;")
FUNCTION = re.compile(r"^exported_here ([^;]*);", re.M)
TYPE = re.compile(r"typedef (?!struct)([^;{]*);")
FIELD = re.compile(r"^(.*?)\(\*(\w+)\)\((.*)\)$|^(.*?)(\w+)((?:\[\d+\])?)$", re.S)
# A count of what there is grows with it.
GROWING = {"ONSTACK_TRUNCATION_COUNT"}


def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def fields_of(body):
    """Yields (type, name); a pointer to a function has no other name for its type."""
    for line in filter(None, map(squeeze, body.split(";"))):
        found = FIELD.match(line)
        if found.group(2):
            yield squeeze(f"{found.group(1)}(*)({found.group(3)})"), found.group(2)
        else:
            yield squeeze(found.group(4) + found.group(6)), found.group(5)


def nameless(line):
    """Without the names of parameters, which are for readers."""
    return squeeze(re.sub(r"(?<=[ *])(?!onstack_)\w+(?=[,)])", "", line))


def experimental():
    text = (ROOT / "core" / "onstack.map").read_text()
    node = re.search(r"^ONSTACK_EXPERIMENTAL \{(.*?)^\}", text, re.S | re.M)
    return set(re.findall(r"\bonstack_\w+", node.group(1))) if node else set()


def includes(headers):
    return "".join(f'#include "{header}"\n' for header in headers)


def search(headers):
    return ["-I", str(headers[0].parent.parent)]


def preprocess(headers):
    command = [*CC, "-E", "-P", "-x", "c", "-DONSTACK_API=exported_here", *search(headers), "-"]
    text = subprocess.run(command, input=includes(headers), check=True, capture_output=True, text=True).stdout
    return text[text.index("exported_here") :]  # the text of the system's headers comes before


def ask_compiler(headers, expressions):
    """The values of integer expressions, in order."""
    body = "".join(f'  printf("%lld\\n", (long long)({text}));\n' for text in expressions)
    source = includes(headers) + f"#include <stdio.h>\nint main(void) {{\n{body}  return 0;\n}}\n"
    with tempfile.TemporaryDirectory() as place:
        program = pathlib.Path(place, "ask")
        subprocess.run([*CC, "-x", "c", *search(headers), "-", "-o", str(program)], input=source, text=True, check=True)
        return [int(line) for line in subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()]


class Abi:
    def __init__(self, directory):
        headers = sorted(pathlib.Path(directory).resolve().glob("*.h"))
        text = preprocess(headers)
        structs = {name: list(fields_of(body)) for name, body in STRUCT.findall(text)}
        defines = DEFINE.findall("".join(header.read_text() for header in headers))
        names = [name for name, _ in defines if not NOT_CONSTANTS.match(name)]
        expressions = list(names)
        for name, fields in structs.items():
            expressions += [f"sizeof({name})", f"_Alignof({name})"]
            for _, field in fields:
                expressions += [f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"]
        values = iter(ask_compiler(headers, expressions))
        self.constants = {name: next(values) for name in names}
        self.structs, self.sizes = {}, {}
        for name, fields in structs.items():
            self.sizes[name] = (next(values), next(values))
            self.structs[name] = [(next(values), next(values), kind, field) for kind, field in fields]
        self.opaque = set(OPAQUE.findall(text)) - structs.keys()
        self.types = {squeeze(line) for line in TYPE.findall(text)}
        self.functions = {re.search(r"(\w+)\(", line).group(1): squeeze(line) for line in FUNCTION.findall(text)}

    def lines(self):
        young = experimental()
        yield from (f"constant {name} = {value}" for name, value in sorted(self.constants.items()))
        yield from (f"type {line}" for line in sorted(self.types))
        yield from (f"opaque {name}" for name in sorted(self.opaque))
        for name, fields in sorted(self.structs.items()):
            yield "struct {}: {} bytes, aligned to {}".format(name, *self.sizes[name])
            yield from (f"  {offset:4} {size:4} {field}: {kind}" for offset, size, kind, field in fields)
        for name, line in sorted(self.functions.items()):
            yield f"{'experimental' if name in young else 'function'} {line}"


def check_struct(name, old, new):
    if name not in new.structs:
        yield f"struct {name} is gone"
        return
    size, grown = old.sizes[name][0], new.sizes[name][0]
    sized = old.structs[name][0][3] == "size"
    if grown < size or (grown > size and not sized):
        yield f"struct {name} has {grown} bytes, not {size}" + ("" if sized else ": without a size member it cannot grow")
    by_offset = {offset: (bytes_, kind, field) for offset, bytes_, kind, field in new.structs[name]}
    reserved = []
    for offset, bytes_, kind, field in old.structs[name]:
        if field.startswith("reserved"):
            reserved.append(range(offset, offset + bytes_))
        elif tuple(map(nameless, map(str, by_offset.get(offset, ())))) != (str(bytes_), nameless(kind), field):
            yield f"struct {name}: {field} was {bytes_} bytes of {kind} at {offset}, now there is {by_offset.get(offset)}"
    # Whatever an old program leaves unset in such a place is padding, and of any value.
    known = {field for _, _, _, field in old.structs[name]}
    for offset, bytes_, _, field in new.structs[name]:
        if field not in known and offset < size and not any(offset in r and offset + bytes_ <= r.stop for r in reserved):
            yield f"struct {name}: the new {field} lies in what was padding, or over an old member"


def breaks(old, new):
    young = experimental()
    for name, value in old.constants.items():
        now = new.constants.get(name)
        if now != value and not (name in GROWING and now is not None and now > value):
            yield f"constant {name} was {value}, is {now}"
    types = set(map(nameless, new.types))
    for line in sorted(old.types):
        if nameless(line) not in types:
            yield f"type changed or gone: {line}"
    for name in sorted(old.opaque - new.opaque):
        yield f"opaque {name} is gone"
    for name in old.structs:
        yield from check_struct(name, old, new)
    for name, line in old.functions.items():
        if name not in young and nameless(new.functions.get(name, "")) != nameless(line):
            yield f"function changed: {line}; now: {new.functions.get(name, 'gone')}"


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "dump":
        print("\n".join(Abi(arguments[1]).lines()))
        return 0
    if len(arguments) == 3 and arguments[0] == "compatible":
        found = list(breaks(Abi(arguments[1]), Abi(arguments[2])))
        print("\n".join(found), end="\n" if found else "")
        return 1 if found else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles in pprof's format, field by field (profile.proto of google/pprof), for pages whose numbers are known."""

import gzip
import pathlib


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, *parts):
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def times_of(microseconds):
    """onstack.h says how they are written."""
    since = [at - before for at, before in zip(microseconds, [0, *microseconds])]
    return message(1000, *(varint((2 * step if step >= 0 else -2 * step - 1) << 1) for step in since))


def write(path, types, samples):
    """types: [(name, unit)]; samples: [(functions, root first, values, labels)], and behind these, where it is known, when they
    were taken, in microseconds since the start. A function is a name, or (name, file)."""
    strings, functions = {"": 0}, {}
    text = lambda word: strings.setdefault(word, len(strings))
    place = lambda name: functions.setdefault(name if isinstance(name, tuple) else (name, ""), len(functions) + 1)
    out = [message(1, number(1, text(name)), number(2, text(unit))) for name, unit in types]
    for stack, values, labels, *times in samples:
        locations = b"".join(varint(place(name)) for name in reversed(stack))
        told = [message(3, number(1, text(key)), number(2, text(value))) for key, value in labels.items()]
        if times:
            told.append(times_of(times[0]))
        out.append(message(2, message(1, locations), message(2, *map(varint, values)), *told))
    for (name, file), index in functions.items():
        out.append(message(4, number(1, index), message(4, number(1, index))))
        out.append(message(5, number(1, index), number(2, text(name)), number(4, text(file))))
    out += [message(6, word.encode()) for word in strings]
    pathlib.Path(path).write_bytes(gzip.compress(b"".join(out)))

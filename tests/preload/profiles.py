# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a pprof profile: as much of profile.proto as the tests of the preload ask about, with no package needed."""
import atexit
import functools
import gzip
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
def checker():
    """The program that holds a profile against google/pprof's checks and the rules of profile servers; None without Go."""
    if not shutil.which("go"):
        print("skip the rules of profile servers: go is not installed", flush=True)
        return None
    # Of this process' own: several suites run at once.
    program = (ROOT / os.environ.get("BUILD", "build")).resolve() / "tests" / f"checker-{os.getpid()}"
    atexit.register(lambda: program.unlink(missing_ok=True))
    subprocess.run(["go", "build", "-o", program, "./internal/checker"], cwd=ROOT / "bindings" / "go", check=True)
    return program


def hold_against_the_rules(raw):
    if checker():
        verdict = subprocess.run([checker(), "-"], input=raw, stderr=subprocess.PIPE, check=False)
        if verdict.returncode != 0:
            raise ValueError(verdict.stderr.decode().strip())


def fields(message):
    """(number, value) of each field; bytes for the length-delimited ones."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            length = varint()
            if at + length > len(message):
                raise ValueError("a field is longer than its message")
            yield key >> 3, message[at : at + length]
            at += length
        else:
            raise ValueError(f"wire type {key & 7}, which no profile has")


def numbers(value):
    """A repeated number field, packed or not."""
    if isinstance(value, int):
        return [value]
    out, at, shift = [], 0, 0
    for byte in value:
        at |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            out.append(at)
            at = shift = 0
    return out


class Profile:
    """samples: a list of (ticks, nanoseconds, [function names, leaf first]); values: all columns of each, labels: those of text;
    comments: of text."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.raw = file.read()
        if self.raw[:2] == b"\x1f\x8b":  # a preload without zlib writes it as it is
            self.raw = gzip.decompress(self.raw)  # checks the trailer's sum and length
        hold_against_the_rules(self.raw)
        strings, functions, locations, samples, comments = [], {}, {}, [], []
        for number, value in fields(self.raw):
            if number == 6:
                strings.append(value.decode())
            elif number == 5:
                function = dict(fields(value))
                functions[function[1]] = function.get(2, 0)
            elif number == 4:
                locations[self._location(value)[0]] = self._location(value)[1]
            elif number == 2:
                samples.append(self._sample(value))
            elif number == 13:
                comments += numbers(value)
        self.comments = [strings[comment] for comment in comments]
        name = lambda location: [strings[functions[line]] for line in locations[location]] or ["?"]
        self.values = [values for _, values, _ in samples]
        self.labels = [{strings[key]: strings[text] for key, text in labels} for _, _, labels in samples]
        self.samples = [
            (values[0], values[1], [text for location in stack for text in name(location)]) for stack, values, _ in samples
        ]

    @staticmethod
    def _location(message):
        identity, lines = 0, []
        for number, value in fields(message):
            if number == 1:
                identity = value
            elif number == 4:
                lines.append(dict(fields(value))[1])
        return identity, lines

    @staticmethod
    def _sample(message):
        stack, values, labels = [], [], []
        for number, value in fields(message):
            if number == 1:
                stack += numbers(value)
            elif number == 2:
                values += numbers(value)
            elif number == 3:
                label = dict(fields(value))
                labels += [(label[1], label[2])] if label.get(2) else []
        return stack, values, labels

    def sum(self, column, function=None):
        """A column of all samples, or of those whose stack has this function."""
        rows = zip(self.values, self.samples)
        return sum(values[column] for values, (_, _, stack) in rows if function is None or function in stack)

    def seconds(self, function=None):
        """Of all samples, or of those whose stack has this function."""
        return sum(ns for _, ns, stack in self.samples if function is None or function in stack) / 1e9

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Seeds for the fuzz targets, out of this machine's own files: parts of real .eh_frame sections, a small object with the
special functions of the Go toolchain's own binary, /proc/self/maps, a small ELF image; and samples, texts, variables and
a heap with labels made by hand.

Usage: seeds.py DIRECTORY     (makes DIRECTORY/<target>/*)
What is not on the machine is left out and said.
"""
import glob
import hashlib
import os
import shutil
import struct
import subprocess
import sys

LIBRARIES = ["libc.so.6", "ld-linux*.so*", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libcrypto.so*"]
SPECIAL = """runtime.asmcgocall runtime.systemstack runtime.cgocallback runtime.nanotime1 time.now crosscall2
runtime.asyncPreempt runtime.sigpanic runtime.goexit runtime.mstart runtime.rt0_go runtime.mcall gogo runtime.morestack
runtime.schedule runtime.memmove runtime.duffcopy runtime.mallocgc""".split()
ENTRIES = 10  # of a section, in one seed


def save(directory, target, data):
    os.makedirs(os.path.join(directory, target), exist_ok=True)
    name = hashlib.sha1(data).hexdigest()[:16]
    with open(os.path.join(directory, target, name), "wb") as file:
        file.write(data)


def sections(data):
    """name -> (address, bytes) of an ELF image."""
    table, = struct.unpack_from("<Q", data, 40)
    size, count, names_at = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    names = heads[names_at]
    found = {}
    for head in heads:
        at = names[4] + head[0]
        name = data[at:data.index(b"\0", at)].decode()
        if head[1] != 8:
            found[name] = (head[3], data[head[4]:head[4] + head[5]])
    return found


def entries(section):
    """(offset, length with its field, CIE's offset or None) of each record."""
    at = 0
    while at + 8 <= len(section):
        length, pointer = struct.unpack_from("<II", section, at)
        if length == 0 or length == 0xFFFFFFFF:
            return
        yield at, length + 4, None if pointer == 0 else at + 4 - pointer
        at += length + 4


def regroup(section, common, functions):
    """A section of one CIE and some of its FDEs; pc-relative addresses stay about where they were."""
    out = bytearray(section[common[0]:common[0] + common[1]])
    for at, length, _ in functions:
        record = bytearray(section[at:at + length])
        struct.pack_into("<I", record, 4, len(out) + 4)
        out += record
    return bytes(out) + bytes(4)


def module(section):
    """A loaded object of a header, that section, and nothing else (fuzz_module.c). Each function gets 16 bytes of it."""
    section = bytearray(section)
    functions = [at for at, _, parent in entries(section) if parent is not None]
    for number, at in enumerate(functions):
        struct.pack_into("<iI", section, at + 8, number * 16 - (12 + at + 8), 16)
    memory = struct.pack("<4BiI", 1, 0x1B, 3, 0x3B, 12 - 4, 0) + section
    headers = struct.pack("<BHH", 5 << 2, 0, len(memory)) + struct.pack("<BHH", 1 | 4 << 2, 0, 12)
    return b"\x02" + headers + memory


def cfi(directory):
    files = [path for name in LIBRARIES for path in glob.glob("/lib/*/" + name) + glob.glob("/usr/lib/*/" + name)]
    for path in sorted({os.path.realpath(path) for path in files}):
        with open(path, "rb") as file:
            section = sections(file.read()).get(".eh_frame", (0, b""))[1]
        records = list(entries(section))
        commons = {at: (at, length) for at, length, parent in records if parent is None}
        for at, common in commons.items():
            own = [record for record in records if record[2] == at]
            # The longest have the rare instructions; some of the others as they come.
            picked = [sorted(own, key=lambda record: -record[1])[:ENTRIES]]
            picked += [own[i:i + ENTRIES] for i in range(0, len(own), max(ENTRIES, len(own) // 3))]
            for functions in picked:
                data = regroup(section, common, functions)
                if len(data) < 3000:
                    save(directory, "cfi", b"\xff" + data)
                    save(directory, "module", module(data))


class GoTable:
    """.gopclntab (runtime/symtab.go, pcHeader), as Go 1.20 and later write it."""

    def __init__(self, data):
        self.data = data
        self.count, _, _, self.names, _, _, self.pctab, self.functions = struct.unpack_from("<8Q", data, 8)

    def each(self):
        for i in range(self.count):
            low, record, high = struct.unpack_from("<III", self.data, self.functions + i * 8)
            at = self.functions + record
            name_at = self.names + struct.unpack_from("<I", self.data, at + 4)[0]
            name = self.data[name_at:self.data.index(b"\0", name_at)].decode()
            yield name, low, high, self.data[at:at + 44]

    def pcsp(self, record):
        at = self.pctab + struct.unpack_from("<I", record, 16)[0]
        end = self.data.index(b"\0", at + 1)
        return self.data[at:end + 1]


def go_object(text, table):
    """The special functions alone: their code, a function table, and the lengths of two of its parts."""
    code, names, pctab, pairs, records = b"", b"\0", b"\0", [], b""
    chosen = [function for function in table.each() if function[0] in SPECIAL]
    for name, low, high, record in chosen:
        record = bytearray(record)
        pcsp = table.pcsp(record)
        struct.pack_into("<II", record, 0, len(code), len(names))
        struct.pack_into("<I", record, 16, len(pctab))
        pairs.append((len(code), len(records)))
        code += text[low:high][:400]
        names, pctab, records = names + name.encode() + b"\0", pctab + pcsp, records + bytes(record)
    functab = b"".join(struct.pack("<II", low, len(pairs) * 8 + 4 + at) for low, at in pairs) + struct.pack("<I", len(code))
    header = struct.pack("<IHBBQQQQQQQQ", 0xFFFFFFF1, 0, table.data[6], 8, len(pairs), 0, 0, 72, 72 + len(names), 0,
                         72 + len(names), 72 + len(names) + len(pctab))
    pclntab = header + names + pctab + functab + records
    return code, pclntab, len(names), len(pctab)


def elf(parts):
    """An image whose addresses are its file offsets. parts: (name, type, flags, bytes, link, entry size)."""
    body, heads = b"", [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    parts = list(parts) + [(".shstrtab", 3, 0, None, 0, 0)]
    all_names = b"\0" + b"".join(part[0].encode() + b"\0" for part in parts)
    for name, kind, flags, data, link, entry in parts:
        data = all_names if data is None else data
        body += bytes(-len(body) % 8)
        at = 64 + 56 + len(body)
        heads.append(struct.pack("<IIQQQQIIQQ", all_names.index(b"\0" + name.encode() + b"\0") + 1, kind, flags, at, at,
                                 len(data), link, 0, 8, entry))
        body += data
    body += bytes(-len(body) % 8)
    table = 64 + 56 + len(body)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, table, 0, 64, 56, 1, 64,
                                                             len(heads), len(heads) - 1)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, table, table, 4096)
    return header + segment + body + b"".join(heads)


def go(directory):
    tool = shutil.which("go")
    if not tool:
        print("seeds: no Go here: no seeds from its function table")
        return
    root = subprocess.run([tool, "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    with open(os.path.join(root, "bin", "go"), "rb") as file:
        found = sections(file.read())
    table = GoTable(found[".gopclntab"][1])
    text = found[".text"][1]
    code, pclntab, names_bytes, pctab_bytes = go_object(text, table)
    text_at = 64 + 56
    table_at = text_at + len(code) + -len(code) % 8
    parts = [(".text", 1, 6, code, 0, 0)]
    save(directory, "go", b"T" + pclntab)
    # Before Go 1.26 the header tells where text begins, since then .go.module alone. (The target adds the load address.)
    old = pclntab[:24] + struct.pack("<Q", text_at) + pclntab[32:]
    save(directory, "go", elf(parts + [(".gopclntab", 1, 2, old, 0, 0)]))
    module = [0] * 24
    module[0], module[10] = table_at, table_at + 72 + names_bytes
    module[13], module[22], module[23] = module[10] + pctab_bytes, text_at, text_at + len(code)
    save(directory, "go", elf(parts + [(".gopclntab", 1, 2, pclntab, 0, 0),
                                       (".go.module", 1, 2, struct.pack("<24Q", *module), 0, 0)]))


def symbols(directory):
    strings = b"\0main\0inner\0alias@@V1\0local\0"
    rows = b"".join(struct.pack("<IBBHQQ", strings.index(name) + 1 if name else 0, info, 0, section, value, size)
                    for name, info, section, value, size in [
                        (b"", 0, 0, 0, 0), (b"\0main", 0x12, 1, 0x1000, 0x100), (b"\0inner", 0x12, 1, 0x1024, 0x30),
                        (b"\0alias", 0x22, 1, 0x1000, 0x100), (b"\0local", 0x02, 1, 0x1200, 0x40),
                        (b"\0main", 0x10, 1, 0x1300, 0x10)])
    note = struct.pack("<III", 4, 20, 3) + b"GNU\0" + bytes(range(20))
    for kind in (2, 11):
        image = elf([(".text", 1, 6, bytes(64), 0, 0), (".note", 7, 2, note, 0, 0),
                     (".symtab", kind, 0, rows, 4, 24), (".strtab", 3, 0, strings, 0, 0)])
        save(directory, "elf", image)
        for kept in b"\xff\xfe\x80":
            save(directory, "symbols", bytes([kept]) + image)


def labels(directory):
    """The heap of fuzz_labels.c: g, m, the goroutine, its labels and their texts, one behind the other."""
    heap, pairs = 0xC000000000, [(b"route", b"/a"), (b"empty", b""), (b"k" * 30, b"v" * 90)]
    texts_at = 152 + 32 * len(pairs)
    rows = texts = b""
    for text in [part for pair in pairs for part in pair]:
        rows += struct.pack("<QQ", heap + texts_at + len(texts), len(text))
        texts += text
    words = [heap + 32, 0, 0, 0, 0, heap + 64, 0, 0, 0, 0, heap + 96, 0, 0, 0, 0, heap + 128,
             heap + 152, len(pairs), len(pairs)]
    for room in (0, 8, 9, 16, 255):
        for everywhere in (0, 1):
            save(directory, "labels", bytes([room, everywhere]) + struct.pack("<19Q", *words) + rows + texts)


def status(directory):
    paths = [b"/usr/lib/libc.so.6", b"/a\nonstack.module lost=1 path=/b", b"/\\012", "/\u00e9\u2028\u0085\U0001f600".encode(),
             b"/\xff\xc3", b""]
    rows = [struct.pack("<BH", 1 + number, len(path)) + path for number, path in enumerate(paths)]
    save(directory, "status", b"".join(rows))
    save(directory, "status", b"".join(rows) * 5)
    save(directory, "status", struct.pack("<BH", 255, 4200) + b"/a")


def maps(directory):
    with open("/proc/self/maps", "rb") as file:
        save(directory, "maps", b"R" + file.read()[:3000])
    save(directory, "maps", b"R00400000-00500000 r-xp 00001000 fd:01 77     /a \\012 b (deleted)\n"
                            b"7fff00000000-7fff00001000 rw-s 00000000 00:00 0 \nffffffffff600000-ffffffffff601000 --xp 0")
    save(directory, "maps", bytes(range(1, 200)))


def number(value):
    """As take_number of samples.c reads it."""
    data = value.to_bytes(7, "little").rstrip(b"\0")
    return bytes([len(data)]) + data


def samples(directory):
    """A few threads, names and stacks, with and without a symbolizer (samples.c)."""
    strings = [b"main", b"worker", b"f;g\n", b"\xd0\xbf\xd0\xbe\xd1", b"", b"_ZN1a1bE", b"/a/b.c", b"[truncated]"]
    pool = b"".join(bytes([len(text)]) + text for text in strings)
    for bits in (0, 0x400, 0x410 | 2 << 5, 0x200, 0xf400, 0x1400, 0x0a):
        data = struct.pack("<H", bits) + number(1700000000) + number(10**9) + b"seed" + pool
        for sample in range(6):
            frames = bytes([sample, sample + 1, 2, 3])[:1 + sample % 4]
            data += struct.pack("<HB", len(frames) | 0xf00, sample) + number(sample) + number(10**7) + number(sample)
            data += number(sample % 3) + bytes([0xa1 if sample % 2 else 0, sample])[:1 + sample % 2] + frames
        save(directory, "pprof", data)


def environment(directory):
    """One byte of choice a variable (fuzz_environment.c): 0 none, 2 mod 4 a given text."""
    given = {text: 2 + 4 * index for index, text in enumerate(
        ["", "/tmp/a", "out-%p", "a%%b%p%+", "99", "10000", "wall", "cpu", "12", "follow", "stop", "rules", "/tmp/%+"])}
    for chosen in [("/tmp/a",), ("out-%p", 0, "99", 0, "wall", 0, 0, "follow", "rules", "/tmp/a"),
                   ("/tmp/%+", 0, "99", 0, "cpu", 0, "12", "stop"), (0, "a%%b%p%+", 0, "10000", 0, "99", "12"),
                   ("/tmp/a", 0, 0, 0, 0, 0, 0, "follow"), ("out-%p", 0, "stop")]:
        data = bytes(given[text] if text != 0 else 0 for text in chosen)
        save(directory, "environment", data)
        save(directory, "environment", data + b"\xff\x00\x10")
    save(directory, "environment", b"\xff\xff\x0f/long")


def jitdump(directory):
    """A file with a record of each kind (fuzz_jitdump.c has the addresses that are asked)."""
    def record(kind, body, time=1):
        return struct.pack("<IIQ", kind, 16 + len(body), time) + body

    def lines(address, *places):
        return record(2, struct.pack("<QQ", address, len(places)) + b"".join(
            struct.pack("<QII", address + at, line, 0) + name + b"\0" for at, line, name in places))

    def load(address, size, index, name, time=1):
        return record(0, struct.pack("<IIQQQQ", 1, 2, address, address, size, index) + name + b"\0\xc3", time)

    head = struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, 7, 1, 0)
    data = (lines(0x1000, (0, 3, b"a.c"), (8, 4, b"\xff"), (16, 5, b"b.h")) + load(0x1000, 0x18, 1, b"first") +
            lines(0x1018, (0x40, 1, b"x.js")) + load(0x1018, 8, 2, b"JS:*f"))
    move = record(1, struct.pack("<IIQQQQQ", 1, 2, 0x2000, 0x1000, 0x2000, 0x18, 1))
    save(directory, "jitdump", head + data)
    save(directory, "jitdump", head + data + move + record(3, b""))
    save(directory, "jitdump", head + move + data + load(2**64 - 4, 4, 3, b"end") + record(4, b"unwinding"))
    successors = b"".join(load(0x1000, 0x1001, time, b"at %d" % time, time) for time in (3, 1, 2, 999, 1001, 2**41))
    save(directory, "jitdump", head + data + successors + move)
    save(directory, "jitdump", head[:-8] + struct.pack("<Q", 1) + data + successors)


def interpreter(directory):
    """Memory at ARENA (fuzz_interpreter.c): a state, two frames, their functions and names. A word 0xffff... is an address there."""
    at = lambda offset: 0xFFFF << 48 | offset

    def words(which, parts, size=0x1000):
        memory = bytearray(size)
        for offset, value in parts.items():
            data = value if isinstance(value, bytes) else struct.pack("<Q", value)
            memory[offset : offset + len(data)] = data
        save(directory, "interpreter", bytes([which, 16]) + bytes(memory))

    string = {0x908: at(16), 0x910: 4, 0x920: 0x64, 0x928: b"main", 0x930: b"main"}
    table = {0xA10: 4, 0xA20: b"\x80\x00\x88\x01"}
    # CPython 3.12 and 3.13: state at 0x200, frames at 0x400 and 0x448, code at 0x800.
    frame = lambda base, previous, owner: {base: at(0x800), base + 8: at(previous) if previous else 0, base + 56: at(0x800 + 194),
                                           base + 64: owner << 48}
    code = {0x808: at(8), 0x800 + 68: struct.pack("<I", 7), 0x800 + 112: at(0x900), 0x800 + 128: at(0x900), 0x800 + 136: at(0xA00)}
    state = {0x210: at(0), 0x200 + 232: at(0x3F0)}
    frames = {**frame(0x448, 0x400, 0), **frame(0x400, 0, 3)}
    words(4, {**state, 0x200 + 72: at(0x448), **frames, **code, **string, **table})
    words(3, {**state, 0x200 + 56: at(0x380), 0x380: at(0x448), **frames, **code, **string, **table})
    # 3.9: objects of frames.
    old = {0x218: at(0x400), 0x210: at(0), 0x400 + 24: 0, 0x400 + 32: at(0x800), 0x400 + 104: 2, 0x808: at(8), 0x800 + 40: 7,
           0x800 + 104: at(0x900), 0x800 + 112: at(0x900), 0x800 + 120: at(0xA00)}
    words(0, {**old, **string, **table})
    # PHP 8.2: the stack's page at 0x400.
    php = {472: at(0x400), 488: at(0x448), 0x448: at(0xC00), 0x448 + 24: at(0x800), 0x448 + 40: 0x20000, 0x448 + 48: 0,
           0x800: 2, 0x808: at(0x900), 0x800 + 80: 3, 0x800 + 88: at(0xC00), 0x800 + 152: at(0x900), 0x800 + 160: 5,
           0x910: 4, 0x918: b"main", 0xC18: 9}
    words(5, php)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for make in (cfi, go, symbols, labels, status, maps, samples, environment, jitdump, interpreter):
        make(sys.argv[1])
    save(sys.argv[1], "options", bytes(16))
    for seed in range(8):
        data = b"".join(hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(24))
        save(sys.argv[1], "walker", data)
    for target in sorted(os.listdir(sys.argv[1])):
        print(f"seeds: {target}: {len(os.listdir(os.path.join(sys.argv[1], target)))}")


main()

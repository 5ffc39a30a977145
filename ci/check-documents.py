#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What documents say of the tree is so in the tree.

    check-documents.py              all documents (*.md outside build/) and man pages; runs the self-test first
    check-documents.py --self-test  only shows that each kind of mistake is found

In `code` and in code blocks: paths, file names, test programs, make verbs. Everywhere: ONSTACK_* and onstack_* names, links
with their anchors. `CONSTANT` (8), `CONSTANT` (10 ms), `CONSTANT` (1 MiB): the value in the source.
ARCHITECTURE's table of folders against ci/check-includes.sh. Commit hashes, words of process.
"""
import ast
import fnmatch
import itertools
import operator
import os
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GENERATED = ("docs/BENCHMARKS.md", "docs/ENGINES.md", "docs/MATRIX.md")
INTERNAL = ("docs/ARCHITECTURE.md", "docs/SIGNALS", "docs/SIGNAL-SAFETY.md", "docs/UNWINDING.md", "docs/COVERAGE.md",
            "docs/decisions/", "tests/", "CONTRIBUTING.md")  # pages for developers: internal functions may be named
SKIPPED = {".git", "build", "target", "__pycache__", "node_modules"}
PLACES = "ci|core|plugins|docs|tests|bindings|examples"
CONTEXTS = "base|handler|allocator|control|drain|profile|session|preload"
ENDINGS = r"\.(?:c|h|cpp|hpp|go|rs|py|sh|md|mk|map|json|toml|allow|exports|bin)$"
FOREIGN = ("kernel/", "arch/", "linux/", "sysdeps/", "include/", "fs/", "runtime/", "src/runtime/")  # files of Linux, libc and Go
FOREIGN_NAMES = {"elf.h", "go.mod", "go.sum", "ucontext.h", "unistd.h", "signal.h", "pprof_labels.go"}
BANNED = {
    r"\bsittings?\b": "a document tells what is so, not how it was found out",
    r"\bissues? [A-Z]\b": "name the matter, not its number in a plan",
    r"\bload average\b": "say under what other load a figure was measured, in words",
}
SOURCES = (".c", ".h", ".cpp", ".hpp", ".go", ".rs", ".py", ".sh", ".mk", ".in", ".map", ".toml", ".cmake", ".txt", ".ld")
UNITS = {"": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "us": 10**3, "ms": 10**6, "s": 10**9, "ns": 1}
NAMED_NUMBER = re.compile(r"`([A-Z][A-Z0-9_]{3,})`\s+\(([\d,]+(?:\.\d+)?)\s?([A-Za-z]*)\)")


def walk(root):
    for here, directories, names in os.walk(root):
        directories[:] = sorted(set(directories) - SKIPPED)
        for name in directories + names:
            yield pathlib.Path(here, name).relative_to(root).as_posix()


class Tree:
    """What there is: paths, makefile targets, names and constants of the sources."""

    def __init__(self, root):
        self.root = root
        self.paths = set(walk(root))
        # The trailing parts of each path: "source/entry.c" and "entry.c" name core/sampler/source/entry.c as well.
        self.tails = {"/".join(parts[i:]) for parts in (path.split("/") for path in self.paths) for i in range(len(parts))}
        self.headers = "".join(self.read(path) for path in sorted(self.paths) if re.match(r"core/include/onstack/\w+\.h$", path))
        self.header = set(re.findall(r"\bonstack_\w+", self.headers))
        self.header |= {path.split("/")[2].replace("-", "_") for path in self.paths if path.startswith("bindings/rust/onstack-")}
        self.names, self.constants, self.tests, self.cited = set(), {}, set(), []
        for path in sorted(self.paths):
            if (root / path).is_file() and (path.endswith(SOURCES) or "Makefile" in path or path.startswith(".ci/")):
                self.learn(path)

    def learn(self, path):
        if path == "ci/check-documents.py":
            return
        text = self.read(path)
        self.names.update(re.findall(r"\b(?:ONSTACK|onstack)_\w+|\bSOAK_\w+", text))
        self.tests.update(re.findall(r"^func (Test\w+)", text, re.M) if path.endswith("_test.go") else ())
        self.cited += [(path, page, anchor) for page, anchor in re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", text)]
        if path.startswith(("core/", "plugins/")) and path.endswith((".c", ".h")):
            for name, value in re.findall(r"^[ \t]*#[ \t]*define[ \t]+([A-Z]\w+)[ \t]+([^\n/]+)", text, re.M):
                self.constants.setdefault(name, set()).add(value.strip())

    def read(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def has(self, path, whole):
        """`whole`: from the root on; else the end of some path will do. Patterns of the shell, NAME and VERSION stand for anything."""
        path = path.rstrip("/")
        braces = re.search(r"\{([^}]*)\}", path)
        if braces:
            return all(self.has(path[: braces.start()] + one + path[braces.end() :], whole) for one in braces.group(1).split(","))
        path = re.sub(r"NAME|VERSION", "*", path)
        among = self.paths if whole else self.tails
        return path in among or ("*" in path or "[" in path) and any(fnmatch.fnmatch(one, path) for one in among)

    def value(self, name, seen=()):
        """The number that a constant stands for; None: none, or not one that can be told."""
        found = {number(text, self, (*seen, name)) for text in self.constants.get(name, ())} if name not in seen else set()
        return found.pop() if len(found) == 1 else None



OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.LShift: operator.lshift,
             ast.FloorDiv: operator.floordiv, ast.BitOr: operator.or_}


def number(text, tree, seen):
    """C's constant expression, as far as constants in headers go."""
    text = re.sub(r"\((?:u?int\d*_t|size_t|unsigned|long)\)", "", text)
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]*\b", r"\1", text).replace("/", "//")
    try:
        return compute(ast.parse(text.strip(), mode="eval").body, tree, seen)
    except (SyntaxError, ValueError, TypeError):
        return None


def compute(node, tree, seen):
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return tree.value(node.id, seen)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](compute(node.left, tree, seen), compute(node.right, tree, seen))
    raise ValueError


def without_blocks(text):
    """Code blocks become empty lines."""
    return re.sub(r"^```.*?^```", lambda block: "\n" * block.group().count("\n"), text, flags=re.M | re.S)


def anchors(text):
    """What headings can be linked to by, as GitHub makes it."""
    made = []
    for heading in re.findall(r"^#+\s+(.*)", without_blocks(text), re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        made.append(f"{slug}-{made.count(slug)}" if slug in made else slug)
    return made


def code_of(text):
    """(line, piece, whether it is a block) of all that is set as code."""
    fenced = False
    for at, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced:
            yield at, line, True
    plain = without_blocks(text)
    for span in re.finditer(r"`([^`\n]+(?:\n[^`\n]+)?)`", plain):
        yield plain.count("\n", 0, span.start()) + 1, span.group(1).replace("\n", " "), False


def check_paths(tree, piece, block):
    for word in re.split(r"[\s=,;()'\"]+", re.sub(r"\{[^}]*\}", lambda braces: braces.group().replace(",", "\0"), piece)):
        word = word.replace("\0", ",").split("#")[0].rstrip(".:")
        word = re.sub(r":\d+$", "", word)
        if not word or word.startswith(FOREIGN) or word in FOREIGN_NAMES or re.match(r"[/~$<-]|build/|\.\./|https?:", word):
            continue
        if re.match(rf"(?:{PLACES})/", word):
            if not tree.has(word, True):
                yield f"no {word} in the tree: name what is there, or leave it out"
        elif not block and re.search(ENDINGS, word) and not re.match(r"[*.]", word) or re.match(rf"(?:{CONTEXTS})/[a-z]", word):
            if not tree.has(word, False):
                yield f"no path ends with {word}: name what is there, or leave it out"
        elif not block and re.fullmatch(r"test_\w+\*?", word) and not tree.has(f"{word}.*", False):
            yield f"no test program {word}: look into tests/core"
        elif not block and re.fullmatch(r"Test[A-Z]\w*\*?", word) and not any(fnmatch.fnmatch(t, word) for t in tree.tests):
            yield f"no Go test {word}"


def check_make(tree, piece):
    for command in re.findall(r"(?<![\w/-])make((?: +[^\s;&|)]+)+)", piece):
        words, makefile, verb = command.split(), "Makefile", None
        while words and verb is None:
            word = words.pop(0)
            if word in ("-f", "-C") and words:
                makefile = words.pop(0) if word == "-f" else (words.pop(0) and makefile)
            elif not word.startswith("-") and "=" not in word:
                verb = word
        if verb is None or not re.fullmatch(r"[a-z][\w-]*", verb):
            continue
        if not tree.has(makefile, True) or not re.search(rf"^{verb}\s*:", tree.read(makefile), re.M):
            yield f"{makefile} has no verb {verb}: `make help` lists them"


def check_names(tree, page, piece):
    for name in re.findall(r"(?<![\w./-])((?:ONSTACK|SOAK)_[A-Z0-9_]+)", piece):
        known = any(one.startswith(name) for one in tree.names) if name.endswith("_") else name in tree.names
        if not known:
            yield f"{name} stands in no source"
    for name in re.findall(r"(?<![\w./<-])(onstack_[a-z0-9_]+)(?![\w]*(?:\.[a-z0-9]|::|[{*]))", piece):
        if name in tree.header or name.endswith("_") or page.startswith(INTERNAL) and name in tree.names:
            continue
        yield f"{name} is not in the public header" + ("" if name not in tree.names else ", and this page is for users")


def check_links(tree, page, text):
    for link in re.finditer(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", without_blocks(text))):
        target, _, anchor = link.group(1).partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
        if path not in tree.paths and path != page:
            yield f"the link to {target} leads nowhere"
        elif anchor and path.endswith(".md"):
            there = anchors(text if path == page else tree.read(path))
            if anchor not in there:
                yield f"{path} has no heading #{anchor}; it has {', '.join(there)}"


def check_numbers(tree, text):
    for name, digits, unit in NAMED_NUMBER.findall(text):
        value = tree.value(name)
        if unit not in UNITS:
            continue
        if value is None:
            yield f"{name} ({digits}): no single value of that name below core/"
        elif value != float(digits.replace(",", "")) * UNITS[unit]:
            yield f"{name} is {value:,} in the source, not {digits} {unit}".rstrip() + ": correct the page"


def check_words(page, text):
    for pattern, why in BANNED.items():
        for found in re.findall(pattern, text, re.I if "issue" not in pattern else 0):
            yield f'"{found}": {why}'
    if page not in GENERATED:
        for found in re.findall(r"(?<![\w./#-])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}(?![\w.-])", text):
            yield f"{found} looks like a commit: say what is so, not since when"


def check_page(tree, page, text):
    if not page.endswith(".md"):  # a man page
        for word in re.findall(rf"(?<![\w/.-])(?:{PLACES})/[\w./-]+", text):
            yield from check_paths(tree, word, False)
        for name in re.findall(r"^\.(?:Dv|Ev|Ft|Vt|Fn|Fo|Xr)\b.*?\b((?:ONSTACK|onstack)_\w+)", text, re.M):
            if name not in tree.names and name + ".3" not in {path.rsplit("/", 1)[-1] for path in tree.paths}:
                yield f"{name} stands in no source"
        return
    for at, piece, block in code_of(text):
        for wrong in (*check_paths(tree, piece, block), *check_make(tree, piece)):
            yield f"line {at}: {wrong}"
    for at, line in enumerate(text.splitlines(), 1):
        for wrong in check_names(tree, page, line):
            yield f"line {at}: {wrong}"
    for word in re.findall(rf"(?<![\w/.(-])(?:{PLACES})/[\w./*-]+", re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)):
        yield from check_paths(tree, word, False)
    yield from check_links(tree, page, text)
    yield from check_numbers(tree, text)
    yield from check_words(page, text)


def check_includes(page, script):
    """The rows of the table of folders against the script's order."""
    lists = dict(re.findall(r'^(\w+)="([^"]*)"', script, re.M))
    order = [name for one in ("sampler", "profile", "whole", "alone") for name in lists.get(one, "").split() if re.match(r"\w", name)]
    rows = re.findall(r"^\| `core/([\w/]+)/` \|", page, re.M)
    if not order:
        yield 'ci/check-includes.sh has no order that can be read: sampler="folder ..."'
    for row, name in itertools.zip_longest(rows, order):
        if row != name:
            yield f"the table of folders has {row or 'no row'} where ci/check-includes.sh has {name or 'no folder'}"


def check_manual(header, manual):
    """What the headers declare stands in some man page: functions, error codes, clocks, kinds, members of what callers fill in or get."""
    plain = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    names = set(re.findall(r"\b(onstack_\w+)\(", "".join(re.findall(r"^ONSTACK_API[^;]*;", plain, re.M))))
    names |= set(re.findall(r"#define (ONSTACK_(?:E|CLOCK|KIND|UNIT|SAMPLE|RESTORE|FORK)_\w+)", plain))
    for structure in re.findall(r"^typedef struct \w+ \{([^}]*)^\} onstack_(?:options|sample);", plain, re.M):
        members = re.findall(r"\b(\w+)(?:\[\d+\])?;|\(\*(\w+)\)\(", structure)
        names |= {one or other for one, other in members if not (one or other).startswith(("reserved", "size"))}
    if not names:
        yield "core/include/onstack: no declaration can be read"
    for name in sorted(names):
        if not re.search(rf"\b{name}\b", manual):
            yield f"docs/man: no page has {name}"


def documents(tree):
    pages = [path for path in sorted(tree.paths) if path.endswith(".md") and (tree.root / path).is_file()]
    return pages + [path for path in sorted(tree.paths) if re.match(r"docs/man/.*\.\d$", path)]


def check_all(tree):
    for page in documents(tree):
        for wrong in check_page(tree, page, tree.read(page)):
            yield f"{page}: {wrong}"
    for wrong in check_includes(tree.read("docs/ARCHITECTURE.md"), tree.read("ci/check-includes.sh")):
        yield f"docs/ARCHITECTURE.md: {wrong}"
    manual = "".join(tree.read(page) for page in documents(tree) if not page.endswith(".md"))
    yield from check_manual(tree.headers, manual)
    for source, page, anchor in tree.cited:
        if page not in tree.paths or anchor and anchor not in anchors(tree.read(page)):
            yield f"{source}: names {page}{'#' + anchor if anchor else ''}, which is not there"


# A tree of a few files, in which each mistake is made once.
FILES = {
    "Makefile": "check: ## look\n",
    "README.md": "# Read me\n",
    "ci/check.sh": "echo $ONSTACK_VARIABLE\n",
    "core/include/onstack/onstack.h": "#define ONSTACK_MOST 8\nint onstack_start(void);\n",
    "core/sampler/source/entry.c": "#define ENTRY_PAUSE_NS (10u * ENTRY_MS)\n#define ENTRY_MS 1000000u\nvoid onstack_entry(void);\n",
    "tests/core/Makefile": "tests: all\n",
    "tests/core/test_entry.c": "",
    "bindings/go/entry_test.go": "func TestEntry(t *testing.T) {\n",
}
BAD = {
    "a path": "`core/sampler/missing.c`",
    "a directory": "`tests/missing/`",
    "a path in the text": "as docs/MISSING.md says",
    "a path below core": "`sampler/source/missing.c`",
    "a path in a block": "```\nci/missing.sh --write\n```",
    "a file's name": "`missing.c`",
    "a test program": "`test_missing`",
    "a Go test": "`TestMissing`",
    "a verb": "`make missing`",
    "a verb of another makefile": "`make -f tests/core/Makefile missing`",
    "a variable": "with ONSTACK_MISSING=1",
    "a function": "`onstack_missing()`",
    "an internal function on a page for users": "`onstack_entry`",
    "a link": "[here](missing.md)",
    "an anchor": "[here](../README.md#missing)",
    "an anchor of the page": "[here](#missing)",
    "a number": "`ONSTACK_MOST` (9)",
    "a number with a unit": "`ENTRY_PAUSE_NS` (11 ms)",
    "a number without a name": "`ENTRY_MISSING` (1)",
    "a commit": "as of 97253b2",
    "a word of process": "found in a second sitting",
    "a plan": "see issue B",
}
GOOD = """# A page
`core/sampler/`, `sampler/source`, `entry.c`, `onstack.h`, `test_entry`, `TestEntry`, `make check`, ONSTACK_VARIABLE,
`onstack_start`, `/tmp/perf-PID.map`, `core/sampler/source/*.c`, `ONSTACK_MOST` (8), `ENTRY_PAUSE_NS` (10 ms),
`make -f tests/core/Makefile tests`, `libc.so.6+0x16db20`, [above](#a-page), [other](../README.md#read-me), an effaced 1234567.
"""
TABLE = "| `core/platform/` | x |\n| `core/sampler/ring/` | y |\n| `core/heap/` | z |\n"


def self_test():
    with tempfile.TemporaryDirectory() as place:
        for path, text in FILES.items():
            file = pathlib.Path(place, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        tree = Tree(pathlib.Path(place))
        for what, text in BAD.items():
            if not list(check_page(tree, "docs/X.md", text)):
                yield f"self-test: {what} that is wrong was not found: {text!r}"
        for wrong in check_page(tree, "docs/X.md", GOOD):
            yield f"self-test: a good page was refused: {wrong}"
    good = 'sampler="platform\n  sampler/ring"\nprofile="(platform)"\nwhole="$sampler $profile"\nalone="heap"\n'
    if list(check_includes(TABLE, good)):
        yield "self-test: a good table of folders was refused"
    for script in (good.replace("platform\n", ""), good.replace("heap", "heap more"), good.replace("ring", "rung"), ""):
        if not list(check_includes(TABLE, script)):
            yield f"self-test: a table that is not {script!r} was not found"
    header = "ONSTACK_API int onstack_start(void);\n#define ONSTACK_E_BAD (-1)\ntypedef struct x {\n  int depth;\n} onstack_options;\n"
    for missing in ("onstack_start", "ONSTACK_E_BAD", "depth"):
        if [missing] != [wrong.rsplit(" ", 1)[-1] for wrong in check_manual(header, "onstack_start ONSTACK_E_BAD depth".replace(missing, ""))]:
            yield f"self-test: a manual without {missing} was not found"


def main():
    wrong = list(self_test())
    tree = Tree(ROOT)
    if sys.argv[1:] != ["--self-test"] and not wrong:
        wrong = list(check_all(tree))
    for line in wrong:
        print(f"check-documents: {line}", file=sys.stderr)
    if wrong:
        sys.exit(1)
    if sys.argv[1:] == ["--self-test"]:
        print(f"check-documents: finds {len(BAD) + 6} kinds of mistakes")
    else:
        print(f"check-documents: {len(documents(tree))} pages say what is in the tree")


if __name__ == "__main__":
    main()

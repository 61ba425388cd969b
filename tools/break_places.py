"""Breaks a dozen places of the product on purpose, one per room, and checks that a test fails.

    python tools/break_places.py list             list the places that the seed chooses
    python tools/break_places.py run [ROOM ...]   break each, run its room's tests until one fails

A place is a line of code with an operator or a number whose change gives another meaning. The
choice depends only on the seed and the sources. The program works in a copy of the checkout. A
test counts that fails with the change and passes without it. The program exits with 1 if there is
none for a place.
"""

from __future__ import annotations

import argparse
import difflib
import io
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tokenize
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Room: (its sources, its tests in `make test` in the order in which they are tried).
ROOMS: dict[str, tuple[str, list[str]]] = {
    "basis": ("core/basis/*.py", ["tests/core/basis", "tests/core"]),
    "cpu": (
        "core/backends/cpu/**/*.py",
        ["tests/core/backends tests/core/tools", "tests/core", "tests/simd"],
    ),
    "webgpu": ("core/backends/webgpu/**/*.py", ["tests/webgpu", "tests/core -k webgpu"]),
    "ops": ("core/ops/*.py", ["tests/core/ops", "tests/core"]),
    "functional": ("core/functional/*.py", ["tests/core/ops tests/core/nn", "tests/core"]),
    "jit": ("core/jit/*.py", ["tests/core/jit", "tests/core"]),
    "io": ("core/io/**/*.py", ["tests/core/io", "tests/fuzz", "tests/models"]),
    "models": ("models/**/*.py", ["tests/models", "tests/core", "tests/parity"]),
    "simd_kernels": ("simd_kernels/*.c", ["tests/simd", "tests/core"]),
    "wgsl_kernels": ("wgsl_kernels/**/*.wgsl", ["tests/webgpu", "tests/core -k webgpu"]),
    "cli": ("cli/*.py", ["tests/cli", "tests/models"]),
    "web": ("web/tokenizer/*.js", ["tests/core/io -k 'tokenizer or unigram'", "tests/browser"]),
    "site": ("site/builder/*.py", ["tests/browser/test_site_server.py", "tests/browser"]),
}
# The replacement of a token, by the first rule that matches the whole token.
SWAPS = {
    "<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "==", "+": "-", "-": "+",
    "*": "+", "//": "*", "and": "or", "or": "and", "&&": "||", "||": "&&", "True": "False",
    "False": "True", "===": "!==", "!==": "===", "+=": "-=",
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z_]\w*|\d+\b|[<>=!]=?=?|[-+*/&|]{1,2}=?|\S")


@dataclass(frozen=True)
class Place:
    """One change: `new` replaces columns `start` to `stop` of line `line` (from 1) in `path`."""

    room: str
    path: str
    line: int
    start: int
    stop: int
    new: str

    def apply(self, root: Path) -> None:
        """Make the change in the checkout at `root`."""
        file = root / self.path
        lines = file.read_text(encoding="utf-8").split("\n")
        old = lines[self.line - 1]
        lines[self.line - 1] = old[: self.start] + self.new + old[self.stop :]
        file.write_text("\n".join(lines), encoding="utf-8")

    def __str__(self) -> str:
        old = (ROOT / self.path).read_text(encoding="utf-8").split("\n")[self.line - 1]
        new = old[: self.start] + self.new + old[self.stop :]
        changed = [s for s in difflib.ndiff([old.strip()], [new.strip()]) if s[0] in "+-"]
        return "\n".join([f"{self.room}: {self.path}:{self.line}", *(f"    {s}" for s in changed)])


def _python(path: str, room: str, source: str) -> list[Place]:
    swappable = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        new = SWAPS.get(token.string)
        unary = token.string in "+-*" and re.search(r"[(\[{,=:]\s*$", token.line[: token.start[1]])
        if new is not None and not unary and not token.line.lstrip().startswith(("def ", "@")):
            swappable.append(Place(room, path, token.start[0], token.start[1], token.end[1], new))
    return swappable


def _other(path: str, room: str, source: str) -> list[Place]:
    """Places in C, WGSL or JavaScript: outside comments, strings and declarations."""
    swappable = []
    for number, line in enumerate(source.split("\n"), 1):
        code = line.split("//")[0]
        if re.match(r"\s*(\*|/\*|#|import|export|static|\}|const \w+ =$)", code) or '"' in code:
            continue
        for match in _WORD.finditer(code):
            spaced = code[max(0, match.start() - 1) : match.end() + 1]
            new = SWAPS.get(match[0])
            if new is not None and spaced.startswith(" ") and spaced.endswith(" "):
                swappable.append(Place(room, path, number, match.start(), match.end(), new))
    return swappable


def places(seed: int) -> list[Place]:
    """One place per room."""
    chosen = []
    for room, (pattern, _) in ROOMS.items():
        candidates: list[Place] = []
        for file in sorted(ROOT.glob(pattern)):
            path = file.relative_to(ROOT).as_posix()
            if "/build/" not in path and file.name != "build.py":
                read = _python if path.endswith(".py") else _other
                candidates += read(path, room, file.read_text(encoding="utf-8"))
        chosen.append(random.Random(f"{seed} {room}").choice(candidates))
    return chosen


def _copy(folder: Path) -> Path:
    """Copies the checkout with its built files, without its history."""
    left_out = shutil.ignore_patterns(".git", ".venv", "dist", "__pycache__", ".mypy_cache")
    shutil.copytree(ROOT, folder, symlinks=True, ignore=left_out)
    return folder


def _test(words: list[str], place: Place, root: Path) -> str | None:
    """The first of the tests that fails in the checkout at `root`, or None if all pass."""
    env = {
        **os.environ,
        "PYTHONPATH": str(root / "src"),
        "OPENBLAS_NUM_THREADS": "1",
        "LP_NUM_THREADS": "1",
        "RUSHLIGHT_REQUIRE": "cpu,webgpu,browser,node",
    }
    if place.room == "simd_kernels":
        build = [sys.executable, "-m", "rushlight.simd_kernels.build"]
        if subprocess.run(build, cwd=root, env=env, capture_output=True).returncode:
            return "the build of the C kernels"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "--timeout", "600", *words],
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
    )
    if not done.returncode:
        return None
    failed = re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.M)
    return failed[0] if failed else (done.stdout + done.stderr)[-300:]


def _noticed(place: Place, root: Path) -> tuple[bool, str]:
    """Whether a test fails with the broken place and passes without it, and what happened."""
    source = (root / place.path).read_text(encoding="utf-8")
    place.apply(root)
    for tests in ROOMS[place.room][1]:
        if (failed := _test(shlex.split(tests), place, root)) is None:
            continue
        (root / place.path).write_text(source, encoding="utf-8")
        if "::" in failed and _test([failed], place, root):
            return False, f"NOT COUNTED: {failed} fails without the change as well"
        return True, f"noticed by {failed}"
    return False, "NOT NOTICED"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("list", "run"))
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], metavar="ROOM")
    parser.add_argument("--seed", type=int, default=12)
    args = parser.parse_args()
    missed = 0
    for place in places(args.seed):
        if args.rooms and place.room not in args.rooms:
            continue
        print(place, flush=True)
        if args.command == "run":
            with tempfile.TemporaryDirectory() as folder:
                noticed, what = _noticed(place, _copy(Path(folder) / "checkout"))
            print(f"  {what}", flush=True)
            missed += not noticed
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

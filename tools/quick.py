"""Check what has changed since the last commit: its lint, and the tests nearest to it.

    python tools/quick.py [--seconds 60] [--since HEAD]

Nearest are test files that changed, then those of the folder of tests that mirrors a changed file,
then those that import it. They run until their recorded seconds (tests/durations.json) reach the
limit; the rest are named.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "tests" / "durations.json"
SHORT = 1.0  # seconds that a file counts which durations.json does not name


def changed(since: str) -> list[Path]:
    """The files that differ from the commit `since`, new ones too; else those of that commit."""

    def names(*command: str) -> list[str]:
        run = subprocess.run(
            ["git", *command], cwd=ROOT, check=True, capture_output=True, text=True
        )
        return run.stdout.split()

    differing = names("diff", "--name-only", since)
    differing += names("ls-files", "--others", "--exclude-standard")
    differing = differing or names("diff", "--name-only", f"{since}~1", since)
    return [Path(name) for name in sorted(set(differing)) if (ROOT / name).is_file()]


def nearest(files: list[Path]) -> list[Path]:
    """The test files for changed files, the nearest first."""
    tests = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))
    ranks: dict[Path, int] = {path: 0 for path in files if path in tests}
    sources = {path: (ROOT / path).read_text(encoding="utf-8") for path in tests}
    for file in files:
        if file.parts[0] == "tests" or file.suffix not in (".py", ".c", ".h", ".wgsl", ".js"):
            continue
        mirrored = Path("tests") / file.parent
        module = re.escape(".".join(file.with_suffix("").parts))
        parent, _, leaf = module.rpartition(r"\.")
        imports = re.compile(rf"{module}\b|{parent} import .*\b{leaf}\b")
        for test in tests:
            if file.stem in test.stem.removeprefix("test_"):
                ranks.setdefault(test, 1)
            elif test.parent == mirrored:
                ranks.setdefault(test, 2)
            elif imports.search(sources[test]):
                ranks.setdefault(test, 3)
    return sorted(ranks, key=lambda test: (ranks[test], test))


def within(tests: list[Path], seconds: float) -> tuple[list[Path], list[Path]]:
    """The first tests whose recorded seconds stay within the limit, and the others."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    chosen: list[Path] = []
    left: list[Path] = []
    total = 0.0
    for test in tests:
        # A row is a file's, or a group's: a file of the browser's, or a folder such as prices.
        rows = (test.relative_to("tests").as_posix(), test.stem, test.parent.name,
                test.stem.removeprefix("test_"))  # fmt: skip
        cost = max(recorded.get(row, SHORT) for row in rows)
        if chosen and total + cost > seconds:
            left.append(test)
        else:
            chosen.append(test)
            total += cost
    return chosen, left


def main() -> int:
    """Lint and test; the exit status says whether all of it passed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60, help="of recorded time")
    parser.add_argument("--since", default="HEAD", help="the commit to compare with")
    options = parser.parse_args()
    files = changed(options.since)
    python = [str(path) for path in files if path.suffix == ".py"]
    print(f"{len(files)} changed files, {len(python)} of Python", flush=True)
    failed = 0
    if python:
        for command in (["check"], ["format", "--check"]):
            ruff = [sys.executable, "-m", "ruff", *command, "--force-exclude"]
            failed |= subprocess.call([*ruff, *python], cwd=ROOT)
    house = Path("tests/test_house.py")
    tests, left = within([house, *(t for t in nearest(files) if t != house)], options.seconds)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"]
    failed |= subprocess.call([*command, *map(str, tests)], cwd=ROOT)
    if left:
        print(f"not run, as they would take longer: {' '.join(map(str, left))}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

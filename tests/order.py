"""The order of tests among workers: what takes long begins first, and a file stays together.

`durations.json` has about the seconds of each file or group that takes one or more; `make test-all`
writes it anew, and any other run with RUSHLIGHT_DURATIONS=merge what it measured. A wrong number
costs balance, never a result.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILE = HERE / "durations.json"
SPLIT = 20  # seconds; the tests of a longer file that names no group go to whichever worker is free


def _group(item: pytest.Item) -> str:
    """The name of an item's group: its mark's, else its file."""
    marks = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
    return "_".join(marks) or item.path.relative_to(HERE).as_posix()


def arrange(items: list[pytest.Item]) -> None:
    """Sort `items` in place by the seconds of their groups, and mark the groups for pytest-xdist.

    Raises nothing for a group that durations.json does not know: it counts as short.
    """
    seconds: dict[str, float] = json.loads(FILE.read_text(encoding="utf-8"))
    names = {item: _group(item) for item in items}
    first: dict[str, int] = {}
    for place, item in enumerate(items):
        first.setdefault(names[item], place)
    items.sort(key=lambda item: (-seconds.get(names[item], 0), first[names[item]]))
    for item in items:
        name = names[item]
        if not any(item.iter_markers("xdist_group")) and seconds.get(name, 0) < SPLIT:
            item.add_marker(pytest.mark.xdist_group(name))


class Stopwatch:
    """Adds up the seconds of groups and of rooms in the process that hears from all workers.

    keeps: the seconds of groups that did not run stay. chosen: of groups only some tests may have
    run, so that their seconds only grow.
    """

    def __init__(self, *, keeps: bool = False, chosen: bool = False) -> None:
        self.keeps, self.chosen = keeps, chosen
        self.groups: dict[str, str] = {}  # of tests that this process runs itself
        self.seconds: dict[str, float] = defaultdict(float)
        self.rooms: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])  # cases, seconds

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the groups: only workers write them behind the names of tests."""
        self.groups = {item.nodeid: _group(item) for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a report's seconds: of setup, call or teardown."""
        _, _, group = report.nodeid.partition("@")
        file = report.nodeid.partition("::")[0].removeprefix("tests/")
        self.seconds[group or self.groups.get(report.nodeid, file)] += report.duration
        room = self.rooms[file.split("/")[0] if "/" in file else "the house"]
        room[0] += report.when == "call"
        room[1] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the seconds of all groups that took one or more."""
        rows = {name: round(total) for name, total in self.seconds.items()}
        if self.keeps:
            before: dict[str, int] = json.loads(FILE.read_text(encoding="utf-8"))
            if self.chosen:
                rows = {name: max(total, before.get(name, 0)) for name, total in rows.items()}
            rows = before | rows
        rows = {name: total for name, total in rows.items() if total >= 1}
        rows = dict(sorted(rows.items(), key=lambda row: (-row[1], row[0])))
        FILE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A table of rooms for CONTRIBUTING.md: cases, and minutes of one worker."""
        for room, (cases, seconds) in sorted(self.rooms.items(), key=lambda row: -row[1][1]):
            terminalreporter.write_line(f"| `{room}` | {cases} | {seconds / 60:.1f} |")

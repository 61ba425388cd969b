"""The price of a task: its file, its test, a line in docs/tasks.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("prices")]

ADDED = {
    "models/tasks/token_count.py": '''\
"""token-count: how many tokens a text is."""

from rushlight.models.tasks.record import Command, Input, Option, Progress, Task


def run(model, text, options, watched):
    """Count the tokens of `text`; `model`, `options`, `watched` as in any task. Raises none."""
    ids = model.tokenizer.encode(text, add_special_tokens=options["special"]).ids
    yield Progress("count", len(ids), len(ids))
    return len(ids)


TASK = Task(
    name="token-count",
    summary="Count the tokens of a text.",
    input=Input("text", "text", "The text."),
    output="value",
    run=run,
    options=(Option("special", "bool", True, "Count those at the two ends.", off="bare"),),
    builds_on=("feature-extraction", "text-generation"),
    command=Command("count", "all-minilm-l6-v2"),
)
''',
    "tests/models/test_token_count.py": '''\
"""token-count: as the tokenizer counts."""

import rushlight as rl


def test_it_counts_what_the_tokenizer_gives():
    count = rl.pipeline("token-count", "all-minilm-l6-v2")
    assert count("a rush") == 4 and count("a rush", special=False) == 2
''',
}
LINE = '| `token-count` | a text | a number | `rushlight count --text "a rush"` |\n'
# What every caller makes of the record, by the command line's program and by the worker's module.
SEEN = """\
import asyncio, json
import rushlight as rl
from rushlight.cli import run
from rushlight.web.worker import session

assert run(["count", "--text", "a rush"]) == 0
assert run(["count", "--text", "a rush", "--bare", "--json"]) == 0
session._models[1], session._linear[1] = rl.models.load("smollm2-135m-instruct"), "fast"
reports = []

async def go_on():
    return False

given = (1, "token-count", "a rush", {"special": False}, go_on, lambda *r: reports.append(r))
print(json.dumps([asyncio.run(session.run(*given)), reports]))
[listed] = [task for task in session.tasks() if task["name"] == "token-count"]
assert listed == session.task(1, "token-count") and not listed["streams"]
print(listed["output"], listed["options"]["properties"]["special"]["type"])
"""


@pytest.fixture(scope="module")
def tree(make_tree: Callable[..., Any]) -> Any:
    """A copy of the checkout with a task more."""
    copy = make_tree("simd_kernels/build")
    for name, text in ADDED.items():
        copy.add(name, text)
    copy.add("docs/tasks.md", LINE, after="| `background-removal`")
    assert copy.edited() == {*ADDED, "docs/tasks.md"}
    return copy


def test_its_test_passes(tree: Any) -> None:
    assert "1 passed" in tree.pytest("tests/models/test_token_count.py")


def test_every_caller_reads_the_record(tree: Any) -> None:
    lines = tree.python("-c", SEEN).splitlines()
    assert lines[0] == "4"
    assert '"value": 2' in lines[1] and '"device": "cpu"' in lines[1]
    assert lines[2] == '[[2, null], [["count", 2, 2]]]'
    assert lines[3] == "value boolean"
    shown = tree.python("-c", "from rushlight.cli import main; main()", "--help")
    assert "count" in shown and "Count the tokens of a text." in shown

"""Every line of code in the README and in docs/ runs: Python, the cheat sheet, the commands.

Their pages for a browser are run in one by tests/browser/test_readme_page.py.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rushlight.models.tasks import tasks

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[1]
# The pages that people read. Those without code are tables, of which other tests read each row.
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]

Blocks = Callable[..., list[str]]


def text_of(page: str) -> str:
    """The text of a page, by its path from the root."""
    return (ROOT / page).read_text(encoding="utf-8")


# Commands that other tests run: the file that does, and what to look for in it.
RUN_ELSEWHERE = {
    "pip install rushlight": (
        "tests/packaging/test_wheel.py",
        "test_the_command_runs_from_the_wheel",
    ),
    "rushlight chat": ("tests/cli/test_io_cli.py", '"chat"'),
    "rushlight quantize smollm2-135m-instruct small.gguf --type q4_k_m": (
        "tests/models/test_quantize.py",
        'quantize("smollm2-135m-instruct"',
    ),
    "rushlight finetune smollm2-135m-instruct examples/kinds.jsonl --output kinds --steps 100"
    " --rate 1e-3": ("tests/models/test_finetune.py", '"finetune"'),
    'rushlight generate --prompt "wolf" --adapter kinds': (
        "tests/models/test_finetune.py",
        '"--adapter"',
    ),
    "rushlight serve smollm2-135m-instruct --embedding all-minilm-l6-v2 --speech whisper-tiny.en": (
        "tests/cli/serving/test_command.py",
        '"serve"',
    ),
    "make demo": ("tests/packaging/test_demo.py", '"demo"'),
    "make test": (".ci/run", "make test"),
    "rushlight site build --models all-minilm-l6-v2": ("Makefile", "site build"),
    "rushlight site serve": ("Makefile", "site serve"),
    "make screenshots": ("Makefile", "screenshots.py"),
    "cp -r dist/site/rushlight my-page/": ("tests/browser/test_readme_page.py", "my-page"),
}

PROGRAM = f"'{sys.executable}' -c 'from rushlight.cli import main; main()'"


def run_python(block: str, folder: Path) -> None:
    """Run a block in `folder`; what each `print(...)  # text` prints must be its comment."""
    expected = re.findall(r"^\s*print\(.*\)  # (.*)$", block, re.M)
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(compile(block, "README.md", "exec"), {})
    assert printed.getvalue().splitlines() == expected


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks(page: str, readme_blocks: Blocks, tmp_path: Path) -> None:
    """Each runs alone, as one who copies a single block runs it."""
    for block in readme_blocks("python", page):
        run_python(block, tmp_path)


def test_code_is_where_it_is_looked_for(readme_blocks: Blocks) -> None:
    """No block is of a language that no test runs, and moving pages lost none."""
    languages = [
        s for page in PAGES for s in re.findall(r"^```(\S*)\n.*?^```$", text_of(page), re.M | re.S)
    ]
    assert set(languages) == {"python", "sh", "html", "js", "text"}
    assert languages.count("python") >= 14 and languages.count("html") == 3
    assert [page for page in PAGES if readme_blocks("js", page)] == ["docs/pages.md"]


def test_what_needs_more_than_the_package_says_so() -> None:
    """Pictures in files, their boxes drawn and the command need Pillow: said where they are."""
    text = text_of("docs/images.md")
    said = text[: text.index("rl.image.plot(picture")]
    assert "rushlight[image]" in said and "Pillow" in said and "rushlight see" in said


def test_a_wrong_comment_is_noticed(tmp_path: Path) -> None:
    run_python("print(1 + 1)  # 2", tmp_path)
    with pytest.raises(AssertionError):
        run_python("print(1 + 1)  # 3", tmp_path)
    with pytest.raises(NameError):
        run_python("nothing_of_that_name", tmp_path)


def cheat_sheet() -> list[tuple[str, str, str]]:
    """(what, Rushlight, PyTorch) for each row of the table in docs/tensors.md."""
    section = text_of("docs/tensors.md").partition("## Cheat sheet")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]*) \| `([^|]*)` \| `([^|]*)` \|$", section, re.M)
    return [(what.strip(), ours, theirs) for what, ours, theirs in rows]


def test_cheat_sheet(tmp_path: Path) -> None:
    rows = cheat_sheet()
    wanted = ("creation", "indexing", "view", "matmul", "arithmetic", "device", "dtype")
    assert {*wanted, "save", "load"} <= {what.lower() for what, _, _ in rows}
    names: dict[str, Any] = {}
    exec("import rushlight as rl", names)
    with contextlib.chdir(tmp_path):
        for what, ours, theirs in rows:
            exec(ours, names)
            if what.lower() not in ("save", "load"):
                # Spelled as in torch: the other column runs here too under our name.
                exec(theirs.replace("torch.", "rl."), names)
            else:
                compile(theirs, "docs/tensors.md", "exec")


def test_some_commands_run_here(readme_blocks: Blocks) -> None:
    lines = [s for page in PAGES for b in readme_blocks("sh", page) for s in b.splitlines()]
    assert sum(line.partition("  #")[0].strip() not in RUN_ELSEWHERE for line in lines) >= 10


@pytest.mark.parametrize("page", [page for page in PAGES if "```sh" in text_of(page)])
def test_commands(page: str, readme_blocks: Blocks, tmp_path: Path) -> None:
    """The commands of a page run one after another in one folder."""
    lines = [s for block in readme_blocks("sh", page) for s in block.splitlines() if s.strip()]
    for line in lines:
        command = line.partition("  #")[0].strip()
        if command in RUN_ELSEWHERE:
            path, needle = RUN_ELSEWHERE[command]
            assert needle in (ROOT / path).read_text(encoding="utf-8"), command
            continue
        assert command.startswith("rushlight "), f"nothing runs this line: {line}"
        done = subprocess.run(
            ["sh", "-c", command.replace("rushlight", PROGRAM, 1)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_pictures_and_links_are_there() -> None:
    for name in (*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = text_of(name)
        targets = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)|src=\"(?!https?:)([^\"]+)\"", text)
        for target in {a or b for a, b in targets if not (a or b).startswith("./rushlight")}:
            assert ((ROOT / name).parent / target).exists(), f"{name} points to {target}"


def test_the_readme_leads_to_every_page() -> None:
    """README.md stays short; what it leaves out is one link away."""
    readme = text_of("README.md")
    assert [page for page in PAGES[1:] if f"]({page})" not in readme] == []
    assert len(readme.splitlines()) <= 170


def test_every_task_is_named() -> None:
    page = text_of("docs/tasks.md")
    assert [name for name in tasks() if f"| `{name}` |" not in page] == []

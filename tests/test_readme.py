"""Every line of code in the README runs: Python, the cheat sheet and the commands (natively).

The README's pages are run in a browser by tests/browser/test_readme_page.py.
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
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")

Blocks = Callable[[str], list[str]]

# Commands that other tests run: the file that does, and what to look for in it.
RUN_ELSEWHERE = {
    "rushlight chat": ("tests/cli/test_io_cli.py", '"chat"'),
    "rushlight quantize smollm2-135m-instruct small.gguf --type q4_k_m": (
        "tests/models/test_quantize.py", 'quantize("smollm2-135m-instruct"',
    ),
    "rushlight finetune smollm2-135m-instruct examples/kinds.jsonl --output kinds --steps 100"
    " --rate 1e-3": ("tests/models/test_finetune.py", '"finetune"'),
    'rushlight generate --prompt "wolf" --adapter kinds': (
        "tests/models/test_finetune.py", '"--adapter"',
    ),
    "make demo": ("tests/packaging/test_demo.py", '"demo"'),
    "make test": (".ci/run", "make test"),
    "rushlight site build --models all-minilm-l6-v2": ("Makefile", "site build"),
    "rushlight site serve": ("Makefile", "site serve"),
    "make screenshots": ("Makefile", "screenshots.py"),
    "cp -r dist/site/rushlight my-page/": ("tests/browser/test_readme_page.py", "my-page"),
}  # fmt: skip

PROGRAM = f"'{sys.executable}' -c 'from rushlight.cli import main; main()'"


def run_python(block: str, folder: Path) -> None:
    """Run a block in `folder`; what each `print(...)  # text` prints must be its comment."""
    expected = re.findall(r"^\s*print\(.*\)  # (.*)$", block, re.M)
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(compile(block, "README.md", "exec"), {})
    assert printed.getvalue().splitlines() == expected


def test_python_blocks(readme_blocks: Blocks, tmp_path: Path) -> None:
    """Each runs alone, as one who copies a single block runs it."""
    blocks = readme_blocks("python")
    assert blocks
    for block in blocks:
        run_python(block, tmp_path)


def test_what_needs_more_than_the_package_says_so() -> None:
    """Pictures in files, their boxes drawn and the command need Pillow: said where they are."""
    place = TEXT.index("rl.image.plot(picture")
    said = TEXT[max(0, place - 2500) : place]
    assert "rushlight[image]" in said and "Pillow" in said and "rushlight see" in said


def test_a_wrong_comment_is_noticed(tmp_path: Path) -> None:
    run_python("print(1 + 1)  # 2", tmp_path)
    with pytest.raises(AssertionError):
        run_python("print(1 + 1)  # 3", tmp_path)
    with pytest.raises(NameError):
        run_python("nothing_of_that_name", tmp_path)


def cheat_sheet() -> list[tuple[str, str, str]]:
    """(what, Rushlight, PyTorch) for each row of the README's table."""
    section = TEXT.partition("## Cheat sheet")[2].partition("\n## ")[0]
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
                compile(theirs, "README.md", "exec")


def test_commands(readme_blocks: Blocks, tmp_path: Path) -> None:
    lines = [s for block in readme_blocks("sh") for s in block.splitlines() if s.strip()]
    assert lines
    ran = 0
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
            timeout=300,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        ran += 1
    assert ran >= 3


def test_pictures_and_links_are_there() -> None:
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        targets = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)|src=\"(?!https?:)([^\"]+)\"", text)
        for target in {a or b for a, b in targets if not (a or b).startswith("./rushlight")}:
            assert (ROOT / target).exists(), f"{name} points to {target}"


def test_every_task_is_named() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    assert [name for name in tasks() if f"`{name}`" not in readme] == []

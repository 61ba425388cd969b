"""Jobs over many rows: kept in parts, gone on with after a kill, errors set aside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.bulk import run_all, running

pytestmark = pytest.mark.native

TASK = "feature-extraction"
COUNT = 120


@pytest.fixture(scope="module")
def model(sentence_folders: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny sentence encoder."""
    folder = tmp_path_factory.mktemp("bulk") / "model"
    sentence_folders.write(folder, "newer names")
    return folder


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [f"rush {i} and a little fat" for i in range(COUNT)]


@pytest.fixture(scope="module")
def source(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows with names of their own, one without a text, one that is no JSON."""
    place = tmp_path_factory.mktemp("bulk") / "rows.jsonl"
    lines = [json.dumps({"id": f"row {i}", "text": text}) for i, text in enumerate(texts)]
    lines[5:5] = [json.dumps({"id": "empty"}), "{"]
    place.write_text("\n".join(lines) + "\n")
    return place


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check(out: Path, model: Path, texts: list[str]) -> None:
    rows = lines(out)
    assert [row["id"] for row in rows] == [f"row {i}" for i in range(COUNT)]
    exact = rl.pipeline(TASK, model)(texts).numpy()
    np.testing.assert_allclose([row["output"] for row in rows], exact, atol=1e-5)
    failed = lines(out.with_name("out.errors.jsonl"))
    assert [(row["id"], row["position"]) for row in failed] == [("empty", 5), (6, 6)]
    assert "has no 'texts'" in failed[0]["error"] and "line 7" in failed[1]["error"]
    assert not out.with_name("out.jsonl.parts").exists()


def test_rows_come_out_in_order_and_errors_beside_them(
    source: Path, model: Path, texts: list[str], tmp_path: Path
) -> None:
    seen: list[int] = []
    out = tmp_path / "out.jsonl"
    summary = run_all(source, TASK, model, out, part=7, progress=seen.append)
    assert (summary.done, summary.failed, summary.kept) == (COUNT, 2, 0)
    assert sum(seen) == COUNT + 2
    check(out, model, texts)


def _parts(out: Path) -> list[Path]:
    return list(out.with_name("out.jsonl.parts").glob("0*.jsonl"))


# A job that waits in its middle for a file: it does not end before a test has done something to it.
HELD_AT = 60
HELD = f"""
import sys, time
from pathlib import Path
from rushlight.cli import main
from rushlight.models.bulk.journal import Journal
go, keep = Path(sys.argv.pop(1)), Journal.keep
def held(journal, number, results):
    keep(journal, number, results)
    if number >= {HELD_AT} and not go.exists():
        go.with_suffix(".held").touch()
        while not go.exists():
            time.sleep(0.01)
Journal.keep = held
main()
"""


def _started(source: Path, model: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HELD, str(out) + ".go", "batch", str(source), "--task", TASK,
               "--model", str(model), "-o", str(out), "--part", "1", *more]  # fmt: skip
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + 300
    while not Path(f"{out}.held").exists():
        assert started.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    return started


def _workers(pid: int) -> list[int]:
    """The processes of a pool below a process."""
    workers = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):  # it has ended meanwhile
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                workers.append(int(child))
    return workers


def test_a_killed_job_goes_on_and_loses_nothing(
    source: Path, model: Path, texts: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    started = _started(source, model, out)
    os.killpg(started.pid, signal.SIGKILL)
    started.communicate()
    there = len(_parts(out))
    assert 3 <= there < COUNT and not out.exists()
    with pytest.raises(ValueError, match=r"of another job: part was 1; pass restart=True"):
        run_all(source, TASK, model, out, part=2)
    with pytest.raises(ValueError, match="of another job: options was"):
        run_all(source, TASK, model, out, part=1, options={"dim": 4})
    summary = run_all(source, TASK, model, out, part=1)
    assert summary.kept >= there and summary.done == COUNT
    check(out, model, texts)


def test_a_killed_worker_is_replaced(
    source: Path, model: Path, texts: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    started = _started(source, model, out, "--workers", "2")
    os.kill(_workers(started.pid)[0], signal.SIGKILL)
    until = time.monotonic() + 300
    while _workers(started.pid):  # the pool ends all of them
        assert time.monotonic() < until
        time.sleep(0.01)
    Path(f"{out}.go").touch()
    _, said = started.communicate(timeout=300)
    assert started.returncode == 0, said
    assert f"{COUNT} rows in" in said and "2 with errors" in said
    check(out, model, texts)


def test_a_row_that_ends_its_process_is_set_aside(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a module that every process of the pool imports first."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Deadly(str):\n    pass\n"
        "def trace(frame, event, given):\n"
        "    row = frame.f_locals.get('row')\n"
        "    if frame.f_code.co_name == '_output' and row.name == 2:\n        os._exit(9)\n"
        "if 'spawn_main' in ' '.join(sys.orig_argv):\n    sys.setprofile(trace)\n"
    )
    path = os.pathsep.join([str(hook), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setattr(running, "TRIES", 1)
    source, out = tmp_path / "rows.txt", tmp_path / "out.parquet"
    source.write_text("".join(f"text {i}\n" for i in range(4)))
    summary = run_all(source, TASK, model, out, part=2)
    assert (summary.done, summary.failed) == (3, 1)
    (failed,) = lines(tmp_path / "out.errors.jsonl")
    assert failed["position"] == 2 and "process ended at each of 1 tries" in failed["error"]
    assert [row["id"] for row in rl.datasets.read_table(out).rows] == ["0", "1", "3"]


def test_folders_of_files_and_what_is_refused(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    (folder / "a.txt").write_text("a candle")
    (folder / "more" / "b.txt").write_bytes(b"\xff\xfe")
    out = tmp_path / "out.jsonl"
    summary = run_all(folder, TASK, model, out)
    assert (summary.done, summary.failed) == (1, 1)
    assert json.loads(out.read_text())["id"] == "a.txt"
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (FileNotFoundError, "no such file or folder", {"source": tmp_path / "none"}),
        (ValueError, "suffix must be .jsonl or .parquet", {"out": tmp_path / "out.csv"}),
        (ValueError, "workers is 0", {"workers": 0}),
        (TypeError, "option 'pool'", {"options": {"pool": 1}}),
        (ValueError, "task 'embed' is not supported", {"task": "embed"}),
        (rl.LoadError, "cannot be loaded: .* chat is not supported", {"task": "chat"}),
        (ValueError, "1 rows have errors, more than 0", {"most_errors": 0}),
    ]
    for kind, words, changed in cases:
        given = {"source": folder, "task": TASK, "model": model, "out": out, **changed}
        with pytest.raises(kind, match=words):
            run_all(**given)

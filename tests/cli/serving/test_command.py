"""The command `serve`: a server of a folder, its end by a signal, and what it asks for."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from rushlight.cli import run

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parents[3] / "src"
PROGRAM = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from rushlight.cli import main; main()"


def test_a_folder_is_served_until_a_signal(writer: Any, tmp_path: Path) -> None:
    writer.save_pretrained(tmp_path / "small")
    command = ["serve", str(tmp_path / "small"), "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if match := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        assert match is not None, lines
        body = {"prompt": "a rush", "max_tokens": 3, "model": "small"}
        answer = httpx.post(f"{match[0]}/v1/completions", json=body, timeout=300)
        assert answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] == 3
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(120) in (0, -signal.SIGTERM), rest
        assert "Traceback" not in rest


def test_other_addresses_need_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (["--host", "0.0.0.0"], ["--allow-origin", "*"]):
        assert run(["serve", "nothing", *flags]) == 2
        assert "give --api-key" in capsys.readouterr().err


def test_a_missing_package_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["serve", "nothing"]) == 2
    assert "pip install 'rushlight[serve]'" in capsys.readouterr().err

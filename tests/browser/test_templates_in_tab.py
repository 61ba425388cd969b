"""Seventy published chat templates in a browser tab: what a Python process makes of them."""

from __future__ import annotations

import importlib.util
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.template import ChatTemplate

HERE = Path(__file__).parent


def _conversations() -> dict[str, tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Those that the same templates get in a process."""
    path = HERE.parent / "core" / "io" / "test_published_templates.py"
    spec = importlib.util.spec_from_file_location("of_test_published_templates", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    conversations: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = found.CONVERSATIONS
    return conversations


def _expected(file: Path) -> dict[str, dict[str, str]]:
    """By conversation: the text that this process makes, or the line that the error names."""
    template = ChatTemplate(file.read_text(encoding="utf-8"), bos_token="<s>", eos_token="</s>")
    found = {}
    for name, (messages, extra) in _conversations().items():
        try:
            found[name] = {"text": template.render(messages, **extra)}
        except FormatError as error:
            found[name] = {"line": str(error).partition(":")[0]}
    return found


def test_published_templates_in_the_tab(
    llama_cpp_models: Path,
    tab_pytest: Callable[[bytes, list[str]], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rushlight.core.io.text.sandbox_meter.SECONDS", 1e9)
    files = sorted((llama_cpp_models / "templates").glob("*.jinja"))
    assert len(files) == 70
    cases: dict[str, dict[str, Any]] = {
        file.name: {"source": file.read_text(encoding="utf-8"), "expected": _expected(file)}
        for file in files
    }
    texts = [e for case in cases.values() for e in case["expected"].values() if "text" in e]
    assert len(texts) > 700
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as pack:
        pack.write(HERE / "data" / "tab_templates.py", "test_templates.py")
        pack.writestr("cases.json", json.dumps(cases))
        pack.writestr("conversations.json", json.dumps(_conversations()))
        pack.writestr("pytest.ini", "[pytest]\n")
    args = ["-q", "--tb=short", "-p", "no:cacheprovider", "-W", "error", "test_templates.py"]
    result = tab_pytest(packed.getvalue(), args)
    assert result["code"] == 0, result["said"]
    assert (result["failed"], result["skipped"]) == (0, 0), result["said"]
    names = {test.partition("[")[2].rstrip("]") for test in result["passed"]}
    assert names == {file.name for file in files}

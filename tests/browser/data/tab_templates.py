"""Runs inside a tab, in the folder that test_templates_in_tab.py packs: one test per template."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text import sandbox_meter
from rushlight.core.io.text.template import load_template

HERE = Path(__file__).parent
CASES = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
CONVERSATIONS = json.loads((HERE / "conversations.json").read_text(encoding="utf-8"))
# A busy machine may reach the bound of time; what is counted is the same.
sandbox_meter.SECONDS = 1e9


@pytest.mark.parametrize("name", sorted(CASES))
def test_published_template(name: str) -> None:
    assert sys.platform == "emscripten"
    case = CASES[name]
    template = load_template(case["source"], bos_token="<s>", eos_token="</s>")
    for conversation, (messages, extra) in CONVERSATIONS.items():
        expected = case["expected"][conversation]
        if "text" in expected:
            assert template.render(messages, **extra) == expected["text"], conversation
        else:
            with pytest.raises(FormatError) as found:
                template.render(messages, **extra)
            assert str(found.value).partition(":")[0] == expected["line"], conversation

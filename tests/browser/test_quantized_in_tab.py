"""Quantized types with blocks of many sizes in the tab: from GGUF, generating on each device."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl

pytestmark = pytest.mark.warm_start


@pytest.mark.parametrize("where", ["cpu", "webgpu"])
def test_q6_k_generates(shared_page: Any, quantized_llama: Path, where: str) -> None:
    check(shared_page, quantized_llama, where)


@pytest.mark.parametrize("where", ["cpu", "webgpu"])
def test_blocks_of_every_size_generate(shared_page: Any, mixed_llama: Path, where: str) -> None:
    check(shared_page, mixed_llama, where)


def check(shared_page: Any, path: Path, where: str) -> None:
    """The tab loads the file and writes what a process writes."""
    prompt = [3, 77, 200, 14, 9, 250, 31, 8]
    native: Any = rl.models.load(path)
    found = shared_page.evaluate(
        """async ([content, device, prompt]) => {
          const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
          const m = await rl.load([new File([bytes], "random.gguf")], { device });
          let text = "";
          for await (const piece of m.generate(prompt, { maxNewTokens: 8, temperature: 0 }))
            text += piece;
          const used = m.device;
          await m.dispose();
          return [used, text];
        }""",
        [base64.b64encode(path.read_bytes()).decode(), where, prompt],
    )
    assert found == [where, "".join(native.generate(prompt, max_new_tokens=8, temperature=0))]

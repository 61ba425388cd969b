"""A quantized type that is only a row, in the tab: read from GGUF, generating on each device."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl


@pytest.mark.parametrize("where", ["cpu", "webgpu"])
def test_q6_k_generates(shared_page: Any, quantized_llama: Path, where: str) -> None:
    prompt = [3, 77, 200, 14, 9, 250, 31, 8]
    native: Any = rl.models.load(quantized_llama)
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
        [base64.b64encode(quantized_llama.read_bytes()).decode(), where, prompt],
    )
    assert found == [where, "".join(native.generate(prompt, max_new_tokens=8, temperature=0))]

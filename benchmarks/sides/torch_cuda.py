"""PyTorch on CUDA, eager: operators, a llama of random float16 weights, a CNN's step.

    python benchmarks/sides/torch_cuda.py

Lines of JSON come in, [call, arguments]; the result of each call goes out as a line. The llama is
that of the package transformers, with its default attention and a fixed number of tokens.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import gpu_ops  # noqa: E402


class Contender:
    """The calls of gpu.py."""

    def __init__(self) -> None:
        self.torch: Any = import_module("torch")
        self.torch.manual_seed(0)

    def about(self) -> dict[str, str]:
        """Versions and card; an error ends the process where there is no CUDA."""
        return {"torch": self.torch.__version__, "card": self.torch.cuda.get_device_name()}

    def ops(self, smoke: bool) -> dict[str, list[float] | str]:
        """Seconds of the cases of gpu_ops.py by name; a message where one fails."""
        torch = self.torch
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        found: dict[str, list[float] | str] = {}
        for case in gpu_ops.cases(smoke):
            try:
                found[case.name] = gpu_ops.timed(
                    case, torch, "cuda", torch.nn.functional, lambda _: torch.cuda.synchronize()
                )
            except RuntimeError as error:
                found[case.name] = str(error)[:200]
            torch.cuda.empty_cache()
        return found

    def llama(
        self, config: dict[str, Any], prompt: int, count: int, rounds: int
    ) -> dict[str, list[float]]:
        """Seconds of prompts of `prompt` tokens, and of each of `count` tokens after them."""
        torch, transformers = self.torch, import_module("transformers")
        llama_config = transformers.LlamaConfig(**config, torch_dtype="float16")
        with torch.device("cuda"):
            model = transformers.LlamaForCausalLM(llama_config).half().eval()
        samples: dict[str, list[float]] = {"prefill": [], "decode": []}
        for turn in range(rounds + 1):
            ids = torch.randint(0, llama_config.vocab_size, (1, prompt), device="cuda")
            with torch.inference_mode():
                torch.cuda.synchronize()
                began = time.perf_counter()
                said = model(ids, use_cache=True)
                token = said.logits[:, -1:].argmax(-1)
                torch.cuda.synchronize()
                first = time.perf_counter()
                for _ in range(count):
                    said = model(token, past_key_values=said.past_key_values, use_cache=True)
                    token = said.logits[:, -1:].argmax(-1)
                    token.item()
                last = time.perf_counter()
            if turn:
                samples["prefill"].append(first - began)
                samples["decode"].append((last - first) / count)
        return samples

    def cnn(self, batch: int, count: int, rounds: int) -> list[float]:
        """Seconds of a training step."""
        torch, nn = self.torch, self.torch.nn
        model = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 49, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        ).cuda()
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        x = torch.rand(batch, 1, 28, 28, device="cuda")
        y = torch.randint(0, 10, (batch,), device="cuda")
        samples = []
        for turn in range(rounds + 1):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(count):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            torch.cuda.synchronize()
            if turn:
                samples.append((time.perf_counter() - began) / count)
        return samples


if __name__ == "__main__":
    contender = Contender()
    for line in sys.stdin:
        call, arguments = json.loads(line)
        print(json.dumps(getattr(contender, call)(**arguments)), flush=True)

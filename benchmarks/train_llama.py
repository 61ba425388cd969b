"""Train a small llama on public-domain books, with rows that every block type divides.

    python benchmarks/train_llama.py FOLDER [--steps 400] [--device cpu]

The folder gets a checkpoint in the Hugging Face layout: config.json, tokenizer.json of the 256
bytes and model.safetensors. The model is 256 wide and its MLP 768. The last fifth of Alice in
Wonderland is not trained on.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from texts import book

import rushlight as rl
from rushlight.models.families import family_of

CONFIG: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 256,
    "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "tie_word_embeddings": False,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
}  # fmt: skip
LENGTH, ROWS, RATE = 128, 16, 2e-3


def parts() -> tuple[str, str]:
    """The text to train on, and the text that is held out."""
    alice = book("alice29.txt")
    cut = alice.index("\n", len(alice) * 4 // 5)
    return book("plrabn12.txt") + book("asyoulik.txt") + alice[:cut], alice[cut:]


def letters() -> list[str]:
    """The character that stands for each byte in a byte-level vocabulary (GPT-2's table)."""
    shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    rest = {b: 256 + i for i, b in enumerate(b for b in range(256) if b not in shown)}
    return [chr(rest.get(b, b)) for b in range(256)]


def batches(ids: Any, seed: int) -> Iterator[Any]:
    """Pieces (ROWS, LENGTH + 1) of the text from places that the seed draws."""
    places = rl.Generator(seed)
    while True:
        draws = rl.rand(ROWS, generator=places).numpy() * (len(ids) - LENGTH - 1)
        yield np.stack([ids[int(start) : int(start) + LENGTH + 1] for start in draws])


def train(folder: Path, steps: int, device: str, text: str) -> None:
    """Train, tell the loss now and then, and save."""
    rl.manual_seed(0)
    model: Any = family_of("llama", "model_type").build(CONFIG, ["lm_head.weight"])
    model.init_(device=device)
    with rl.no_grad():
        for p in model.parameters():
            if p.ndim == 2:  # GPT-2's choice; norms stay ones
                p.copy_(rl.randn(*p.shape, device=device) * 0.02)
    model.train()
    optimizer = rl.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.01)

    @rl.jit
    def step(ids: rl.Tensor, targets: rl.Tensor) -> rl.Tensor:
        logits = model(ids)
        loss = rl.nn.functional.cross_entropy(logits.reshape(-1, 256), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    source = batches(np.frombuffer(text.encode("latin-1"), np.uint8).astype(np.int64), 1)
    for number in range(1, steps + 1):
        warm, done = min(1.0, number / 30), number / steps
        optimizer.param_groups[0]["lr"] = RATE * warm * (0.55 + 0.45 * math.cos(math.pi * done))
        rows = rl.from_numpy(next(source)).to(device)
        loss = step(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        if number % 50 == 0 or number == steps:
            print(f"step {number} of {steps}: loss {loss.item():.4f}", flush=True)
    save(model, folder)


def save(model: Any, folder: Path) -> None:
    """Write the checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: t.detach().cpu() for name, t in model.state_dict().items()}
    rl.save(weights, folder / "model.safetensors")
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": True,
    }
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "post_processor": None,
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "merges": [],
            "vocab": {letter: i for i, letter in enumerate(letters())},
        },
    }
    for name, value in (("config.json", CONFIG), ("tokenizer.json", tokenizer)):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")


def main() -> None:
    """Train as the command line says."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--steps", type=int, default=400)
    arguments.add_argument("--device", default="cpu")
    chosen = arguments.parse_args()
    train(chosen.folder, chosen.steps, chosen.device, parts()[0])


if __name__ == "__main__":
    main()

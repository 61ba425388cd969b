"""Teach a small language model a task of its own: what kind of thing a word is.

python examples/finetune.py [--steps N] [--device webgpu] [--output FOLDER]
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight.models import adapters, finetune

# Words that are not in kinds.jsonl.
UNSEEN = {
    "wolf": "animal",
    "tiger": "animal",
    "pigeon": "animal",
    "oak": "plant",
    "tulip": "plant",
    "onion": "plant",
    "wrench": "tool",
    "spade": "tool",
}


def answers(model: Any) -> dict[str, str]:
    """What the model says about the words that it has not learned."""
    by_word = {}
    for word in UNSEEN:
        asked = [{"role": "system", "content": "Sort."}, {"role": "user", "content": word}]
        by_word[word] = "".join(model.chat(asked, max_new_tokens=8, temperature=0.0)).strip()
    return by_word


def report(when: str, said: dict[str, str]) -> None:
    """Print how many answers have the form, and how many are right."""
    shaped = sum(bool(re.fullmatch(r"kind: (animal|plant|tool)", text)) for text in said.values())
    right = sum(said[word] == f"kind: {kind}" for word, kind in UNSEEN.items())
    print(f"{when}: {shaped} of {len(said)} answers have the form, {right} are right")


def main() -> None:
    """Train a LoRA adapter, and show the answers before and after."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=100)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--output", help="the folder of the adapter, in PEFT's format")
    args = arguments.parse_args()
    rl.manual_seed(0)
    model = rl.models.load("smollm2-135m-instruct", device=args.device)
    report("before", answers(model))
    config = adapters.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")
    adapters.add_adapter(model, config)
    rows = finetune.read_rows(Path(__file__).with_name("kinds.jsonl"))
    losses = finetune.finetune(model, rows, steps=args.steps, lr=1e-3)
    print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} after {len(losses)} steps")
    said = answers(model)
    report("after", said)
    for word, text in said.items():
        print(f"  {word:8} {text}")
    if args.output:
        adapters.save_adapter(model, args.output)


if __name__ == "__main__":
    main()

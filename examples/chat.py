"""Chat with a small language model, whose answer appears piece by piece.

python examples/chat.py ["QUESTION"] [--device webgpu]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import rushlight as rl


def questions(first: str | None) -> Iterator[str]:
    """The question of the command line, or typed questions until an empty one."""
    if first:
        yield first
        return
    while line := input("> ").strip():
        yield line


def main() -> None:
    """Load the model and answer question after question."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("question", nargs="?")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--tokens", type=int, default=200, help="the most tokens of an answer")
    args = arguments.parse_args()
    model = rl.models.load("smollm2-135m-instruct", device=args.device)
    messages: list[dict[str, str]] = []
    for question in questions(args.question):
        messages.append({"role": "user", "content": question})
        answer = ""
        for piece in model.chat(messages, max_new_tokens=args.tokens):
            print(piece, end="", flush=True)
            answer += piece
        print()
        messages.append({"role": "assistant", "content": answer})


if __name__ == "__main__":
    main()

"""How likely a language model finds each line of a file: the least likely come first.

python examples/rank_sentences.py FILE [--top 5]

Odd lines stand out: typing mistakes, lines in another language, machine noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import rushlight as rl


def main() -> None:
    """Score the lines one by one and print those with the highest perplexity."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--top", type=int, default=5)
    arguments.add_argument("--model", default="smollm2-135m-instruct")
    arguments.add_argument("--device", default="cpu")
    args = arguments.parse_args()
    lines = [s for s in args.file.read_text(encoding="utf-8").splitlines() if s.strip()]
    model = rl.models.load(args.model, device=args.device)
    scored = [(model.score(line, prompt="\n").perplexity, line) for line in lines]
    for perplexity, line in sorted(scored, reverse=True)[: args.top]:
        print(f"{perplexity:10.1f}  {line[:160]}")


if __name__ == "__main__":
    main()

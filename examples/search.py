"""Rank the lines of a text by how close they are in meaning to a query.

python examples/search.py README.md "how do I run the tests?"
"""

from __future__ import annotations

import sys
from pathlib import Path

import rushlight as rl


def search(lines: list[str], query: str, *, top: int = 5) -> list[tuple[float, str]]:
    """The `top` lines nearest to `query` as (cosine similarity, line), best first."""
    model = rl.models.load("all-minilm-l6-v2")
    vectors = model.encode([query, *lines])  # (1 + lines, 384), each of length one
    scores = vectors[1:] @ vectors[0]  # (lines,)
    best, order = scores.topk(min(top, len(lines)))
    return [(score, lines[i]) for score, i in zip(best.tolist(), order.tolist(), strict=True)]


def main() -> None:
    """Read the file and the query from the command line."""
    if len(sys.argv) != 3:
        raise SystemExit('usage: python examples/search.py FILE "QUERY"')
    lines = [s.strip() for s in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    for score, line in search([s for s in lines if s], sys.argv[2]):
        print(f"{score:.3f}  {line}")


if __name__ == "__main__":
    main()

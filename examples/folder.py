"""Find the paragraphs of a folder's text files that are nearest in meaning to a query.

python examples/folder.py FOLDER "QUERY" [--device webgpu]

The vectors are kept in FOLDER/.vectors.safetensors and computed again only if a text has changed.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import rushlight as rl


def paragraphs(folder: Path) -> list[tuple[str, str]]:
    """Every paragraph of the folder's .txt and .md files, with the name of its file."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".txt", ".md") and p.is_file())
    pieces = []
    for path in files:
        for piece in path.read_text(encoding="utf-8", errors="replace").split("\n\n"):
            if text := " ".join(piece.split()):
                pieces.append((str(path.relative_to(folder)), text))
    if not pieces:
        raise SystemExit(f"{folder} has no .txt or .md files with text")
    return pieces


def _tell(done: int, of: int) -> None:
    print(f"\r{done} of {of}", end="\n" if done == of else "", flush=True)


def vectors(model: Any, texts: list[str], kept: Path) -> rl.Tensor:
    """One vector of length 1 per text, (texts, width); from `kept` if the texts are the same."""
    digest = hashlib.sha256("\n".join(texts).encode()).digest()
    mark = rl.tensor(list(digest), dtype=rl.uint8)
    if kept.exists():
        old = rl.load(kept)
        if old["texts"].tolist() == mark.tolist():
            stored: rl.Tensor = old["vectors"].to(model.device)
            return stored
    new: rl.Tensor = model.encode(
        texts, progress=lambda done, of: print(f"\r{done} of {of}", end="")
    )
    print()
    rl.save({"vectors": new.cpu(), "texts": mark}, kept)
    return new


def main() -> None:
    """Read the command line, embed new texts, and print the nearest paragraphs."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("query")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--top", type=int, default=5)
    args = arguments.parse_args()
    model = rl.models.load("all-minilm-l6-v2", device=args.device)
    pieces = paragraphs(args.folder)
    table = vectors(model, [text for _, text in pieces], args.folder / ".vectors.safetensors")
    scores = table @ model.encode([args.query])[0]
    best, order = scores.topk(min(args.top, len(pieces)))
    for score, i in zip(best.tolist(), order.tolist(), strict=True):
        print(f"{score:.3f}  {pieces[i][0]}: {pieces[i][1][:200]}")


if __name__ == "__main__":
    main()

"""Answer a question from the text files of a folder: the nearest paragraphs are given to a model.

python examples/ask_folder.py FOLDER "QUESTION" [--passages 2] [--device webgpu]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import rushlight as rl

ASK = (
    "Answer the question in one sentence, from these notes only.\n\n{notes}\n\nQuestion: {question}"
)


def paragraphs(folder: Path) -> list[str]:
    """The paragraphs of the folder's .txt and .md files."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".txt", ".md") and p.is_file())
    texts = [p.read_text(encoding="utf-8", errors="replace") for p in files]
    pieces = [" ".join(piece.split()) for text in texts for piece in text.split("\n\n")]
    return [piece for piece in pieces if piece]


def nearest(pieces: list[str], question: str, count: int, device: str) -> list[str]:
    """The `count` paragraphs nearest in meaning to the question, best first."""
    model = rl.models.load("all-minilm-l6-v2", device=device)
    vectors = model.encode([question, *pieces])  # (1 + paragraphs, 384), each of length one
    _, order = (vectors[1:] @ vectors[0]).topk(min(count, len(pieces)))
    return [pieces[i] for i in order.tolist()]


def main() -> None:
    """Find the passages, show them, and let the model answer."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("question")
    arguments.add_argument("--passages", type=int, default=2)
    arguments.add_argument("--tokens", type=int, default=60, help="the most tokens of the answer")
    arguments.add_argument("--device", default="cpu")
    args = arguments.parse_args()
    pieces = paragraphs(args.folder)
    if not pieces:
        raise SystemExit(f"{args.folder} has no .txt or .md files with text")
    passages = nearest(pieces, args.question, args.passages, args.device)
    for passage in passages:
        print(f"- {passage[:200]}")
    writer = rl.models.load("smollm2-135m-instruct", device=args.device)
    content = ASK.format(notes="\n\n".join(passages), question=args.question)
    for piece in writer.chat(
        [{"role": "user", "content": content}], max_new_tokens=args.tokens, temperature=0.0
    ):
        print(piece, end="", flush=True)
    print()


if __name__ == "__main__":
    main()

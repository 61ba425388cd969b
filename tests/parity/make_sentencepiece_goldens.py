"""Make the goldens of vocabulary files with the libraries that read them.

    python tests/parity/make_sentencepiece_goldens.py

Needs sentencepiece, tiktoken and transformers. Writes tests/core/data/vocabularies.json: small
SentencePiece models and a file of tiktoken in base64, with the ids of texts; a translator's
vocabulary with the ids of transformers' MarianTokenizer.
"""

from __future__ import annotations

import base64
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import sentencepiece
import tiktoken

ROOT = Path(__file__).parents[2]
TEXTS = [
    "Hello world", "  two  spaces ", "a rush and a little fat", "naïve café ﬁne ①",
    "日本語テキスト", "emoji 🙂 here", "a\tb\nc", "x<sep>y", "", "   ", "1234567890", "don't stop",
    "the the  the", "a ▁ b", "a" * 30, "AÀÉ",
]  # fmt: skip
# U+00C0 becomes A, U+00C9 e and U+FB01 fi: a table of characters of our own.
RULES = "C0\t41\nC9\t65\nFB01\t66 69\n"
KINDS: dict[str, dict[str, Any]] = {
    "unigram": {"model_type": "unigram"},
    "unigram bytes": {"model_type": "unigram", "byte_fallback": True, "pad_id": 3},
    "bpe": {"model_type": "bpe", "byte_fallback": True, "remove_extra_whitespaces": False},
    "bpe rules": {"model_type": "bpe", "rules": True},
    "unigram symbols": {"model_type": "unigram", "user_defined_symbols": ["<sep>"], "rules": True},
    "no prefix": {"model_type": "unigram", "add_dummy_prefix": False},
}
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _trained(folder: str, size: int = 360, rules: bool = False, **options: Any) -> bytes:
    table = Path(folder) / "rules.tsv"
    table.write_text(RULES, encoding="utf-8")
    how = (
        {"normalization_rule_tsv": str(table)} if rules else {"normalization_rule_name": "identity"}
    )
    lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for line in lines if line]),
        model_writer=made,
        minloglevel=2,
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=0.98,
        **how,
        **options,
    )
    return made.getvalue()


def _pieces(data: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def _marian(folder: str) -> dict[str, Any]:
    from transformers import MarianTokenizer

    source, target = _trained(folder, 200), _trained(folder, 120)
    every = ["</s>", "<unk>", *dict.fromkeys(_pieces(source)[3:-20] + _pieces(target)[3:])]
    vocab = {piece: i for i, piece in enumerate([*every, ">>fra<<", "<pad>"])}
    for name, data in (("source.spm", source), ("target.spm", target)):
        (Path(folder) / name).write_bytes(data)
    (Path(folder) / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    tokenizer = MarianTokenizer(
        source_spm=f"{folder}/source.spm",
        target_spm=f"{folder}/target.spm",
        vocab=f"{folder}/vocab.json",
    )
    texts = [">>fra<< a rush", *TEXTS]
    return {
        "source": _base64(source),
        "target": _base64(target),
        "vocab": vocab,
        "texts": texts,
        "ids": [tokenizer(text)["input_ids"] for text in texts],
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def main() -> None:
    found: dict[str, Any] = {"texts": TEXTS, "sentencepiece": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, options in KINDS.items():
            data = _trained(folder, **options)
            ids = sentencepiece.SentencePieceProcessor(model_proto=data).encode(TEXTS)
            found["sentencepiece"][name] = {"model": _base64(data), "ids": ids}
        found["marian"] = _marian(folder)
    merged = [b"th", b"he", b" t", b" the", b"in", b"and", b"ll", b"llo", b"  ", b"an", b"lo"]
    ranks = {bytes([i]): i for i in range(256)} | {token: 256 + i for i, token in enumerate(merged)}
    encoding = tiktoken.Encoding("small", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    lines = b"".join(base64.b64encode(t) + b" %d\n" % i for t, i in ranks.items())
    found["tiktoken"] = {"ranks": lines.decode(), "ids": [encoding.encode(t) for t in TEXTS]}
    place = ROOT / "tests" / "core" / "data" / "vocabularies.json"
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    place.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")
    print(place.stat().st_size, "bytes")


if __name__ == "__main__":
    main()

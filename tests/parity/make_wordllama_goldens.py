"""Make tests/parity/data/wordllama.json: the embeddings that PyPI wordllama 0.4.0.post1 gives.

    python tests/parity/make_wordllama_goldens.py

Needs wordllama alone, with what it imports.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

from safetensors.numpy import load_file
from tokenizers import Tokenizer

TEXTS = [
    "a candle",
    "",
    "Llamas are cute.",
    "the mind is a candle. " * 50,
    "日本語 हिन्दी émigré 🕯️",
    "  two  spaces\n",
    "A rushlight is a candle made of a rush and a little fat.",
]


def main() -> None:
    inside = Path(str(import_module("wordllama").__file__)).parent
    table = load_file(inside / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
    tokenizer = inside / "tokenizers" / "l2_supercat_tokenizer_config.json"
    make = import_module("wordllama.inference").WordLlamaInference
    vectors = make(table, Tokenizer.from_file(str(tokenizer))).embed(TEXTS)
    found = {"texts": TEXTS, "vectors": vectors.round(5).tolist()}
    out = Path(__file__).parent / "data" / "wordllama.json"
    out.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

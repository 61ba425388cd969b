"""Write the small tokenizers of tests/core/data and what the `tokenizers` package makes of strings.

tests/core compares with these where the package itself cannot run, inside a browser tab.

    python tests/parity/make_tiny_tokenizers.py
"""

from __future__ import annotations

import json
import string
from pathlib import Path

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

DATA = Path(__file__).resolve().parents[1] / "core" / "data"


def word_piece() -> Tokenizer:
    """A WordPiece tokenizer as BERT's, with letters, a few words and a few pieces."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += [*string.ascii_lowercase, *string.digits, *string.punctuation, *"中文日本語אβ한"]
    pieces += [f"##{letter}" for letter in string.ascii_lowercase + string.digits]
    pieces += "the quick brown fox jumps over lazy dog hello world cafe word".split()
    pieces += "##ing ##s ##ed ##er ##ly ##ou un ##aff ##able".split()
    vocab = {piece: id for id, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(pieces[:5])
    # What a file asks for here is not what `encode` does; see `load_tokenizer`.
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]", length=16)
    tokenizer.enable_truncation(16)
    return tokenizer


def byte_level() -> Tokenizer:
    """A byte-level BPE tokenizer as GPT-2's, with a few merges and trimmed offsets."""
    rules = "h e|l l|he ll|hell o|Ġ t|Ġt h|Ġth e|o r|or d|w ord|Ġ word|i n|in g|Ġ Ġ|ĠĠ ĠĠ"
    rules += "|a a|aa aa|Ã ©|ð Ł|ðŁ ĺ"
    merges = [
        (left, right) for left, _, right in (rule.partition(" ") for rule in rules.split("|"))
    ]
    pieces = sorted(pre_tokenizers.ByteLevel.alphabet()) + [a + b for a, b in merges]
    tokenizer = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<s>", "</s>", "<pad>", AddedToken("<mask>", lstrip=True)])
    ends = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def main() -> None:
    """Write both tokenizers and their expected encodings."""
    strings = json.loads((DATA / "tokenizer_strings.json").read_text(encoding="utf-8"))
    short = [s for s in strings if isinstance(s, str) and len(s) < 40][::2]
    short += [
        "the quick brown foxes jumped",
        "hello  word <mask>",
        "a<mask> b</s>",
        "unaffable [MASK]",
    ]
    expected = {}
    for name, tokenizer in (("word_piece", word_piece()), ("byte_level", byte_level())):
        text = tokenizer.to_str(pretty=False)
        (DATA / f"tiny_{name}.json").write_text(text + "\n", encoding="utf-8")
        tokenizer.no_padding()
        tokenizer.no_truncation()
        expected[name] = [
            {
                "text": string,
                "ids": (made := tokenizer.encode(string)).ids,
                "offsets": made.offsets,
                "special": made.special_tokens_mask,
                "decoded": tokenizer.decode(made.ids),
            }
            for string in short
        ]
    lines = ",\n".join(
        f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]"
        for name, rows in expected.items()
    )
    (DATA / "tiny_expected.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

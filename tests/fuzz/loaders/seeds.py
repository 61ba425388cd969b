"""What the page's loaders are given, before it is changed: tokenizers, listings, addresses."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np

Json = dict[str, Any]
WORDS = [
    "<s>",
    "</s>",
    "<unk>",
    "a",
    "b",
    "ab",
    "\u2581",
    "\u2581a",
    "##b",
    "x",
    "Ġ",
    "Ġa",
    "\u00e9",
]
TEXTS = ["ab a<s>b", "", "  AB é\u0301 x\u2581 \U0001f600 12 don't", "ab" * 40]


def _added(content: str, number: int, **flags: bool) -> Json:
    usual = {
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    return {"content": content, "id": number, **usual, **flags}


def _charsmap() -> str:
    """SentencePiece's table of replaced characters, by which b becomes a."""
    units = [256 << 10, *[0] * 511]  # a byte's unit is number 256 + byte
    leaf = 256 ^ ord("b")
    units[leaf] = ord("b") | 1 << 8 | 1 << 10
    units[leaf ^ 1] = 1 << 31
    trie = struct.pack("<512I", *units)
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + b"a\0").decode()


def _sequence(kind: str, *steps: Json) -> Json:
    return {"type": "Sequence", kind: list(steps)}


def tokenizers() -> list[Json]:
    """Files of each model, with every kind of step in one of them."""
    ids = {word: i for i, word in enumerate(WORDS)}
    pieces = [*WORDS, *(f"<0x{byte:02X}>" for byte in range(256))]
    template = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "</s>", "type_id": 0}},
        ],
        "pair": [],
        "special_tokens": {w: {"id": w, "ids": [ids[w]], "tokens": [w]} for w in ("<s>", "</s>")},
    }
    split = {
        "type": "Split",
        "pattern": {"Regex": r"(?i:'s)|\p{L}+|\s+(?!\S)|\d{1,3}|[^\s\w]+"},
        "behavior": "Isolated",
        "invert": False,
    }
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": True,
    }
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    added = [
        _added("<s>", 0),
        _added("</s>", 1, lstrip=True),
        _added("<unk>", 2, rstrip=True),
        _added("Extra", 300, normalized=True, single_word=True, special=False),
    ]
    return [
        {"added_tokens": added, "normalizer": {"type": "NFC"},
         "pre_tokenizer": _sequence("pretokenizers", split, byte_level | {"use_regex": False}),
         "post_processor": _sequence("processors", byte_level, template), "decoder": byte_level,
         "model": {"type": "BPE", "vocab": ids, "merges": ["a b", "Ġ a"], "unk_token": None,
                   "dropout": None, "fuse_unk": False, "byte_fallback": False}},
        {"added_tokens": added,
         "normalizer": _sequence("normalizers", {"type": "Prepend", "prepend": "\u2581"}, replace),
         "pre_tokenizer": None, "post_processor": template,
         "decoder": _sequence("decoders", {"type": "Replace", "pattern": {"String": "\u2581"},
                                           "content": " "}, {"type": "ByteFallback"},
                              {"type": "Fuse"},
                              {"type": "Strip", "content": " ", "start": 1, "stop": 0}),
         "model": {"type": "BPE", "vocab": {p: i for i, p in enumerate(pieces)},
                   "merges": [["a", "b"], ["\u2581", "a"]], "unk_token": "<unk>", "fuse_unk": True,
                   "byte_fallback": True, "ignore_merges": False}},
        {"added_tokens": added,
         "normalizer": {"type": "BertNormalizer", "clean_text": True, "lowercase": True,
                        "handle_chinese_chars": True, "strip_accents": None},
         "pre_tokenizer": {"type": "BertPreTokenizer"},
         "post_processor": {"type": "BertProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0]},
         "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
         "padding": {"strategy": "BatchLongest", "pad_id": 0, "pad_token": "<s>"},
         "model": {"type": "WordPiece", "vocab": ids, "unk_token": "<unk>",
                   "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}},
        {"added_tokens": added,
         "normalizer": _sequence("normalizers", {"type": "NFKC"}, {"type": "Lowercase"},
                                 {"type": "StripAccents"},
                                 {"type": "Strip", "strip_left": True, "strip_right": True}),
         "pre_tokenizer": _sequence("pretokenizers", {"type": "WhitespaceSplit"},
                                    {"type": "Punctuation", "behavior": "Isolated"},
                                    {"type": "Digits", "individual_digits": True}, space),
         "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0],
                            "trim_offsets": True, "add_prefix_space": False},
         "decoder": space,
         "model": {"type": "Unigram", "vocab": [[p, -float(i)] for i, p in enumerate(pieces)],
                   "unk_id": 2, "byte_fallback": True}},
        {"added_tokens": added,
         "normalizer": {"type": "Precompiled", "precompiled_charsmap": _charsmap()},
         "pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "x"}, "post_processor": None,
         "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
         "model": {"type": "Unigram", "vocab": [[p, -1.5] for p in WORDS], "unk_id": 2}},
        {"added_tokens": [], "normalizer": {"type": "Replace", "pattern": {"Regex": "(a|b)+?x"},
                                            "content": "ab"},
         "pre_tokenizer": _sequence("pretokenizers", {"type": "Whitespace"},
                                    {"type": "FixedLength", "length": 3}),
         "decoder": None,
         "model": {"type": "BPE", "vocab": ids, "merges": [], "unk_token": "<unk>"}},
    ]  # fmt: skip


SITE, HUB = "https://a.example/m/", "https://huggingface.co/api/models/o/m/tree/main?recursive=true"
NAMES = ["config.json", "tokenizer.json", "model.safetensors", "generation_config.json"]
INDEX = "model.safetensors.index.json"


def listings() -> list[tuple[str, dict[str, Json | list[Json]]]]:
    """Addresses, and the documents that their servers have."""
    rows: list[Json] = [{"path": path, "size": 3, "sha256": "ab"} for path in NAMES]
    shards = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    tree = [{"type": "file", "lfs": {"oid": "ab", "size": 3}, **row} for row in rows]
    split = [{"path": f"m-Q4_K_M-0000{i}-of-00003.gguf", "size": 9} for i in (1, 2, 3)]
    index: Json = {
        "metadata": {"total_size": 6},
        "weight_map": dict(zip("ab", shards, strict=True)),
    }
    small: dict[str, Json | list[Json]] = {f"{SITE}{name}": {} for name in NAMES[:2]}
    parts = [*rows[:2], {"path": NAMES[2], "size": 6, "parts": rows[:2]}]
    return [
        (SITE, {f"{SITE}manifest.json": {"name": "m", "files": rows}}),
        (SITE, {f"{SITE}manifest.json": {"name": "m", "files": parts}}),
        (SITE, {f"{SITE}manifest.json": {"name": "m", "files": split}}),
        (SITE, {**small, f"{SITE}{INDEX}": index}),
        ("o/m", {HUB: tree}),
        ("o/m", {HUB: [{"type": "file", **row} for row in split]}),
        (f"{SITE}m-00001-of-00002.gguf", {f"{SITE}m-0000{i}-of-00002.gguf": {} for i in (1, 2)}),
        (SITE, {**small, f"{SITE}adapter_config.json": {}, f"{SITE}{NAMES[2]}": {}}),
    ]


ADDRESSES = [
    "m", "./m/", "o/m", "o/m@main", "https://a.example/m", "https://a.example/a%zzb.gguf", "data:x",
    "https://a.example/%ff.pt", "blob:x", "mailto:a", "javascript:1", "https://", "http://[", "//",
    "https://a.example:99999/", "file:///m.gguf", "https://a.example/m?x#y.gguf", "..", "/", "",
    "https://a.example/m-00001-of-99999.gguf", "https://huggingface.co/o/m/blob/main/a%2Fb.gguf",
    "a" * 5000, "\ud800", "https://a.example/\ud800.gguf", "x y", "https://a@b:c@d/e.gguf",
    "about:blank", "data:,x.gguf", "https://huggingface.co/o/m/resolve/main/", "./%2e%2e/x.pt",
]  # fmt: skip


def npz() -> bytes:
    """Arrays of NumPy, stored."""
    import io

    buffer = io.BytesIO()
    np.savez(buffer, a=np.arange(6, dtype=np.float32).reshape(2, 3), b=np.ones(3, np.float16))
    return buffer.getvalue()


def safetensors() -> bytes:
    """Two tensors and metadata."""
    head: Json = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [5], "data_offsets": [24, 34]},
    }
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + bytes(range(34))

"""Tokenizers for GGUF files: a tokenizer.json as the metadata that gguf_tokenizer.py reads.

Byte-level BPE ("gpt2"), SentencePiece's BPE ("llama") and Unigram ("t5"), and WordPiece ("bert")
have a form in GGUF. A pre-tokenizer is a name there; it is found by its patterns. The result is
compared with the original on a text of many kinds of words, so what GGUF cannot say is an error and
not another tokenizer.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.text.chat.sources import gguf_metadata, template_sources
from rushlight.core.io.text.gguf_tokenizer import gguf_tokenizer
from rushlight.core.io.text.gguf_vocab import BYTE, CONTROL, PREFIX, UNKNOWN, USER_DEFINED
from rushlight.core.io.text.gguf_words import CONTRACTIONS, GPT2, IGNORE_MERGES, PATTERNS
from rushlight.core.io.text.gguf_world import world_metadata
from rushlight.core.io.text.tokenizer import Tokenizer, load_tokenizer
from rushlight.core.io.text.vocabularies.world import WORLD

_NORMAL, _UNUSED = 1, 5
_KINDS = ("BPE", "WordPiece", "Unigram")
_BLANK = "\u2581"  # SentencePiece's character for a space
_RARE = -10000.0  # the score of a piece that no text has
_DEPTH = 32
_BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")
# Of names with equal patterns the one that llama.cpp's converter writes for most models.
_USUAL = ("gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "gpt-4o", "deepseek-v3")
_ANY_CASE = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SAMPLE = (
    "Hello, world! It's 3.14159 or 1000000; we'LL see\n\n\n  \tTabs,   spaces \r\n and\u3000"
    "\U0001f56f candles: na\u00efve caf\u00e9, \u1e9e, \u4f60\u597d\u4e16\u754c, \u041f\u0440"
    "\u0438\u0432\u0435\u0442, \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 _under_score CamelCase "
    "http://a.b/c?d=1&e=2 ''''' //// \u00a0 x=y**2 'tis DON'T end "
)


def tokenizer_metadata(files: Mapping[str, bytes], rows: int) -> dict[str, Any]:
    """GGUF's metadata for the tokenizer in a model's small files; `rows` is the vocabulary's size.

    Ids without a token get names that no text has. Raises FormatError for a tokenizer that GGUF
    does not have, or not with the same results.
    """
    if "tokenizer.json" not in files and WORLD in files:
        return world_metadata(files[WORLD], rows) | gguf_metadata(template_sources(files))
    if "tokenizer.json" not in files:
        return {f"{PREFIX}model": "none"}
    original = load_tokenizer(files["tokenizer.json"])  # which checks its parts
    file = _object("tokenizer.json", files["tokenizer.json"])
    config = _object("tokenizer_config.json", files.get("tokenizer_config.json", b"{}"))
    model = file.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    if not isinstance(model, dict) or kind not in _KINDS:
        raise FormatError(
            f"tokenizer.json: models of type {brief(kind)} cannot be written to GGUF; supported: "
            f"{', '.join(_KINDS)}"
        )
    tokens, types = _tokens(file, model, rows)
    if kind != "BPE":
        make = _word_piece if kind == "WordPiece" else _unigram
        return make(original, file, config, files, tokens, types)
    ids = {token: id for id, token in enumerate(tokens)}
    metadata: dict[str, Any] = {}
    pairs = [pair.split(" ", 1) if isinstance(pair, str) else pair for pair in model["merges"]]
    if model.get("byte_fallback"):
        metadata[f"{PREFIX}model"] = "llama"
        # SentencePiece ranks merges by the score of their result.
        ranks: dict[str, int] = {}
        for rank, (left, right) in enumerate(pairs):
            ranks.setdefault(left + right, rank)
        scores = [-float(ranks.get(token, len(pairs))) for token in tokens]
        metadata[f"{PREFIX}scores"] = np.array(scores, np.float32)
        metadata[f"{PREFIX}add_space_prefix"] = "Prepend" in str(file.get("normalizer"))
    else:
        metadata[f"{PREFIX}model"] = "gpt2"
        metadata[f"{PREFIX}pre"] = _pre(file.get("pre_tokenizer"), bool(model.get("ignore_merges")))
        metadata[f"{PREFIX}merges"] = [f"{left} {right}" for left, right in pairs]
    metadata[f"{PREFIX}tokens"] = tokens
    metadata[f"{PREFIX}token_type"] = np.array(types, np.int32)
    metadata |= _special(file, config, files, ids)
    _compare(original, metadata)
    return metadata


def _word_piece(
    original: Tokenizer,
    file: dict[str, Any],
    config: dict[str, Any],
    files: Mapping[str, bytes],
    tokens: list[str],
    types: list[int],
) -> dict[str, Any]:
    """BERT's vocabulary: GGUF marks the start of a word, tokenizer.json its continuation."""

    def marked(token: str, kind: int) -> str:
        if kind in (CONTROL, _UNUSED) or (token.startswith("[") and token.endswith("]")):
            return token
        return token[2:] if token[:2] == "##" != token else _BLANK + token

    rules = file.get("normalizer") or {}
    metadata: dict[str, Any] = {
        f"{PREFIX}model": "bert",
        f"{PREFIX}tokens": list(map(marked, tokens, types)),
        f"{PREFIX}token_type": np.array(types, np.int32),
        f"{PREFIX}normalizer.lowercase": (lower := rules.get("lowercase") is True),
    }
    if rules.get("strip_accents") not in (None, lower):
        metadata[f"{PREFIX}normalizer.strip_accents"] = not lower
    ids = {token: id for id, token in enumerate(tokens)}
    config = {"unk_token": file["model"].get("unk_token"), **config}
    metadata |= _special(file, config, files, ids)
    for key, name in (("bos", "cls"), ("eos", "seperator")):  # GGUF's spelling
        if not metadata.pop(f"{PREFIX}add_{key}_token"):
            raise FormatError("tokenizer.json: it adds no token before or after a text, as GGUF's")
        metadata[f"{PREFIX}{name}_token_id"] = metadata[f"{PREFIX}{key}_token_id"]
    mask = config.get("mask_token", "[MASK]")
    mask = mask.get("content") if isinstance(mask, dict) else mask
    if mask in ids:
        metadata[f"{PREFIX}mask_token_id"] = ids[mask]
    _compare(original, metadata)
    return metadata


def _unigram(
    original: Tokenizer,
    file: dict[str, Any],
    config: dict[str, Any],
    files: Mapping[str, bytes],
    tokens: list[str],
    types: list[int],
) -> dict[str, Any]:
    """SentencePiece's Unigram: with scores, and rules for characters as its file has them."""
    model = file["model"]
    scores = [float(score) for _, score in model["vocab"]]
    scores += [_RARE] * (len(tokens) - len(scores))
    metadata: dict[str, Any] = {
        f"{PREFIX}model": "t5",
        f"{PREFIX}pre": "default",
        f"{PREFIX}tokens": tokens,
        f"{PREFIX}scores": np.array(scores, np.float32),
        f"{PREFIX}token_type": np.array(types, np.int32),
    }
    rules = file.get("normalizer") or {}
    for rule in rules.get("normalizers", [rules]):
        if table := rule.get("precompiled_charsmap"):
            data = np.frombuffer(base64.b64decode(table), np.uint8)
            metadata[f"{PREFIX}precompiled_charsmap"] = data
    ids = {token: id for id, token in enumerate(tokens)}
    if type(unknown := model.get("unk_id")) is int:
        metadata[f"{PREFIX}unknown_token_id"] = unknown
    metadata |= _special(file, config, files, ids)
    # What spaces become is said in several places; the files' results tell it.
    ways = [(prefix, extra) for prefix in (True, False) for extra in (True, False)]
    for prefix, extra in ways:
        metadata[f"{PREFIX}add_space_prefix"] = prefix
        metadata[f"{PREFIX}remove_extra_whitespaces"] = extra
        try:
            _compare(original, metadata)
        except FormatError:
            if (prefix, extra) == ways[-1]:
                raise
        else:
            break
    return metadata


def _object(name: str, data: bytes) -> dict[str, Any]:
    value = parse_json(data, name, depth=_DEPTH)
    if not isinstance(value, dict):
        raise FormatError(f"{name} holds a {type(value).__name__}, not an object")
    return value


def _tokens(file: dict[str, Any], model: dict[str, Any], rows: int) -> tuple[list[str], list[int]]:
    """Every id's token and type."""
    tokens: list[str | None] = [None] * rows
    types = [_UNUSED] * rows

    def put(token: Any, id: Any, kind: int) -> None:
        if not isinstance(token, str) or type(id) is not int or not 0 <= id < rows:
            raise FormatError(
                f"tokenizer.json: the token {brief(token)} has id {brief(id)}; the model has "
                f"{rows} rows"
            )
        tokens[id], types[id] = token, kind

    unknown = model.get("unk_token")
    fallback, vocab = bool(model.get("byte_fallback")), model.get("vocab")
    if isinstance(vocab, list) and model["type"] == "Unigram":
        pairs = {pair[0]: i for i, pair in enumerate(vocab)}
        unknown = vocab[unk][0] if type(unk := model.get("unk_id")) is int else None
        fallback = True
    elif isinstance(vocab, dict):
        pairs = vocab
    else:
        raise FormatError("tokenizer.json: the model has no vocabulary")
    for token, id in pairs.items():
        as_byte = fallback and _BYTE_TOKEN.fullmatch(token)
        kind = UNKNOWN if token == unknown else BYTE if as_byte else _NORMAL
        put(token, id, _UNUSED if token == f"[PAD{id}]" else kind)
    for added in file.get("added_tokens") or ():
        token = added.get("content")
        kind = CONTROL if added.get("special") else USER_DEFINED
        put(token, added.get("id"), UNKNOWN if token == unknown and fallback else kind)
    return [f"[PAD{i}]" if token is None else token for i, token in enumerate(tokens)], types


def _pre(pre_tokenizer: Any, whole_words: bool) -> str:
    """llama.cpp's name of a pre-tokenizer; FormatError if none has its patterns."""
    steps = pre_tokenizer or {}
    steps = steps.get("pretokenizers", [steps]) if isinstance(steps, dict) else []
    patterns = tuple(p for step in steps if (p := _pattern(step)) is not None)
    plain = tuple(map(_plain, patterns))
    names = [
        name
        for name, known in PATTERNS.items()
        if name and tuple(map(_plain, known)) == plain and (name in IGNORE_MERGES) == whole_words
    ]
    if not names:
        raise FormatError(
            f"tokenizer.json: llama.cpp has no name for a pre-tokenizer of {brief(patterns)}",
            hint="GGUF files cannot hold this tokenizer",
        )
    return next((name for name in _USUAL if name in names), names[0])


def _pattern(step: Any) -> str | None:
    """The pattern by which a step splits a text; None if it splits none."""
    kind = step.get("type") if isinstance(step, dict) else None
    if kind == "Split" and isinstance(step.get("pattern"), dict):
        return str(step["pattern"].get("Regex"))
    if kind == "Digits":
        return r"\p{N}" if step.get("individual_digits") else r"\p{N}+"
    if kind == "ByteLevel":
        return GPT2 if step.get("use_regex", True) else None
    raise FormatError(f"tokenizer.json: the pre-tokenizer {brief(kind)} has no form in GGUF")


def _plain(pattern: str) -> str:
    """Patterns that split alike, spelled alike: what no alternative matches is a word too."""
    return pattern.replace(_ANY_CASE, CONTRACTIONS).removesuffix(r"|\s+")


def _special(
    file: dict[str, Any], config: dict[str, Any], files: Mapping[str, bytes], ids: dict[str, int]
) -> dict[str, Any]:
    """Ids of special tokens, which of them are added around a text, and the chat template."""
    metadata: dict[str, Any] = {}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        token = config.get(f"{name}_token")
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str) and token in ids:
            metadata[f"{PREFIX}{key}_token_id"] = ids[token]
    for side, key in zip(_around(file.get("post_processor")), ("bos", "eos"), strict=True):
        metadata[f"{PREFIX}add_{key}_token"] = bool(side)
        if len(side) > 1 or any(token not in ids for token in side):
            raise FormatError(f"tokenizer.json: it adds {brief(side)}; GGUF has one token a side")
        if side:
            metadata[f"{PREFIX}{key}_token_id"] = ids[side[0]]
    return metadata | gguf_metadata(template_sources(files))


def _around(processor: Any) -> tuple[list[str], list[str]]:
    """The tokens that a post-processor adds before and after a text."""
    sides: tuple[list[str], list[str]] = ([], [])
    steps = processor.get("processors", [processor]) if isinstance(processor, dict) else []
    for step in steps:
        if step.get("type") in ("BertProcessing", "RobertaProcessing"):
            for side, name in zip(sides, ("cls", "sep"), strict=True):
                side.append(str(step[name][0]))
        after = 0
        for piece in step.get("single", ()) if step.get("type") == "TemplateProcessing" else ():
            if "Sequence" in piece:
                after = 1
            else:
                sides[after].append(str(piece["SpecialToken"]["id"]))
    return sides


def _compare(ours: Tokenizer, metadata: Mapping[str, Any]) -> None:
    """Raise FormatError unless both tokenizers give the same ids.

    Spaces at the end are no token for SentencePiece, and one for some tokenizer.json made of it.
    """
    theirs = gguf_tokenizer(metadata)
    sample = _SAMPLE.rstrip() if metadata[f"{PREFIX}model"] == "t5" else _SAMPLE
    for text in (sample, " leading", "word"):
        if ours.encode(text).ids != theirs.encode(text).ids:
            raise FormatError(
                f"tokenizer.json: written to GGUF it would give other tokens, as for {brief(text)}",
                hint="GGUF files cannot hold this tokenizer",
            )

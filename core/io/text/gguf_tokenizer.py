"""Tokenizers of GGUF files: the metadata is converted to an equivalent tokenizer.json.

The keys are those of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Their meaning is
that of llama.cpp (src/llama-vocab.cpp). Supported are byte-level BPE ("gpt2"), SentencePiece's BPE
("llama"), its Unigram ("t5"), Gemma 4's and WordPiece ("bert").
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.text.chat.sources import as_setting, gguf_sources
from rushlight.core.io.text.gguf_vocab import (
    CONTROL,
    PREFIX,
    UNKNOWN,
    USER_DEFINED,
    Vocabulary,
    flag,
    merges,
    note_ids,
    numbers,
    of_type,
    read_vocabulary,
    scored_merges,
    special_id,
)
from rushlight.core.io.text.gguf_words import ADD_BOS, IGNORE_MERGES, PATTERNS
from rushlight.core.io.text.gguf_world import KIND, is_world, world_files
from rushlight.core.io.text.tokenizer import Tokenizer, load_tokenizer, load_tokenizer_async
from rushlight.core.io.text.vocabularies.world import WORLD, WorldTokenizer

log = logging.getLogger("rushlight")
_MOST_ADDED = 1 << 16
_BLANK = "\u2581"  # SentencePiece's character for a space
# Other vocabularies that llama.cpp reads.
_OTHER_KINDS = {
    "plamo2": "PLaMo 2's Aho-Corasick tables",
    "none": "the file was made without one",
    "no_vocab": "the file was made without one",
}
# Default ids: bos, eos, unknown.
_DEFAULT_IDS = {
    "llama": (1, 2, 0),
    "bert": (101, 102, 100),
    "gpt2": (11, 11, None),
    "t5": (None, 1, 2),
}
# Common names of tokens that end a turn.
_ENDS = frozenset(
    "<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <end_of_turn> <|endoftext|> <|end_of_text|> "
    "<EOT> _<EOT> <|eom_id|> <turn|> <end_of_utterance> <｜end▁of▁sentence｜> </s>".split()
)


def from_gguf(metadata: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The tokenizer.json and tokenizer_config.json for a GGUF file's metadata.

    Values are as a reader returns them: str, int, bool, lists and NumPy arrays. The first file is
    for `load_tokenizer`; the second names the special tokens and holds the chat template.
    Raises FormatError for a vocabulary that is missing, malformed, too large or of another kind.
    """
    make = {
        "gpt2": _byte_level,
        "llama": _sentence_piece,
        "gemma4": _gemma,
        "bert": _word_piece,
        "t5": _unigram,
    }
    kind = of_type(f"{PREFIX}model", metadata.get(f"{PREFIX}model"), str)
    if kind not in make:  # checked before the lists, as other kinds have other lists
        method = f" ({_OTHER_KINDS[kind]})" if kind in _OTHER_KINDS else ""
        raise FormatError(
            f"{PREFIX}model: {kind[:100]!r} vocabularies{method} are not supported; "
            f"supported: {', '.join([*make, KIND])}",
            hint="load the model from a folder with a tokenizer.json; "
            "rl.load(file) loads the tensors alone",
        )
    vocabulary = read_vocabulary(metadata)
    note_ids(metadata, vocabulary)
    file = make[vocabulary.model](metadata, vocabulary)
    special = vocabulary.special()
    if len(special) > _MOST_ADDED:
        raise FormatError(f"{PREFIX}token_type: {len(special)} special tokens are too many")
    file["added_tokens"] = [
        added_token(id, vocabulary.tokens[id], special=kind != USER_DEFINED) for id, kind in special
    ]
    before, after = _around(metadata, vocabulary)
    file["post_processor"] = around_texts(before, after, vocabulary.ids, again=kind != "bert")
    config: dict[str, Any] = {
        "add_bos_token": bool(before),
        "add_eos_token": bool(after),
        "clean_up_tokenization_spaces": False,
    }
    for name, key in (
        ("bos_token", "bos_token_id"),
        ("eos_token", "eos_token_id"),
        ("unk_token", "unknown_token_id"),
        ("pad_token", "padding_token_id"),
    ):
        id = special_id(metadata, vocabulary, key)
        config[name] = None if id is None else vocabulary.tokens[id]
    if templates := gguf_sources(metadata):
        config["chat_template"] = as_setting(templates)
    return (
        json.dumps(file, ensure_ascii=False).encode("utf-8"),
        json.dumps(config, ensure_ascii=False).encode("utf-8"),
    )


def gguf_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a GGUF file; see `from_gguf` and `load_tokenizer`."""
    if is_world(metadata):
        return WorldTokenizer(world_files(metadata)[WORLD])
    return load_tokenizer(*from_gguf(metadata))


async def gguf_tokenizer_async(metadata: Mapping[str, Any]) -> Tokenizer:
    """`gguf_tokenizer` for tabs without JSPI; works in a Python process too."""
    if is_world(metadata):
        return gguf_tokenizer(metadata)
    return await load_tokenizer_async(*from_gguf(metadata))


def stop_ids(metadata: Mapping[str, Any]) -> frozenset[int]:
    """The ids that end an answer: those that the file names, and those of common names."""
    vocabulary = read_vocabulary(metadata)
    ids = {
        special_id(metadata, vocabulary, key)
        for key in ("eos_token_id", "eot_token_id", "eom_token_id")
    }
    special = {id for id, kind in vocabulary.special() if kind == CONTROL}
    ids |= {id for name in _ENDS if (id := vocabulary.ids.get(name)) in special}
    return frozenset(id for id in ids if id is not None)


# --- writing tokenizer.json ---------------------------------------------------------------------


def _file(**parts: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer"))
    return {"version": "1.0", **empty, **parts}


def _bpe(
    vocabulary: Vocabulary, pairs: Sequence[str] | Sequence[tuple[str, str]], **more: Any
) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": vocabulary.ids,
        "merges": pairs,
        **more,
    }


def _sequence(kind: str, key: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return parts[0] if len(parts) == 1 else {"type": kind, key: parts}


def _split(pattern: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


def _byte_level(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> dict[str, Any]:
    if vocabulary.pre not in PATTERNS:
        raise FormatError(
            f"{PREFIX}pre: pre-tokenizer {vocabulary.pre!r} is not supported; supported: "
            f"{', '.join(sorted(filter(None, PATTERNS)))}"
        )
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    splits = [_split(pattern) for pattern in PATTERNS[vocabulary.pre]]
    return _file(
        pre_tokenizer={
            "type": "Sequence",
            "pretokenizers": [*splits, {**step, "use_regex": False}],
        },
        decoder={**step, "use_regex": True},
        model=_bpe(
            vocabulary,
            merges(metadata, vocabulary),
            ignore_merges=vocabulary.pre in IGNORE_MERGES,
        ),
    )


def _blank_normalizer(prefix: bool) -> dict[str, Any]:
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": _BLANK}
    prepend = [{"type": "Prepend", "prepend": _BLANK}] if prefix else []
    return {"type": "Sequence", "normalizers": [*prepend, replace]}


def _blank_decoder(prefix: bool) -> dict[str, Any]:
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    return {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": _BLANK}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            *strip,
        ],
    }


def _unknown(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> str | None:
    id = special_id(metadata, vocabulary, "unknown_token_id")
    if id is None:
        id = vocabulary.types.index(UNKNOWN) if UNKNOWN in vocabulary.types else None
    return None if id is None else vocabulary.tokens[id]


def _normalizers(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> list[dict[str, Any]]:
    """SentencePiece's own rules for characters, and blanks made one where they are several."""
    steps: list[dict[str, Any]] = []
    table = metadata.get(f"{PREFIX}precompiled_charsmap")
    if table is not None and not isinstance(table, bytes):
        if not isinstance(table, np.ndarray) or table.dtype.itemsize != 1 or table.ndim != 1:
            raise FormatError(
                f"{PREFIX}precompiled_charsmap is {brief(table)}, not a list of bytes"
            )
        table = table.astype(np.uint8).tobytes()
    if table:
        steps.append(
            {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}
        )
    if flag(metadata, "remove_extra_whitespaces", False):
        # Blanks at the start become one, which is the prefix.
        bare = not flag(metadata, "add_space_prefix", True) or vocabulary.model != "t5"
        steps.append({"type": "Strip", "strip_left": bare, "strip_right": True})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    return steps


def _unigram(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> dict[str, Any]:
    scores = numbers(metadata, "scores", len(vocabulary.tokens))
    if not scores or any(score != score for score in scores):
        raise FormatError(f"{PREFIX}scores: a t5 vocabulary has a number per token")
    unknown = _unknown(metadata, vocabulary)
    # The package's prefix is that of the first word only: not after a token that is matched first.
    scheme = "first" if flag(metadata, "add_space_prefix", True) else "never"
    blanks = {"type": "Metaspace", "replacement": _BLANK, "prepend_scheme": scheme, "split": False}
    steps = _normalizers(metadata, vocabulary)
    return _file(
        normalizer={"type": "Sequence", "normalizers": steps} if steps else None,
        pre_tokenizer=blanks,
        decoder={"type": "Sequence", "decoders": [{"type": "ByteFallback"}, blanks]},
        model={
            "type": "Unigram",
            "unk_id": None if unknown is None else vocabulary.ids[unknown],
            "vocab": list(zip(vocabulary.tokens, map(float, scores), strict=True)),
            "byte_fallback": flag(metadata, "byte_fallback", False),
        },
    )


def _sentence_piece(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> dict[str, Any]:
    prefix = flag(metadata, "add_space_prefix", True)
    blanks = _blank_normalizer(prefix)
    return _file(
        normalizer={
            **blanks,
            "normalizers": [*_normalizers(metadata, vocabulary), *blanks["normalizers"]],
        },
        decoder=_blank_decoder(prefix),
        model=_bpe(
            vocabulary,
            scored_merges(metadata, vocabulary),
            unk_token=_unknown(metadata, vocabulary),
            fuse_unk=True,
            byte_fallback=flag(metadata, "byte_fallback", True),
        ),
    )


def _gemma(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> dict[str, Any]:
    return _file(
        normalizer=_blank_normalizer(False),
        pre_tokenizer=_split(r"[^\n]+|[\n]+"),
        decoder=_blank_decoder(False),
        model=_bpe(
            vocabulary,
            merges(metadata, vocabulary),
            unk_token=_unknown(metadata, vocabulary),
            fuse_unk=True,
            byte_fallback=True,
        ),
    )


def _word_piece(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> dict[str, Any]:
    """BERT's vocabulary: GGUF marks the start of a word, tokenizer.json its continuation."""
    vocab: dict[str, int] = {}
    for id, token in enumerate(vocabulary.tokens):
        if token.startswith("[") and token.endswith("]"):
            name = token
        else:
            name = token[1:] if token.startswith(_BLANK) else f"##{token}"
        if name in vocab:
            raise FormatError(f"{PREFIX}tokens[{id}] is {token!r}, the same as another token")
        vocab[name] = id
    lower = flag(metadata, "normalizer.lowercase", True)
    strip = flag(metadata, "normalizer.strip_accents", lower)
    unknown = _unknown(metadata, vocabulary) or "[UNK]"
    if unknown not in vocab:
        raise FormatError(f"{PREFIX}unknown_token_id: {unknown!r} is not a token")
    return _file(
        normalizer={
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None if strip == lower else strip,
            "lowercase": lower,
        },
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        model={
            "type": "WordPiece",
            "unk_token": unknown,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocab,
        },
    )


def added_token(id: int, content: str, *, special: bool = True, **more: bool) -> dict[str, Any]:
    """A token that tokenizer.json adds; `more`: single_word, lstrip, rstrip, normalized.

    `id` is the token's, `content` its text, `special`: it is a control token. It raises nothing.
    """
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": id, "content": content, **flags, "special": special, **more}


def around_texts(
    before: Sequence[str],
    after: Sequence[str],
    ids: Mapping[str, int],
    *,
    second: int = 1,
    again: bool = True,
    twice: bool = False,
) -> dict[str, Any] | None:
    """The post-processor that adds tokens around one text and around two; None without any.

    second: the token type of the second text. again: `before` stands before it, too.
    twice: `after` stands twice between them.

    `ids` are the tokens' numbers by their texts. Raises KeyError for a token that there is not.
    """
    if not before and not after:
        return None

    def text(name: str, start: Sequence[str], side: int) -> list[dict[str, Any]]:
        special = ({"SpecialToken": {"id": t, "type_id": side}} for t in (*start, *after))
        pieces: list[dict[str, Any]] = list(special)
        pieces.insert(len(start), {"Sequence": {"id": name, "type_id": side}})
        return pieces

    first, other = text("A", before, 0), text("B", before if again else (), second)
    middle = [{"SpecialToken": {"id": t, "type_id": 0}} for t in (after if twice else ())]
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": [*first, *middle, *other],
        "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in (*before, *after)},
    }


def _around(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[list[str], list[str]]:
    """The tokens that are added before and after every text."""
    bos, eos, _ = _DEFAULT_IDS.get(vocabulary.model, (None, None, None))
    if vocabulary.model == "bert":
        bos = _first(special_id(metadata, vocabulary, "bos_token_id"), bos)
        bos = _first(special_id(metadata, vocabulary, "cls_token_id"), bos)
        eos = _first(special_id(metadata, vocabulary, "seperator_token_id"), eos)  # GGUF's spelling
        adds = True, True
    else:
        bos = _first(special_id(metadata, vocabulary, "bos_token_id"), bos)
        eos = _first(special_id(metadata, vocabulary, "eos_token_id"), eos)
        default = vocabulary.model == "llama" or vocabulary.pre in ADD_BOS
        adds = (
            flag(metadata, "add_bos_token", default),
            flag(metadata, "add_eos_token", vocabulary.model == "t5"),
        )
    sides: tuple[list[str], list[str]] = ([], [])
    for side, id, add in zip(sides, (bos, eos), adds, strict=True):
        if add and id is not None and id < len(vocabulary.tokens):
            side.append(vocabulary.tokens[id])
        elif add:
            log.warning("a token is to be added to texts, but the file names none: none is added")
    return sides


def _first(found: int | None, default: int | None) -> int | None:
    return default if found is None else found

"""Tokenizers of other files than tokenizer.json, converted to an equivalent tokenizer.json.

These are SentencePiece's .model, tiktoken's ranks, vocab.json with merges.txt, and vocab.txt.
tokenizer_config.json says which tokens are added, and around a text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.text.gguf_tokenizer import added_token, around_texts, from_gguf
from rushlight.core.io.text.gguf_vocab import MOST_TOKENS, PREFIX, Implied
from rushlight.core.io.text.vocabularies.added_tokens import named_by, with_added
from rushlight.core.io.text.vocabularies.characters import byte_tokenizer
from rushlight.core.io.text.vocabularies.classes import (
    BLANK_FIRST,
    KINDS,
    TRIMS,
    USUAL,
    Kind,
    clip,
    kind_of,
    normalizers,
    prefixed,
    shifted,
)
from rushlight.core.io.text.vocabularies.sentencepiece import read_sentencepiece
from rushlight.core.io.text.vocabularies.translators import around_language

MODELS = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model")
CONFIG, FILE = "tokenizer_config.json", "tokenizer.json"
_LONGEST = 512  # bytes of a token of tiktoken
_EXTRA = 1 << 12  # most of T5's extra tokens
# The names of special tokens that classes have where the configuration names none.
_NAMES = {
    "bos": ("<s>",),
    "eos": ("</s>",),
    "unk": ("<unk>", "[UNK]"),
    "pad": ("<pad>", "[PAD]"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
}
# The pattern of tiktoken's files, by a part of their names, as GGUF calls it.
_SPLITS = {"o200k": "gpt-4o", "r50k": "gpt-2", "p50k": "gpt-2", "gpt2": "gpt-2", "qwen": "qwen2"}


def tokenizer_json(files: Mapping[str, bytes]) -> bytes | None:
    """The tokenizer.json of a model's small files, made of others if it is missing; None: no file.

    FormatError for files that are damaged, or not supported.
    """
    config = named_by(files)
    kind = kind_of(config, files)
    if "tokenizer.json" in files:
        return with_added({**files, FILE: prefixed(files[FILE], config, kind)})
    config = {f"{name}_token": token for name, token in USUAL.get(kind, {}).items()} | config
    converted = _made(files, config, kind)
    if converted is None:
        return None
    return with_added({**files, FILE: converted, CONFIG: json.dumps(config).encode()})


def _made(files: Mapping[str, bytes], config: dict[str, Any], kind: str) -> bytes | None:
    """The tokenizer.json of other files, but for tokens that are not in their vocabulary."""
    for name in (*MODELS, *(n for n in files if n.endswith(".tiktoken"))):
        if name not in files:
            continue
        data = files[name]
        ranks = name.endswith(".tiktoken") or _is_ranks(data)
        if ranks:
            return _converted(_tiktoken(data, name), config, kind, whole=True)
        return _converted(shifted(read_sentencepiece(data, name), kind), config, kind)
    if "vocab.json" in files and "merges.txt" in files:
        converted = _converted(_byte_level(files, kind), config, kind)
        return clip(converted) if kind == "CLIP" else converted
    if "vocab.txt" in files:
        return _converted(_word_piece(files["vocab.txt"], config), config, kind)
    return byte_tokenizer(kind, config, _alphabet())


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{name} is not UTF-8: byte {error.start} is wrong") from None


# --- reading ------------------------------------------------------------------------------------


def _is_ranks(data: bytes) -> bool:
    """Whether the file has lines of a token in base64 and its rank, as tiktoken's."""
    first = data[:4096].split(b"\n", 1)[0].split(b" ")
    return len(first) == 2 and first[1].strip().isdigit()


def _alphabet() -> list[str]:
    """GPT-2's visible character for each byte."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = iter(range(256, 512))
    return [chr(b) if b in shown else chr(next(hidden)) for b in range(256)]


def _tiktoken(data: bytes, name: str) -> dict[str, Any]:
    ranks: dict[bytes, int] = {}
    for row, line in enumerate(data.splitlines()):
        if not line.strip():
            continue
        parts = line.split()
        try:
            token, rank = base64.b64decode(parts[0], validate=True), int(parts[1])
        except (IndexError, ValueError, binascii.Error):
            raise FormatError(f"{name}: line {row + 1} is not a token and its rank") from None
        if not 0 < len(token) <= _LONGEST or not 0 <= rank < MOST_TOKENS:
            raise FormatError(f"{name}: line {row + 1} has a token or a rank that is out of range")
        ranks[token] = rank
    if len(set(ranks.values())) != len(ranks) or not ranks:
        raise FormatError(f"{name} has no tokens, or a rank more than once")
    letters = _alphabet()
    tokens = [f"<|unused_{i}|>" for i in range(max(ranks.values()) + 1)]
    if len(tokens) > 2 * len(ranks) + 1024:
        raise FormatError(f"{name} has ranks up to {len(tokens) - 1}, but {len(ranks)} tokens")
    pairs, implied = [], Implied(name, ranks)
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        tokens[rank] = "".join(letters[b] for b in token)
        # Any two tokens that form a third merge, and a merge ranks by its result.
        cuts = [c for c in range(1, len(token)) if token[:c] in ranks and token[c:] in ranks]
        for cut in sorted(cuts, key=lambda c: (ranks[token[:c]], ranks[token[c:]])):
            implied.take(token)
            halves = ("".join(letters[b] for b in half) for half in (token[:cut], token[cut:]))
            pairs.append(" ".join(halves))
    pre = next((pre for ending, pre in _SPLITS.items() if ending in name), "llama3")
    return _byte_pairs(pre, tokens, pairs)


def _byte_pairs(pre: str, tokens: list[str], merges: list[str]) -> dict[str, Any]:
    values = {"model": "gpt2", "pre": pre, "tokens": tokens, "merges": merges}
    return {PREFIX + key: value for key, value in values.items()}


def listed_tokens(vocab: Any, name: str) -> list[str]:
    """The tokens of a vocab.json by id; names stand in for ids that it leaves out."""
    numbers = vocab.values() if isinstance(vocab, dict) else ()
    good = all(isinstance(i, int) and 0 <= i < MOST_TOKENS for i in numbers)
    if not numbers or not good or max(numbers) > 2 * len(vocab) + 1024:
        raise FormatError(f"{name} is not an object of tokens and their ids")
    tokens = [f"<|unused_{i}|>" for i in range(max(numbers) + 1)]
    for token, i in vocab.items():
        tokens[i] = token
    return tokens


def _byte_level(files: Mapping[str, bytes], kind: str) -> dict[str, Any]:
    tokens = listed_tokens(parse_json(files["vocab.json"], "vocab.json", depth=2), "vocab.json")
    lines = _text(files["merges.txt"], "merges.txt").split("\n")
    lines = [line.rstrip("\r") for line in lines if not line.startswith("#version")]
    return _byte_pairs("qwen2" if kind == "Qwen2" else "gpt-2", tokens, [x for x in lines if x])


def _word_piece(data: bytes, config: dict[str, Any]) -> dict[str, Any]:
    lines = [line.rstrip("\r") for line in _text(data, "vocab.txt").split("\n")]
    if lines[-1] == "":
        lines.pop()
    # GGUF marks the start of a word instead of its continuation.
    tokens = [
        line
        if line[:1] == "[" and line[-1:] == "]" and len(line) > 2
        else line[2:]
        if line.startswith("##")
        else f"\u2581{line}"
        for line in lines
    ]
    values = {
        "model": "bert",
        "tokens": tokens,
        "normalizer.lowercase": bool(config.get("do_lower_case", True)),
    }
    for key, name in (
        ("unknown_token_id", "unk"),
        ("cls_token_id", "cls"),
        ("seperator_token_id", "sep"),
        ("padding_token_id", "pad"),
    ):
        token = named_token(config, name, lines)
        if token is not None:
            values[key] = lines.index(token)
    return {PREFIX + key: value for key, value in values.items()}


# --- writing ------------------------------------------------------------------------------------


def named_token(config: dict[str, Any], name: str, tokens: list[str]) -> str | None:
    """The special token that a configuration, or else custom, calls `name`.

    `config` is tokenizer_config.json, `tokens` those that there are. It raises nothing.
    """
    setting = config.get(f"{name}_token")
    setting = setting.get("content") if isinstance(setting, dict) else setting
    choices = (setting,) if isinstance(setting, str) else _NAMES[name]
    return next((token for token in choices if token in tokens), None)


def _added(config: dict[str, Any], kind: str, tokens: list[str]) -> dict[int, dict[str, Any]]:
    """The tokens that tokenizer_config.json adds, by id."""
    added: dict[int, dict[str, Any]] = {}
    listed = config.get("added_tokens_decoder")
    for key, token in (listed if isinstance(listed, dict) else {}).items():
        text = token.get("content") if isinstance(token, dict) else None
        if not key.isdecimal() or len(key) > 7 or not isinstance(text, str) or not text:
            raise FormatError(f"{CONFIG}: added_tokens_decoder has {key!r}, not an id and a token")
        flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
        settings = {name: token.get(name) is True for name in flags}
        added[int(key)] = added_token(int(key), text, **settings)
    extra = config.get("extra_ids", 100 if kind == "T5" and not added else 0)
    for i in range(extra if isinstance(extra, int) and 0 <= extra <= _EXTRA else 0):
        id, text = len(tokens) + extra - 1 - i, f"<extra_id_{i}>"
        if text not in tokens and id not in added:
            added[id] = added_token(id, text)
    return added


def _converted(
    metadata: dict[str, Any], config: dict[str, Any], kind: str, *, whole: bool = False
) -> bytes:
    """The tokenizer.json of a vocabulary, with the tokens that the configuration adds.

    kind: the class of the tokenizer. whole: a word that is a token is not merged from its parts,
    as tiktoken does.
    """
    tokens: list[str] = metadata[f"{PREFIX}tokens"]
    file = json.loads(from_gguf(metadata)[0])
    if whole:
        file["model"]["ignore_merges"] = True
    added = {token["id"]: token for token in file["added_tokens"]}
    added |= _added(config, kind, tokens)
    model = metadata[f"{PREFIX}model"]
    names = list(_vocab_of(file)) if model == "bert" else tokens
    for name in ("bos", "eos", "unk", "pad", "cls", "sep", "mask"):
        token = config.get(f"{name}_token")
        token = token.get("content") if isinstance(token, dict) else token
        if token is None and KINDS.get(kind, Kind()).twice:
            token = {"bos": "<s>", "eos": "</s>"}.get(name, f"<{name}>")
        elif token is None and model == "bert":
            token = f"[{name.upper()}]"
        if isinstance(token, str) and token in names and names.index(token) not in added:
            id = names.index(token)
            added[id] = added_token(id, token)
    for token in added.values():
        rules_of_kind = KINDS.get(kind, Kind())
        if token["content"] == "<mask>" and (rules_of_kind.twice or rules_of_kind.once):
            token["lstrip"] = True
    file["added_tokens"] = [added[id] for id in sorted(added)]
    all_ = {token: i for i, token in enumerate(names)}
    all_ |= {token["content"]: id for id, token in added.items()}
    if model != "bert" or kind == "MPNet":
        kind_rules = KINDS.get(kind, Kind(again=True))
        around = around_language(config, kind, all_) or _around(config, model, kind_rules, all_)
        file["post_processor"] = template = around_texts(
            *around, all_, second=kind_rules.second, again=kind_rules.again, twice=kind_rules.twice
        )
        if kind_rules.once and template:
            first, ends = template["single"], len(around[1])
            second = {"Sequence": {"id": "B", "type_id": 0}}
            template["pair"] = [*first[:-ends], second, *first[-ends:]]
        if kind in TRIMS and model == "gpt2":
            trim = {
                "type": "ByteLevel",
                "trim_offsets": True,
                "use_regex": True,
                "add_prefix_space": config.get("add_prefix_space") is True,
            }
            steps = [trim, template] if template else [trim]
            file["post_processor"] = {"type": "Sequence", "processors": steps}
    if (more := normalizers(config, kind)) and model in ("t5", "llama"):
        stored = (file["normalizer"] or {}).get("normalizers", [])
        file["normalizer"] = {"type": "Sequence", "normalizers": [*more, *stored]}
    if config.get("add_prefix_space") is True and metadata.get(f"{PREFIX}pre") == "gpt-2":
        # One step, which puts a space before the text; after a split it would be before each part.
        file["pre_tokenizer"] = BLANK_FIRST
    if model == "bert":
        rules = file["normalizer"]
        rules["handle_chinese_chars"] = config.get("tokenize_chinese_chars", True) is not False
        if isinstance(config.get("strip_accents"), bool):
            rules["strip_accents"] = config["strip_accents"]
    return json.dumps(file, ensure_ascii=False).encode()


def _vocab_of(file: dict[str, Any]) -> dict[str, int]:
    vocab: dict[str, int] = file["model"]["vocab"]
    return vocab


def _around(
    config: dict[str, Any], model: str, kind: Kind, ids: Mapping[str, int]
) -> tuple[list[str], list[str]]:
    before, after = kind.before, kind.after
    if kind == Kind(again=True) and model == "llama":
        before = "bos"
    if config.get("add_bos_token") is not None:
        before = "bos" if config["add_bos_token"] is True else ""
    if config.get("add_eos_token") is not None:
        after = "eos" if config["add_eos_token"] is True else ""
    sides: tuple[list[str], list[str]] = ([], [])
    for side, name in zip(sides, (before, after), strict=True):
        token = named_token(config, name, list(ids)) if name else None
        if token is not None:
            side.append(token)
    return sides

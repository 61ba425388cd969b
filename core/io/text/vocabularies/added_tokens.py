"""Tokens that stand only beside tokenizer.json, added to it as transformers' fast tokenizers do.

These are `added_tokens_decoder`, the named and the further special tokens of tokenizer_config.json,
and, where the former is missing, those of added_tokens.json and special_tokens_map.json
(PreTrainedTokenizerBase._from_pretrained of transformers 5).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.jsontext import parse_json

CONFIG, ADDED, MAP = "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"
_NAMED = tuple(f"{n}_token" for n in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
_FURTHER = ("additional_special_tokens", "extra_special_tokens")
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_DEEP, _MOST = 16, 1 << 16
_TABLE = b'"added_tokens"'


def with_added(files: Mapping[str, bytes]) -> bytes:
    """The tokenizer.json of a model's files, with the tokens that only other files name.

    A token of the vocabulary keeps its id; others follow the last one in the order of the ids that
    the files say. FormatError for a file that is damaged.
    """
    data = files["tokenizer.json"]
    listed, named = _wanted(files)
    if not listed and not named:
        return data
    known = _known(data)
    if known is not None:
        changed = [t for t in listed if known.get(t["content"]) != t]
        if not changed and all(known.get(t["content"], {}).get("special") for t in named):
            return data
    file = parse_json(data, "tokenizer.json", depth=64)
    if not isinstance(file, dict) or not isinstance(file.get("model"), dict):
        return data  # which the reader of the file says
    added = file.get("added_tokens") or []
    if not isinstance(added, list) or not all(_is_entry(entry_of_file) for entry_of_file in added):
        return data
    ids, places = (
        _vocabulary(file["model"]),
        {token_entry["content"]: i for i, token_entry in enumerate(added)},
    )
    following = max([len(ids), *(row["id"] + 1 for row in added)])
    for token in (*listed, *named):
        text = token["content"]
        if text in places:
            entry = added[places[text]]
            entry |= token if token in listed else {"special": True}
            continue
        if text in ids:
            id = ids[text]
        else:
            id, following = following, following + 1
        places[text] = len(added)
        added.append({"id": id, **token})
    file["added_tokens"] = sorted(added, key=lambda one: one["id"])
    return json.dumps(file, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _is_entry(one: Any) -> bool:
    return isinstance(one, dict) and type(one.get("id")) is int and type(one.get("content")) is str


def _vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    """The ids of a model's tokens: of an object, or a list of [token, score].

    Rows of another type are left out: the reader of the file refuses them by name.
    """
    vocab = model.get("vocab")
    if isinstance(vocab, dict):
        return {text: id for text, id in vocab.items() if type(id) is int}
    rows = vocab if isinstance(vocab, list) else []
    texts = ((i, row[0]) for i, row in enumerate(rows) if isinstance(row, list) and row)
    return {text: i for i, text in texts if isinstance(text, str)}


def _known(data: bytes) -> dict[str, dict[str, Any]] | None:
    """The added tokens of a tokenizer.json, without reading its vocabulary; None: not found."""
    table = data.find(_TABLE)
    start = data.find(b"[", table)
    if table < 0 or start < 0 or data[table + len(_TABLE) : start].strip() != b":":
        return None
    end = data.find(b"]", start)
    while 0 <= end < start + (1 << 24):  # a token's text may hold a bracket
        try:
            rows = json.loads(data[start : end + 1])
        except ValueError:
            end = data.find(b"]", end + 1)
            continue
        if not all(_is_entry(row) for row in rows):
            return None
        return {
            row["content"]: {k: row.get(k, False) for k in ("content", *_FLAGS)} for row in rows
        }
    return None


def named_by(files: Mapping[str, bytes]) -> dict[str, Any]:
    """tokenizer_config.json, with the names of special_tokens_map.json where those count."""
    config = _object(files, CONFIG)
    if config.get("added_tokens_decoder") is None and MAP in files:
        config = config | _object(files, MAP)
    return config


def _wanted(files: Mapping[str, bytes]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The tokens with flags that files list, by their ids, and those that they name as special."""
    config = named_by(files)
    table = config.get("added_tokens_decoder")
    legacy = table is None
    names = [(f"{CONFIG}: {key}", config.get(key)) for key in _NAMED]
    for key in _FURTHER:
        more = config.get(key)
        more = list(more.values()) if isinstance(more, dict) else more
        names += [(f"{CONFIG}: {key}", name) for name in (more if isinstance(more, list) else ())]
    named = [
        _token(where, value, special=True)
        for where, value in names
        if isinstance(value, str | dict)
    ]
    listed: dict[int, dict[str, Any]] = {}
    if isinstance(table, dict):
        for key, token in table.items():
            where = f"{CONFIG}: added_tokens_decoder"
            if not key.isdecimal() or len(key) > 7:
                raise FormatError(f"{where} has {brief(key)}, not an id and a token")
            listed[int(key)] = _token(f"{where}[{key}]", token)
    elif legacy and ADDED in files:
        special = {entry["content"] for entry in named}
        for text, id in _object(files, ADDED).items():
            if type(id) is not int or not 0 <= id < 1 << 24:
                raise FormatError(f"{ADDED}: {brief(text)} is {brief(id)}, not an id")
            listed[id] = _token(ADDED, text, special=text in special)
    if len(listed) > _MOST:
        raise FormatError(f"{CONFIG}: {len(listed)} added tokens are too many")
    texts = {entry["content"] for entry in named}
    for token in listed.values():
        token["special"] = token["special"] or token["content"] in texts
    return [listed[id] for id in sorted(listed)], _once(named)


def _once(tokens: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({token["content"]: token for token in tokens}.values())


def _object(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    if name not in files:
        return {}
    values = parse_json(files[name], name, depth=_DEEP)
    if not isinstance(values, dict):
        raise FormatError(f"{name} holds a {type(values).__name__}, not an object")
    return values


def _token(where: str, value: Any, special: bool = False) -> dict[str, Any]:
    """A token's text and flags; FormatError for one that is no text or not UTF-8."""
    entry = value if isinstance(value, dict) else {"content": value}
    text = entry.get("content")
    if not isinstance(text, str) or not text or not _is_utf8(text):
        raise FormatError(f"{where} is {brief(value)}, not a token")
    flags: dict[str, Any] = {name: entry.get(name) is True for name in _FLAGS}
    flags["special"] = flags["special"] or special
    if "normalized" not in entry:
        flags["normalized"] = not flags["special"]
    return {"content": text, **flags}


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)

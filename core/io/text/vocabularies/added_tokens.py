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
    if not isinstance(added, list) or not all(_is_entry(one) for one in added):
        return data
    ids, at = _vocabulary(file["model"]), {one["content"]: i for i, one in enumerate(added)}
    following = max([len(ids), *(one["id"] + 1 for one in added)])
    for token in (*listed, *named):
        text = token["content"]
        if text in at:
            entry = added[at[text]]
            entry |= token if token in listed else {"special": True}
            continue
        if text in ids:
            id = ids[text]
        else:
            id, following = following, following + 1
        at[text] = len(added)
        added.append({"id": id, **token})
    file["added_tokens"] = sorted(added, key=lambda one: one["id"])
    return json.dumps(file, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _is_entry(one: Any) -> bool:
    return isinstance(one, dict) and type(one.get("id")) is int and type(one.get("content")) is str


def _vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    """The ids of a model's tokens: of an object, or a list of [token, score].

    Rows of another type are left out: the reader of the file refuses them by name.
    """
    found = model.get("vocab")
    if isinstance(found, dict):
        return {text: id for text, id in found.items() if type(id) is int}
    rows = found if isinstance(found, list) else []
    texts = ((i, row[0]) for i, row in enumerate(rows) if isinstance(row, list) and row)
    return {text: i for i, text in texts if isinstance(text, str)}


def _known(data: bytes) -> dict[str, dict[str, Any]] | None:
    """The added tokens of a tokenizer.json, without reading its vocabulary; None: not found."""
    at = data.find(_TABLE)
    start = data.find(b"[", at)
    if at < 0 or start < 0 or data[at + len(_TABLE) : start].strip() != b":":
        return None
    end = data.find(b"]", start)
    while 0 <= end < start + (1 << 24):  # a token's text may hold a bracket
        try:
            rows = json.loads(data[start : end + 1])
        except ValueError:
            end = data.find(b"]", end + 1)
            continue
        if not all(_is_entry(one) for one in rows):
            return None
        return {
            one["content"]: {k: one.get(k, False) for k in ("content", *_FLAGS)} for one in rows
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
        names += [(f"{CONFIG}: {key}", one) for one in (more if isinstance(more, list) else ())]
    named = [
        _token(where, one, special=True) for where, one in names if isinstance(one, str | dict)
    ]
    listed: dict[int, dict[str, Any]] = {}
    if isinstance(table, dict):
        for key, one in table.items():
            where = f"{CONFIG}: added_tokens_decoder"
            if not key.isdecimal() or len(key) > 7:
                raise FormatError(f"{where} has {brief(key)}, not an id and a token")
            listed[int(key)] = _token(f"{where}[{key}]", one)
    elif legacy and ADDED in files:
        special = {one["content"] for one in named}
        for text, id in _object(files, ADDED).items():
            if type(id) is not int or not 0 <= id < 1 << 24:
                raise FormatError(f"{ADDED}: {brief(text)} is {brief(id)}, not an id")
            listed[id] = _token(ADDED, text, special=text in special)
    if len(listed) > _MOST:
        raise FormatError(f"{CONFIG}: {len(listed)} added tokens are too many")
    texts = {one["content"] for one in named}
    for one in listed.values():
        one["special"] = one["special"] or one["content"] in texts
    return [listed[id] for id in sorted(listed)], _once(named)


def _once(tokens: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({one["content"]: one for one in tokens}.values())


def _object(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    if name not in files:
        return {}
    found = parse_json(files[name], name, depth=_DEEP)
    if not isinstance(found, dict):
        raise FormatError(f"{name} holds a {type(found).__name__}, not an object")
    return found


def _token(where: str, value: Any, special: bool = False) -> dict[str, Any]:
    """A token's text and flags; FormatError for one that is no text or not UTF-8."""
    given = value if isinstance(value, dict) else {"content": value}
    text = given.get("content")
    if not isinstance(text, str) or not text or not _is_utf8(text):
        raise FormatError(f"{where} is {brief(value)}, not a token")
    flags: dict[str, Any] = {name: given.get(name) is True for name in _FLAGS}
    flags["special"] = flags["special"] or special
    if "normalized" not in given:
        flags["normalized"] = not flags["special"]
    return {"content": text, **flags}


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)

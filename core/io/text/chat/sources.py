"""Where a checkpoint keeps its chat templates: one, or several by name, in JSON, Jinja or GGUF.

The places and their order are those of transformers 5.24. The template "default" serves where no
other is asked for, and "tool_use" where tools are given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.text.chat.values import check_characters

DEFAULT = "default"
TOOL_USE = "tool_use"
CONFIG = "tokenizer_config.json"
JINJA = "chat_template.jinja"
OLDER = "chat_template.json"  # of processors
FOLDER = "additional_chat_templates/"
KEY = "tokenizer.chat_template"  # in GGUF
_NAMES = "tokenizer.chat_templates"
_MOST = 64
_DEEPEST = 16
# The names under which a template sees special tokens.
SPECIAL = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def template_sources(files: Mapping[str, bytes]) -> dict[str, str]:
    """The chat templates of a checkpoint's small files by name; empty if there are none.

    A file `chat_template.jinja` goes before the "default" of tokenizer_config.json, and files in
    `additional_chat_templates/` before others of their names; chat_template.json, which processors
    have, serves where nothing else does. Raises FormatError for a template that is no text.
    """
    sources = _named(_object(files, CONFIG).get("chat_template"), CONFIG)
    if JINJA in files:
        sources[DEFAULT] = files[JINJA].decode("utf-8", "replace")
    for name in files:
        if name.startswith(FOLDER) and name.endswith(".jinja"):
            sources[name[len(FOLDER) : -len(".jinja")]] = files[name].decode("utf-8", "replace")
    if not sources and OLDER in files:
        sources = _named(_object(files, OLDER).get("chat_template"), OLDER)
    if len(sources) > _MOST:
        raise FormatError(f"{CONFIG}: {len(sources)} chat templates are too many; at most {_MOST}")
    return sources


def special_texts(files: Mapping[str, bytes]) -> dict[str, str]:
    """The special tokens that a template sees: bos_token, eos_token and so on, where there are."""
    config, older = _object(files, CONFIG), _object(files, "special_tokens_map.json")
    special: dict[str, str] = {}
    for name in (f"{kind}_token" for kind in SPECIAL):
        value = config.get(name) if config.get(name) is not None else older.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            special[name] = value
    return special


def gguf_sources(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The chat templates of a GGUF file's metadata by name; empty if there are none.

    `tokenizer.chat_template` is the default, `tokenizer.chat_template.NAME` another. Raises
    FormatError for a value that is no text, or not in UTF-8.
    """
    sources: dict[str, str] = {}
    for key, value in metadata.items():
        if key == KEY or key.startswith(f"{KEY}."):
            if not isinstance(value, str):
                raise FormatError(f"{key} is {brief(value)}; it must be a text")
            check_characters(key + value, f"{key!r:.100}")
            sources[key[len(KEY) + 1 :] or DEFAULT] = value
    return sources


def gguf_metadata(sources: Mapping[str, str]) -> dict[str, Any]:
    """The keys of GGUF for named templates, as llama.cpp's gguf-py spells them."""
    metadata: dict[str, Any] = {}
    others = {
        re.sub("[^A-Za-z0-9]", "_", name): s for name, s in sources.items() if name != DEFAULT
    }
    if DEFAULT in sources:
        metadata[KEY] = sources[DEFAULT]
    if others:
        metadata[_NAMES] = list(others)
    return metadata | {f"{KEY}.{name}": source for name, source in others.items()}


def as_setting(sources: Mapping[str, str]) -> Any:
    """The value of `chat_template` in tokenizer_config.json for these templates."""
    if list(sources) == [DEFAULT]:
        return sources[DEFAULT]
    return [{"name": name, "template": source} for name, source in sources.items()]


def _object(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    value = parse_json(files[name], name, depth=_DEEPEST) if name in files else {}
    if not isinstance(value, dict):
        raise FormatError(f"{name} is {brief(value)}; it must be an object")
    return value


def _named(value: Any, where: str) -> dict[str, str]:
    """The templates of the key "chat_template": a text, or texts by name."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {DEFAULT: value}
    if isinstance(value, dict):
        value = [{"name": name, "template": source} for name, source in value.items()]
    if not isinstance(value, list):
        raise FormatError(f"{where}: chat_template is {brief(value)}; it must be a text or a list")
    sources: dict[str, str] = {}
    for i, row in enumerate(value):
        row = row if isinstance(row, dict) else {}
        name, source = row.get("name"), row.get("template")
        if not isinstance(name, str) or not isinstance(source, str):
            shown = brief(json.dumps(value[i], ensure_ascii=True))
            raise FormatError(f"{where}: chat_template[{i}] is {shown}; it needs name and template")
        sources[name] = source
    return sources

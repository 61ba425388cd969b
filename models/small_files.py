"""What the small files of a checkpoint hold: JSON objects, and the tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.io.text.tokenizer import Tokenizer, load_tokenizer
from rushlight.models.config_schema import parse_object


def find_tokenizer(files: Mapping[str, bytes]) -> Tokenizer | None:
    """The tokenizer of tokenizer.json or of other vocabulary files; None if there is none.

    files: their bytes by name. FormatError for a damaged one.
    """
    from rushlight.core.io.text.vocabularies.added_tokens import named_by
    from rushlight.core.io.text.vocabularies.characters import CharacterTokenizer
    from rushlight.core.io.text.vocabularies.classes import kind_of
    from rushlight.core.io.text.vocabularies.vocabulary_files import CONFIG, tokenizer_json

    if "tokenizer.json" not in files and kind_of(named_by(files), files) == "Canine":
        return CharacterTokenizer()
    definition = tokenizer_json(files)
    return None if definition is None else load_tokenizer(definition, files.get(CONFIG))


def small_json(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    """The JSON object in the file `name` of `files`, or an empty one if the file is missing.

    FormatError for a file that holds none.
    """
    return parse_object(name, files[name]) if name in files else {}

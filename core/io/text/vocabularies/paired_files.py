"""Tokenizers whose ids are in vocab.json and whose scores are in SentencePiece files: translators.

Marian has a model for the source's pieces and one for the target's (source.spm, target.spm); M2M100
has one for both. OPUS-MT's and M2M100's tokens of languages are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.text.gguf_tokenizer import from_gguf
from rushlight.core.io.text.gguf_vocab import CONTROL, NORMAL, PREFIX, UNKNOWN
from rushlight.core.io.text.vocabularies.sentencepiece import read_sentencepiece
from rushlight.core.io.text.vocabularies.vocabulary_files import listed_tokens

_SPECIAL = ("<s>", "</s>", "<unk>", "<pad>")
_UNREACHABLE = "\ufdd0"  # not a character, so no text has it
_MOST_LANGUAGES = 4096


def paired_tokenizers(files: Mapping[str, bytes]) -> tuple[bytes, bytes] | None:
    """tokenizer.json of the source and of the target; None if the files are not such ones.

    Ids of pieces that vocab.json does not have are past its end: they stand for unknown ones.
    FormatError for damaged files.
    """
    if "vocab.json" not in files:
        return _marian(files)
    if "merges.txt" in files:
        return None
    names = ("source.spm", "target.spm")
    if not all(name in files for name in names):
        names = ("sentencepiece.bpe.model",) * 2
        if names[0] not in files:
            return None
    tokens = listed_tokens(parse_json(files["vocab.json"], "vocab.json", depth=2), "vocab.json")
    separate = "target_vocab.json" in files
    after = (
        tokens
        if not separate
        else listed_tokens(
            parse_json(files["target_vocab.json"], "target_vocab.json", depth=2),
            "target_vocab.json",
        )
    )
    more = _languages(files, tokens)
    return (
        _joined(tokens, read_sentencepiece(files[names[0]], names[0]), more),
        _joined(after, read_sentencepiece(files[names[1]], names[1]), more, decodes=True),
    )


def _marian(files: Mapping[str, bytes]) -> tuple[bytes, bytes] | None:
    """Those of Marian's own files, vocab.*.spm or srcvocab.*.spm and trgvocab.*.spm."""
    names = {n.partition(".")[0]: n for n in files if n.endswith(".spm") and n.count(".") < 3}
    pair = [names.get(kind, names.get("vocab", "")) for kind in ("srcvocab", "trgvocab")]
    if not all(pair):
        return None
    by_file = {
        name: from_gguf(read_sentencepiece(files[name], name) | {f"{PREFIX}add_eos_token": True})[0]
        for name in pair
    }
    return by_file[pair[0]], by_file[pair[1]]


def _languages(files: Mapping[str, bytes], tokens: list[str]) -> list[str]:
    """The tokens of languages that special_tokens_map.json lists and vocab.json does not."""
    name = "special_tokens_map.json"
    listed = parse_json(files[name], name, depth=8) if name in files else {}
    more = listed.get("additional_special_tokens") if isinstance(listed, dict) else None
    if not isinstance(more, list) or len(more) > _MOST_LANGUAGES:
        return []
    languages: list[Any] = [
        entry.get("content") if isinstance(entry, dict) else entry for entry in more
    ]
    if not all(isinstance(language, str) and language for language in languages):
        raise FormatError(f"{name}: additional_special_tokens has an entry that is not a token")
    known = set(tokens)
    return [language for language in dict.fromkeys(languages) if language not in known]


def _joined(
    tokens: list[str], metadata: dict[str, Any], more: list[str], *, decodes: bool = False
) -> bytes:
    pieces: list[str] = metadata[f"{PREFIX}tokens"]
    scores = dict(zip(pieces, metadata[f"{PREFIX}scores"], strict=True))
    special = {t for t in tokens if t in _SPECIAL or (t.startswith(">>") and t.endswith("<<"))}
    unigram = metadata[f"{PREFIX}model"] == "t5"
    names = [
        t if decodes or t in scores or t in special or not unigram else f"{_UNREACHABLE}{i}"
        for i, t in enumerate(tokens)
    ]
    known = set(names)
    rest = [] if decodes or not unigram else [p for p in pieces if p and p not in known]
    listed = [*names, *more, *rest]
    if "<unk>" not in known:
        raise FormatError("vocab.json has no <unk>")
    kinds = [CONTROL if t in special or t in more else NORMAL for t in listed]
    kinds[names.index("<unk>")] = UNKNOWN
    around = {"eos_token_id": names.index("</s>")} if "</s>" in known else {}
    low = min(scores.values())
    return from_gguf(metadata | {
        PREFIX + key: value for key, value in {
            "tokens": listed, "scores": [scores.get(t, low) for t in listed], "token_type": kinds,
            "unknown_token_id": names.index("<unk>"), "add_eos_token": bool(around), **around,
        }.items()
    } | dict.fromkeys((f"{PREFIX}bos_token_id", f"{PREFIX}padding_token_id")))[0]  # fmt: skip

"""What transformers' classes of tokenizers make of a vocabulary: ids, ends, normalizers.

The facts are those of transformers' convert_slow_tokenizer.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.text.gguf_vocab import CONTROL, NORMAL, PREFIX, UNKNOWN
from rushlight.core.io.text.vocabularies.translators import LANGUAGES


@dataclass(frozen=True)
class Kind:
    """What a class of tokenizers puts around texts.

    before, after: keys of tokenizer_config.json. twice: `after` stands twice between two texts.
    second: the token type of the second text. again: `before` stands before it, too. once: nothing
    stands between the texts.
    """

    before: str = ""
    after: str = ""
    twice: bool = False
    second: int = 0
    again: bool = False
    once: bool = False


_ENDS, _DOUBLE = Kind("cls", "sep", second=1), Kind("bos", "eos", twice=True)
KINDS = {
    "T5": Kind("", "eos"), "Pegasus": Kind("", "eos"), "Albert": _ENDS, "DebertaV2": _ENDS,
    "Deberta": _ENDS, "Bert": _ENDS, "DistilBert": _ENDS, "Electra": _ENDS, "Roberta": _DOUBLE,
    "Bart": _DOUBLE, "Longformer": _DOUBLE, "XLMRoberta": _DOUBLE, "Camembert": _DOUBLE,
    "MPNet": Kind("bos", "eos", twice=True, second=1), "CLIP": _DOUBLE,
    "XGLM": Kind("eos", ""), **dict.fromkeys(LANGUAGES, Kind(once=True)),
}  # fmt: skip
# Classes that trim the blanks of byte-level tokens from their offsets.
TRIMS = ("Roberta", "Bart", "Longformer", "Deberta")
# model_type of config.json, for files that name no class.
_TYPES = {
    "t5": "T5", "mt5": "T5", "pegasus": "Pegasus", "albert": "Albert", "deberta-v2": "DebertaV2",
    "deberta": "Deberta", "bert": "Bert", "distilbert": "DistilBert", "electra": "Electra",
    "roberta": "Roberta", "bart": "Bart", "longformer": "Longformer", "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert", "mpnet": "MPNet", "mbart": "MBart", "xglm": "XGLM", "clip": "CLIP",
    "canine": "Canine", "perceiver": "Perceiver", "m2m_100": "Nllb", "nllb-moe": "Nllb",
    "qwen2": "Qwen2", "qwen2_moe": "Qwen2", "qwen3": "Qwen2", "qwen3_moe": "Qwen2",
}  # fmt: skip
# Special tokens of classes that their vocabularies may lack.
USUAL = {
    "DebertaV2": {"mask": "[MASK]"},
    "Albert": {"mask": "[MASK]"},
    "CLIP": {"bos": "<|startoftext|>", "eos": "<|endoftext|>"},
}
BLANK_FIRST = {
    "type": "ByteLevel",
    "add_prefix_space": True,
    "trim_offsets": True,
    "use_regex": True,
}
# Tokens before those of SentencePiece, how many of these are left out, and tokens after them.
_FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")
_SHIFTS: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "XLMRoberta": (_FAIRSEQ, 3, ("<mask>",)),
    "Camembert": (("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1, ("<mask>",)),
    "Pegasus": (
        ("<pad>", "</s>", "<mask_1>", "<mask_2>", *(f"<unk_{i}>" for i in range(2, 103))),
        2,
        (),
    ),
    "XGLM": (_FAIRSEQ, 3, tuple(f"<madeupword{i}>" for i in range(7))),
    **{kind: (_FAIRSEQ, 3, (*codes, "<mask>")) for kind, codes in LANGUAGES.items()},
}


def kind_of(config: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """The class of tokenizer_config.json, else that of the model_type, without "Tokenizer"."""
    name = config.get("tokenizer_class")
    if isinstance(name, str) and not name.startswith("PreTrained"):
        return name.partition("Tokenizer")[0]
    config_file = parse_json(files.get("config.json", b"{}"), "config.json", depth=16)
    return (
        _TYPES.get(str(config_file.get("model_type")), "") if isinstance(config_file, dict) else ""
    )


def prefixed(data: bytes, config: Mapping[str, Any], kind: str) -> bytes:
    """A tokenizer.json that puts a space before texts as tokenizer_config.json says.

    data: the tokenizer.json. config: the other file. kind: the tokenizer's class without its
    ending. Raises FormatError for a file that is no JSON.
    """
    asked = config.get("add_prefix_space")
    llama = kind in ("Llama", "CodeLlama") and asked is False
    other = rb'"add_prefix_space"\s*:\s*' + (b"false" if asked else b"true")
    if not isinstance(asked, bool) or not (llama or re.search(other, data)):
        return data
    file = parse_json(data, "tokenizer.json", depth=64)
    step = file.get("pre_tokenizer") if isinstance(file, dict) else None
    if isinstance(step, dict) and step.get("type") == "ByteLevel":
        step["add_prefix_space"] = asked
    elif llama and isinstance(file, dict):
        rules = file.get("normalizer")
        steps = rules.get("normalizers") if isinstance(rules, dict) else None
        if isinstance(steps, list):
            rules["normalizers"] = [s for s in steps if not _is(s, "Prepend")]  # type: ignore[index]
        if isinstance(step, dict) and step.get("type") == "Metaspace":
            step.pop("add_prefix_space", None)
            step["prepend_scheme"] = "never"
        ends = file.get("decoder")
        steps = ends.get("decoders") if isinstance(ends, dict) else None
        if isinstance(steps, list):
            ends["decoders"] = [s for s in steps if not _is(s, "Strip")]  # type: ignore[index]
    else:
        return data
    return json.dumps(file, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _is(step: Any, kind: str) -> bool:
    return isinstance(step, dict) and step.get("type") == kind


def clip(data: bytes) -> bytes:
    """A tokenizer.json of byte pairs as CLIP's: lower case, and words end in </w>."""
    file = json.loads(data)
    file["model"] |= {"end_of_word_suffix": "</w>", "continuing_subword_prefix": ""}
    if "<|endoftext|>" in file["model"]["vocab"]:
        file["model"]["unk_token"] = "<|endoftext|>"
    file["normalizer"] = {
        "type": "Sequence",
        "normalizers": [
            {"type": "NFC"},
            {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "},
            {"type": "Lowercase"},
        ],
    }
    words = (
        r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|"
        r"[^\s\p{L}\p{N}]+"
    )
    file["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": words}, "behavior": "Removed", "invert": True},
            {
                "type": "ByteLevel",
                "add_prefix_space": False,
                "trim_offsets": True,
                "use_regex": True,
            },
        ],
    }
    return json.dumps(file, ensure_ascii=False).encode()


def shifted(metadata: dict[str, Any], kind: str) -> dict[str, Any]:
    """SentencePiece's vocabulary with the ids that a class gives it.

    FormatError for a vocabulary that has fewer tokens than the class leaves out.
    """
    if kind not in _SHIFTS:
        return metadata
    before, left, after = _SHIFTS[kind]
    tokens, scores, types = (metadata[PREFIX + k] for k in ("tokens", "scores", "token_type"))
    if left > len(tokens):
        raise FormatError(f"{kind}Tokenizer: the vocabulary has {len(tokens)} tokens only")

    def type_of(token: str) -> int:
        if token == "<unk>":
            return UNKNOWN
        return NORMAL if "NOTUSED" in token or token.startswith("<unk_") else CONTROL

    names = [*before, *tokens[left:], *after]
    changed = metadata | {
        f"{PREFIX}tokens": names,
        f"{PREFIX}scores": [
            *(-100.0 if type_of(t) == NORMAL else 0.0 for t in before),
            *scores[left:],
            *(0.0 for _ in after),
        ],
        f"{PREFIX}token_type": [*map(type_of, before), *types[left:], *map(type_of, after)],
    }
    for key, token in (("bos", "<s>"), ("eos", "</s>"), ("unknown", "<unk>"), ("padding", "<pad>")):
        changed.pop(f"{PREFIX}{key}_token_id", None)
        if token in names:
            changed[f"{PREFIX}{key}_token_id"] = names.index(token)
    return changed


def normalizers(config: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """What a class does to a text before SentencePiece's own rules."""
    steps: list[dict[str, Any]] = []
    if kind == "Albert":
        quotes = [
            {"type": "Replace", "pattern": {"String": pair}, "content": '"'}
            for pair in ("``", "''")
        ]
        steps = (
            [*quotes]
            if config.get("keep_accents") is True
            else [*quotes, {"type": "NFKD"}, {"type": "StripAccents"}]
        )
    if kind in ("Albert", "DebertaV2") and config.get("do_lower_case", kind == "Albert") is True:
        steps.append({"type": "Lowercase"})
    return steps

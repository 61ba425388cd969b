"""Vocabulary files other than tokenizer.json: the libraries' ids, and errors of damaged files."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.io.protobuf import fields
from rushlight.core.io.text.gguf_vocab import PREFIX
from rushlight.core.io.text.pairs import encode_pairs
from rushlight.core.io.text.tokenizer import Tokenizer, load_tokenizer
from rushlight.core.io.text.vocabularies.classes import shifted
from rushlight.core.io.text.vocabularies.paired_files import paired_tokenizers
from rushlight.core.io.text.vocabularies.sentencepiece import read_sentencepiece
from rushlight.core.io.text.vocabularies.vocabulary_files import tokenizer_json

DATA = Path(__file__).parents[1] / "data"
GOLDENS = json.loads((DATA / "vocabularies.json").read_text(encoding="utf-8"))
KINDS = list(GOLDENS["sentencepiece"])


def model_of(kind: str) -> bytes:
    return base64.b64decode(GOLDENS["sentencepiece"][kind]["model"])


def raw(files: dict[str, Any]) -> bytes:
    small = {n: v if isinstance(v, bytes) else json.dumps(v).encode() for n, v in files.items()}
    found = tokenizer_json(small)
    assert found is not None
    return found


def made(files: dict[str, Any]) -> Tokenizer:
    config = files.get("tokenizer_config.json")
    return load_tokenizer(raw(files), None if config is None else json.dumps(config).encode())


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_sentencepieces(kind: str) -> None:
    tokenizer = made(
        {
            "spiece.model": model_of(kind),
            "tokenizer_config.json": {"add_bos_token": False, "extra_ids": 0},
        }
    )
    for text, ids in zip(GOLDENS["texts"], GOLDENS["sentencepiece"][kind]["ids"], strict=True):
        found = tokenizer.encode(text)
        assert found.ids == ids, text
        ends = [end for _, end in found.offsets]
        assert ends == sorted(ends) and all(end <= len(text) for end in ends)
    assert tokenizer.decode(tokenizer.encode("a rush and fat").ids) == "a rush and fat"


@pytest.mark.native
def test_the_tab_gives_the_same(node: Any) -> None:
    several = [tokenizer_json({"tokenizer.model": model_of(kind)}) for kind in KINDS]
    several.append(tokenizer_json({"r50k.tiktoken": GOLDENS["tiktoken"]["ranks"].encode()}))
    golden = GOLDENS["marian"]
    several += (
        paired_tokenizers(
            {
                "source.spm": base64.b64decode(golden["source"]),
                "target.spm": base64.b64decode(golden["target"]),
                "vocab.json": json.dumps(golden["vocab"]).encode(),
            }
        )
        or ()
    )
    texts = [*GOLDENS["texts"], *golden["texts"]]
    for number, file in enumerate(several):
        assert file is not None
        native, tab = load_tokenizer(file), node.tokenizer(f"vocabulary {number}", file.decode())
        expected = native.encode_batch(texts)
        for text, one, other in zip(texts, expected, tab.encode_batch(texts), strict=True):
            assert other == one, (number, text)
            assert tab.decode(one.ids) == native.decode(one.ids), (number, text)


def test_the_configuration_names_tokens_around_and_beside() -> None:
    config = {"tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "extra_ids": 3}
    t5 = made({"spiece.model": model_of("unigram"), "tokenizer_config.json": config})
    plain = GOLDENS["sentencepiece"]["unigram"]["ids"][0]
    assert t5.encode("Hello world").ids == [*plain, 2]
    count = t5.vocab_size
    assert t5.encode("<extra_id_0>").ids[0] == count - 1
    assert t5.token_to_id("<extra_id_2>") == count - 3
    added = {"360": {"content": "<new>", "special": True}}
    llama = made(
        {
            "tokenizer.model": model_of("bpe"),
            "tokenizer_config.json": {
                "tokenizer_class": "LlamaTokenizer",
                "added_tokens_decoder": added,
            },
        }
    )
    assert llama.encode("<new>").ids == [1, 360]
    with pytest.raises(rl.FormatError, match="added_tokens_decoder has 'x'"):
        made(
            {
                "tokenizer.model": model_of("bpe"),
                "tokenizer_config.json": {"added_tokens_decoder": {"x": {}}},
            }
        )


@pytest.mark.native
def test_classes_shift_the_ids_and_put_ends_around_one_text_and_two(node: Any) -> None:
    plain = made({"spiece.model": model_of("unigram")})
    pair = [("Hello world", "a rush")]
    bare = [plain.encode(text, add_special_tokens=False).ids for text in pair[0]]
    for kind, shift, ends in (("xlm-roberta", 1, (0, 2)), ("camembert", 4, (5, 6))):
        files = {
            "sentencepiece.bpe.model": model_of("unigram"),
            "config.json": {"model_type": kind},
        }
        both = made(files), node.tokenizer(kind, raw(files).decode())
        one, two = ([i + shift if i else 3 for i in row] for row in bare)
        first, last = ends
        for tokenizer in both:
            assert tokenizer.encode(pair[0][0]).ids == [first, *one, last]
            [found] = encode_pairs(tokenizer, pair)
            assert found.ids == [first, *one, last, last, *two, last] and not any(found.types)
            mask = tokenizer.encode("a <mask> b")
            assert (1, 8) in mask.offsets  # it takes the blank before it along
    albert = made({"spiece.model": model_of("unigram"), "config.json": {"model_type": "albert"}})
    assert albert.encode("HELLO Ŵorld") == albert.encode("hello world")
    few: dict[str, list[Any]] = {
        "tokens": ["<pad>", "</s>", "<unk>", "a"],
        "scores": [0.0] * 4,
        "token_type": [3, 3, 2, 1],
    }
    pegasus = shifted({PREFIX + name: value for name, value in few.items()}, "Pegasus")
    assert pegasus[f"{PREFIX}tokens"][103:] == ["<unk_101>", "<unk_102>", "<unk>", "a"]
    assert pegasus[f"{PREFIX}unknown_token_id"] == 105
    with pytest.raises(rl.FormatError, match="XGLMTokenizer: the vocabulary has 2 tokens only"):
        shifted({PREFIX + name: value[:2] for name, value in few.items()}, "XGLM")


# Of transformers 5.24: kind, model, language, what stands around, ids of texts, a mask and its id.
HELLO = [4, 3, 13, 360, 360, 21, 4, 42, 21, 18, 360, 19]
RUSH = [12, 4, 18, 35, 5, 41]
TRANSLATORS = [
    ("MBart", "unigram", "en_XX", [], [2, 364], HELLO, RUSH, [12, 386, 4, 67], 386),
    ("MBart", "unigram", "fr_XX", [], [2, 368], HELLO, RUSH, [12, 386, 4, 67], 386),
    ("MBart50", "unigram", "fr_XX", [368], [2], HELLO, RUSH, [12, 413, 4, 67], 413),
    # The order of NLLB's tokens is that of its embedding; transformers 5.24 takes it from the file.
    ("Nllb", "bpe rules", "fra_Latn", [417], [2], [319, 3, 27, 93, 143, 330, 329],
     [4, 31, 134, 328], [4, 563, 21], 563),
]  # fmt: skip


@pytest.mark.parametrize("row", TRANSLATORS, ids=lambda row: f"{row[0]} {row[2]}")
def test_languages_of_translators_stand_behind_the_pieces(row: tuple[Any, ...]) -> None:
    kind, model, language, before, after, hello, rush, masked, mask = row
    config = {"tokenizer_class": f"{kind}Tokenizer", "src_lang": language}
    if kind == "MBart":  # told by the model's type alone
        config = {"src_lang": language}
    files = {
        "sentencepiece.bpe.model": model_of(model),
        "tokenizer_config.json": config,
        "config.json": {"model_type": "mbart"},
    }
    tokenizer = made(files)
    assert tokenizer.encode("Hello world").ids == [*before, *hello, *after]
    [pair] = encode_pairs(tokenizer, [("Hello world", "a rush")])
    assert pair.ids == [*before, *hello, *rush, *after] and not any(pair.types)
    assert tokenizer.encode("a <mask> b").ids == [*before, *masked, *after]
    assert tokenizer.token_to_id("<mask>") == mask
    assert tokenizer.decode(tokenizer.encode("a rush").ids) == "a rush"
    if kind == "Nllb":
        files["tokenizer_config.json"] = config | {"legacy_behaviour": True}
        assert made(files).encode("Hello world").ids == [*hello, 2, 417]


def test_a_file_of_tiktoken() -> None:
    ranks = GOLDENS["tiktoken"]["ranks"].encode()
    tokenizer = made({"r50k.tiktoken": ranks})
    for text, ids in zip(GOLDENS["texts"], GOLDENS["tiktoken"]["ids"], strict=True):
        assert tokenizer.encode(text).ids == ids, text
        assert tokenizer.decode(ids) == text
    # Llama 3 calls such a file tokenizer.model.
    assert made({"tokenizer.model": ranks}).encode("the").ids == tokenizer.encode("the").ids
    for line, message in (
        (b"YQ== x\n", "line 1 is not a token and its rank"),
        (b"YQ== -3\n", "out of range"),
        (b"YQ== 99999\n", "ranks up to 99999"),
        (b"YQ== 1\nYg== 1\n", "a rank more than once"),
    ):
        with pytest.raises(rl.FormatError, match=message):
            made({"x.tiktoken": line})


def test_vocab_and_merges() -> None:
    file = json.loads((DATA / "tiny_byte_level.json").read_text(encoding="utf-8"))
    whole = load_tokenizer(json.dumps(file).encode())
    merges = [m if isinstance(m, str) else " ".join(m) for m in file["model"]["merges"]]
    vocab = file["model"]["vocab"] | {t["content"]: t["id"] for t in file["added_tokens"]}
    files = {
        "vocab.json": vocab,
        "config.json": {"model_type": "roberta"},
        "merges.txt": "\n".join(["#version: 0.2", *merges, ""]).encode(),
    }
    tokenizer = made(files)
    for text in GOLDENS["texts"]:
        plain = whole.encode(text, add_special_tokens=False).ids
        found = tokenizer.encode(text, add_special_tokens=False)
        if "prefix" not in text and text[:1] not in ("", " "):
            assert found.ids in (plain, plain[1:]) or tokenizer.decode(found.ids) == text
        ends = [whole.token_to_id("<s>"), whole.token_to_id("</s>")]
        assert tokenizer.encode(text).ids == [ends[0], *found.ids, ends[1]]
    assert tokenizer.encode("<s>a").ids[:2] == [ends[0], ends[0]]
    [pair] = encode_pairs(tokenizer, [("a rush", "the fat")])
    one, two = (row.ids for row in tokenizer.encode_parts(["a rush", "the fat"]))
    assert pair.ids == [ends[0], *one, ends[1], ends[1], *two, ends[1]] and not any(pair.types)
    assert (2, 3) in pair.offsets and (1, 2) not in pair.offsets  # the blank is no part of a token


def test_a_vocabulary_of_words() -> None:
    file = json.loads((DATA / "tiny_word_piece.json").read_text(encoding="utf-8"))
    whole = load_tokenizer(json.dumps(file).encode())
    vocab = sorted(file["model"]["vocab"], key=file["model"]["vocab"].get)
    lower = bool(file["normalizer"] and file["normalizer"].get("lowercase"))
    tokenizer = made(
        {
            "vocab.txt": "\n".join([*vocab, ""]).encode(),
            "tokenizer_config.json": {"do_lower_case": lower},
        }
    )
    for text in GOLDENS["texts"]:
        assert tokenizer.encode(text) == whole.encode(text), text


def test_a_translators_vocabulary() -> None:
    golden = GOLDENS["marian"]
    vocab = golden["vocab"]
    files = {
        "source.spm": base64.b64decode(golden["source"]),
        "target.spm": base64.b64decode(golden["target"]),
        "vocab.json": json.dumps(vocab).encode(),
    }
    pair = paired_tokenizers(files)
    assert pair is not None
    source, target = (load_tokenizer(one) for one in pair)
    for text, ids in zip(golden["texts"], golden["ids"], strict=True):
        # Pieces without an id are past the vocabulary's end.
        found = [i if i < len(vocab) else vocab["<unk>"] for i in source.encode(text).ids]
        assert found == ids, text
    words = [vocab[piece] for piece in ("\u2581the", "\u2581a")]
    assert target.decode([*words, vocab["</s>"]]).strip() == "the a"
    assert paired_tokenizers({"vocab.json": b"{}"}) is None
    with pytest.raises(rl.FormatError, match="vocab.json is not an object of tokens"):
        paired_tokenizers(files | {"vocab.json": b'{"a": 99999999}'})


def test_damaged_models_are_named() -> None:
    data = model_of("unigram")
    for cut in range(0, len(data), 977):
        try:
            read_sentencepiece(data[:cut])
        except rl.FormatError:
            pass
    for bad, message in (
        (b"", "has no tokens"),
        (b"\x0a\xff\xff\xff\xff\x0f", "ends past the file"),
        (b"\x0a" + b"\xff" * 11, "more than ten bytes"),
        (b"\x0b", "a field of kind 3"),
        (b"\x0a\x04\x0a\x02\xff\xfe", "token 0 is not UTF-8"),
        (b"\x12\x02\x18\x03", "model type WORD is not supported; supported: UNIGRAM, BPE"),
    ):
        with pytest.raises(rl.FormatError, match=message):
            read_sentencepiece(bad)
    assert list(fields(b"\x08\x96\x01", "x")) == [(1, 150)]
    assert tokenizer_json({"config.json": b"{}"}) is None


_TOKENS = ("<s>", "</s>", "<|endoftext|>", "<|startoftext|>", "a", "b", "c", "\u0120", "1", "2",
           "\u0120a", "ab", "!", "\u00e9", "b</w>", "ab</w>", "a</w>", "1</w>", "2</w>", "!</w>",
           "\u00c3", "\u00a9")  # fmt: skip
_MERGES = "#version: 0.2\n\u0120 a\na b\na b</w>\n".encode()
_WORDS = (
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\ncaf\u00e9\ncafe\n\u6c49\u5b57\n\u6c49\n\u5b57\n"
)
_PAIRS: dict[str, Any] = {
    "vocab.json": {t: i for i, t in enumerate(_TOKENS)},
    "merges.txt": _MERGES,
}
_PIECES: dict[str, Any] = {"vocab.txt": _WORDS.encode()}
# What transformers 5.24 makes of the files, beside a vocabulary.
CLASSES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str, list[int]]] = [
    (_PAIRS, {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}, {}, "a ab!12 <x>b",
     [10, 10, 5, 12, 8, 9, 7, 5]),
    (_PAIRS, {"tokenizer_class": "GPT2Tokenizer"}, {
        "special_tokens_map.json": {"eos_token": "<x>"}, "added_tokens.json": {"<x>": 22}},
     "a ab!12 <x>b", [4, 10, 5, 12, 8, 9, 7, 22, 5]),
    (_PAIRS, {"tokenizer_class": "Qwen2Tokenizer"}, {}, "a ab!12\nab", [4, 10, 5, 12, 8, 9, 11]),
    (_PAIRS, {"tokenizer_class": "CLIPTokenizer"}, {}, "A  aB!12", [3, 16, 15, 19, 17, 18, 2]),
    (_PIECES, {"tokenizer_class": "BertTokenizer", "tokenize_chinese_chars": False}, {},
     "ab \u6c49\u5b57 Caf\u00e9", [2, 5, 6, 9, 8, 3]),
    (_PIECES, {"tokenizer_class": "BertTokenizer", "strip_accents": False}, {},
     "ab \u6c49\u5b57 Caf\u00e9", [2, 5, 6, 10, 11, 7, 3]),
    (_PIECES, {"tokenizer_class": "BertTokenizer"}, {"added_tokens.json": {"<x>": 12}},
     "ab \u6c49\u5b57 Caf\u00e9<x>", [2, 5, 6, 10, 11, 8, 12, 3]),
]  # fmt: skip


@pytest.mark.parametrize(("vocabulary", "config", "more", "text", "ids"), CLASSES)
def test_what_classes_make_of_a_vocabulary(
    vocabulary: dict[str, Any],
    config: dict[str, Any],
    more: dict[str, Any],
    text: str,
    ids: list[int],
) -> None:
    files = {**vocabulary, "tokenizer_config.json": config, **more}
    assert made(files).encode(text).ids == ids


def test_a_mask_that_the_vocabulary_lacks_follows_it() -> None:
    """As of DeBERTa v3, whose spm.model has no [MASK]."""
    found = made(
        {
            "spm.model": model_of("unigram"),
            "tokenizer_config.json": {"tokenizer_class": "DebertaV2Tokenizer"},
        }
    )
    assert found.token_to_id("[MASK]") == found.vocab_size - 1
    assert found.token_to_id("[MASK]") in found.encode("a [MASK]").ids


@pytest.mark.parametrize(("config", "ids"), [({}, [4, 5]), ({"add_prefix_space": True}, [10, 5])])
def test_a_space_before_texts_as_the_configuration_says(
    config: dict[str, Any], ids: list[int]
) -> None:
    """Of a tokenizer.json of byte pairs; a Llama's has none with false."""
    plain = json.loads(raw(_PAIRS))
    plain["pre_tokenizer"] = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    plain["model"]["merges"] = plain["model"]["merges"][:1]
    assert made({"tokenizer.json": plain, "tokenizer_config.json": config}).encode("ab").ids == ids
    llama = json.loads(raw({"tokenizer.model": model_of("bpe")}))
    told = {"tokenizer_class": "LlamaTokenizerFast"}
    usual = made({"tokenizer.json": llama, "tokenizer_config.json": told})
    none = made(
        {"tokenizer.json": llama, "tokenizer_config.json": told | {"add_prefix_space": False}}
    )
    assert usual.encode("rush").ids[1] != none.encode("rush").ids[1]
    assert none.decode(none.encode("a rush").ids) == "a rush"

"""Tokenizers from published GGUF vocabularies: expected ids, here and in the tab (under Node)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from rushlight.core.io.text.gguf_tokenizer import from_gguf, stop_ids
from rushlight.core.io.text.template import ChatTemplate
from rushlight.core.io.text.tokenizer import TabTokenizer, Tokenizer, load_tokenizer
from rushlight.core.io.weights.gguf import read_gguf
from rushlight.core.io.weights.source import MmapSource
from rushlight.models.hub.names import resolve

pytestmark = pytest.mark.native

DATA = Path(__file__).parents[1] / "data"
NAMES = (
    "bert-bge command-r deepseek-coder deepseek-llm falcon gemma-4 gpt-2 llama-bpe llama-spm mpt "
    "phi-3 qwen2 qwen35 refact starcoder"
).split()
MARK = "\n__ggml_vocab_test__\n"
# WordPiece changes texts. falcon has no tokens for control characters; deepseek has some letters as
# added tokens, which the decoder of bytes takes for bytes, as it does with that model's own file.
LOSSY = {"bert-bge", "falcon", "deepseek-coder", "deepseek-llm"}


def _metadata(path: Path) -> dict[str, Any]:
    source = MmapSource(path)
    try:
        return read_gguf(source).metadata
    finally:
        source.close()


def _cases(folder: Path, name: str) -> list[tuple[str, list[int]]]:
    """The texts of a vocabulary's .inp file with the ids of its .out file."""
    file = folder / f"ggml-vocab-{name}.gguf"
    texts = file.with_name(file.name + ".inp").read_bytes().decode("utf-8").split(MARK)
    lines = file.with_name(file.name + ".out").read_text("utf-8").split("\n")
    return [(text, [int(id) for id in line.split()]) for text, line in zip(texts, lines)]  # noqa: B905


def _strings() -> list[str]:
    given = json.loads((DATA / "tokenizer_strings.json").read_text(encoding="utf-8"))
    return [s for s in given if isinstance(s, str)]


def _mixture(seed: int, count: int) -> list[str]:
    """Texts that cut and join what the patterns tell apart."""
    numbers = random.Random(seed)
    parts = _strings() + [
        "'s",
        "'LL",
        "  ",
        "\n",
        "\r\n",
        "\t ",
        "123",
        "4567",
        "é",
        "e\u0301",
        "ſ",
    ]
    parts += [
        "漢字",
        "かな",
        "한국",
        "ไทย",
        "हिन्दी",
        "😀",
        "👨‍👩‍👧",
        "\u00a0",
        "\u3000",
        "\u2028",
        "\u0085",
    ]
    parts += ["...", "?!", "$+<=>^~|`", "¼½", "Ⅷ", "Aa", "ǅ", "ʰ", "a\u200db", "\U0001e900", "<s>"]
    return ["".join(numbers.choice(parts)[:40] for _ in range(4)) for _ in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_expected_ids_natively_and_in_the_tab(name: str, node: Any, llama_cpp_models: Path) -> None:
    metadata = _metadata(llama_cpp_models / f"ggml-vocab-{name}.gguf")
    file, config = from_gguf(metadata)
    package = load_tokenizer(file, config)
    tab: TabTokenizer = node.tokenizer("vocabulary", file.decode("utf-8"), config)
    cases = _cases(llama_cpp_models, name)
    assert len(cases) > 45
    for text, expected in cases:
        own = package.encode(text, add_special_tokens=False)
        assert own.ids == expected, text
        assert tab.encode(text, add_special_tokens=False) == own, text
        _check(package, tab, text, name != "bert-bge")
    for text in [*_strings(), *_mixture(7, 150)]:
        _check(package, tab, text, name not in LOSSY)
    assert (tab.vocab_size, tab.pad_id) == (package.vocab_size, package.pad_id)
    assert package.vocab_size == len(metadata["tokenizer.ggml.tokens"])
    numbers = random.Random(3)
    for _ in range(100):  # also cut through characters, and ids that are not there
        ids = [numbers.randrange(package.vocab_size + 5) for _ in range(8)]
        for skip in (True, False):
            assert tab.decode(ids, skip_special_tokens=skip) == package.decode(
                ids, skip_special_tokens=skip
            )


def _check(package: Tokenizer, tab: Tokenizer, text: str, comes_back: bool) -> None:
    """Both agree on a text, its offsets lie in it and rise, and its ids give it back."""
    encoding = package.encode(text)
    assert tab.encode(text) == encoding, text
    inside = [
        o for o, special in zip(encoding.offsets, encoding.special, strict=True) if not special
    ]
    assert all(0 <= start <= end <= len(text) for start, end in inside)
    assert inside == sorted(inside)
    ids = [id for id, special in zip(encoding.ids, encoding.special, strict=True) if not special]
    decoded = package.decode(ids, skip_special_tokens=False)
    assert tab.decode(ids, skip_special_tokens=False) == decoded
    if comes_back and "<" not in text:  # an added token in a text may swallow blanks around it
        assert decoded == text


def test_all_vocabularies_with_expected_ids_are_here(llama_cpp_models: Path) -> None:
    found = {path.name.split(".")[0] for path in llama_cpp_models.glob("*.gguf.inp")}
    assert found == {f"ggml-vocab-{name}" for name in NAMES}


def test_smollm2(node: Any) -> None:
    metadata = _metadata(resolve("smollm2-135m-instruct") / "SmolLM2-135M-Instruct.Q4_1.gguf")
    file, config = from_gguf(metadata)
    package, names = load_tokenizer(file, config), json.loads(config)
    tab = node.tokenizer("smollm2", file.decode("utf-8"), config)
    assert stop_ids(metadata) == {0, 2}
    assert (names["bos_token"], names["eos_token"]) == ("<|im_start|>", "<|im_end|>")
    template = ChatTemplate(names["chat_template"], bos_token=names["bos_token"])
    messages = [{"role": "user", "content": "Hi 123"}]
    prompt = template.render(messages)
    assert prompt == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nHi 123<|im_end|>\n<|im_start|>assistant\n"
    )
    encoding = package.encode(prompt)
    assert encoding.ids[:4] == [1, 9690, 198, 2683] and encoding.ids[-4:] == [1, 520, 9531, 198]
    assert tab.encode(prompt) == encoding
    for text in [*_strings(), *_mixture(11, 200)]:
        _check(package, tab, text, True)


def test_a_unigram_vocabulary(llama_cpp_models: Path) -> None:
    # XLM-R's: there are no expected ids, but these are published.
    metadata = _metadata(llama_cpp_models / "ggml-vocab-nomic-bert-moe.gguf")
    tokenizer = load_tokenizer(*from_gguf(metadata))
    assert tokenizer.encode("Hello world").ids == [0, 35378, 8999, 2]
    wide = tokenizer.encode("\uff28\uff45llo  world ")
    assert wide.ids == [0, 35378, 8999, 2] and wide.offsets[1:3] == [(0, 5), (6, 12)]
    assert tokenizer.decode(wide.ids) == "Hello world"

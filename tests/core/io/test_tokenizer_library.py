"""Where the JavaScript library differs from the package, the tab has parts of its own that do not.

When a part of a new version of the library gives what the package gives, its row here fails: then
ours can go.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Package

from rushlight.core.io.hub.fetch import cache_dir, npm_members
from rushlight.core.io.text.tokenizer import NativeTokenizer, TabTokenizer

pytestmark = pytest.mark.native

HERE = Path(__file__).parent
BYTES = [[f"<0x{byte:02X}>", -1.0] for byte in range(256)]
WORDS = ["ab☃", "Ġa", "<0xE2>", "<0x28>", "▁▁a", "▁b", "a", "do not", "##s", "x$y", "lo</w>", " a "]


@pytest.fixture(scope="module")
def whole_library() -> Path:
    """All of the library, of which the wheel has parts."""
    manifest = HERE.parents[2] / "web" / "assets.toml"
    asset = tomllib.loads(manifest.read_text(encoding="utf-8"))["tokenizers"]
    dest = cache_dir() / "tests" / f"tokenizers-{asset['version']}.mjs"
    if not dest.is_file():
        member = asset["members"][0]["from"]
        npm_members(asset["package"], asset["version"], asset["integrity"], {member: dest})
    return dest


def _file(**parts: Any) -> str:
    """A file whose ids show every byte of a normalized text, and that has tokens to decode."""
    vocab = [["<unk>", 0.0], *BYTES, *([word, -1000.0] for word in WORDS)]
    model = {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": vocab}
    return json.dumps({"model": model, "added_tokens": [], **parts})


BERT = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": False}
DOLLARS = {"pattern": {"String": "a"}, "content": "$&b"}
NORMALIZERS: list[tuple[str, dict[str, Any], str]] = [
    ("BertNormalizer", BERT, "a\U00020000b"),  # an ideograph outside of the first plane
    ("LowercaseNormalizer", {}, "ΑΣ"),  # no final sigma
    ("StripNormalizer", {"strip_left": True, "strip_right": True}, "\u0085a\ufeff"),
    ("StripAccentsNormalizer", {}, "a\u0898"),  # a mark of Unicode 14
    ("PrependNormalizer", {"prepend": "x"}, ""),
    ("ReplaceNormalizer", DOLLARS, "a"),
    ("PrecompiledNormalizer", {"precompiled_charsmap": {"x": "yy"}}, "xz"),
    ("NFCNormalizer", {}, "\U00011935\U00011930"),  # a pair of Unicode 13
    ("NFKCNormalizer", {}, "\u32ff"),  # a character of Unicode 12
]
DECODERS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("ByteLevelDecoder", {"add_prefix_space": True, "trim_offsets": True}, ["Ġa", "ab☃"]),
    ("ByteFallbackDecoder", {}, ["<0xE2>", "<0x28>", "a"]),
    ("MetaspaceDecoder", {"replacement": "▁", "prepend_scheme": "always"}, ["▁▁a", "▁b"]),
    ("WordPieceDecoder", {"prefix": "##", "cleanup": True}, ["a", "do not"]),
    ("ReplaceDecoder", DOLLARS, ["a"]),
]


def _places(node: Any, text: str) -> tuple[NativeTokenizer, TabTokenizer]:
    return NativeTokenizer(text.encode()), node.tokenizer("library", text)


@pytest.mark.parametrize(("name", "config", "text"), NORMALIZERS)
def test_normalizers(
    node: Any,
    whole_library: Path,
    charsmap: Callable[[dict[str, str]], str],
    name: str,
    config: dict[str, Any],
    text: str,
) -> None:
    if rows := config.get("precompiled_charsmap"):
        config = {"precompiled_charsmap": charsmap(rows)}
    type = name if name == "BertNormalizer" else name.removesuffix("Normalizer")
    file = _file(normalizer={"type": type, **config})
    expected = Package.from_str(file).normalizer.normalize_str(text)
    assert node("library", str(whole_library), name, config, "normalize", text) != expected
    package, tab = _places(node, file)
    for sample in (text, f"b{text}", f" {text}{text} c", f"e\u0301{text}\u0301"):
        assert tab.encode(sample) == package.encode(sample)


@pytest.mark.parametrize(("name", "config", "tokens"), DECODERS)
def test_decoders(
    node: Any, whole_library: Path, name: str, config: dict[str, Any], tokens: list[str]
) -> None:
    file = _file(decoder={"type": name.removesuffix("Decoder"), **config})
    expected = Package.from_str(file).decoder.decode(tokens)
    assert node("library", str(whole_library), name, config, "decode", tokens) != expected
    package, tab = _places(node, file)
    ids = [id for token in tokens if (id := package.token_to_id(token)) is not None]
    assert len(ids) == len(tokens)
    assert tab.decode(ids) == package.decode(ids) == expected


@pytest.mark.parametrize(
    "decoder",
    [
        {"type": "Fuse"},
        {"type": "BPEDecoder", "suffix": "</w>"},
        {"type": "BPEDecoder", "suffix": ""},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        {"type": "Strip", "content": " ", "start": 2, "stop": 5},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True},
    ],
    ids=str,
)
def test_decoders_of_the_library(node: Any, decoder: dict[str, Any]) -> None:
    package, tab = _places(node, _file(decoder=decoder))
    ids = [package.token_to_id(word) for word in WORDS]
    for row in ([], ids, ids[::-1], ids[-1:], [*ids[4:6], 70, 71]):
        numbers = [id for id in row if id is not None]
        assert tab.decode(numbers) == package.decode(numbers)

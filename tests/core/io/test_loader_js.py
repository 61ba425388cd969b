"""The tab's loader: listings that are right and damaged, and a file larger than 4 GB."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from rushlight.core.io.weights.gguf import read_gguf
from rushlight.core.io.weights.shards import split_parts
from rushlight.web.loading.download import Head

pytestmark = pytest.mark.native  # needs Node

SITE = "https://a.example/m/"
MANIFEST, INDEX = f"{SITE}manifest.json", f"{SITE}model.safetensors.index.json"
HUB = "https://huggingface.co/api/models/o/m/tree/main?recursive=true"
SMALL = {f"{SITE}config.json": "{}", f"{SITE}tokenizer.json": "{}"}
FILES = ["config.json", "tokenizer.json", "model.safetensors"]
GOOD = [{"path": path, "size": 3, "sha256": "ab"} for path in FILES]


def test_listings_that_are_right(node: Any) -> None:
    parts = [*GOOD[:2], {"path": FILES[2], "size": 6, "parts": GOOD[:2]}]
    for files in (GOOD, parts):
        text = json.dumps({"name": "m", "files": files})
        assert node("listing", SITE, {MANIFEST: text}) == FILES
    tree = [{"type": "file", **row, "lfs": None} for row in GOOD]
    assert node("listing", "o/m", {HUB: json.dumps(tree)}) == FILES
    modules = ["2_Dense/config.json", "2_Dense/model.safetensors"]
    others = [
        {"path": path, "size": 3, "sha256": "ab"} for path in (*modules, "x/model.safetensors")
    ]
    text = json.dumps({"name": "m", "files": [*GOOD, *others]})
    assert node("listing", SITE, {MANIFEST: text}) == [*FILES[:2], *modules, FILES[2]]
    shards = {"weight_map": {"a": "model-1-of-1.safetensors", "b": "model-1-of-1.safetensors"}}
    found = node("listing", SITE, {**SMALL, INDEX: json.dumps(shards)})
    assert found == [*FILES[:2], "model-1-of-1.safetensors"]
    # A host that answers every address with its home page has no manifest.
    assert node("listing", SITE, {MANIFEST: "<html>", **SMALL}) == FILES


@pytest.mark.parametrize("weights", ["adapter_model.safetensors", "adapter_model.bin"])
def test_listings_of_adapters(node: Any, weights: str) -> None:
    wanted = ["adapter_config.json", weights]
    plain = {f"{SITE}adapter_config.json": "{}", f"{SITE}{weights}": "", **SMALL}
    assert node("listing", SITE, plain, True) == wanted
    tree = [{"type": "file", "path": path, "size": 3} for path in (*FILES, *wanted)]
    assert node("listing", "o/m", {HUB: json.dumps(tree)}, True) == wanted
    assert node("listing", "o/m", {HUB: json.dumps(tree[:-1])}, True)["message"] == (
        "no adapter_model.safetensors in the hub's o/m"
    )
    assert node("listing", SITE, SMALL, True)["message"] == f"no adapter_config.json in {SITE}"
    gguf = f"{SITE}style.gguf"
    assert node("listing", gguf, {gguf: ""}, True) == ["style.gguf"]


@pytest.mark.parametrize(
    "vocabularies",
    [
        ["spiece.model"], ["qwen.tiktoken"], ["merges.txt", "vocab.json"], ["vocab.txt"],
        ["source.spm", "target.spm", "vocab.json"], ["rwkv_vocab_v20230424.txt"],
    ],
)  # fmt: skip
def test_vocabularies_serve_where_there_is_no_tokenizer_json(
    node: Any, vocabularies: list[str]
) -> None:
    def found(*names: str) -> Any:
        rows = [{"path": name, "size": 3, "sha256": "ab"} for name in names]
        return node("listing", SITE, {MANIFEST: json.dumps({"name": "m", "files": rows})})

    given = ["config.json", *vocabularies, "other.txt", "model.safetensors"]
    assert found(*given) == ["config.json", *vocabularies, "model.safetensors"]
    assert found(*given, "tokenizer.json") == FILES
    assert "tokenizer.json" in found("config.json", "other.txt", "model.safetensors")["message"]
    marian = ["vocab.enpt.spm", "model.enpt.bin"]
    assert found(*marian) == marian  # Marian's own files say what they are
    shortlist = "lex.50.enpt.bin"  # is no vocabulary, and no weights
    assert found(*marian, shortlist) == [marian[0], shortlist, marian[1]]
    assert "tokenizer.json" in found("config.json", shortlist, "model.safetensors")["message"]


@pytest.mark.parametrize(
    "row",
    [
        None, 5, "config.json", [], {}, {"path": 3}, {"path": "a", "size": -1},
        {"path": "a", "size": "3"}, {"path": "a", "size": None}, {"path": "a", "sha256": 3},
        {"path": "a", "parts": {}}, {"path": "a", "parts": [None]}, {"path": "a", "parts": [{}]},
        {"path": "a", "parts": []}, {"path": "\ud800"}, {"path": "a", "size": 0.5},
        {"path": "a", "size": 2**53},
    ],
)  # fmt: skip
def test_a_row_that_is_no_file(node: Any, row: Any) -> None:
    for where, address, listing in (
        (SITE, MANIFEST, {"files": [*GOOD, row]}), ("o/m", HUB, [*GOOD, row]),
    ):  # fmt: skip
        found = node("listing", where, {address: json.dumps(listing)})
        assert found["name"] == "WeightsError" and "listing is damaged" in found["hint"]
        assert found["message"].startswith(f"{address}: ")
        assert found["message"].endswith(" is not a file")


@pytest.mark.parametrize(
    ("where", "address", "text", "message"),
    [
        (SITE, INDEX, '{"weight_map": {"a": 1}', '"{\\"weight_map\\": {\\"a\\": 1}" is not JSON'),
        (SITE, INDEX, '{"weight_map": {"a": 3}}', "3 is not the name of a file"),
        (SITE, INDEX, '{"weight_map": {"a": null}}', "null is not the name of a file"),
        ("o/m", HUB, "<html>", '"<html>" is not JSON'),
        ("o/m", HUB, '{"error": 1}', '{"error":1} is not a list of files'),
    ],
)
def test_a_listing_of_another_kind(
    node: Any, where: str, address: str, text: str, message: str
) -> None:
    found = node("listing", where, {**SMALL, address: text})
    assert (found["name"], found["message"]) == ("WeightsError", f"{address}: {message}")


def test_what_only_describes_a_file_is_left_out_if_it_is_wrong(node: Any) -> None:
    tree = [{"type": "file", "path": path, "size": 3, "lfs": {"oid": 7}} for path in FILES]
    assert node("listing", "o/m", {HUB: json.dumps(tree)}) == FILES
    text = json.dumps({"name": {"a": 1}, "files": GOOD})
    assert node("listing", SITE, {MANIFEST: text}) == FILES


def test_a_name_that_is_no_utf_8_stays_as_it_is(node: Any) -> None:
    for name in ("a%zz.gguf", "a%ff.pt"):
        assert node("listing", f"{SITE}{name}", {f"{SITE}{name}": ""}) == [name]


@pytest.mark.parametrize(
    "where",
    ["http://[/", "a/..", "a/.b", "a--b/c", "a b", "data:x", "mailto:a", "javascript:1",
     "https://a:b@c/m.gguf"],
)  # fmt: skip
def test_a_name_that_is_neither_an_address_nor_a_hub_id(node: Any, where: str) -> None:
    found = node("listing", where, {})
    assert found["name"] == "WeightsError"
    assert found["message"] == f'"{where}" is neither an address nor a hub id'


# --- split files, and weights of other formats ---------------------------------------------------

PARTS = [f"m-Q4_0-{n:05}-of-00003.gguf" for n in (1, 2, 3)]


@pytest.mark.parametrize(
    "name",
    [*PARTS, "m.gguf", "m-00004-of-00003.gguf", "m-00000-of-00003.gguf", "M-00001-OF-00002.GGUF",
     "m-1-of-3.gguf", "a/m-00002-of-00002.gguf", "m-00001-of-00001.gguf", "m-00001-of-04097.gguf"],
)  # fmt: skip
def test_the_parts_of_a_split_file_are_those_of_python(node: Any, name: str) -> None:
    assert node("splitParts", name) == split_parts(name)


def test_a_split_file_is_listed_whole(node: Any) -> None:
    documents = {f"{SITE}{part}": "" for part in PARTS}
    for part in PARTS:
        assert node("listing", f"{SITE}{part}", documents) == PARTS
    assert node("chosen", [*PARTS[::-1], "readme.md"]) == PARTS
    files = [{"path": part, "size": 3} for part in [*PARTS, "m-Q8_0.gguf"]]
    assert node("listing", SITE, {MANIFEST: json.dumps({"name": "m", "files": files})}) == PARTS
    tree = [{"type": "file", "path": part, "size": 3} for part in PARTS]
    assert node("listing", "o/m", {HUB: json.dumps(tree)}) == PARTS
    found = node("splitParts", f"{SITE}{PARTS[1]}?download=true")
    assert found == [f"{SITE}{part}?download=true" for part in PARTS]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_the_missing_part_is_named(node: Any, missing: int) -> None:
    there = [part for part in PARTS if part != PARTS[missing]]
    found = node("chosen", there)
    assert found["message"] == f"the part {PARTS[missing]} is missing in the chosen files"
    found = node("listing", f"{SITE}{there[0]}", {f"{SITE}{part}": "" for part in there})
    assert found["message"] == f"{PARTS[missing]}: the server answered 404"


def test_files_of_pytorch_where_safetensors_are_missing(node: Any) -> None:
    small = ["config.json", "tokenizer.json"]
    shards = [f"pytorch_model-{n:05}-of-00002.bin" for n in (1, 2)]
    for weights in (["pytorch_model.bin"], shards, ["model.pth"], ["weights.npz"]):
        there = [*small, *weights, "training_args.bin", "onnx/model.bin"]
        assert node("chosen", there) == [*small, *weights]
        assert node("chosen", [*there, "model.safetensors"]) == [*small, "model.safetensors"]
    assert "no model.safetensors" in node("chosen", [*small, "a.pt", "b.pt"])["message"]


def test_a_plain_folder_is_asked_for_other_vocabularies_and_weights(node: Any) -> None:
    """Only where there is no tokenizer.json, and no safetensors."""
    for vocabulary in (["vocab.txt"], ["vocab.json", "merges.txt"], ["tokenizer.model"]):
        there = {f"{SITE}config.json": "{}"} | {f"{SITE}{name}": "x" for name in vocabulary}
        for weights in ("pytorch_model.bin", "model.safetensors"):
            found = node("listing", SITE, there | {f"{SITE}{weights}": "x"})
            assert found == ["config.json", *vocabulary, weights]
    shards = [f"pytorch_model-0000{n}-of-00002.bin" for n in (1, 2)]
    index = json.dumps({"weight_map": dict(zip("ab", shards, strict=True))})
    bins = {f"{SITE}pytorch_model.bin.index.json": index}
    assert node("listing", SITE, {**SMALL, **bins}) == [*FILES[:2], *shards]


def test_a_file_of_more_than_4_gigabytes_goes_by_the_heap(node: Any) -> None:
    """The header alone is read before the schedule is made; offsets pass 2**32."""
    shape, head = (30_000, 50_000), b"GGUF" + struct.pack("<I2Q", 3, 3, 0)
    each = 2 * shape[0] * shape[1]
    for i in range(3):  # float16
        head += struct.pack("<Q1sI2QIQ", 1, b"%d" % i, 2, *shape[::-1], 1, i * each)
    begin = -(-len(head) // 32) * 32
    size = begin + 3 * each
    table = read_gguf(Head("m.gguf", head, size)).table
    rows = [(e.offset, e.nbytes, 1, i) for i, e in enumerate(table.entries.values())]
    assert rows[-1][0] > 2**32 and size > 9 * 10**9
    flat = [word for row in rows for word in row]
    found = node("stream", "m.gguf", list(head), size, flat, 1 << 26)
    assert found["all"] == found["pulled"] == size and found["heap"] == 0
    assert found["given"] == found["atBegin"] == 1 << 26  # one piece of the stream
    assert found["handles"] == {str(i): {"bytes": each, "end": each} for i in range(3)}
    assert found["checks"] >= size // (128 << 20)  # what is in flight is bounded

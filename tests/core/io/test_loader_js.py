"""The tab's loader on listings that are damaged: an error that names the listing and the value."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
    shards = {"weight_map": {"a": "model-1-of-1.safetensors", "b": "model-1-of-1.safetensors"}}
    found = node("listing", SITE, {**SMALL, INDEX: json.dumps(shards)})
    assert found == [*FILES[:2], "model-1-of-1.safetensors"]
    # A host that answers every address with its home page has no manifest.
    assert node("listing", SITE, {MANIFEST: "<html>", **SMALL}) == FILES


@pytest.mark.parametrize(
    "row",
    [
        None, 5, "config.json", [], {}, {"path": 3}, {"path": "a", "size": -1},
        {"path": "a", "size": "3"}, {"path": "a", "size": None}, {"path": "a", "sha256": 3},
        {"path": "a", "parts": {}}, {"path": "a", "parts": [None]}, {"path": "a", "parts": [{}]},
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


@pytest.mark.parametrize("where", ["http://[/", "a/..", "a/.b", "a--b/c", "a b"])
def test_a_name_that_is_neither_an_address_nor_a_hub_id(node: Any, where: str) -> None:
    found = node("listing", where, {})
    assert found["name"] == "WeightsError"
    assert found["message"] == f'"{where}" is neither an address nor a hub id'

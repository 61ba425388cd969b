"""Adapters of a served model: requests name them, and the weights are in memory once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import rushlight as rl
from rushlight.cli.serve import loaded
from rushlight.cli.serving.held import Limits

pytestmark = pytest.mark.native

ASKED = [{"role": "user", "content": "a rush"}]


@pytest.fixture(scope="module")
def folders(
    from_models: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A model, and two adapters of it."""
    place = tmp_path_factory.mktemp("adapters")
    model = from_models("test_generate").tiny(max_position_embeddings=2048)
    model.save_pretrained(place / "base")
    for seed, name in enumerate(("loud", "quiet")):
        base = rl.models.load(place / "base")
        rl.manual_seed(seed)
        rl.adapters.add_adapter(
            base, rl.adapters.LoraConfig(r=4, lora_alpha=64, target_modules="all-linear")
        )
        with rl.no_grad():
            for key, p in base.named_parameters():
                if "lora_B" in key:
                    p.normal_(0, 1)
        rl.adapters.save_adapter(base, place / name)
    return {name: place / name for name in ("base", "loud", "quiet")}


@pytest.fixture(scope="module")
def served(folders: dict[str, Path], run: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
    """A server of the three, and a client of it."""
    names = [str(folders["base"]), f"loud={folders['loud']}", str(folders["quiet"])]
    server = loaded(names, "cpu", Limits())
    running = run(server)
    try:
        with httpx.Client(base_url=running.address, timeout=120) as http:
            yield server, http
    finally:
        running.stop()


def expected(folders: dict[str, Path], name: str) -> str:
    """The answer of a model that is loaded with the adapter alone."""
    model = rl.models.load(folders["base"])
    if name != "base":
        rl.adapters.load_adapter(model, folders[name])
    return "".join(model.chat(ASKED, max_new_tokens=12, temperature=0.0)).strip()


def answer(http: Any, **fields: Any) -> str:
    body = {"messages": ASKED, "max_tokens": 12, "temperature": 0, **fields}
    response = http.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"]).strip()


def test_each_request_names_its_adapter(served: Any, folders: dict[str, Path]) -> None:
    server, http = served
    right = {name: expected(folders, name) for name in folders}
    assert len(set(right.values())) == 3
    with ThreadPoolExecutor(6) as pool:
        names = [*folders] * 4
        got = list(pool.map(lambda name: answer(http, model=name), names))
    assert got == [right[name] for name in names]
    assert answer(http) == right["base"]  # none is named
    assert answer(http, model="base", lora=[{"id": 1, "scale": 1.0}]) == right["quiet"]
    assert answer(http, lora=[{"id": 0, "scale": 0}, {"id": 1, "scale": 0}]) == right["base"]
    base, loud, _ = server.models
    shared = {id(p.storage) for p in base.model.parameters()}
    assert shared <= {id(p.storage) for p in loud.model.parameters()}
    assert loud.about.nbytes < base.about.nbytes  # its own parameters alone


def test_adapters_are_listed(served: Any) -> None:
    _, http = served
    rows = http.get("/v1/models").json()["data"]
    assert [(row["id"], row.get("parent")) for row in rows] == [
        ("base", None), ("loud", "base"), ("quiet", "base"),
    ]  # fmt: skip
    assert [row["path"] for row in http.get("/lora-adapters").json()] == ["loud", "quiet"]


@pytest.mark.parametrize(
    ("lora", "words"),
    [
        ([{"id": 2}], "whole number from 0 to 1"),
        ([{"scale": 1}], "/lora-adapters"),
        ([{"id": 0, "scale": 0.5}], "0 or 1"),
        ([{"id": 0}, {"id": 1}], "one adapter at a time"),
        ([{"id": 0, "weight": 1}], "unrecognized field lora[0].weight"),
        ("loud", "must be a list"),
    ],
)
def test_other_choices_are_refused(served: Any, lora: Any, words: str) -> None:
    _, http = served
    response = http.post("/v1/chat/completions", json={"messages": ASKED, "lora": lora})
    assert response.status_code == 400 and words in response.json()["error"]["message"]


def test_names_differ(folders: dict[str, Path]) -> None:
    for text in ("=x", "a="):
        with pytest.raises(ValueError, match="is not NAME=MODEL"):
            loaded([text], "cpu", Limits())
    with pytest.raises(ValueError, match="two models are named 'base'; give NAME=MODEL"):
        loaded([str(folders["base"]), f"base={folders['loud']}"], "cpu", Limits())


def test_a_model_with_an_adapter_gives_no_second_one(folders: dict[str, Path]) -> None:
    model = rl.adapters.load_adapter(rl.models.load(folders["base"]), folders["loud"])
    with pytest.raises(ValueError, match="'default'; give one without"):
        rl.adapters.with_adapter(model, folders["quiet"])


def test_adapters_are_known_by_their_files(folders: dict[str, Path], tmp_path: Path) -> None:
    assert rl.adapters.is_adapter(folders["loud"])
    assert not rl.adapters.is_adapter(folders["base"])
    file = tmp_path / "a.gguf"
    for kind, expected_kind in (("adapter", True), ("model", False)):
        rl.save_gguf({"x": rl.ones(2)}, file, metadata={"general.type": kind}, overwrite=True)
        assert rl.adapters.is_adapter(file) is expected_kind

"""Every family refuses a config.json that lies with one clear error, before it costs anything."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.core import nn
from rushlight.core.io.text.tokenizer import load_tokenizer
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.models.families import families

pytestmark = pytest.mark.native

DATA = Path(__file__).parent / "data"
LIES: tuple[Any, ...] = (-1, 0, 3, 1 << 20, 10**30, "x", [], 1e308)
# Assignments to modules while a model is built: above those of any row of the table.
MOST = 20_000


def metadata(row: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
    found = open_tables(DATA / "families" / f"{row}.safetensors")[0][1].metadata
    return json.loads(found["config"]), json.loads(found["names"])


def lies(row: str, config: dict[str, Any], keys: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The config with each of these keys changed, by two lies that differ from key to key."""
    for key in sorted(keys):
        start = zlib.crc32(f"{row} {key}".encode())
        for lie in (LIES[start % len(LIES)], LIES[(start + 3) % len(LIES)]):
            yield f"{row}: {key} {lie!r}", config | {key: lie}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The count of assignments to modules, which may not exceed MOST."""
    count, own = [0], nn.Module.__setattr__

    def assign(self: nn.Module, name: str, value: object) -> None:
        count[0] += 1
        assert count[0] < MOST, "a model was built that the checkpoint cannot have"
        own(self, name, value)

    monkeypatch.setattr(nn.Module, "__setattr__", assign)
    return count


def test_numbers_that_lie(table: ModuleType, counted: list[int]) -> None:
    told: dict[str, set[str]] = {}
    others, tried = [], 0
    for row in table.ROWS:
        config, names = metadata(row)
        numbers = told.setdefault(families()[config["model_type"]], set())
        keys = {
            k
            for k, v in config.items()
            if isinstance(v, (int, float, list)) and not isinstance(v, bool)
        } - numbers
        keys -= {"architectures", "bos_token_id", "eos_token_id"}
        numbers |= keys
        tensors = {n: rl.empty(*shape, device="meta") for n, shape in names.items()}
        ids = rl.zeros(1, 5, dtype=rl.int64, device="meta")
        given = (ids, ids) if config["model_type"] in table.TEXT_TO_TEXT else (ids,)
        if config["model_type"] in table.SPEECH:
            given = rl.zeros(*table.features_of(config).shape, device="meta"), ids
        if config["model_type"] in table.WAVES:
            given = (rl.zeros(*table.features_of(config).shape, device="meta"),)
        for what, changed in lies(row, config, keys):
            tried, counted[0] = tried + 1, 0
            file = {"config.json": json.dumps(changed).encode()}
            try:
                model = rl.models.assemble(file, tensors, device="meta")
                with rl.no_grad(), suppress(ValueError):  # a context that is too short
                    model(*given)
            except (rl.FormatError, rl.LoadError) as error:
                assert 10 < len(str(error)) < 8000, what
            except Exception as error:
                others.append(f"{what}: {error!r}")
    assert others == []
    room = "rushlight.models.families."
    rooms = ("vision.", "series.", "multimodal.", "sound.", "voices.", "hearing.")
    elsewhere = tuple(f"{room}{name}" for name in (*rooms, "speech.silero_vad", "speech.pyannote"))
    assert set(told) == {m for m in families().values() if not m.startswith(elsewhere)}
    assert tried > 700


def test_numbers_of_image_models_that_lie(vision: ModuleType, counted: list[int]) -> None:
    told: dict[str, set[str]] = {}
    others, tried = [], 0
    for row, (source, _, _, size) in vision.ROWS.items():
        found = open_tables(DATA / "vision" / f"{row}.safetensors")[0][1].metadata
        config, names = json.loads(found["config"]), vision.names_of(found["names"])
        if source != "transformers":
            continue
        keys = {
            k
            for k, v in config.items()
            if isinstance(v, (int, float, list, dict)) and not isinstance(v, bool)
        } - {"architectures"}
        keys -= told.setdefault(config["model_type"], set())
        told[config["model_type"]] |= keys
        tensors = {n: rl.empty(*shape, device="meta") for n, shape in names.items()}
        pixels = rl.zeros(1, config.get("num_channels", 3), *size, device="meta")
        for what, changed in lies(row, config, keys):
            tried, counted[0] = tried + 1, 0
            file = {"config.json": json.dumps(changed).encode()}
            try:
                model = rl.models.assemble(file, tensors, device="meta")
                with rl.no_grad(), suppress(ValueError):  # pixels of another size
                    served = "image-feature-extraction" in model.tasks
                    (model.encode_image if served else model)(pixels)
            except (rl.FormatError, rl.LoadError) as error:
                assert 10 < len(str(error)) < 8000, what
            except Exception as error:
                others.append(f"{what}: {error!r}")
    assert others == []
    assert tried > 300


def test_a_list_of_layers_that_lies(vision: ModuleType) -> None:
    row = next(name for name in vision.ROWS if name.startswith("resnet"))
    found = open_tables(DATA / "vision" / f"{row}.safetensors")[0][1].metadata
    config, names = json.loads(found["config"]), vision.names_of(found["names"])
    config["depths"][0] = 10**5
    tensors = {n: rl.empty(*shape, device="meta") for n, shape in names.items()}
    with pytest.raises(rl.LoadError, match=r"config.json has layers with over \d{4} parameters"):
        rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors, device="meta")


def test_a_value_that_no_model_can_be_built_of_is_told() -> None:
    config, names = metadata("t5")
    tensors = {n: rl.empty(*shape, device="meta") for n, shape in names.items()}
    file = {"config.json": json.dumps(config | {"d_model": 0}).encode()}
    with pytest.raises(rl.FormatError, match="config.json: no t5 has these values: 0.0 cannot be"):
        rl.models.assemble(file, tensors, device="meta")


@pytest.mark.parametrize(
    ("name", "task", "error"),
    [
        ("bert", "feature-extraction", IndexError),
        ("llama", "text-generation", ValueError),
        ("t5", "text2text-generation", ValueError),
        ("rwkv6", "text-generation", ValueError),
    ],
)
def test_ids_beyond_the_vocabulary(
    table: ModuleType, name: str, task: str, error: type[Exception]
) -> None:
    config, names = metadata(name)
    words = json.loads((DATA / "tasks.json").read_text(encoding="utf-8"))["tokenizers"]["words"]
    words["model"]["vocab"]["beyond"] = 1 << 20
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    model = rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors)
    model.tokenizer = load_tokenizer(json.dumps(words).encode())
    with pytest.raises(error, match="1048576 is (not one of the|out of range for size) "):
        rl.pipeline(task, model)("w5 beyond")

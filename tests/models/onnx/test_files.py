"""Which ONNX files of a folder are meant, and what loading says of folders that it cannot read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.models.onnx.folders import folder

import rushlight as rl
from rushlight.core.basis.errors import LoadError
from rushlight.models.onnx.files import SUFFIXES, find_files
from rushlight.models.onnx.graph import GraphConfig
from rushlight.models.onnx.loading import graphs_of

ALL = [f"onnx/model{suffix}.onnx" for suffix in SUFFIXES.values()]


@pytest.mark.parametrize("dtype", SUFFIXES)
def test_a_dtype_chooses_its_file(dtype: str) -> None:
    chosen = find_files(ALL).choose(("model",), dtype)
    assert chosen == {"model": f"onnx/model{SUFFIXES[dtype]}.onnx"}


def test_names_are_divided_into_graphs_and_dtypes() -> None:
    found = find_files(
        ["model.onnx", "onnx/model_q8.onnx", "onnx/decoder_with_past_model_q4f16.onnx",
         "onnx/decoder_model_merged_quantized.onnx", "onnx/model.onnx_data", "other/model.onnx"]
    )  # fmt: skip
    assert found.paths == {
        "model": {"fp32": "model.onnx", "q8": "onnx/model_q8.onnx"},
        "decoder_with_past_model": {"q4f16": "onnx/decoder_with_past_model_q4f16.onnx"},
        "decoder_model_merged": {"q8": "onnx/decoder_model_merged_quantized.onnx"},
    }


def test_the_folder_onnx_comes_first() -> None:
    assert find_files(["model.onnx", "onnx/model.onnx"]).paths["model"]["fp32"] == "onnx/model.onnx"


@pytest.mark.parametrize(
    ("names", "asked", "custom", "told"),
    [
        (ALL, None, None, "onnx/model.onnx"),
        (ALL, None, {"dtype": "q4"}, "onnx/model_q4.onnx"),
        (ALL, None, {"dtype": {"model": "int8"}}, "onnx/model_int8.onnx"),
        (ALL, "fp16", {"dtype": "q4"}, "onnx/model_fp16.onnx"),
        (ALL, {"model": "uint8"}, None, "onnx/model_uint8.onnx"),
        (ALL, "float16", None, "onnx/model_fp16.onnx"),
        (ALL[1:], None, None, "onnx/model_fp16.onnx"),
        (ALL, None, {"dtype": "q4f16"}, "onnx/model.onnx"),
    ],
)
def test_defaults(names: list[str], asked: Any, custom: Any, told: str) -> None:
    assert find_files(names).choose(("model",), asked, custom) == {"model": told}


def test_q4f16_is_no_default_without_float16() -> None:
    found = find_files(["onnx/model_q4f16.onnx"])
    with pytest.raises(LoadError, match="in q4f16 alone") as error:
        found.choose(("model",))
    assert "there are q4f16" in str(error.value)
    assert found.choose(("model",), half=True) == {"model": "onnx/model_q4f16.onnx"}
    assert found.choose(("model",), "q4f16") == {"model": "onnx/model_q4f16.onnx"}


def test_what_is_missing_is_told_with_what_is_there() -> None:
    with pytest.raises(LoadError, match=r"no model\.onnx in the dtype bnb4") as error:
        rl.models.load(folder("llama"), dtype="bnb4")
    assert "there are fp32, fp16, q8, q4, q4f16" in str(error.value)
    with pytest.raises(ValueError, match="dtype 'q5' is not one of ONNX files; they are fp32"):
        rl.models.load(folder("llama"), dtype={"model": "q5"})


@pytest.mark.parametrize(
    ("names", "graphs"),
    [
        (["encoder_model", "decoder_model_merged"], ("encoder_model", "decoder_model_merged")),
        (
            ["encoder_model", "decoder_model", "decoder_with_past_model"],
            ("encoder_model", "decoder_model", "decoder_with_past_model"),
        ),
        (
            ["embed_tokens", "vision_encoder", "decoder_model_merged"],
            ("embed_tokens", "decoder_model_merged"),
        ),
        (["text_model", "vision_model"], ("text_model", "vision_model")),
        (["text_model", "vision_model", "model"], ("model",)),
        (
            ["vision_encoder", "prompt_encoder_mask_decoder"],
            ("vision_encoder", "prompt_encoder_mask_decoder"),
        ),
    ],
)
def test_graphs_of_a_folder(names: list[str], graphs: tuple[str, ...]) -> None:
    found = find_files([f"onnx/{name}.onnx" for name in names])
    assert graphs_of(found, GraphConfig(model_type="x")) == graphs


def test_graphs_that_make_no_model_are_named() -> None:
    found = find_files(["onnx/a.onnx", "onnx/b.onnx"])
    with pytest.raises(LoadError, match="x: a, b make no model that is supported"):
        graphs_of(found, GraphConfig(model_type="x"))


def test_safetensors_of_a_family_come_first(tmp_path: Path) -> None:
    place = shutil.copytree(folder("llama"), tmp_path / "both")
    with pytest.raises(Exception, match="safetensors|header"):
        (place / "model.safetensors").write_bytes(b"no table")
        rl.models.load(place)
    assert rl.models.load(place, format="onnx").graph_names == ("model",)
    assert rl.models.load(place, dtype="fp16").graph_names == ("model",)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"model_type": "unknown"}))
    assert rl.models.load(place).config.model_type == "unknown"


def test_a_file_by_its_path() -> None:
    model = rl.models.load(folder("llama") / "onnx" / "model_fp16.onnx")
    assert model.config.model_type == "llama"
    assert "model_fp16" in model.graph("model").name


def test_formats(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="format 'tflite' is not supported"):
        rl.models.load(folder("llama"), format="tflite")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(LoadError, match=r"has no \.onnx files"):
        rl.models.load(tmp_path, format="onnx")
    with pytest.raises(NotImplementedError, match="copy its folder"):
        rl.models.load(folder("vit")).save_pretrained(tmp_path / "saved")

"""Tiny pipelines with transformers: the picture of a given noise is diffusers' to 2 of 255."""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.errors import LoadError
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.models.diffusion.loading import load_pipeline
from rushlight.models.diffusion.loop import sample
from rushlight.models.diffusion.model import Request
from rushlight.models.diffusion.pipelines.flux2_klein import Flux2Klein
from rushlight.models.diffusion.pipelines.qwen_image_edit import QwenImageEditPlus
from rushlight.models.diffusion.registry import part_class
from rushlight.models.diffusion.single_file.names import vae_names

_spec = importlib.util.spec_from_file_location(
    "flow_pipelines", Path(__file__).parent / "flow_pipelines.py"
)
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)
_spec = importlib.util.spec_from_file_location("denoisers", Path(__file__).parent / "denoisers.py")
assert _spec is not None and _spec.loader is not None
denoisers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(denoisers)
GOLDENS = json.loads(table.GOLDENS.read_text(encoding="utf-8"))


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


def folder_of(name: str, place: Path) -> Path:
    shapes = json.loads(unpacked(GOLDENS[name]["shapes"]))
    for part in ("transformer", "vae"):
        config = table.ROWS[name][part]
        state = part_class(config["_class_name"], part)(config).state_dict()
        shapes[part] = {n: list(t.shape) for n, t in state.items()}
    folder: Path = table.write_pipeline(place, name, shapes)
    return folder


def picture(name: str, place: Path, device: str, references: bool = False) -> Any:
    model = load_pipeline(folder_of(name, place), device)
    if isinstance(model, Flux2Klein):
        model.layers = table.LAYERS
    if isinstance(model, QwenImageEditPlus):
        model.read_area = model.drawn_area = table.AREA
    options = table.ROWS[name]["options"]
    negative = options.get("negative_prompt")
    request = Request(
        [table.PROMPT],
        None if negative is None else [negative],
        table.SIDE,
        table.SIDE,
        options["num_inference_steps"],
        options.get("guidance_scale", 3.5),
        0,
        max_sequence_length=options.get("max_sequence_length"),
        latents=table.latents(name),
        references=[model.reference(r) for r in table.references()] if references else [],
    )
    run = sample(model, request)
    reply = None
    while True:
        try:
            asked = run.send(reply)
        except StopIteration as stop:
            return stop.value[0]
        reply = asked.wait() if isinstance(asked, Readback) else None


def far(drawn: Any, name: str, key: str = "picture") -> int:
    wanted = np.frombuffer(unpacked(GOLDENS[name][key]), np.uint8)
    wanted = wanted.reshape(table.SIDE // 2, table.SIDE, 3).astype(int)
    return int(np.abs(drawn[::2].astype(int) - wanted).max())


@pytest.mark.parametrize("name", [name for name in table.ROWS if "picture" in GOLDENS[name]])
def test_pictures_are_those_of_diffusers(name: str, tmp_path: Path) -> None:
    assert far(picture(name, tmp_path, "cpu"), name) <= 2


@pytest.mark.parametrize("name", table.EDITING)
def test_pictures_after_others_are_those_of_diffusers(name: str, tmp_path: Path) -> None:
    edited = picture(name, tmp_path, "cpu", references=True)
    assert far(edited, name, "edited") <= 2
    if name != "flux2-klein":
        return
    assert far(edited, name) > 2, "it does something"
    model = load_pipeline(tmp_path)
    pipe = rl.pipeline("text-to-image", model, steps=1)
    with pytest.raises(ValueError, match="a picture has 32 x 32 pixels; each side must be at"):
        pipe("a candle", reference_images=table.tiny.picture())
    with pytest.raises(ValueError, match="9 pictures; a Flux2KleinPipeline looks at 4"):
        pipe("a candle", reference_images=[table.references()[0]] * 9)


def by_authors_names(row: str) -> dict[str, Any]:
    """The tensors of a denoiser under its authors' names."""
    told = json.loads(open_tables(denoisers.GOLDENS)[0][1].metadata["names"])[f"original:{row}"]
    names = json.loads(unpacked(told))
    return {n: rl.tensor(denoisers.values_of(n, tuple(size))) for n, size in names.items()}


def test_a_gguf_file_draws_with_the_parts_beside_it(tmp_path: Path) -> None:
    folder = folder_of("flux-dev", tmp_path / "parts")
    (folder / "model_index.json").unlink()
    tensors = by_authors_names("flux")
    file = folder / "flux1-dev-F32.gguf"
    rl.save_gguf(tensors, file, metadata={"general.architecture": "flux"})
    model = rl.models.load(file, dtype="q8_0")
    options: dict[str, Any] = {"num_inference_steps": 1, "seed": 1, "size": "32"}
    drawn = rl.pipeline("text-to-image", model)("a candle", max_sequence_length=12, **options)
    assert drawn.image.shape == (32, 32, 3) and drawn.image.std() > 1
    weights = model.parts.get("transformer").state_dict()
    assert weights["transformer_blocks.0.attn.to_q.weight"].is_quantized
    shutil.rmtree(folder / "vae")
    with pytest.raises(LoadError, match="the part vae is missing"):
        rl.models.load(file)


def test_encoders_and_the_autoencoder_within_a_file_are_read(tmp_path: Path) -> None:
    row, shapes = table.ROWS["sd3"], json.loads(unpacked(GOLDENS["sd3"]["shapes"]))
    table.write_tokenizers(tmp_path, "sd3")
    tensors = {f"model.diffusion_model.{n}": t for n, t in by_authors_names("sd3").items()}
    for part, base in (("", "clip_l"), ("_2", "clip_g"), ("_3", "t5xxl")):
        for name, size in shapes[f"text_encoder{part}"].items():
            values = rl.tensor(table.tiny.weight(name, tuple(size)))
            tensors[f"text_encoders.{base}.transformer.{name}"] = values
    wide = {**row["vae"], "norm_num_groups": 32}
    wide["block_out_channels"] = [32 for _ in row["vae"]["block_out_channels"]]
    vae = part_class("AutoencoderKL", "vae")(wide)
    for name, theirs in vae_names(vae.state_dict(), wide).items():
        values = rl.tensor(table.tiny.weight(name, tuple(vae.state_dict()[name].shape)))
        flat = ".attentions." in name and values.ndim == 2
        tensors[f"first_stage_model.{theirs}"] = values[:, :, None, None] if flat else values
    rl.save(tensors, tmp_path / "sd3.safetensors")
    model = rl.models.load(tmp_path / "sd3.safetensors")
    assert model.config.model_type == "StableDiffusion3Pipeline"
    options: dict[str, Any] = {"num_inference_steps": 1, "seed": 1, "size": "32"}
    drawn = rl.pipeline("text-to-image", model)("a candle", max_sequence_length=12, **options)
    assert drawn.image.shape == (32, 32, 3) and drawn.image.std() > 1
    config = model.parts.config("vae")
    assert (config["scaling_factor"], config["shift_factor"]) == (1.5305, 0.0609)
    for name, stored in model.parts.get("vae").state_dict().items():
        wanted = table.tiny.weight(name, tuple(stored.shape))
        np.testing.assert_array_equal(stored.numpy(), wanted)

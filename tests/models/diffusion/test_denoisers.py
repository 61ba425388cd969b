"""Diffusion's transformers: diffusers' results, names of parameters, inputs that do not fit."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import FormatError, LoadError
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.diffusion.single_file.denoiser_file import DenoiserFile, of_one_dtype
from rushlight.models.diffusion.transformers import originals

_spec = importlib.util.spec_from_file_location("denoisers", Path(__file__).parent / "denoisers.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)
MODULES = {
    "FluxTransformer2DModel": "flux",
    "Flux2Transformer2DModel": "flux2",
    "ZImageTransformer2DModel": "z_image",
    "SD3Transformer2DModel": "sd3",
    "PixArtTransformer2DModel": "pixart",
    "SanaTransformer2DModel": "sana",
    "QwenImageTransformer2DModel": "qwen_image",
    "WuerstchenPrior": "wuerstchen",
    "WuerstchenDiffNeXt": "wuerstchen",
}


_VAE = "rushlight.models.diffusion.vae."
VAES = {
    "AutoencoderDC": f"{_VAE}dc",
    "AutoencoderKLQwenImage": f"{_VAE}qwen_image",
    "PaellaVQModel": f"{_VAE}paella",
}
_KINDS = [row.kind for row in table.ROWS.values()]
FIRST = [name for i, name in enumerate(table.ROWS) if _KINDS.index(_KINDS[i]) == i]


def denoiser(kind: str, config: dict[str, Any]) -> Any:
    module = importlib.import_module(f"rushlight.models.diffusion.transformers.{MODULES[kind]}")
    return getattr(module, kind)(config)


def loaded(row: str, device: str) -> Any:
    kind, config, _ = table.ROWS[row]
    return filled(denoiser(kind, config), device)


def filled(model: Any, device: str) -> Any:
    """A model with the parameters of its names."""
    state = model.state_dict()
    values = {n: rl.tensor(table.values_of(n, tuple(t.shape))) for n, t in state.items()}
    model.load_state_dict({n: t.to(device) for n, t in values.items()}, assign=True)
    return model.eval()


def arguments(model: Any, row: str, device: str) -> dict[str, Any]:
    """The inputs of a row as tensors, with places as angles."""

    def as_tensor(value: Any) -> Any:
        if isinstance(value, list) and isinstance(value[0], np.ndarray):
            return [as_tensor(each) for each in value]
        return rl.tensor(value, device=device) if isinstance(value, np.ndarray) else value

    inputs = table.drawn(row)
    if "img_ids" in inputs:
        places = np.concatenate([inputs.pop("txt_ids"), inputs.pop("img_ids")])
        inputs["image_rotary_emb"] = model.angles(places)
    if "img_shapes" in inputs:
        pictures = inputs.pop("img_shapes")[0]
        words = inputs["encoder_hidden_states"].shape[1]
        inputs["image_rotary_emb"] = model.angles(words, pictures)
        inputs["later"] = model.later(pictures)
    return {name: as_tensor(value) for name, value in inputs.items()}


def check(row: str, device: str, close: float) -> None:
    model = loaded(row, device)
    with rl.no_grad():
        out = model(**arguments(model, row, device)).numpy()
    wanted = load_safetensors(table.GOLDENS)[row].numpy()
    assert out.shape == wanted.shape
    np.testing.assert_allclose(out, wanted, rtol=0, atol=close * float(np.abs(wanted).max()))


@pytest.mark.parametrize("name", table.ROWS)
def test_results_are_those_of_diffusers(name: str) -> None:
    check(name, "cpu", 1e-4)


@pytest.mark.parametrize("name", FIRST)
def test_a_row_of_each_class_on_every_device(name: str, device: str) -> None:
    check(name, device, 1e-3)


@pytest.mark.parametrize("name", table.ROWS)
def test_parameters_have_the_names_of_diffusers(name: str) -> None:
    kind, config, _ = table.ROWS[name]
    state = denoiser(kind, config).state_dict()
    numbers = json.loads(open_tables(table.GOLDENS)[0][1].metadata["names"])
    assert table.names_number({n: tuple(t.shape) for n, t in state.items()}) == numbers[name]


def autoencoder(name: str, device: str = "cpu") -> Any:
    kind, config, _ = table.VAES[name]
    return filled(getattr(importlib.import_module(VAES[kind]), kind)(config), device)


@pytest.mark.parametrize("name", table.VAES)
def test_autoencoders_give_what_those_of_diffusers_give(name: str, device: str) -> None:
    model, inputs = autoencoder(name, device), table.drawn(name)
    with rl.no_grad():
        mean, deviation = model.encode_mean(rl.tensor(inputs["pixels"], device=device))
        pixels = model.decode(rl.tensor(inputs["latents"], device=device))
    goldens = load_safetensors(table.GOLDENS)
    results = {"mean": mean, "pixels": pixels} | ({} if deviation is None else {"std": deviation})
    for key, result in results.items():
        wanted = goldens[f"vae:{name}:{key}"].numpy()
        close = 1e-4 if device == "cpu" else 1e-3
        atol = close * float(np.abs(wanted).max())
        np.testing.assert_allclose(result.numpy(), wanted, rtol=0, atol=atol, err_msg=key)
    numbers = json.loads(open_tables(table.GOLDENS)[0][1].metadata["names"])
    shapes = {n: tuple(t.shape) for n, t in model.state_dict().items()}
    assert table.names_number(shapes) == numbers[f"vae:{name}"]


def by_authors_names(name: str) -> dict[str, Any]:
    told = json.loads(open_tables(table.GOLDENS)[0][1].metadata["names"])[f"original:{name}"]
    names = json.loads(zlib.decompress(base64.b85decode(told)))
    return {n: rl.tensor(table.values_of(n, tuple(size))) for n, size in names.items()}


@pytest.mark.parametrize("name", table.ORIGINALS)
def test_authors_names_give_what_diffusers_makes_of_them(name: str) -> None:
    row = table.ORIGINALS[name]
    tensors = {f"model.diffusion_model.{n}": t for n, t in by_authors_names(name).items()}
    tensors["first_stage_model.decoder.conv_in.bias"] = rl.zeros(3)
    layout = originals.layout_of(tensors)
    assert layout is not None and layout.kind == row.kind
    config = layout.config_of(tensors)
    told = {key: row.config.get(key, value) for key, value in config.items()}
    assert config == {key: told[key] for key in config}
    model = denoiser(row.kind, config)
    model.load_state_dict(layout.renamed(tensors), assign=True)
    with rl.no_grad():
        out = model(**arguments(model, f"original:{name}", "cpu")).numpy()
    wanted = load_safetensors(table.GOLDENS)[f"original:{name}"].numpy()
    np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-4 * float(np.abs(wanted).max()))


def in_blocks(values: Any) -> Any:
    """A matrix as q8_0, if its rows divide into blocks."""
    if values.ndim != 2 or values.shape[1] % 32:
        return values
    layer = rl.nn.Linear(values.shape[1], values.shape[0], bias=False)
    layer.load_state_dict({"weight": values})
    layer.quantize_("q8_0")
    return layer.weight.detach()


def test_a_gguf_file_of_a_denoiser_keeps_its_blocks(tmp_path: Path) -> None:
    tensors = {n: in_blocks(t) for n, t in by_authors_names("flux").items()}
    first = "img_in.weight"
    tensors[first] = tensors[first].to(rl.bfloat16)
    rl.save_gguf(tensors, tmp_path / "flux.gguf", metadata={"general.architecture": "flux"})
    source = DenoiserFile(tmp_path / "flux.gguf")
    assert source.index["_class_name"] == "FluxPipeline"
    config = json.loads(source.files("transformer")["config.json"])
    stored = source.tensors("transformer")
    assert stored["single_transformer_blocks.0.proj_mlp.weight"].is_quantized
    assert stored["x_embedder.weight"].dtype is rl.float32
    plain = {n: t.dequantize() if t.is_quantized else t for n, t in stored.items()}
    results = []
    for state in (stored, plain):
        model = denoiser("FluxTransformer2DModel", config)
        model.load_state_dict(state, assign=True)
        with rl.no_grad():
            results.append(model(**arguments(model, "original:flux", "cpu")).numpy())
    close = 1e-4 * float(np.abs(results[1]).max())
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=close)
    wanted = load_safetensors(table.GOLDENS)["original:flux"].numpy()
    assert np.abs(results[0] - wanted).max() < 0.05 * np.abs(wanted).max()
    with pytest.raises(LoadError, match="the part vae is missing"):
        source.files("vae")


def test_configurations_are_read_or_refused_by_name() -> None:
    config = table.ROWS["pixart-sigma"].config
    assert denoiser("PixArtTransformer2DModel", config | table.OLDER_PIXART).outputs == 8
    for kind, key, value in (
        ("PixArtTransformer2DModel", "norm_type", "ada_norm_zero"),
        ("FluxTransformer2DModel", "axes_dims_rope", [4, 4, 4]),
        ("ZImageTransformer2DModel", "siglip_feat_dim", 8),
        ("SD3Transformer2DModel", "caption_projection_dim", 7),
        ("SanaTransformer2DModel", "qk_norm", "layer_norm"),
    ):
        config = next(row.config for row in table.ROWS.values() if row.kind == kind)
        with pytest.raises(FormatError, match=key):
            denoiser(kind, config | {key: value})


def test_inputs_that_do_not_fit_are_refused_by_name() -> None:
    for row, name, value, words in (
        ("sd3", "hidden_states", rl.zeros(2, 4, 7, 6), "multiples of 2"),
        ("sd3", "hidden_states", rl.zeros(2, 4, 16, 6), "pos_embed_max_size"),
        ("flux-dev", "guidance", None, "guidance="),
        ("z-image", "hidden_states", rl.zeros(2, 3, 4, 6), "latents are"),
        ("sana-sprint", "guidance", None, "guidance="),
    ):
        model = loaded(row, "cpu")
        given = arguments(model, row, "cpu") | {name: value}
        with pytest.raises(ValueError, match=words), rl.no_grad():
            model(**given)


def test_floats_of_a_file_have_one_dtype() -> None:
    ones = rl.ones(4)
    for kinds, wanted in (
        ((rl.float32, rl.float16), rl.float16),
        ((rl.float32, rl.float8_e4m3fn), rl.bfloat16),
        ((rl.float32, rl.float32), rl.float32),
    ):
        mixed = {"small": ones.to(kinds[0]), "large": ones.repeat(3).to(kinds[1])}
        assert {t.dtype for t in of_one_dtype(mixed).values()} == {wanted}

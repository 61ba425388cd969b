"""Make the goldens of diffusion's transformers with diffusers.

    python tests/parity/make_denoiser_goldens.py

Needs diffusers, torch and safetensors. Writes tests/models/data/diffusion/denoisers.safetensors:
what every row of tests/models/diffusion/denoisers.py gives, and in the metadata a number of its
parameters' names and shapes.
"""

from __future__ import annotations

import base64
import importlib.util
import inspect
import json
import zlib
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from diffusers.loaders import single_file_utils
from diffusers.pipelines.deprecated.wuerstchen import modeling_paella_vq_model as paella
from diffusers.pipelines.deprecated.wuerstchen import modeling_wuerstchen_diffnext as diffnext
from diffusers.pipelines.deprecated.wuerstchen import modeling_wuerstchen_prior as prior
from safetensors.numpy import save_file

from rushlight.models.diffusion.transformers import originals

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location(
    "denoisers", HERE.parent / "models" / "diffusion" / "denoisers.py"
)
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)


def class_of(kind: str) -> Any:
    """A class of diffusers, Würstchen's among its older ones."""
    for module in (diffusers, diffnext, paella, prior):
        if hasattr(module, kind):
            return getattr(module, kind)
    raise LookupError(kind)


def filled(kind: str, config: dict[str, Any]) -> Any:
    """A model of diffusers with the parameters of its names."""
    model = class_of(kind)(**config).eval()
    state = model.state_dict()
    values = {n: torch.from_numpy(table.values_of(n, tuple(t.shape))) for n, t in state.items()}
    model.load_state_dict(values)
    return model


def result_of(model: Any, kind: str, inputs: dict[str, Any]) -> Any:
    """What the model gives for inputs by our names."""

    def as_tensor(value: Any) -> Any:
        if isinstance(value, list):
            return [as_tensor(each) for each in value]
        return torch.from_numpy(value) if isinstance(value, np.ndarray) else value

    given = {name: as_tensor(value) for name, value in inputs.items()}
    if kind == "ZImageTransformer2DModel":
        images = list(given["hidden_states"].unsqueeze(2).unbind(0))
        out = model(images, given["timestep"], given["encoder_hidden_states"], return_dict=False)[0]
        return torch.stack(out).squeeze(2)
    if kind == "WuerstchenPrior":
        return model(given["hidden_states"], given["timestep"], given["encoder_hidden_states"])
    if kind == "WuerstchenDiffNeXt":
        names = ("hidden_states", "timestep", "effnet", "encoder_hidden_states")
        return model(*(given[name] for name in names))
    if "resolution" in given:
        told = ("resolution", "aspect_ratio")
        given["added_cond_kwargs"] = {name: given.pop(name) for name in told}
    return model(**given, return_dict=False)[0]


def coded(model: Any, name: str) -> dict[str, Any]:
    """Means and deviations of latents, and pixels, of an autoencoder's inputs."""
    inputs = {key: torch.from_numpy(value) for key, value in table.drawn(name).items()}
    if name == "qwen-vae":
        inputs = {key: value.unsqueeze(2) for key, value in inputs.items()}
    with torch.no_grad():
        encoded = model.encode(inputs["pixels"])
        pixels = model.decode(inputs["latents"], return_dict=False)[0]
    results = {"pixels": pixels}
    if "latent" in encoded or "latents" in encoded:
        results["mean"] = next(iter(encoded.values()))
    else:
        results |= {"mean": encoded.latent_dist.mean, "std": encoded.latent_dist.std}
    if name == "qwen-vae":
        results = {key: value.squeeze(2) for key, value in results.items()}
    return {key: np.ascontiguousarray(value.numpy()) for key, value in results.items()}


_CONVERT = "convert_{}_transformer_checkpoint_to_diffusers"
CONVERTERS = {
    "FluxTransformer2DModel": getattr(single_file_utils, _CONVERT.format("flux")),
    "Flux2Transformer2DModel": getattr(single_file_utils, _CONVERT.format("flux2")),
    "SD3Transformer2DModel": getattr(single_file_utils, _CONVERT.format("sd3")),
    "ZImageTransformer2DModel": getattr(single_file_utils, _CONVERT.format("z_image")),
    "SanaTransformer2DModel": single_file_utils.convert_sana_transformer_to_diffusers,
}


def converter(kind: str, width: int) -> Any:
    """diffusers' function for a class; that of FLUX knows one width, which is made ours."""
    convert = CONVERTERS[kind]
    if kind != "FluxTransformer2DModel":
        return convert
    source = inspect.getsource(convert).replace("3072", str(width))
    names: dict[str, Any] = dict(vars(single_file_utils))
    exec(source, names)  # noqa: S102
    return names[convert.__name__]


def packed(names: dict[str, list[int]]) -> str:
    return base64.b85encode(zlib.compress(json.dumps(names).encode(), 9)).decode()


def original(name: str, row: Any) -> tuple[Any, dict[str, list[int]]]:
    """What a model gives whose parameters diffusers renames, and the authors' names of these.

    The names are the layout's, backwards; diffusers' converter knows no others.
    """
    layout = next(each for each in originals.LAYOUTS if each.kind == row.kind)
    model = getattr(diffusers, row.kind)(**row.config).eval()
    sizes = {n: list(t.shape) for n, t in model.state_dict().items()}
    names = theirs(layout, sizes)
    values = {n: torch.from_numpy(table.values_of(n, tuple(s))) for n, s in names.items()}
    if row.kind == "PixArtTransformer2DModel":  # diffusers has no converter
        names["pos_embed"] = [1, (row.config["sample_size"] // 2) ** 2, 1]
        state = originals.PIXART.renamed(values)
    else:
        convert = converter(row.kind, sizes.get("x_embedder.weight", [0])[0])
        unread = dict.fromkeys(originals.SANA.unread, torch.zeros(1))
        state = convert(values | (unread if row.kind == "SanaTransformer2DModel" else {}))
    model.load_state_dict(state)
    with torch.no_grad():
        out = result_of(model, row.kind, table.drawn(name))
    return np.ascontiguousarray(out.numpy()), names


def theirs(layout: Any, sizes: dict[str, list[int]]) -> dict[str, list[int]]:
    """The authors' names and shapes of parameters that diffusers has with these."""
    back = {ours: name for name, ours in layout.names.items()}
    joined = {ours: name for name, parts in layout.rows.items() for ours in parts}
    vectors = {ours: name for name, ours in layout.vectors.items()}
    names: dict[str, list[int]] = {}
    for name, size in sizes.items():
        if name in vectors:
            names[vectors[name]] = size
            continue
        path, _, kind = name.rpartition(".")
        number = next((part for part in path.split(".") if part.isdigit()), "")
        starred = f"{path}.".replace(f".{number}.", ".*.", 1)[:-1] if number else path
        if starred in joined:
            place = f"{joined[starred].replace('*', number)}.{kind}"
            rows = names.get(place, [0])[0] + size[0]
            names[place] = [rows, *size[1:]]
            continue
        place = back.get(starred, back.get(path, path)).replace("*", number)
        scaled = layout.kind.startswith("Flux") and "norm.query_norm" in place
        scaled = scaled or (layout.kind.startswith("Flux") and "norm.key_norm" in place)
        names[f"{place}.{'scale' if scaled else kind}"] = size
    return names


def main() -> None:
    results, numbers = {}, {}
    for name, row in table.ROWS.items():
        model = filled(row.kind, row.config)
        shapes = {n: tuple(t.shape) for n, t in model.state_dict().items()}
        numbers[name] = table.names_number(shapes)
        with torch.no_grad():
            out = result_of(model, row.kind, table.drawn(name))
        results[name] = np.ascontiguousarray(out.numpy())
        print(name, results[name].shape, float(np.abs(results[name]).max()))
    for name, row in table.VAES.items():
        model = filled(row.kind, row.config)
        shapes = {n: tuple(t.shape) for n, t in model.state_dict().items()}
        numbers[f"vae:{name}"] = table.names_number(
            {n: s for n, s in shapes.items() if ".time_conv." not in n}
        )
        results |= {f"vae:{name}:{key}": value for key, value in coded(model, name).items()}
    for name, row in table.ORIGINALS.items():
        results[f"original:{name}"], names = original(f"original:{name}", row)
        numbers[f"original:{name}"] = packed(names)
    table.GOLDENS.parent.mkdir(parents=True, exist_ok=True)
    save_file(results, table.GOLDENS, metadata={"names": json.dumps(numbers)})
    print(table.GOLDENS.stat().st_size, "bytes")


if __name__ == "__main__":
    main()

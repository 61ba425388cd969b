"""Make the goldens of diffusion's transformers with diffusers.

    python tests/parity/make_denoiser_goldens.py

Needs diffusers, torch and safetensors. Writes tests/models/data/diffusion/denoisers.safetensors:
what every row of tests/models/diffusion/denoisers.py gives, and in the metadata a number of its
parameters' names and shapes.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from safetensors.numpy import save_file

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location(
    "denoisers", HERE.parent / "models" / "diffusion" / "denoisers.py"
)
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)


def filled(kind: str, config: dict[str, Any]) -> Any:
    """A model of diffusers with the parameters of its names."""
    model = getattr(diffusers, kind)(**config).eval()
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
    if "resolution" in given:
        names = ("resolution", "aspect_ratio")
        given["added_cond_kwargs"] = {name: given.pop(name) for name in names}
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
    if "latent" in encoded:
        results["mean"] = encoded.latent
    else:
        results |= {"mean": encoded.latent_dist.mean, "std": encoded.latent_dist.std}
    if name == "qwen-vae":
        results = {key: value.squeeze(2) for key, value in results.items()}
    return {key: np.ascontiguousarray(value.numpy()) for key, value in results.items()}


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
    table.GOLDENS.parent.mkdir(parents=True, exist_ok=True)
    save_file(results, table.GOLDENS, metadata={"names": json.dumps(numbers)})
    print(table.GOLDENS.stat().st_size, "bytes")


if __name__ == "__main__":
    main()

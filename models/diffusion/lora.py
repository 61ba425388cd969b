"""LoRA (Hu et al., 2021) of diffusers and of kohya, merged into weights as these are loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.basis.dtype import float32
from rushlight.core.basis.encoding import encode
from rushlight.core.basis.errors import LoadError
from rushlight.core.io import load_weights, read_tables
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.single_file.names import unet_names

if TYPE_CHECKING:
    from rushlight.models.diffusion.model import DiffusionModel

_ROLES = {
    ".lora_A.weight": "down",
    ".lora_B.weight": "up",
    ".lora_down.weight": "down",
    ".lora_up.weight": "up",
    ".lora.down.weight": "down",
    ".lora.up.weight": "up",
    "_lora.down.weight": "down",
    "_lora.up.weight": "up",
    ".lora_A.default.weight": "down",
    ".lora_B.default.weight": "up",
    ".alpha": "alpha",
}
_KOHYA = {
    "lora_unet_": "unet",
    "lora_transformer_": "transformer",
    "lora_te_": "text_encoder",
    "lora_te1_": "text_encoder",
    "lora_te2_": "text_encoder_2",
}


@dataclass
class LoraReport:
    """What of a file's keys was found in the model: how many, and the names that were not."""

    matched: int
    unmatched: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        total = self.matched + len(self.unmatched)
        return f"{self.matched} of {total} keys matched"


@dataclass
class Lora:
    """A LoRA: for each part and weight the two matrices and their factor, times `scale`."""

    scale: float
    parts: dict[str, dict[str, tuple[Tensor, Tensor, float]]]
    report: LoraReport


def read_lora(model: Any, file: str | Path, scale: float, strict: bool) -> Lora:
    """The LoRA of a file, matched with the weights of a pipeline's parts.

    strict: LoadError, with names, for keys that match none. LoadError where none match.
    """
    place = Path(file)
    if not place.exists():
        raise FileNotFoundError(f"{file}: no such file of a LoRA")
    tensors, _ = load_weights(place)
    alphas = _configured_alphas(place)
    weights = {part: _Names(model, part) for part in _parts_of(model)}
    roles: dict[tuple[str, str], dict[str, Tensor]] = {}
    keys: dict[tuple[str, str], list[str]] = {}
    unmatched: list[str] = []
    for key, value in tensors.items():
        ending = next((end for end in _ROLES if key.endswith(end)), "")
        target = _target(key.removesuffix(ending), weights) if ending else None
        if target is None:
            unmatched.append(key)
            continue
        roles.setdefault(target, {})[_ROLES[ending]] = value
        keys.setdefault(target, []).append(key)
    parts: dict[str, dict[str, tuple[Tensor, Tensor, float]]] = {}
    matched = 0
    for (part, name), matrices in roles.items():
        shape = weights[part].shapes[name]
        if not {"down", "up"} <= set(matrices) or not _fits(
            matrices["up"], matrices["down"], shape
        ):
            unmatched += keys[part, name]
            continue
        rank = int(matrices["down"].shape[0])
        alpha = matrices.get("alpha")
        factor = alphas.get(part, 1.0) if alpha is None else float(alpha.float().item()) / rank
        parts.setdefault(part, {})[name] = matrices["up"], matrices["down"], factor
        matched += len(keys[part, name])
    if not matched or (strict and unmatched):
        some = ", ".join(sorted(unmatched)[:3])
        raise LoadError(
            f"{file}: {len(unmatched)} of {len(tensors)} keys match no weight of the "
            f"{model.config.model_type}: {some}",
            hint="the LoRA is of another kind of model; strict=False leaves them out",
        )
    return Lora(scale, parts, LoraReport(matched, sorted(unmatched)))


def _parts_of(model: DiffusionModel) -> list[str]:
    names = (model.denoiser, "text_encoder", "text_encoder_2", "text_encoder_3")
    return [name for name in names if model.parts.has(name)]


class _Names:
    """The weights of a part by the names that LoRAs have for them."""

    def __init__(self, model: DiffusionModel, part: str) -> None:
        tensors = model.parts.source.tensors(part)
        self.shapes = {n: tuple(t.shape) for n, t in tensors.items() if n.endswith(".weight")}
        self.paths: dict[str, str] = {}
        others: Mapping[str, str] = {}
        if part == "unet":
            others = unet_names(self.shapes, _listed(model.parts.config(part)))
        for name in self.shapes:
            path = name.removesuffix(".weight")
            spellings = [path, f"text_model.{path}", path.removeprefix("text_model.")]
            if name in others:
                spellings.append(others[name].removesuffix(".weight"))
            for spelling in spellings:
                self.paths.setdefault(spelling, name)
                self.paths.setdefault(spelling.replace(".", "_"), name)

    def find(self, path: str) -> str | None:
        """The weight of a path; attention's older paths have no number at the end."""
        path = path.replace(".processor.", ".")
        for spelling in (path, f"{path}.0", f"{path}_0"):
            if spelling in self.paths:
                return self.paths[spelling]
        return None


def _listed(config: Mapping[str, Any]) -> dict[str, Any]:
    layers = config.get("layers_per_block", 2)
    return {
        "layers_per_block": layers if isinstance(layers, int) else layers[0],
        "block_out_channels": config.get("block_out_channels", (320, 640, 1280, 1280)),
        "up_block_types": config.get("up_block_types", ("UpBlock2D",) + ("CrossAttn",) * 3),
    }


def _target(base: str, weights: Mapping[str, _Names]) -> tuple[str, str] | None:
    """The part and the weight of a key without its ending."""
    for prefix, part in _KOHYA.items():
        if base.startswith(prefix):
            named = part if part in weights else _only_denoiser(part, weights)
            path_in_part = weights[named].find(base[len(prefix) :]) if named else None
            return (named, path_in_part) if named and path_in_part else None
    base = re.sub(r"^(base_model\.model\.|diffusion_model\.)", "", base)
    part, _, path = base.partition(".")
    if part not in weights:
        part, path = next(iter(weights)), base  # of the denoiser alone
    path_in_part = weights[part].find(path)
    return (part, path_in_part) if path_in_part else None


def _only_denoiser(part: str, weights: Mapping[str, _Names]) -> str:
    """kohya calls every denoiser a UNet."""
    return next(iter(weights)) if part == "unet" else ""


def _fits(up: Tensor, down: Tensor, shape: tuple[int, ...]) -> bool:
    inner = 1
    for size in shape[1:]:
        inner *= size
    rank = down.shape[0]
    return bool(up.shape[0] == shape[0] and up.numel() == shape[0] * rank) and (
        down.numel() == rank * inner
    )


def _configured_alphas(place: Path) -> dict[str, float]:
    """The factors alpha / rank by part, where the file's metadata say them, as diffusers does."""
    try:
        [(_, _, metadata)] = read_tables(place)
        adapter_config = json.loads(metadata["lora_adapter_metadata"])
    except (KeyError, ValueError, TypeError):
        return {}
    factors = {}
    for key, rank in adapter_config.items():
        part, _, name = key.rpartition(".")
        alpha = adapter_config.get(f"{part}.lora_alpha")
        if name == "r" and isinstance(rank, int) and rank and isinstance(alpha, int | float):
            factors[part] = alpha / rank
    return factors


def merged(part: str, tensors: dict[str, Tensor], loras: Iterable[Lora]) -> dict[str, Tensor]:
    """The tensors of a part with the changes of LoRAs, in their order."""
    changed = dict(tensors)
    for lora in loras:
        for name, (up, down, factor) in lora.parts.get(part, {}).items():
            weight = changed[name]
            with no_grad():
                change = up.float().reshape(up.shape[0], -1) @ down.float().flatten(1)
                change = change.reshape(weight.shape) * (factor * lora.scale)
                patched = weight.to(dtype=float32) + change
                changed[name] = _like(patched, weight)
    return changed


def _like(values: Tensor, weight: Tensor) -> Tensor:
    """Values in the dtype of a weight, in blocks where that is."""
    if weight.dtype.kind != "q":
        return values.to(dtype=weight.dtype)
    rows = np.ascontiguousarray(values.numpy().reshape(-1, weight.shape[-1]))
    blocks = np.ascontiguousarray(encode(weight.dtype, rows)).reshape(-1)
    return Tensor.from_buffer(blocks, weight.dtype, tuple(weight.shape))

"""Kokoro (hexgrad, 2025): StyleTTS 2 (Li et al., 2023) without diffusion, with iSTFTNet."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import at_least_one, parse_object, read_config
from rushlight.models.families.encoder import albert
from rushlight.models.families.family import Family
from rushlight.models.layers.speech.kokoro import KokoroModel
from rushlight.models.speech.speaking.speakers import numbers_of


@dataclass
class Config:
    """The keys of config.json, whose defaults are those of Kokoro-82M."""

    # Of training, and what the network is not made of.
    neutral = dict.fromkeys(("dropout", "dim_in", "max_conv_dim", "multispeaker", "n_mels"), ())
    own = ("decoder_width", "decoder_beside")

    hidden_dim: int = 512
    n_layer: int = 3
    n_token: int = 178
    max_dur: int = 50
    style_dim: int = 128
    text_encoder_kernel_size: int = 5
    plbert: dict[str, Any] = field(default_factory=dict)
    istftnet: dict[str, Any] = field(default_factory=dict)
    vocab: dict[str, Any] = field(default_factory=dict)
    decoder_width: int = 1024  # which the published code says, not config.json
    decoder_beside: int = 64  # channels of phonemes beside those
    model_type: str = "kokoro"


@dataclass
class Generator:
    """The keys of config.json's istftnet."""

    upsample_rates: list[Any] = field(default_factory=lambda: [10, 6])
    upsample_kernel_sizes: list[Any] = field(default_factory=lambda: [20, 12])
    gen_istft_hop_size: int = 5
    gen_istft_n_fft: int = 20
    resblock_dilation_sizes: list[Any] = field(default_factory=lambda: [[1, 3, 5]] * 3)
    resblock_kernel_sizes: list[Any] = field(default_factory=lambda: [3, 7, 11])
    upsample_initial_channel: int = 512
    model_type: str = "kokoro"


def build(config: dict[str, Any], names: Collection[str]) -> KokoroModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config)
    spec = read_config(Generator, {"model_type": "kokoro", **c.istftnet})
    at_least_one(c, *(name for name, kind in Config.__annotations__.items() if kind == "int"))
    at_least_one(spec, "gen_istft_hop_size", "gen_istft_n_fft", "upsample_initial_channel")
    _check(spec)
    if c.hidden_dim % 4 or c.text_encoder_kernel_size % 2 == 0:
        raise FormatError(
            f"config.json: hidden_dim {c.hidden_dim} must be a multiple of 4, and "
            f"text_encoder_kernel_size {c.text_encoder_kernel_size} odd"
        )
    inner = {"model_type": "albert", "vocab_size": c.n_token, **c.plbert}
    below = [n.removeprefix("bert.") for n in names if n.startswith("bert.")]
    return KokoroModel(c, spec, albert.FAMILY.build(inner, below), names)


def _check(spec: Generator) -> None:
    rows, kernels = spec.resblock_dilation_sizes, spec.resblock_kernel_sizes
    rates, taps = spec.upsample_rates, spec.upsample_kernel_sizes
    flat = [*rates, *taps, *kernels, *(d for row in rows if isinstance(row, list) for d in row)]
    fits = all(type(size) is int and 1 <= size < 1 << 12 for size in flat)
    fits = fits and len(rates) == len(taps) > 0 and len(rows) == len(kernels) > 0
    fits = fits and all(isinstance(row, list) and row for row in rows)
    fits = fits and all(k % 2 for k in kernels)
    # What follows is so for lengths to be those of the source's frames.
    fits = fits and all(k >= r and (k - r) % 2 == 0 for r, k in zip(rates, taps, strict=False))
    if not fits or spec.upsample_initial_channel < 2 ** len(rates):
        raise FormatError(
            f"config.json: istftnet's upsample_rates {brief(rates)} with kernels {brief(taps)}, "
            f"resblock kernels {brief(kernels)} with dilations {brief(rows)} and "
            f"{spec.upsample_initial_channel} channels do not fit together"
        )
    size, step = spec.gen_istft_n_fft, spec.gen_istft_hop_size
    if size % 2 or not 2 * step <= size:
        raise FormatError(
            f"config.json: gen_istft_n_fft {size} must be even, and at least twice "
            f"gen_istft_hop_size {step}"
        )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors without the wrapper of their parts, and with weights that have no norm."""
    renamed: dict[str, Tensor] = {}
    plain = {name.replace(".module.", ".", 1): t for name, t in tensors.items()}
    endings = (
        (".weight_v", ".weight_g"),
        (".parametrizations.weight.original1", ".parametrizations.weight.original0"),
    )
    for name, t in plain.items():
        for direction, length in endings:
            base = name.removesuffix(direction)
            if name.endswith(direction) and (scale := plain.get(base + length)) is not None:
                v = t.float()
                norm = (v * v).sum((1, 2), keepdim=True).sqrt()
                renamed[f"{base}.weight"] = (v * (scale.float() / norm)).to(t.dtype)
                break
        else:
            if not name.endswith(tuple(length for _, length in endings)):
                renamed[name] = t
    return renamed


def open_parts(place: Path | str) -> tuple[dict[str, bytes], dict[str, Tensor]] | None:
    """config.json and the tensors of a folder as hexgrad's: a .pth file, and voices/*.pt.

    None for another place. FormatError for voices of other shapes.
    """
    from rushlight.core.io import load
    from rushlight.core.tensor.tensor import from_numpy

    folder = Path(place)
    if isinstance(place, str) or not (folder / "config.json").is_file():
        return None
    config = parse_object("config.json", (folder / "config.json").read_bytes())
    weights = sorted(folder.glob("*.pth"))
    if "istftnet" not in config or "plbert" not in config or len(weights) != 1:
        return None
    tensors: dict[str, Tensor] = {}
    for module, inner in load(weights[0]).items():
        for name, t in inner.items() if isinstance(inner, dict) else ():
            tensors[f"{module}.{name.removeprefix('module.')}"] = t
    for voice in sorted((folder / "voices").glob("*.pt")):
        tensors[f"voices.{voice.stem}"] = from_numpy(numbers_of(voice, "voices"))
    files = {"config.json": json.dumps({"model_type": "kokoro", **config}).encode()}
    if (folder / "lexicon.txt").is_file():
        files["lexicon.txt"] = (folder / "lexicon.txt").read_bytes()
    return files, tensors


def _unused(name: str, config: dict[str, Any]) -> bool:
    """Numbers of positions, and the head of PL-BERT."""
    return name.startswith("bert.pooler.") or name.endswith("position_ids")


FAMILY = Family(
    model_types=("kokoro",),
    tasks=("text-to-speech",),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=_unused,
    suffixes=(".pth",),
    open_parts=open_parts,
)

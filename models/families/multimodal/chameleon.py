"""Chameleon (Meta, 2024): LLaMA over one vocabulary of words and of a picture's codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.padding import pad
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.image.preprocessor_config import KINDS, processor_of
from rushlight.models.image.tiles import WholeProcessor, whole_settings
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import each_attention, numbers_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight, blind

ARCHITECTURES = ("ChameleonForConditionalGeneration",)
_PLACE, _BEGIN, _END = "<image>", "<racm3:break>", "<eoss>"
_CODE = "IMGIMG"  # what names of codes begin with; letters stand for digits, the last ends them
_GROUPS, _EPS = 32, 1e-6
_LEAST = float(np.finfo(np.float32).min)


@dataclass
class Codes:
    """The keys of vq_config."""

    embed_dim: int = 256
    num_embeddings: int = 8192
    double_latent: bool = False
    latent_channels: int = 256
    resolution: int = 512
    in_channels: int = 3
    base_channels: int = 128
    channel_multiplier: Any = (1, 1, 2, 2, 4)
    num_res_blocks: int = 2
    attn_resolutions: Any = None
    attn_type: Any = "vanilla"
    model_type: str = "chameleon_vqgan"

    neutral = {"beta": ()}


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"model_parallel_size": (), "beta": ()}

    num_key_value_heads: int | None = 32
    max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-5
    swin_norm: bool = False
    vq_config: Any = None
    vocabulary_map: Any = None
    model_type: str = "chameleon"


class _Block(nn.Module):
    """Two convolutions, each after a norm, and what they are added to."""

    def __init__(self, inside: int, out: int) -> None:
        self.norm1, self.norm2 = (nn.GroupNorm(_GROUPS, n, _EPS) for n in (inside, out))
        self.conv1 = nn.Conv2d(inside, out, 3, padding=1)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        if inside != out:
            self.nin_shortcut = nn.Conv2d(inside, out, 1)
        self.changes = inside != out

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(_swish(self.norm1(x)))
        y = self.conv2(_swish(self.norm2(y)))
        out: Tensor = (self.nin_shortcut(x) if self.changes else x) + y
        return out


class _Attention(nn.Module):
    """All places of a map see each other, in one head."""

    def __init__(self, width: int) -> None:
        self.norm = nn.GroupNorm(_GROUPS, width, _EPS)
        for name in ("q", "k", "v", "proj_out"):
            put(self, name, nn.Conv2d(width, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        part: Any = self
        y = self.norm(x)
        q, k, v = (conv(y).flatten(2) for conv in (part.q, part.k, part.v))
        scores = (q.transpose(1, 2) @ k * x.shape[1] ** -0.5).softmax(2)
        seen = (v @ scores.transpose(1, 2)).reshape(*x.shape)
        out: Tensor = x + part.proj_out(seen)
        return out


def _swish(x: Tensor) -> Tensor:
    return x * x.sigmoid()


class _Encoder(nn.Module):
    """Pixels (n, channels, side, side) -> (n, latents, side', side')."""

    def __init__(self, c: Codes, factors: list[int], attended: list[int]) -> None:
        widths = [c.base_channels * factor for factor in factors]
        self.conv_in = nn.Conv2d(c.in_channels, c.base_channels, 3, padding=1)
        before, side = c.base_channels, c.resolution
        for i, width in enumerate(widths):
            plain = c.attn_type != "vanilla" or side not in attended
            for j in range(c.num_res_blocks):
                put(self, f"down.{i}.block.{j}", _Block(before, width))
                before = width
                if not plain:
                    put(self, f"down.{i}.attn.{j}", _Attention(width))
            if i < len(widths) - 1:
                put(self, f"down.{i}.downsample.conv", nn.Conv2d(width, width, 3, 2))
                side //= 2
        put(self, "mid.block_1", _Block(before, before))
        if c.attn_type == "vanilla":
            put(self, "mid.attn_1", _Attention(before))
        put(self, "mid.block_2", _Block(before, before))
        self.norm_out = nn.GroupNorm(_GROUPS, before, _EPS)
        latents = c.latent_channels * (2 if c.double_latent else 1)
        self.conv_out = nn.Conv2d(before, latents, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        part: Any = self
        x = self.conv_in(x)
        for stage in part.down.children():
            attends = list(stage.attn.children()) if hasattr(stage, "attn") else []
            for j, block in enumerate(stage.block.children()):
                x = block(x)
                x = attends[j](x) if attends else x
            if hasattr(stage, "downsample"):
                x = stage.downsample.conv(pad(x, (0, 1, 0, 1)))
        x = part.mid.block_1(x)
        x = part.mid.attn_1(x) if hasattr(part.mid, "attn_1") else x
        out: Tensor = self.conv_out(_swish(self.norm_out(part.mid.block_2(x))))
        return out


class _Coder(nn.Module):
    """Pixels (n, channels, side, side) -> the numbers (n * places,) of their codes."""

    def __init__(self, c: Codes, factors: list[int], attended: list[int]) -> None:
        put(self, "encoder", _Encoder(c, factors, attended))
        put(self, "quantize.embedding", nn.Embedding(c.num_embeddings, c.embed_dim))
        self.quant_conv = nn.Conv2d(c.latent_channels, c.embed_dim, 1)

    def forward(self, pixels: Tensor) -> Tensor:
        part: Any = self
        x = self.quant_conv(part.encoder(pixels))
        x = x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])
        table = part.quantize.embedding.weight
        # The nearest code: |x|^2 is the same for all.
        nearest: Tensor = ((table * table).sum(1) - 2 * (x @ table.t())).argmin(1)
        return nearest


class ChameleonDecoder(PictureDecoder):
    """A PictureDecoder that writes no codes of pictures."""

    codes: tuple[int, ...] = ()

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., width) -> (..., vocab), with the least number for a picture's codes.

        LoadError where the checkpoint has no head.
        """
        out = super().logits(hidden)
        if not self.codes:
            return out
        silent = np.zeros(out.shape[-1], np.bool_)
        silent[list(self.codes)] = True
        least = ops.full((), _LEAST, dtype=out.dtype, device=out.device)
        return ops.where(from_numpy(silent).to(out.device), least, out)


def _codes(config: Mapping[str, Any]) -> tuple[Codes, list[int], list[int]]:
    """vq_config, its factors of channels, and the sides at which places see each other."""
    values = config.get("vq_config") or {}
    if not isinstance(values, Mapping):
        raise FormatError(f"config.json: vq_config is {brief(values)}, no object")
    c: Codes = read_config(Codes, {**values, "model_type": Codes.model_type, "architectures": None})
    choose("vq_config: attn_type", c.attn_type, ("vanilla", None))
    factors = numbers_of("channel_multiplier", list(c.channel_multiplier))
    attended = numbers_of("attn_resolutions", list(c.attn_resolutions or []))
    sizes = (c.embed_dim, c.num_embeddings, c.latent_channels, c.resolution, c.in_channels,
             c.base_channels, *factors)  # fmt: skip
    good = all(1 <= n <= 1 << 18 for n in sizes) and 1 <= len(factors) <= 16
    if not good or not 1 <= c.num_res_blocks <= 64 or c.base_channels % _GROUPS:
        raise FormatError(
            f"config.json: vq_config: {len(factors)} stages of {c.num_res_blocks} blocks and "
            f"{c.base_channels} channels do not fit; channels are multiples of {_GROUPS}"
        )
    return c, factors, attended


def _tokens(value: Any, vocab: int, count: int) -> tuple[int, list[int]]:
    """The placeholder's token, and the token of each code, by a vocabulary_map."""
    bad = f"config.json: vocabulary_map is {brief(value)}; it must be tokens by their names"
    if not isinstance(value, Mapping) or type(value.get(_PLACE)) is not int:
        raise FormatError(f"{bad}, with {_PLACE}")
    tokens = [0] * count
    for name, token in value.items():
        if not isinstance(name, str) or not name.startswith(_CODE):
            continue
        digits = name[len(_CODE) : -1].translate({ord("A") + i: str(i) for i in range(10)})
        if not digits.isdecimal() or len(digits) > 9:
            raise FormatError(f"{bad}: {brief(name)}")
        if type(token) is not int or not 0 <= token < vocab or int(digits) >= count:
            raise FormatError(f"{bad}: {brief(name)} is {brief(token)}")
        tokens[int(digits)] = token
    return value[_PLACE], tokens


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""

    def normed(_: int, a: AttentionSpec) -> AttentionSpec:
        return replace(a, norm=NormSpec("layer", 1e-5), norm_over="biased")

    spec = each_attention(llama.describe(c), normed)
    if not c.swin_norm:
        return spec
    names = DecoderNames(
        before_attention=None, after_attention="input_layernorm", before_mlp=None,
        after_mlp="post_attention_layernorm",
    )  # fmt: skip
    return replace(spec, names=names)


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    spec = describe(c)
    vq, factors, attended = _codes(config)
    told = c.vocabulary_map
    if told is None or (names and not any(".vqmodel." in name for name in names)):
        return ChameleonDecoder(c, spec, blind())
    token, tokens = _tokens(told, c.vocab_size, vq.num_embeddings)

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base = model.model
        numbers = base.vqmodel(inputs["pixels"])
        table = from_numpy(np.array(tokens, np.int64)).to(numbers.device)
        rows: Tensor = base.embed_tokens(table.index_select(0, numbers))
        return rows

    def processor(files: Mapping[str, bytes], _: Any) -> WholeProcessor:
        side = vq.resolution // 2 ** (len(factors) - 1)
        count = whole_settings(files).whole("image_seq_length", side * side)
        return WholeProcessor(
            processor_of(files, KINDS["Chameleon"]), f"{_BEGIN}{_PLACE * count}{_END}"
        )

    parts = {"model.vqmodel": _Coder(vq, factors, attended)}
    model = ChameleonDecoder(c, spec, Sight(token, _PLACE, parts, look, processor))
    model.codes = tuple(sorted({t for name, t in told.items() if name.startswith(_CODE)}))
    return model


FAMILY = Family(
    model_types=("chameleon",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    unused=lambda name, config: ".post_quant_conv." in name,
)

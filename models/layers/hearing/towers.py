"""Towers of sounds in front of language models: Whisper's encoder and its kin, and Qwen3's.

Whisper's (Radford et al., 2022) reads a window of a fixed length, Qwen3-ASR's (Qwen, 2026) chunks
of a second, whose frames attend to each other within some seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.mlp import ACTIVATIONS, MLPNames, MLPSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import Rotary, RotarySpec
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext


def tower_spec(
    width: int,
    layers: int,
    heads: int,
    inner: int,
    act: str,
    rotary: RotarySpec | None = None,
    key_bias: bool = False,
) -> Seq2SeqSpec:
    """The description of an encoder's layers; with rotary positions of GLM-ASR's names.

    width, layers, heads, inner, act: of a layer. key_bias: whether keys have a bias. FormatError
    for a width that is no multiple of the heads.
    """
    if heads < 1 or width % heads:
        raise FormatError(
            f"config.json: audio_config: the width {width} is not a multiple of the {heads} heads"
        )
    attention = AttentionSpec(
        heads, heads, width // heads, True, True, key_bias=key_bias, rotary=rotary,
        names=AttentionNames(out="out_proj" if rotary is None else "o_proj"),
    )  # fmt: skip
    mlp = "" if rotary is None else "mlp."
    mlp_spec = MLPSpec(inner, act, False, True, names=MLPNames(up=f"{mlp}fc1", down=f"{mlp}fc2"))
    names = StackNames("") if rotary is None else StackNames(
        "", attention_norm="input_layernorm", mlp_norm="post_attention_layernorm"
    )  # fmt: skip
    stack = StackSpec(layers, attention, mlp_spec, names)
    # A decoder is described, too, which there is not: the layers read no memory.
    return Seq2SeqSpec(
        1, width, 1, stack, replace(stack, layers=0), NormSpec("layer", 1e-5), "before"
    )


class MelTower(nn.Module):
    """Whisper's encoder: mels (windows, mels, frames) -> states (windows, half of these, width).

    places: the rows of its table of positions; 0: it has rotary ones. pooled: two states are one.
    norm: the name of the last norm.
    """

    def __init__(
        self,
        spec: Seq2SeqSpec,
        mels: int,
        places: int = 0,
        pooled: bool = False,
        norm: str = "layer_norm",
    ) -> None:
        self.spec, self.places, self.pooled, self.last = spec, places, pooled, norm
        width = spec.width
        self.conv1 = nn.Conv1d(mels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        if places:
            self.embed_positions = nn.Embedding(places, width)
        self.layers = nn.ModuleList(
            [Layer(spec, spec.encoder, i) for i in range(spec.encoder.layers)]
        )
        put(self, norm, nn.LayerNorm(width))
        rotary = spec.encoder.attention.rotary
        self.rotary = None if rotary is None else Rotary([rotary])

    def forward(self, mels: Tensor, frames: Sequence[int] | None = None) -> Tensor:
        """frames: how many of each window are no padding, where states see only these.

        ValueError for windows of another length than the positions are for.
        """
        if self.places and mels.shape[2] != 2 * self.places:
            raise ValueError(
                f"features are {mels.shape}; the tower reads windows of {2 * self.places} frames"
            )
        x = ops.gelu(self.conv2(ops.gelu(self.conv1(mels.to(self.conv1.weight.dtype)))))
        x = x.transpose(1, 2)
        turn = None
        if self.places:
            x = x + self.embed_positions.weight.to(x.dtype)
        elif self.rotary is not None:
            positions = ops.arange(x.shape[1], device=x.device).unsqueeze(0)
            [turn] = self.rotary.angles(positions).values()
        mask = None
        if frames is not None:
            counts = [[(n - 1) // 2 + 1] for n in frames]
            seen = np.arange(x.shape[1]) < np.asarray(counts)
            mask = tensor(seen, device=x.device)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, StackContext({"mask": mask}, turn=turn), None)
        if self.pooled:
            even = x.shape[1] // 2 * 2
            x = x[:, :even].reshape(x.shape[0], even // 2, 2, -1).mean(2)
        out: Tensor = self.get_submodule(self.last)(x)
        return out


def after_convolutions(frames: int) -> int:
    """How many states three convolutions make of so many frames, each of which halves them."""
    for _ in range(3):
        frames = (frames - 1) // 2 + 1 if frames > 0 else 0
    return frames


class ChunkTower(nn.Module):
    """Qwen3-ASR's encoder: mels (1, mels, frames) -> states (rows, width) of the real frames.

    chunk: frames of a chunk, whose places are counted anew. window: chunks whose states attend to
    each other. channels: of the convolutions over mels and time. places: of a chunk.
    """

    def __init__(
        self, spec: Seq2SeqSpec, mels: int, chunk: int, window: int, channels: int, places: int
    ) -> None:
        self.spec, self.chunk, self.window, self.places = spec, chunk, window, places
        inside, width = 1, spec.width
        for i in range(3):
            setattr(self, f"conv2d{i + 1}", nn.Conv2d(inside, channels, 3, stride=2, padding=1))
            inside, mels = channels, (mels - 1) // 2 + 1
        self.conv_out = nn.Linear(channels * mels, width, bias=False)
        self.layers = nn.ModuleList(
            [Layer(spec, spec.encoder, i) for i in range(spec.encoder.layers)]
        )
        self.ln_post = nn.LayerNorm(width)

    def rows(self, frames: int) -> int:
        """How many states there are of so many frames."""
        full = after_convolutions(self.chunk)
        return frames // self.chunk * full + after_convolutions(frames % self.chunk)

    def forward(self, mels: Tensor, frames: int) -> Tensor:
        """frames: how many are no padding."""
        chunks = -(-frames // self.chunk)
        x = mels[:, :, : chunks * self.chunk].to(self.conv_out.weight.dtype)
        short = chunks * self.chunk - x.shape[2]
        if short:
            x = cat([x, ops.zeros(1, x.shape[1], short, dtype=x.dtype, device=x.device)], 2)
        x = x.reshape(x.shape[1], chunks, self.chunk).permute(1, 0, 2).unsqueeze(1)
        for i in range(3):
            x = ops.gelu(self.get_submodule(f"conv2d{i + 1}")(x))
        x = self.conv_out(x.permute(0, 3, 1, 2).flatten(2))
        if x.shape[1] > self.places:
            raise ValueError(
                f"a chunk of {self.chunk} frames makes {x.shape[1]} states; the tower has "
                f"{self.places} places"
            )
        x = x + tensor(waves(x.shape[1], self.spec.width), device=x.device).to(x.dtype)
        step = x.shape[1]
        x = x.reshape(1, chunks * step, -1)[:, : self.rows(frames)]
        parts = []
        for states in x.split(step * self.window, 1):
            for layer in self.layers:
                states = layer(states, StackContext({}), None)
            parts.append(states[0])
        out: Tensor = self.ln_post(cat(parts))
        return out


def waves(count: int, width: int) -> npt.NDArray[np.float32]:
    """Sines, then cosines, of the first places: (count, width)."""
    rates = np.exp(-np.log(10000.0) / (width // 2 - 1) * np.arange(width // 2))
    angles = np.arange(count)[:, None] * rates.astype(np.float32)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def host_numbers(values: Tensor) -> list[int]:
    """The numbers of an input that says how many frames there are."""
    return [int(n) for n in values.tolist()]


def trimmed(states: Tensor, counts: Sequence[int]) -> Tensor:
    """The first so many states of each window, one after another: (rows, width)."""
    return cat([states[i, :count] for i, count in enumerate(counts)])


@dataclass
class AudioConfig:
    """The keys of an audio_config of Whisper's encoder; those of older files are others' names."""

    hidden_size: int = 1280
    intermediate_size: int = 5120
    num_hidden_layers: int = 32
    num_attention_heads: int = 20
    activation_function: str = "gelu"
    num_mel_bins: int = 128
    max_source_positions: int = 1500
    model_type: str = "voxtral_encoder"

    neutral = dict.fromkeys(("scale_embedding", "vocab_size", "layerdrop", "encoder_layerdrop"), ())


@dataclass
class OlderAudioConfig:
    """The keys of an audio_config of Whisper's encoder under Whisper's names."""

    d_model: int = 1280
    encoder_ffn_dim: int = 5120
    encoder_layers: int = 32
    encoder_attention_heads: int = 20
    activation_function: str = "gelu"
    num_mel_bins: int = 128
    max_source_positions: int = 1500
    model_type: str = "qwen2_audio_encoder"

    # By the first the reference does not multiply; the others are of the whole.
    neutral = dict.fromkeys(("scale_embedding", "audio_token_id", "ignore_index"), ())


def part_of(config: Mapping[str, Any], name: str, kind: str) -> dict[str, Any]:
    """The object `name` of config.json with the model_type `kind`; FormatError for another one."""
    audio_config = config.get(name)
    audio_config = {} if audio_config is None else audio_config
    if not isinstance(audio_config, Mapping):
        raise FormatError(f"config.json: {name} is {brief(audio_config)}; it must be an object")
    choose(f"{name}: model_type", audio_config.get("model_type", kind), (kind,))
    return {**audio_config, "model_type": kind, "architectures": None}


def whisper_tower(config: Mapping[str, Any], kind: str, pooled: bool) -> tuple[Any, MelTower]:
    """The keys of audio_config and the tower that they describe; `kind` is its model_type.

    `config` is config.json; pooled: two states are one. FormatError as of `read_config`.
    """
    audio_config = part_of(config, "audio_config", kind)
    if kind == "qwen2_audio_encoder":
        c: Any = read_config(OlderAudioConfig, audio_config)
        sizes = (c.d_model, c.encoder_layers, c.encoder_attention_heads, c.encoder_ffn_dim)
    else:
        c = read_config(AudioConfig, audio_config)
        sizes = (
            c.hidden_size, c.num_hidden_layers, c.num_attention_heads, c.intermediate_size,
        )  # fmt: skip
    choose("audio_config: activation_function", c.activation_function, tuple(ACTIVATIONS))
    at_least_one(c, "num_mel_bins", "max_source_positions")
    spec = tower_spec(*sizes, c.activation_function)
    return c, MelTower(spec, c.num_mel_bins, c.max_source_positions, pooled)

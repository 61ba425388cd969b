"""The network of Moonshine's streaming models: an encoder whose layers see windows of frames.

Frames of samples are divided by their root mean square and compressed; two causal convolutions make
fewer. The encoder has no positions; the decoder adds a table of them to what it reads.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import DType, float32
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.padding import pad
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.generation.search.memory import Memory
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.positions.rotary import Rotary
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext
from rushlight.models.layers.speech.moonshine import MoonshineModel, moonshine_rotary
from rushlight.models.layers.speech.samples import check_samples
from rushlight.models.layers.speech.skeleton import TABLE
from rushlight.models.layers.speech.tokens import SpeechTokens

_TAPS = 5  # of the convolutions, each of which takes every second frame


class GammaNorm(nn.Module):
    """Layer norm whose weight is stored as `gamma`, less 1."""

    def __init__(self, width: int) -> None:
        self.width, self.gamma = width, parameter(width)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> the same."""
        return ops.layer_norm(x, (self.width,), self.gamma + 1.0, None, 1e-5)


class WindowLayer(Layer):
    """A layer of the encoder: its norms store their weights less 1."""

    def __init__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int) -> None:
        super().__init__(spec, stack, layer)
        for name in (stack.names.attention_norm, stack.names.mlp_norm):
            put(self, name, GammaNorm(spec.width))


def _windows(layers: int, told: Any) -> list[tuple[int, int]]:
    """How many frames a layer sees up to a frame, with itself, and one more than after it."""
    good = isinstance(told, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(type(n) is int and n >= 0 for n in pair)
        for pair in told
    )
    if not good or len(told) < layers or any(pair[0] < 1 for pair in told):
        raise FormatError(
            f"config.json: encoder_config: sliding_windows is {brief(told)}; it must be a pair of "
            f"whole numbers for each of {layers} layers, the first of them 1 or more"
        )
    return [(pair[0], pair[1]) for pair in told[:layers]]


def _head(c: Any, label: str = "") -> int:
    """The features of a head; FormatError where keys and queries have other numbers of heads."""
    heads = c.num_attention_heads
    choose(f"{label}num_key_value_heads", c.num_key_value_heads, (heads, None))
    return int(c.head_dim or c.hidden_size // max(heads, 1))


def encoder_spec(e: Any) -> Seq2SeqSpec:
    """The description of the encoder, of the keys of encoder_config."""
    head = _head(e, "encoder_config: ")
    attention = AttentionSpec(
        e.num_attention_heads, e.num_attention_heads, head, e.attention_bias, e.attention_bias
    )
    names = StackNames(
        "model.encoder",
        attention_norm="input_layernorm",
        norm="final_norm",
        mlp_norm="post_attention_layernorm",
    )
    mlp = MLPSpec(
        e.intermediate_size, e.hidden_act, False, True, names=MLPNames(up="mlp.fc1", down="mlp.fc2")
    )
    stack = StackSpec(e.num_hidden_layers, attention, mlp, names)
    norm = NormSpec("layer", 1e-5, bias=False, weight=False)
    # A decoder is described, too, which is not the encoder: the layers read no memory.
    other = replace(stack, layers=0)
    return Seq2SeqSpec(1, e.hidden_size, e.max_position_embeddings, stack, other, norm, "before")


def decoder_spec(c: Any, encoder: Seq2SeqSpec) -> Seq2SeqSpec:
    """The description of the model, with its encoder's stack."""
    head = _head(c)
    parameters = c.rope_parameters or {"partial_rotary_factor": 0.8, "rope_theta": 10000.0}
    rotary = moonshine_rotary(c, head, {"partial_rotary_factor": 1.0, **parameters})
    heads = c.num_attention_heads
    decoder = StackSpec(
        c.num_hidden_layers,
        AttentionSpec(heads, heads, head, c.attention_bias, rotary=rotary),
        MLPSpec(
            c.intermediate_size,
            c.hidden_act,
            True,
            True,
            names=MLPNames(up_gate="mlp.fc1", down="mlp.fc2"),
        ),
        StackNames(
            "model.decoder",
            TABLE,
            attention_norm="input_layernorm",
            norm="norm",
            cross_norm="post_attention_layernorm",
            mlp_norm="final_layernorm",
        ),
    )
    return Seq2SeqSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        encoder.encoder,
        decoder,
        NormSpec("layer", 1e-5, bias=False),
        "before",
        tied=c.tie_word_embeddings,
    )


class StreamingModel(MoonshineModel):
    """Samples to text, each frame of which sees few later ones: Moonshine v2 (Kudlur et al., 2026).

    Sums are float32, whatever weights are.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Any, encoder: Any) -> None:
        """config, encoder: those of the model and of its encoder."""
        self.config = config
        self.hearing = encoder_spec(encoder)
        self.spec = spec = decoder_spec(config, self.hearing)
        self.vocab_size, self.context_length = spec.vocab, spec.context
        self.windows = _windows(encoder.num_hidden_layers, encoder.sliding_windows)
        self.frame: int = round(encoder.sample_rate * encoder.frame_ms / 1000)
        choose("encoder_config: sample_rate", encoder.sample_rate, (16000,))
        if not 0 < self.frame <= 16000:
            raise FormatError(
                f"config.json: encoder_config: frame_ms is {encoder.frame_ms}; a frame must have 1 "
                "to 16000 samples"
            )
        wide = self.hearing.width
        put(self, "model.encoder.embedder.linear", nn.Linear(self.frame, wide, bias=False))
        put(self, "model.encoder.embedder.comp", nn.Module())
        compression: Any = self.get_submodule("model.encoder.embedder.comp")
        compression.log_k = parameter()
        for i, (inside, outside) in enumerate(((wide, 2 * wide), (2 * wide, wide))):
            conv = nn.Conv1d(inside, outside, _TAPS, stride=2)
            put(self, f"model.encoder.embedder.conv{i + 1}", conv)
        layers: list[nn.Module] = [
            WindowLayer(self.hearing, self.hearing.encoder, i) for i in range(len(self.windows))
        ]
        put(self, "model.encoder.layers", nn.ModuleList(layers))
        put(self, "model.encoder.final_norm", GammaNorm(wide))
        put(self, TABLE, nn.Embedding(spec.vocab, spec.width))
        put(self, "model.decoder.pos_emb", nn.Embedding(spec.context, wide))
        if wide != spec.width:
            put(self, "model.decoder.proj", nn.Linear(wide, spec.width, bias=False))
        layers = [Layer(spec, spec.decoder, i) for i in range(spec.decoder.layers)]
        put(self, "model.decoder.layers", nn.ModuleList(layers))
        put(self, "model.decoder.norm", make_norm(spec.width, spec.norm))
        self.rotary = Rotary([spec.decoder.attention.rotary])
        if spec.tied:
            self.duplicates = {"proj_out.weight": f"{TABLE}.weight"}
        else:
            self.proj_out = nn.Linear(spec.width, spec.vocab, bias=False)
        self.tokens = SpeechTokens({}, spec.vocab)
        self.normalized, self.first, self.ends = False, 1, (2,)

    @property
    def least(self) -> int:
        """The number of samples that make one frame."""
        return self.frame

    def encode(self, features: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The encoder's states (batch, frames, width) of samples (batch, n), 16000 a second.

        The samples of a frame that is not full are read as nothing. attention_mask (batch, n):
        false or zero for padding on the right. Raises ValueError for samples of another shape, or
        of no frame, or of more frames than the decoder has positions for.
        """
        check_samples(self.config.model_type, features, attention_mask, self.least)
        samples = features.to(float32)
        count = self._frames_of(samples, attention_mask)
        samples = pad(samples, (0, -samples.shape[1] % self.frame))
        x = samples.reshape(samples.shape[0], -1, self.frame)
        x = x - x.mean(-1, keepdim=True)
        x = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        embedder: Any = self.get_submodule("model.encoder.embedder")
        x = ops.silu(embedder.linear((x * embedder.comp.log_k.exp()).asinh()))
        x = self._kept(x, count)
        for i, conv in enumerate((embedder.conv1, embedder.conv2)):
            x = conv(pad(x.transpose(1, 2), (_TAPS - 1, 0))).transpose(1, 2)
            count = self._halved(count, x.shape[1])
            x = self._kept(x, count) if attention_mask is not None else x
            x = ops.silu(x) if i == 0 else x
        if x.shape[1] > self.spec.context:
            raise ValueError(
                f"{self.config.model_type}: {features.shape[1]} samples make {x.shape[1]} frames; "
                f"the model reads up to {self.spec.context}"
            )
        seen = None if attention_mask is None else self._below(count, x.shape[1])
        masks: dict[tuple[int, int], Tensor] = {}
        layers: Any = self.get_submodule("model.encoder.layers")
        for layer, window in zip(layers, self.windows, strict=True):
            if window not in masks:
                masks[window] = self._mask(window, x, seen)
            x = layer(x, StackContext({"mask": masks[window]}), None)
        out: Tensor = self.get_submodule("model.encoder.final_norm")(x)
        return out

    def remember(
        self, states: Tensor, dtype: DType | str = "float32", mask: Tensor | None = None
    ) -> Memory:
        """What the decoder reads of the encoder's states, with their positions; see `SpeechModel`.

        `states`, `dtype` and `mask` are as there, and what it raises.
        """
        positions: Any = self.get_submodule("model.decoder.pos_emb")
        x = states + positions.weight[: states.shape[1]].to(states.dtype)
        if self.hearing.width != self.spec.width:
            x = self.get_submodule("model.decoder.proj")(x)
        return super().remember(x, dtype, mask)

    # Frames, of which the last ones of a row may be padding.

    def _frames_of(self, samples: Tensor, mask: Tensor | None) -> Tensor:
        """The numbers (batch, 1) of full frames."""
        if mask is None:
            return tensor([[samples.shape[1] // self.frame]], device=samples.device)
        count: Tensor = (mask != 0).long().sum(1, keepdim=True) // self.frame
        return count

    def _halved(self, count: Tensor, most: int) -> Tensor:
        """How many of at most `most` frames after a convolution read any of `count` before it."""
        return ((count + (_TAPS - 2)) // 2 + 1).clamp(max=most)

    @staticmethod
    def _below(count: Tensor, frames: int) -> Tensor:
        """(batch, frames), false for padding."""
        seen: Tensor = ops.arange(frames, device=count.device).unsqueeze(0) < count
        return seen

    def _kept(self, x: Tensor, count: Tensor) -> Tensor:
        """Frames (batch, frames, width) with zeros for padding."""
        return ops.where(self._below(count, x.shape[1]).unsqueeze(-1), x, 0.0)

    def _mask(self, window: tuple[int, int], x: Tensor, seen: Tensor | None) -> Tensor:
        """Which frames see which: (1 or batch, 1, frames, frames). Each sees itself."""
        near = tensor(_near(x.shape[1], window), device=x.device)[None, None]
        if seen is None:
            return near
        itself = tensor(_near(x.shape[1], (1, 0)), device=x.device)[None, None]
        return (near & seen[:, None, None, :]) | itself

    def _seen(self, mask: Tensor | None, frames: int) -> Tensor | None:
        """(batch, 1, 1, frames), false for frames that are padding."""
        if mask is None:
            return None
        count, most = self._frames_of(mask, mask), math.ceil(mask.shape[1] / self.frame)
        for _ in range(2):
            most = (most - 1) // 2 + 1
            count = self._halved(count, most)
        return self._below(count, frames)[:, None, None, :]


def _near(frames: int, window: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """(frames, frames): whether a frame sees another, by a window's numbers."""
    distance = np.arange(frames)[:, None] - np.arange(frames)[None]
    return np.asarray((distance < window[0]) & (-distance < max(window[1], 1)))

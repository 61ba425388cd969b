"""The network of w2v-BERT 2.0: conformers over filter banks, and adapters after them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.fbank import HOP, WINDOW, fbank, scaled_bins
from rushlight.models.config_schema import choose
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.speech.conformer import (
    ConformerAttention,
    ConformerLayer,
    ConformerModel,
    ConformerSpec,
    Fed,
)
from rushlight.models.layers.speech.samples import stored_settings
from rushlight.models.layers.speech.wave_heads import MOST_TAPS


class AdapterLayer(nn.Module):
    """Attention over fewer frames, and a feed-forward part."""

    def __init__(self, c: Any, width: int) -> None:
        taps, stride = c.adapter_kernel_size, c.adapter_stride
        plain = ConformerSpec("", 1, c.layer_norm_eps)
        for name in ("residual", "self_attn"):
            put(self, f"{name}_layer_norm", nn.LayerNorm(width, eps=c.layer_norm_eps))
            conv = nn.Conv1d(width, 2 * width, taps, stride=stride, padding=stride // 2)
            put(self, f"{name}_conv", conv)
        self.self_attn = ConformerAttention(width, c.num_attention_heads, plain)
        self.ffn_layer_norm = nn.LayerNorm(width, eps=c.layer_norm_eps)
        self.ffn = Fed(width, c.intermediate_size, c.adapter_act)

    def forward(self, x: Tensor, count: Tensor | None) -> Tensor:
        """(batch, frames, width) -> fewer frames; count (batch, 1): of those that are seen."""
        kept = self._fewer("residual", x)
        y = self._fewer("self_attn", x)
        mask = None
        if count is not None:
            at = ops.arange(y.shape[1], device=y.device).unsqueeze(0)
            mask = (at < count)[:, None, None, :]
        x = self.self_attn(y, mask, None) + kept
        out: Tensor = x + self.ffn(self.ffn_layer_norm(x))
        return out

    def _fewer(self, name: str, x: Tensor) -> Tensor:
        x = self.get_submodule(f"{name}_layer_norm")(x).transpose(1, 2)
        a, b = self.get_submodule(f"{name}_conv")(x).chunk(2, 1)
        out: Tensor = (a * b.sigmoid()).transpose(1, 2)
        return out


class Wav2Vec2BertModel(ConformerModel):
    """w2v-BERT 2.0 (Seamless Communication, 2023): features to a token for each frame, classes, or
    states. features: of a frame, which is of two filter banks.
    """

    base = "wav2vec2_bert"

    def put_front(self) -> None:
        """Make the projection of features to the encoder's width."""
        c = self.config
        self.features: int = c.feature_projection_input_dim
        norm = nn.LayerNorm(self.features, eps=c.layer_norm_eps)
        self.put("feature_projection.layer_norm", norm)
        self.put("feature_projection.projection", nn.Linear(self.features, self.spec.width))

    def put_encoder(self) -> None:
        """Make the layers."""
        c = self.config
        self.conformer = ConformerSpec(
            c.position_embeddings_type or "",
            c.conv_depthwise_kernel_size,
            c.layer_norm_eps,
            causal=True,
            conv_norm="layer",
            masked=True,
            left=c.left_max_position_embeddings,
            right=c.right_max_position_embeddings,
            theta=float(c.rotary_embedding_base),
        )
        for path in self.spec.paths:
            self.put(path, ConformerLayer(self.spec, self.conformer))
        if c.use_intermediate_ffn_before_adapter:
            self.put("intermediate_ffn", Fed(self.spec.width, self.spec.inner, "relu"))

    def put_adapter(self) -> None:
        """Make the part after the encoder that makes fewer frames."""
        c, outside = self.config, self.outside
        sizes = c.adapter_kernel_size, c.adapter_stride
        choose("adapter_act", c.adapter_act, tuple(ACTIVATIONS))
        if min(sizes) < 1 or max(sizes) > MOST_TAPS or not 0 <= c.num_adapter_layers <= 64:
            raise FormatError(
                f"config.json: adapter_kernel_size and adapter_stride {sizes} and "
                f"num_adapter_layers {c.num_adapter_layers} do not fit; supported: up to "
                f"{MOST_TAPS} and 64"
            )
        if outside != self.spec.width:
            self.put("adapter.proj", nn.Linear(self.spec.width, outside))
            norm = nn.LayerNorm(outside, eps=c.layer_norm_eps)
            self.put("adapter.proj_layer_norm", norm)
        layers = [AdapterLayer(c, outside) for _ in range(c.num_adapter_layers)]
        self.put("adapter.layers", nn.ModuleList(layers))

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Check the features' settings; read the letters."""
        stored_settings(files, "SeamlessM4TFeatureExtractor")
        self._read_letters(files)

    @property
    def step(self) -> int:
        """The number of samples from one frame to the next."""
        c = self.config
        return 2 * HOP * (c.adapter_stride**c.num_adapter_layers if c.add_adapter else 1)

    @property
    def least(self) -> int:
        """The number of samples that make one frame."""
        return WINDOW + HOP

    def ready(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The features (1, frames, features) of one recording's samples (n,)."""
        bins = self.features // 2
        enough = np.zeros(max(0, self.least - len(samples)), np.float32)
        features = scaled_bins(fbank(np.concatenate([samples, enough]), bins))
        frames = -(-len(features) // 2)
        full = np.zeros((2 * frames, bins), np.float32)
        full[: len(features)] = features
        return full.reshape(1, frames, 2 * bins)[:, : max(1, len(features) // 2)]

    def frames(self, samples: Tensor, attention_mask: Tensor | None) -> Tensor:
        """What the encoder reads (batch, frames, width) of features (batch, frames, features)."""
        name, wanted = self.config.model_type, self.features
        if samples.ndim != 3 or samples.shape[2] != wanted or not samples.shape[1]:
            raise ValueError(
                f"{name}: features are {samples.shape}; they must be (batch, frames, {wanted})"
            )
        if not samples.dtype.is_floating_point:
            raise TypeError(f"{name}: features are {samples.dtype.name}; they must be float32")
        if attention_mask is not None and attention_mask.shape != samples.shape[:2]:
            raise ValueError(
                f"{name}: attention_mask is {attention_mask.shape}; it must be {samples.shape[:2]}"
            )
        x = self.part("feature_projection.layer_norm", samples.to(float32))
        return self.part("feature_projection.projection", x)

    def encode(self, x: Tensor, seen: Tensor | None) -> list[Tensor]:
        """Frames (batch, frames, width) before the first layer, after each, and at the end."""
        states, context = [x], self.context(x, seen)
        for i, path in enumerate(self.spec.paths):
            x = self.get_submodule(self.prefix + path)(x, context, i)
            states.append(x)
        if self.config.use_intermediate_ffn_before_adapter:
            x = x + 0.5 * self.part("intermediate_ffn", x)
        return [*states, x]

    def adapted(self, x: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What the adapter makes of states, and which of its frames are seen."""
        c = self.config
        if self.outside != self.spec.width:
            x = self.part("adapter.proj_layer_norm", self.part("adapter.proj", x))
        count = None if seen is None else seen.long().sum(1, keepdim=True)
        for i in range(c.num_adapter_layers):
            if count is not None:
                reach = 2 * (c.adapter_kernel_size // 2) - c.adapter_kernel_size
                count = (count + reach) // c.adapter_stride + 1
            layer = self.get_submodule(f"{self.prefix}adapter.layers.{i}")
            x = layer(x, count)
        if count is None:
            return x, None
        return x, ops.arange(x.shape[1], device=x.device).unsqueeze(0) < count

    def _seen(self, mask: Tensor, frames: int) -> Tensor:
        """(batch, frames), false for padding."""
        return mask != 0

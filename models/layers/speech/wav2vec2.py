"""The network of wav2vec 2.0: convolutions over samples, an encoder, and a CTC head."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.convolution import conv1d
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderContext, EncoderLayer, EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.speech.letters import Letters, stored_letters
from rushlight.models.layers.speech.samples import (
    check_samples,
    normalized,
    samples_of_a_frame,
    stored_normalization,
)
from rushlight.models.model import Model

BASE, MASKED = "wav2vec2", "masked_spec_embed"
# Names of the weight-normed convolution, older and newer.
_RENAMED = {
    "conv.weight_g": "conv.parametrizations.weight.original0",
    "conv.weight_v": "conv.parametrizations.weight.original1",
}


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with older names of the weight-normed convolution made new."""
    ends = {name: next((e for e in _RENAMED if name.endswith(e)), "") for name in tensors}
    return {
        name.removesuffix(end) + _RENAMED.get(end, ""): tensors[name] for name, end in ends.items()
    }


class ConvLayer(nn.Module):
    """A convolution, a norm of each channel over time or of each frame, or none, an activation."""

    def __init__(self, sizes: tuple[int, int, int, int], bias: bool, norm: str, act: str) -> None:
        """sizes: channels in and out, kernel and stride; norm: "group", "layer" or ""."""
        inside, outside, kernel, stride = sizes
        self.kind, self.activation = norm, ACTIVATIONS[act]
        self.conv = nn.Conv1d(inside, outside, kernel, stride=stride, bias=bias)
        if norm == "group":
            self.layer_norm: nn.Module = nn.GroupNorm(outside, outside)
        elif norm == "layer":
            self.layer_norm = nn.LayerNorm(outside)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, n) -> (batch, channels, fewer)."""
        x = self.conv(x)
        if self.kind == "group":
            x = self.layer_norm(x)
        elif self.kind == "layer":
            x = self.layer_norm(x.transpose(1, 2)).transpose(1, 2)
        return self.activation(x)


class NormedWeight(nn.Module):
    """A convolution's weight as a length and a direction at each tap (Salimans and Kingma, 2016).

    original0: (1, 1, taps), the lengths. original1: (out, in, taps), of any length.
    """

    def __init__(self, outside: int, inside: int, taps: int) -> None:
        self.original0, self.original1 = parameter(1, 1, taps), parameter(outside, inside, taps)
        self._fill()

    def reset_parameters(self) -> None:
        """Normal numbers of length one."""
        init.ones_(self.original0)
        init.normal_(self.original1)

    def forward(self) -> Tensor:
        """The weight (out, in, taps)."""
        v = self.original1.to(float32)
        return v * (self.original0.to(float32) / (v * v).sum((0, 1), keepdim=True).sqrt())


class PositionConv(nn.Module):
    """Positions relative to each other: a wide convolution in groups, whose result is added."""

    def __init__(self, width: int, taps: int, groups: int, act: str) -> None:
        if groups < 1 or width % groups:
            raise FormatError(
                f"config.json: hidden_size {width} is not a multiple of "
                f"num_conv_pos_embedding_groups {groups}"
            )
        self.taps, self.groups, self.activation = taps, groups, ACTIVATIONS[act]
        put(self, "conv.parametrizations.weight", NormedWeight(width, width // groups, taps))
        self.get_submodule("conv").bias = parameter(width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, width) -> the same."""
        conv: Any = self.get_submodule("conv")
        weight = conv.parametrizations.weight()
        y = conv1d(x.transpose(1, 2), weight, conv.bias, padding=self.taps // 2, groups=self.groups)
        # An even number of taps makes one frame too many.
        return self.activation(y[:, :, : x.shape[1]]).transpose(1, 2)


class WaveModel(Model):
    """wav2vec 2.0 (Baevski et al., 2020): samples to a token for each frame, or hidden states."""

    @nn.layers_on("meta")
    def __init__(
        self,
        config: Any,
        spec: EncoderSpec,
        convs: Sequence[tuple[int, int, int]],
        names: Collection[str],
    ) -> None:
        """convs: channels, kernel and stride of each convolution; names: the checkpoint's."""
        c, width = config, spec.width
        self.config, self.spec, self.convs = config, spec, tuple(convs)
        self.head = "lm_head.weight" in names or c.architectures == ["Wav2Vec2ForCTC"]
        prefixed = self.head or any(name.startswith(f"{BASE}.") for name in names)
        self.base = f"{BASE}." if prefixed else ""
        kinds = [
            c.feat_extract_norm if c.feat_extract_norm == "layer" or not i else ""
            for i in range(len(convs))
        ]
        inside = 1
        for i, ((outside, kernel, stride), kind) in enumerate(zip(convs, kinds, strict=True)):
            sizes = inside, outside, kernel, stride
            layer = ConvLayer(sizes, c.conv_bias, kind, c.feat_extract_activation)
            self._put(f"feature_extractor.conv_layers.{i}", layer)
            inside = outside
        self._put("feature_projection.layer_norm", make_norm(inside, spec.norm))
        self._put("feature_projection.projection", nn.Linear(inside, width))
        self._put(
            "encoder.pos_conv_embed",
            PositionConv(
                width,
                c.num_conv_pos_embeddings,
                c.num_conv_pos_embedding_groups,
                c.feat_extract_activation,
            ),
        )
        self._put("encoder.layer_norm", make_norm(width, spec.norm))
        for path in spec.paths:
            self._put(path, EncoderLayer(spec))
        if self.base + MASKED in names:  # of training
            root = self.get_submodule(BASE) if prefixed else self
            setattr(root, MASKED, parameter(width))
        if self.head:
            self.lm_head = nn.Linear(width, spec.vocab)
        self.normalized = True
        self.letters: Letters | None = None

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read whether samples are normalized, and the letters."""
        self.normalized = stored_normalization(files, True)
        if self.head:
            self.letters = stored_letters(files, self.spec.vocab, self.config.pad_token_id)
        if self.letters is not None and "vocab.json" in files:
            self.files = {"vocab.json": files["vocab.json"]}

    @property
    def followed(self) -> frozenset[str]:
        """The options of automatic-speech-recognition that the checkpoint follows."""
        from rushlight.models.speech.ctc import CTCTranscriber

        words = self.letters is not None and self.letters.words
        return frozenset(CTCTranscriber.taken) - (set() if words else {"words"})

    def transcriber(self, options: Mapping[str, Any]) -> Any:
        """What transcribes with these options of the task automatic-speech-recognition."""
        from rushlight.models.speech.ctc import CTCTranscriber

        return CTCTranscriber(self, options)

    @property
    def step(self) -> int:
        """The number of samples from one frame to the next."""
        return int(np.prod([stride for *_, stride in self.convs]))

    @property
    def least(self) -> int:
        """The number of samples that make one frame."""
        return samples_of_a_frame(self.convs)

    def prepared(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Samples (n,) as the checkpoint wants them: of mean 0 and variance 1, or as they are."""
        return normalized(samples) if self.normalized else samples

    def forward(self, samples: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits (batch, frames, vocab), or the last hidden state (batch, frames, width).

        samples: (batch, n) floating, 16000 a second, see `prepared`. attention_mask (batch, n):
        false or zero for padding, which is on the right. ValueError for another shape, or fewer
        samples than a frame has.
        """
        check_samples(self.config.model_type, samples, attention_mask, self.least)
        x = samples.to(float32).unsqueeze(1)
        for i in range(len(self.convs)):
            x = self._part(f"feature_extractor.conv_layers.{i}", x)
        x = self._part("feature_projection.layer_norm", x.transpose(1, 2))
        x = self._part("feature_projection.projection", x)
        mask = None
        if attention_mask is not None:
            seen = self._seen(attention_mask, x.shape[1])
            x = ops.where(seen.unsqueeze(-1), x, 0.0)
            mask = seen[:, None, None, :]
        x = x + self._part("encoder.pos_conv_embed", x)
        before = self.spec.place == "before"
        x = x if before else self._part("encoder.layer_norm", x)
        context = EncoderContext(mask, None, {})
        for i, path in enumerate(self.spec.paths):
            x = self.get_submodule(self.base + path)(x, context, i)
        x = self._part("encoder.layer_norm", x) if before else x
        return self.lm_head(x) if self.head else x

    def _seen(self, mask: Tensor, frames: int) -> Tensor:
        """(batch, frames), false for frames that are not wholly of samples that `mask` shows."""
        count = (mask != 0).long().sum(1, keepdim=True)
        for _, kernel, stride in self.convs:
            count = (count - kernel) // stride + 1
        return ops.arange(frames, device=mask.device).unsqueeze(0) < count.clamp(min=1)

    def _put(self, path: str, module: nn.Module) -> None:
        put(self, self.base + path, module)

    def _part(self, path: str, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(self.base + path)(x)
        return out

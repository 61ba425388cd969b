"""Heads of models of raw audio beside CTC: classes of a recording, of frames, and speakers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.convolution import conv1d
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.layers.building import numbers_of

# Kinds of heads, by the tensor that tells each and by the end of the class in config.json.
KINDS = {
    "ctc": ("lm_head.weight", "ForCTC"),
    "speaker": ("tdnn.0.kernel.weight", "ForXVector"),
    "classes": ("projector.weight", "ForSequenceClassification"),
    "frames": ("classifier.weight", "ForAudioFrameClassification"),
}
MOST_TAPS = 1 << 10


def kind_of(architectures: Any, names: Collection[str], base: str) -> str:
    """The kind of head, by config.json's architectures or else by the tensors; "" for none.

    base: the name of the module below the head, which is like that of the class without one.
    """
    told = architectures[0] if architectures else ""
    alone = told.lower() == f"{base.replace('_', '')}model"
    for kind, (tensor, end) in KINDS.items():
        if told.endswith(end) or (not alone and tensor in names):
            return kind
    return ""


def classes_of(base: str, others: str = "ForSequenceClassification") -> tuple[str, ...]:
    """The names of a family's classes: of CTC, of the other ends, and of the model alone."""
    return (f"{base}ForCTC", *(f"{base}{end}" for end in others.split()), f"{base}Model")


EVERY = "ForSequenceClassification ForAudioFrameClassification ForXVector"


class TimeDelay(nn.Module):
    """A layer over frames that are `dilation` apart (Snyder et al., 2018)."""

    def __init__(self, inside: int, outside: int, taps: int, dilation: int) -> None:
        self.sizes, self.dilation = (outside, taps, inside), dilation
        self.kernel = nn.Linear(inside * taps, outside)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, inside) -> (batch, fewer frames, outside)."""
        weight = self.kernel.weight.reshape(*self.sizes).transpose(1, 2)
        y = conv1d(x.transpose(1, 2), weight, self.kernel.bias, dilation=self.dilation)
        return ops.relu(y).transpose(1, 2)


class WaveHead(nn.Module):
    """Scores of a recording's classes, of each frame's, or the vector of its speaker.

    `put_into` gives a model the head's modules, under the checkpoint's names.
    """

    def __init__(self, kind: str, config: Any, layers: int, width: int, labels: int) -> None:
        self.kind, self.weighted = kind, bool(config.use_weighted_layer_sum)
        self.layers, self.width, self.labels = layers, width, labels
        self.delays: list[tuple[int, int, int, int]] = []
        if kind == "speaker":
            self.delays = _delays(config)
            self.vector = config.xvector_output_dim
        if kind == "classes":
            self.inner = config.classifier_proj_size

    def put_into(self, model: Any) -> None:
        """Make the modules of the head in the model."""
        width = self.width
        if self.weighted:
            model.layer_weights = parameter(self.layers + 1)
        if self.kind == "classes":
            model.projector = nn.Linear(width, self.inner)
            width = self.inner
        if self.kind == "speaker":
            model.projector = nn.Linear(width, self.delays[0][0])
            model.tdnn = nn.ModuleList([TimeDelay(*sizes) for sizes in self.delays])
            model.feature_extractor = nn.Linear(2 * self.delays[-1][1], self.vector)
            model.classifier = nn.Linear(self.vector, self.vector)
            return
        model.classifier = nn.Linear(width, self.labels)

    def scores(self, model: Any, states: Sequence[Tensor], seen: Tensor | None) -> Tensor:
        """Of the states (batch, frames, width) before the first layer, after each, and at the end.

        seen: (batch, frames), false for padding. Returns (batch, labels), (batch, frames, labels)
        of "frames", or (batch, vector) of "speaker".
        """
        x = self._summed(model, states)
        if self.kind == "frames":
            out: Tensor = model.classifier(x)
            return out
        if self.kind == "speaker":
            out = model.classifier(self.embedding(model, states, seen))
            return out
        x = model.projector(x)
        if seen is None:
            out = model.classifier(x.mean(1))
            return out
        real = seen.unsqueeze(-1).to(x.dtype)
        out = model.classifier((x * real).sum(1) / real.sum(1))
        return out

    def embedding(self, model: Any, states: Sequence[Tensor], seen: Tensor | None) -> Tensor:
        """The vector (batch, vector) of each recording's speaker; arguments as of `scores`."""
        x = model.projector(self._summed(model, states))
        for layer in model.tdnn:
            x = layer(x)
        frames = x.shape[1]
        if seen is None:
            mean, spread = x.mean(1), x.std(1)
        else:
            # The count of frames as the reference has it, which takes no note of dilation.
            lost = sum(taps - 1 for *_, taps, _ in self.delays)
            count = (seen.to(x.dtype).sum(1) - lost).clamp(min=0, max=frames).reshape(-1, 1, 1)
            at = ops.arange(frames, device=x.device).reshape(1, -1, 1).to(x.dtype)
            real = (at < count).to(x.dtype)
            mean = (x * real).sum(1, keepdim=True) / count
            squares = (((x - mean) * real) ** 2).sum(1, keepdim=True) / (count - 1)
            mean, spread = mean.squeeze(1), squares.sqrt().squeeze(1)
        out: Tensor = model.feature_extractor(ops.cat([mean, spread], -1))
        return out

    def _summed(self, model: Any, states: Sequence[Tensor]) -> Tensor:
        if not self.weighted:
            return states[-1]
        shares = model.layer_weights.softmax(-1).reshape(-1, 1, 1)
        summed: Tensor = (stack(list(states[:-1]), 1) * shares).sum(1)
        return summed


def _delays(config: Any) -> list[tuple[int, int, int, int]]:
    """Features in and out, taps and dilation of each layer over frames."""
    count = len(config.tdnn_dim)
    keys = ("tdnn_dim", "tdnn_kernel", "tdnn_dilation")
    sizes = [numbers_of(key, getattr(config, key), count) for key in keys]
    if not 0 < count <= 64 or min(map(min, sizes)) < 1:
        raise FormatError(f"config.json: {', '.join(keys)} must hold a positive size per layer")
    for taps in sizes[1]:
        choose("tdnn_kernel", min(taps, MOST_TAPS), (taps,))
    wide = [sizes[0][0], *sizes[0]]
    return list(zip(wide[:-1], sizes[0], sizes[1], sizes[2], strict=True))

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
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.audio.inputs import Sound
from rushlight.models.config_schema import choose
from rushlight.models.layers.encoder import EncoderContext, EncoderLayer, EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.speech.letters import Letters, stored_letters
from rushlight.models.layers.speech.samples import (
    RATE,
    check_samples,
    normalized,
    samples_of_a_frame,
    stored_normalization,
)
from rushlight.models.layers.speech.wave_heads import MOST_TAPS, WaveHead, kind_of
from rushlight.models.model import Model
from rushlight.models.small_files import small_json

# The tasks of heads other than CTC's, which are served in place of the family's.
TASKS = {"classes": "audio-classification", "speaker": "speaker-verification"}
MASKED = "masked_spec_embed"
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
    """Positions relative to each other: a wide convolution in groups, whose result is added.

    stride: of SEW, which has fewer positions than frames. normed: a batch norm stands before it
    (of some HuBERTs), and the weight is stored as it is.
    """

    def __init__(
        self,
        width: int,
        taps: int,
        groups: int,
        act: str,
        stride: int = 1,
        normed: bool = False,
    ) -> None:
        if groups < 1 or width % groups:
            raise FormatError(
                f"config.json: hidden_size {width} is not a multiple of "
                f"num_conv_pos_embedding_groups {groups}"
            )
        self.taps, self.groups, self.activation = taps, groups, ACTIVATIONS[act]
        self.stride, self.normed = stride, normed
        if normed:
            self.conv = nn.Conv1d(width, width, taps, padding=taps // 2, groups=groups)
            self.batch_norm = nn.BatchNorm1d(width)
        else:
            put(self, "conv.parametrizations.weight", NormedWeight(width, width // groups, taps))
            self.get_submodule("conv").bias = parameter(width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, width) -> the same, or fewer frames by the stride."""
        conv: Any = self.get_submodule("conv")
        x = x.transpose(1, 2)
        x = self.batch_norm(x) if self.normed else x
        weight = conv.weight if self.normed else conv.parametrizations.weight()
        y = conv1d(
            x,
            weight,
            conv.bias,
            stride=self.stride,
            padding=self.taps // 2,
            groups=self.groups,
        )
        if self.taps % 2 == 0:  # which makes one frame too many
            y = y[:, :, : y.shape[2] - 1]
        return self.activation(y).transpose(1, 2)


class FrameAdapter(nn.Module):
    """Convolutions with gates after the encoder, which make fewer frames."""

    def __init__(self, config: Any, width: int, outside: int) -> None:
        c = config
        taps, stride, layers = c.adapter_kernel_size, c.adapter_stride, c.num_adapter_layers
        if not (0 < taps <= MOST_TAPS and 0 < stride <= MOST_TAPS and 0 <= layers <= 64):
            raise FormatError(
                f"config.json: adapter_kernel_size {taps}, adapter_stride {stride} and "
                f"num_adapter_layers {layers} do not fit; supported: up to {MOST_TAPS} and 64"
            )
        self.projects, self.stride = outside != width, stride
        if self.projects:
            self.proj = nn.Linear(width, outside)
            self.proj_layer_norm = nn.LayerNorm(outside)
        self.layers = nn.ModuleList([nn.Module() for _ in range(layers)])
        for layer in self.layers:
            put(layer, "conv", nn.Conv1d(outside, 2 * outside, taps, stride=stride, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, width) -> (batch, fewer frames, outside)."""
        x = self.proj_layer_norm(self.proj(x)) if self.projects else x
        x = x.transpose(1, 2)
        for layer in self.layers:
            a, b = layer.get_submodule("conv")(x).chunk(2, 1)
            x = a * b.sigmoid()
        return x.transpose(1, 2)


class AdaptedLayer(EncoderLayer):
    """A layer with a narrow part after it, learned for each language (Pratap et al., 2023)."""

    def __init__(self, spec: EncoderSpec, inner: int) -> None:
        super().__init__(spec)
        put(self, "adapter_layer.norm", nn.LayerNorm(spec.width))
        put(self, "adapter_layer.linear_1", nn.Linear(spec.width, inner))
        put(self, "adapter_layer.linear_2", nn.Linear(inner, spec.width))

    def forward(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """As of `EncoderLayer`."""
        x = super().forward(x, context, layer)
        y = self._called("adapter_layer.norm", x)
        y = ops.relu(self._called("adapter_layer.linear_1", y))
        return x + self._called("adapter_layer.linear_2", y)


class WaveModel(Model):
    """wav2vec 2.0 (Baevski et al., 2020) and its kin: samples to a token for each frame.

    Without a head it gives hidden states, with another head than CTC's what `WaveHead` says. The
    kin replace what makes frames, `put_front` and `frames`, or the encoder, `put_encoder` and
    `encode`. base: what names begin with in a checkpoint with a head. adapts: whether add_adapter
    is a key of the kind.
    """

    base, adapts, rate = "wav2vec2", True, RATE

    @nn.layers_on("meta")
    def __init__(
        self,
        config: Any,
        spec: EncoderSpec,
        convs: Sequence[tuple[int, int, int]],
        names: Collection[str],
        labels: Sequence[str] = (),
    ) -> None:
        """convs: channels, kernel and stride of each convolution; names: the checkpoint's.

        labels: the names of a classifier's classes.
        """
        c, width = config, spec.width
        self.config, self.spec, self.convs = config, spec, tuple(convs)
        self.kind = kind_of(c.architectures, names, self.base)
        self.head = self.kind == "ctc"
        base = f"{type(self).base}."
        self.prefix = base if self.kind or any(n.startswith(base) for n in names) else ""
        for key, part in (("add_adapter", "adapter."), ("adapter_attn_dim", "adapter_layer.")):
            if getattr(c, key, None) and not any(part in name for name in names):
                raise FormatError(
                    f"config.json: {key} is {getattr(c, key)}, and no tensor is named {part}; take "
                    "the key out, or the file that has them"
                )
        self.put_front()
        self.put_encoder()
        self.outside = width
        if getattr(c, "add_adapter", False):
            choose("add_adapter", True, (self.adapts,))
            choose("architectures", self.kind, ("", "ctc", "speaker"))
            self.outside = c.output_hidden_size or width
            self.put_adapter()
        if self.prefix + MASKED in names:  # of training
            root = self.get_submodule(type(self).base) if self.prefix else self
            setattr(root, MASKED, parameter(width))
        self.labels: tuple[str, ...] = ()
        if self.head:
            self.lm_head = nn.Linear(self.outside, spec.vocab)
        elif self.kind:
            self.labels = () if self.kind == "speaker" else tuple(labels)
            self.scoring = WaveHead(self.kind, c, spec.layers, width, len(self.labels))
            self.scoring.put_into(self)
        self.problem: str | None = None
        self.normalized = True
        self.letters: Letters | None = None

    def put_front(self) -> None:
        """Make the convolutions over samples, and the projection to the encoder's width."""
        c, inside = self.config, self._put_convs()
        if getattr(c, "feat_proj_layer_norm", True):
            self.put("feature_projection.layer_norm", make_norm(inside, self.spec.norm))
        self.put("feature_projection.projection", nn.Linear(inside, self.spec.width))

    def _put_convs(self) -> int:
        """Make the convolutions over samples; returns the last one's channels."""
        c, inside = self.config, 1
        for i, (outside, kernel, stride) in enumerate(self.convs):
            norm = c.feat_extract_norm
            kind = norm if norm == "layer" or not i else ""
            sizes = inside, outside, kernel, stride
            layer = ConvLayer(sizes, c.conv_bias, kind, c.feat_extract_activation)
            self.put(f"feature_extractor.conv_layers.{i}", layer)
            inside = outside
        return inside

    def put_encoder(self) -> None:
        """Make positions, the layers, and their norm."""
        c, width = self.config, self.spec.width
        self.put("encoder.pos_conv_embed", self.positions())
        self.put("encoder.layer_norm", make_norm(width, self.spec.norm))
        inner = getattr(c, "adapter_attn_dim", None)
        for i, path in enumerate(self.spec.paths):
            if self.spec.layer is not None:
                self.put(path, self.spec.layer(self.spec, i))
            elif inner is not None and self.spec.place == "before":
                self.put(path, AdaptedLayer(self.spec, inner))
            else:
                self.put(path, EncoderLayer(self.spec))

    def put_adapter(self) -> None:
        """Make the part after the encoder that makes fewer frames."""
        self.put("adapter", FrameAdapter(self.config, self.spec.width, self.outside))

    def positions(self) -> nn.Module:
        """What makes positions of the frames."""
        c = self.config
        return PositionConv(
            self.spec.width,
            c.num_conv_pos_embeddings,
            c.num_conv_pos_embedding_groups,
            c.feat_extract_activation,
            normed=getattr(c, "conv_pos_batch_norm", False),
        )

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read whether samples are normalized, and the letters."""
        self.normalized = stored_normalization(files, True)
        self._read_letters(files)

    def _read_letters(self, files: Mapping[str, bytes]) -> None:
        problem = small_json(files, "config.json").get("problem_type")
        self.problem = problem if isinstance(problem, str) else None
        self.tasks = (TASKS.get(self.kind, "automatic-speech-recognition"),)
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
        adapted = getattr(self.config, "add_adapter", False)
        fewer = self.config.adapter_stride**self.config.num_adapter_layers if adapted else 1
        return int(np.prod([stride for *_, stride in self.convs])) * fewer

    @property
    def least(self) -> int:
        """The number of samples that make one frame."""
        return samples_of_a_frame(self.convs)

    def ready(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """What `forward` takes, of one recording's samples (n,): (1, n or more)."""
        x = self.prepared(samples)
        return np.concatenate([x, np.zeros(max(0, self.least - len(x)), np.float32)])[None]

    def prepared(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Samples (n,) as the checkpoint wants them: of mean 0 and variance 1, or as they are."""
        return normalized(samples) if self.normalized else samples

    def inputs_of(self, recordings: Sequence[npt.NDArray[np.float32]]) -> dict[str, Tensor]:
        """What `forward` takes by name, of one recording's samples (n,) in a list."""
        (samples,) = recordings
        return {"samples": from_numpy(self.ready(np.asarray(samples))).to(self.device)}

    def voice(self, samples: Sound) -> Tensor:
        """The vector (size,) of who speaks in samples (n,) at `rate`; see `embed_speaker`."""
        return self.embed_speaker(**self.inputs_of([np.asarray(samples)]))[0]

    def forward(self, samples: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits (batch, frames, vocab), or the last hidden state (batch, frames, width).

        samples: (batch, n) floating, 16000 a second, see `prepared`. attention_mask (batch, n):
        false or zero for padding, which is on the right. ValueError for another shape, or fewer
        samples than a frame has. A classifier gives (batch, labels), see `WaveHead`.
        """
        states, seen = self.states(samples, attention_mask)
        if self.head:
            logits: Tensor = self.lm_head(states[-1])
            return logits
        return self.scoring.scores(self, states, seen) if self.kind else states[-1]

    def embed_speaker(self, samples: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The vector (batch, vector) of each recording's speaker (Snyder et al., 2018).

        The arguments are those of `forward`; ValueError as there, and for a checkpoint without
        the head of class ...ForXVector.
        """
        if self.kind != "speaker":
            raise ValueError(
                f"{self.config.model_type}: the checkpoint has no speaker's head, tdnn"
            )
        return self.scoring.embedding(self, *self.states(samples, attention_mask))

    def states(
        self, samples: Tensor, attention_mask: Tensor | None = None
    ) -> tuple[list[Tensor], Tensor | None]:
        """The states (batch, frames, width) before the first layer, after each, and at the end.

        The last one has passed what stands after the layers. The second result says which frames
        are seen, (batch, frames) or None. Arguments are those of `forward`.
        """
        x = self.frames(samples, attention_mask)
        seen = None
        if attention_mask is not None:
            seen = self._seen(attention_mask, x.shape[1])
            x = ops.where(seen.unsqueeze(-1), x, 0.0)
        states = self.encode(x, seen)
        if getattr(self.config, "add_adapter", False):
            states[-1], seen = self.adapted(states[-1], seen)
        return states, seen

    def adapted(self, x: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What the adapter makes of states, and which of its frames are seen."""
        y = self.part("adapter", x)
        if seen is None:
            return y, None
        count = seen.long().sum(1, keepdim=True)
        for _ in range(self.config.num_adapter_layers):
            count = (count - 1) // self.config.adapter_stride + 1
        return y, ops.arange(y.shape[1], device=y.device).unsqueeze(0) < count

    def frames(self, samples: Tensor, attention_mask: Tensor | None) -> Tensor:
        """What the encoder reads (batch, frames, width) of samples (batch, n)."""
        x = self._convolved(samples, attention_mask)
        if getattr(self.config, "feat_proj_layer_norm", True):
            x = self.part("feature_projection.layer_norm", x)
        return self.part("feature_projection.projection", x)

    def _convolved(self, samples: Tensor, attention_mask: Tensor | None) -> Tensor:
        check_samples(self.config.model_type, samples, attention_mask, self.least)
        x = samples.to(float32).unsqueeze(1)
        for i in range(len(self.convs)):
            x = self.part(f"feature_extractor.conv_layers.{i}", x)
        return x.transpose(1, 2)

    def encode(self, x: Tensor, seen: Tensor | None) -> list[Tensor]:
        """Frames (batch, frames, width) before the first layer, after each, and at the end."""
        x = x + self.part("encoder.pos_conv_embed", x)
        before = self.spec.place == "before"
        x = x if before else self.part("encoder.layer_norm", x)
        states, context = [x], self.context(x, seen)
        for i, path in enumerate(self.spec.paths):
            x = self.get_submodule(self.prefix + path)(x, context, i)
            states.append(x)
        return [*states, self.part("encoder.layer_norm", x) if before else x]

    def context(self, x: Tensor, seen: Tensor | None) -> EncoderContext:
        """What the layers share, for frames (batch, frames, width)."""
        return EncoderContext(None if seen is None else seen[:, None, None, :], None, {})

    def _seen(self, mask: Tensor, frames: int) -> Tensor:
        """(batch, frames), false for frames that are not wholly of samples that `mask` shows."""
        count = (mask != 0).long().sum(1, keepdim=True)
        for _, kernel, stride in self.convs:
            count = (count - kernel) // stride + 1
        return ops.arange(frames, device=mask.device).unsqueeze(0) < count.clamp(min=1)

    def put(self, path: str, module: nn.Module) -> None:
        """Make the base's module at a path."""
        put(self, self.prefix + path, module)

    def part(self, path: str, x: Tensor) -> Tensor:
        """What the base's module at a path makes of x."""
        out: Tensor = self.get_submodule(self.prefix + path)(x)
        return out

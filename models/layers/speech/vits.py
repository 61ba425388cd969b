"""The network of VITS: tokens to means of a hidden spectrogram, a flow, and HiFi-GAN."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.convolution import conv1d
from rushlight.core.functional.network.padding import pad
from rushlight.core.jit import capture
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import is_grad_enabled
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.speech.hifigan import Vocoder, VocoderSpec
from rushlight.models.layers.speech.vits_durations import DrawnDurations, PlainDurations
from rushlight.models.layers.speech.voice import MOST_FRAMES, Voice, VoiceText

Array = npt.NDArray[Any]
_HIDDEN = -1e9  # the score of a token that is padding


class NormedConv(nn.Module):
    """A convolution whose weight is a length and a direction for each channel.

    The names are those of torch's parametrization (Salimans and Kingma, 2016). The weight itself is
    kept between calls that need no gradient.
    """

    def __init__(self, inside: int, outside: int, taps: int, dilation: int = 1) -> None:
        self.dilation, self.padding = dilation, (taps * dilation - dilation) // 2
        self.bias = parameter(outside)
        self.parametrizations: Any = nn.Module()
        of_weight: Any = nn.Module()
        of_weight.original0 = parameter(outside, 1, 1)
        of_weight.original1 = parameter(outside, inside, taps)
        self.parametrizations.weight = of_weight
        self._cached_weight: tuple[tuple[Any, ...], Tensor] | None = None

    def reset_parameters(self) -> None:
        """Normal numbers of length one."""
        init.zeros_(self.bias)
        init.ones_(self.parametrizations.weight.original0)
        init.normal_(self.parametrizations.weight.original1)

    @property
    def weight(self) -> Tensor:
        """The weight (out, in, taps)."""
        length = self.parametrizations.weight.original0
        direction = self.parametrizations.weight.original1
        grad = is_grad_enabled() and (length.requires_grad or direction.requires_grad)
        keeps = not grad and not capture.active
        storages = length.storage, direction.storage
        versions = [storage.version for storage in storages]
        if keeps and self._cached_weight is not None:
            before, cached = self._cached_weight
            if all(a is b for a, b in zip(before[0], storages, strict=True)) and (
                before[1:] == (versions, direction.dtype)
            ):
                return cached
        v = direction.to(float32)
        scale = length.to(float32) / (v * v).sum((1, 2), keepdim=True).sqrt()
        weight: Tensor = (v * scale).to(direction.dtype)
        self._cached_weight = ((storages, versions, direction.dtype), weight) if keeps else None
        return weight

    def forward(self, x: Tensor) -> Tensor:
        """(batch, in, n) -> (batch, out, n)."""
        out: Tensor = conv1d(
            x, self.weight, self.bias, padding=self.padding, dilation=self.dilation
        )
        return out


class WaveNet(nn.Module):
    """Gated convolutions of growing dilation, and a sum of what each gives (van den Oord, 2016)."""

    def __init__(self, c: Any, count: int) -> None:
        self.width, width, taps = c.hidden_size, c.hidden_size, c.wavenet_kernel_size
        if c.speaker_embedding_size:
            self.cond_layer = NormedConv(c.speaker_embedding_size, 2 * width * count, 1)
        self.in_layers = nn.ModuleList(
            [NormedConv(width, 2 * width, taps, c.wavenet_dilation_rate**i) for i in range(count)]
        )
        self.res_skip_layers = nn.ModuleList(
            [NormedConv(width, width * (1 + (i < count - 1)), 1) for i in range(count)]
        )

    def forward(self, x: Tensor, mask: Tensor | None, speaker: Tensor | None) -> Tensor:
        """x (batch, width, n) -> the same; mask (batch, 1, n), None for no padding."""
        width, total = self.width, None
        from_speaker = None if speaker is None else self.cond_layer(speaker)
        last = len(self.in_layers) - 1
        for i, (gates, out) in enumerate(zip(self.in_layers, self.res_skip_layers, strict=True)):
            y = gates(x)
            if from_speaker is not None:
                y = y + from_speaker[:, 2 * width * i : 2 * width * (i + 1)]
            y = out(y[:, :width].tanh() * y[:, width:].sigmoid())
            skip = y[:, width:] if i < last else y
            total = skip if total is None else total + skip
            if i < last:
                x = _masked(x + y[:, :width], mask)
        assert total is not None
        return _masked(total, mask)


class Coupling(nn.Module):
    """A coupling that shifts the second half of the channels by what the first half says."""

    def __init__(self, c: Any) -> None:
        self.shifted = c.flow_size // 2
        self.conv_pre = nn.Conv1d(self.shifted, c.hidden_size, 1)
        self.wavenet = WaveNet(c, c.prior_encoder_num_wavenet_layers)
        self.conv_post = nn.Conv1d(c.hidden_size, self.shifted, 1)

    def forward(self, x: Tensor, mask: Tensor | None, speaker: Tensor | None) -> Tensor:
        """x (batch, channels, n) -> the same, backwards."""
        first, second = x[:, : self.shifted], x[:, self.shifted :]
        y = self.wavenet(_masked(self.conv_pre(first), mask), mask, speaker)
        return cat([first, _masked(second - self.conv_post(y), mask)], 1)


class WindowAttention(nn.Module):
    """Attention with learnt keys and values of distances within a window (Shaw et al., 2018)."""

    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    out_proj: nn.Linear

    def __init__(self, c: Any) -> None:
        width, self.heads, self.window = c.hidden_size, c.num_attention_heads, c.window_size
        self.size = width // self.heads
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            self.register_module(name, nn.Linear(width, width, bias=c.use_bias))
        if self.window:
            self.emb_rel_k = parameter(1, 2 * self.window + 1, self.size)
            self.emb_rel_v = parameter(1, 2 * self.window + 1, self.size)

    def forward(
        self, x: Tensor, bias: Tensor | None, places: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """x (batch, n, width) -> the same; bias (batch, 1, 1, n) is added to the scores.

        places: see `_places`.
        """
        batch, n, width = x.shape

        def headed(y: Tensor) -> Tensor:
            return y.reshape(batch, n, self.heads, self.size).transpose(1, 2)

        q = headed(self.q_proj(x) * self.size**-0.5)
        k, v = headed(self.k_proj(x)), headed(self.v_proj(x))
        scores = q @ k.transpose(2, 3)
        count = 2 * (self.window or 0) + 1
        if places is not None:  # a column of zeros is for what is farther away
            near = pad(q @ self.emb_rel_k.transpose(1, 2), (0, 1))
            index = places[0].expand(batch, self.heads, n, n)
            scores = scores + ops.gather(near, 3, index)
        if bias is not None:
            scores = scores + bias
        shares = scores.softmax(-1)
        y = shares @ v
        if places is not None:
            index = places[1].expand(batch, self.heads, n, count)
            y = y + ops.gather(pad(shares, (0, 1)), 3, index) @ self.emb_rel_v
        out: Tensor = self.out_proj(y.transpose(1, 2).reshape(batch, n, width))
        return out


def _places(n: int, window: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """(n, n): the place of each distance in the window, or the one after it; and (n, 2w + 1): the
    token at each distance, or the one after the last."""
    distance = np.arange(n)[None] - np.arange(n)[:, None] + window
    outside = (distance < 0) | (distance > 2 * window)
    tokens = np.arange(2 * window + 1)[None] - window + np.arange(n)[:, None]
    beyond = (tokens < 0) | (tokens >= n)
    near = np.where(outside, 2 * window + 1, distance), np.where(beyond, n, tokens)
    first, second = (tensor(x.astype(np.int64), device=like.device) for x in near)
    return first, second


class TextLayer(nn.Module):
    """Attention and convolutions over tokens, with a norm after each."""

    def __init__(self, c: Any) -> None:
        width, taps = c.hidden_size, c.ffn_kernel_size
        self.attention = WindowAttention(c)
        self.layer_norm = nn.LayerNorm(width, eps=c.layer_norm_eps)
        self.feed_forward: Any = nn.Module()
        self.feed_forward.conv_1 = nn.Conv1d(width, c.ffn_dim, taps)
        self.feed_forward.conv_2 = nn.Conv1d(c.ffn_dim, width, taps)
        self.final_layer_norm = nn.LayerNorm(width, eps=c.layer_norm_eps)
        self.pads, self.activation = ((taps - 1) // 2, taps // 2), ACTIVATIONS[c.hidden_act]

    def forward(self, x: Tensor, mask: Tensor | None, bias: Tensor | None, places: Any) -> Tensor:
        """x (batch, n, width) -> the same; mask (batch, 1, n)."""
        x = self.layer_norm(x + self.attention(x, bias, places))
        y = _masked(x.transpose(1, 2), mask)
        y = self.activation(self.feed_forward.conv_1(pad(y, self.pads)))
        y = self.feed_forward.conv_2(pad(_masked(y, mask), self.pads))
        out: Tensor = self.final_layer_norm(x + _masked(y, mask).transpose(1, 2))
        return out


@dataclass(frozen=True)
class Said:
    """What VITS makes of tokens before it is known how many frames each has.

    means, logs: (batch, n, channels) of the hidden spectrogram. durations: logs (batch, n).
    speaker: (batch, channels, 1), or None.
    """

    means: Tensor
    logs: Tensor
    durations: Tensor
    speaker: Tensor | None


class VitsModel(Voice):
    """Token ids (batch, n) -> samples (batch, longest), in [-1, 1], `rate` a second."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: VocoderSpec, names: Collection[str]) -> None:
        c = config
        self.config, self.names = c, frozenset(names)
        self.rate, self.step, self.speakers = c.sampling_rate, spec.step, c.num_speakers
        self.text_encoder: Any = nn.Module()
        self.text_encoder.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        encoder: Any = nn.Module()
        encoder.layers = nn.ModuleList([TextLayer(c) for _ in range(c.num_hidden_layers)])
        self.text_encoder.encoder = encoder
        self.text_encoder.project = nn.Conv1d(c.hidden_size, 2 * c.flow_size, 1)
        self.flow: Any = nn.Module()
        self.flow.flows = nn.ModuleList([Coupling(c) for _ in range(c.prior_encoder_num_flows)])
        self.decoder = Vocoder(spec)
        drawn = c.use_stochastic_duration_prediction
        self.duration_predictor = DrawnDurations(c) if drawn else PlainDurations(c)
        if c.num_speakers > 1:
            self.embed_speaker = nn.Embedding(c.num_speakers, c.speaker_embedding_size)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read how texts become tokens."""
        from rushlight.models.speech.speaking.tokens import tokens_of

        self.tokens, own_files = tokens_of(files, self.config)
        self.files = own_files

    def encode(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        speaker: int | None = None,
        noise: Tensor | None = None,
    ) -> Said:
        """What is said by tokens ids (batch, n).

        attention_mask (batch, n): false or zero for padding, which is on the right. speaker: the
        number of one, if the voice has several. noise: (batch, 2, n), scaled, for the durations;
        None: none. ValueError for another shape, or a speaker that the voice does not have.
        """
        if ids.ndim != 2 or 0 in ids.shape:
            raise ValueError(f"vits: ids are {ids.shape}; they must be (batch, n)")
        encoder = self.text_encoder
        x = encoder.embed_tokens(ids) * math.sqrt(self.config.hidden_size)
        mask = bias = None
        if attention_mask is not None:
            seen = attention_mask != 0
            mask = seen.to(x.dtype).unsqueeze(1)
            bias = ops.where(seen, 0.0, _HIDDEN).to(x.dtype)[:, None, None, :]
            x = x * mask.transpose(1, 2)
        window = self.config.window_size
        places = _places(ids.shape[1], window, x) if window else None
        for layer in encoder.encoder.layers:
            x = layer(x, mask, bias, places)
        x = _masked(x.transpose(1, 2), mask)
        stats = _masked(encoder.project(x), mask).transpose(1, 2)
        size = self.config.flow_size
        vector = self._speaker(speaker, ids)
        all_seen = x.new_ones(ids.shape[0], 1, ids.shape[1]) if mask is None else mask
        durations = self.duration_predictor(x, all_seen, vector, noise)
        return Said(stats[..., :size], stats[..., size:], durations, vector)

    def _speaker(self, speaker: int | None, ids: Tensor) -> Tensor | None:
        if speaker is None or self.speakers < 2:
            if speaker:
                raise ValueError(f"vits: speaker is {speaker}; the voice has one speaker, 0")
            return None
        if not 0 <= speaker < self.speakers:
            raise ValueError(
                f"vits: speaker is {speaker}; the voice has speakers 0 to {self.speakers - 1}"
            )
        number = tensor(np.full(ids.shape[:1], speaker, np.int64), device=ids.device)
        vector: Tensor = self.embed_speaker(number).unsqueeze(-1)
        return vector

    def frames(self, logs: Array, speed: float, mask: Array | None = None) -> Array:
        """The frames of each token, (batch, n) int64, of the `logs` of durations (batch, n).

        speed: how fast, 1 as trained. mask: 0 for tokens that are padding. FormatError for numbers
        of no use, which damaged weights give.
        """
        seconds = np.exp(logs.astype(np.float32)) * np.float32(1 / speed)
        seconds = seconds if mask is None else seconds * mask
        frames = np.ceil(seconds)
        if not np.isfinite(frames).all() or frames.sum(1).max() > MOST_FRAMES:
            raise FormatError(
                f"{self.config.model_type}: a text of {logs.shape[1]} tokens would last more than "
                f"{MOST_FRAMES * self.step // self.rate} seconds; its weights or speed are wrong"
            )
        counts: Array = frames.astype(np.int64)
        counts[:, 0] += counts.sum(1) == 0
        return counts

    def decode(self, said: Said, frames: Array, noise: Tensor | None = None) -> Tensor:
        """Samples (batch, longest) of what is said, by `frames` of each token (batch, n).

        said: of `encode`. noise: (batch, channels, longest), scaled; None: none. ValueError where
        `frames` has another shape.
        """
        if frames.shape != tuple(said.means.shape[:2]):
            raise ValueError(
                f"vits: frames are {frames.shape}; they must be {said.means.shape[:2]}, as tokens"
            )
        totals = frames.sum(1)
        longest = int(totals.max())
        rows = np.zeros((len(frames), longest), np.int64)
        for row, counts, total in zip(rows, frames, totals, strict=True):
            row[:total] = np.repeat(np.arange(len(counts)), counts.astype(np.intp))
        index = tensor(rows, device=said.means.device).unsqueeze(-1)
        index = index.expand(*rows.shape, said.means.shape[-1])
        mask = None
        z = ops.gather(said.means, 1, index).transpose(1, 2)
        if noise is not None:
            z = z + noise * ops.gather(said.logs, 1, index).transpose(1, 2).exp()
        if int(totals.min()) < longest:
            seen = (np.arange(longest) < totals[:, None]).astype(np.float32)
            mask = tensor(seen, device=z.device).to(z.dtype).unsqueeze(1)
        for flow in reversed(list(self.flow.flows)):
            z = flow(z.flip(1), mask, said.speaker)
        samples: Tensor = self.decoder(_masked(z, mask), said.speaker)
        return samples

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        speaker: int | None = None,
        *,
        speed: float | None = None,
        noise: tuple[Tensor | None, Any] = (None, None),
    ) -> Tensor:
        """Samples (batch, longest) of token ids (batch, n), with silence after shorter texts.

        attention_mask, speaker: of `encode`. speed: how fast, 1 as trained; default: config.json's
        speaking_rate. noise: scaled noise for durations (batch, 2, n), and what makes that of the
        spectrogram of its shape (batch, channels, frames). ValueError as `encode` has it.
        """
        said = self.encode(ids, attention_mask, speaker, noise[0])
        mask = None if attention_mask is None else attention_mask.numpy()
        speed = self.config.speaking_rate if speed is None else speed
        frames = self.frames(said.durations.detach().numpy(), speed, mask)
        shape = (len(frames), self.config.flow_size, int(frames.sum(1).max()))
        return self.decode(said, frames, noise[1](shape) if noise[1] else None)

    def speak(self, text: VoiceText, options: Mapping[str, Any], draw: Any) -> Any:
        """The samples of `text`, and how many each token has, as `Voice.speak` has it.

        `options` are the task's, `draw` gives normal numbers. ValueError for a speaker that the
        voice does not have, FormatError where the weights give no speech.
        """
        c = self.config
        ids = tensor(np.asarray([text.ids], np.int64), device=self.device)
        scales = [
            usual if options.get(name) is None else options[name]
            for name, usual in (
                ("noise_scale", c.noise_scale),
                ("noise_scale_duration", c.noise_scale_duration),
            )
        ]

        def noise(scale: float, *shape: int) -> Tensor | None:
            if not scale:
                return None
            values = draw(shape) * np.float32(scale)
            return tensor(values, device=self.device).to(self.dtype)

        drawn = c.use_stochastic_duration_prediction
        first = noise(scales[1], 1, 2, len(text.ids)) if drawn else None
        speaker = options.get("speaker")
        if speaker is None and self.speakers > 1:
            speaker = 0
        said = self.encode(ids, None, speaker, first)
        logs = np.asarray((yield said.durations.float().readback()))
        frames = self.frames(logs, c.speaking_rate * options["speed"])
        longest = int(frames.sum())
        samples = self.decode(said, frames, noise(scales[0], 1, c.flow_size, longest))
        values = np.asarray((yield samples.float().readback()), np.float32)[0]
        return values, frames[0] * self.step


def _masked(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x * mask

"""The network of FastSpeech 2 with Conformers: tokens to a spectrogram, and HiFi-GAN."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.activations import glu
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.speech.hifigan import MelVocoder, VocoderSpec
from rushlight.models.layers.speech.vits_durations import normed
from rushlight.models.layers.speech.voice import MOST_FRAMES, Voice, VoiceText

Array = npt.NDArray[Any]
_HIDDEN = -1e9  # the score of a token that is padding


class _Attention(nn.Module):
    """Attention with sines of distances (Dai et al., 2019)."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads, self.size = heads, width // heads
        self.linear_q, self.linear_k = nn.Linear(width, width), nn.Linear(width, width)
        self.linear_v, self.linear_out = nn.Linear(width, width), nn.Linear(width, width)
        self.linear_pos = nn.Linear(width, width, bias=False)
        self.pos_bias_u = parameter(heads, self.size)
        self.pos_bias_v = parameter(heads, self.size)

    def forward(self, x: Tensor, sines: Tensor, index: Tensor, bias: Tensor | None) -> Tensor:
        """x (batch, n, width); sines (2n - 1, width) of distances n - 1 to 1 - n; index (n, n)."""
        batch, n, width = x.shape

        def headed(y: Tensor) -> Tensor:
            return y.reshape(-1, y.shape[-2], self.heads, self.size)

        q = headed(self.linear_q(x))
        k, v = (headed(linear(x)).transpose(1, 2) for linear in (self.linear_k, self.linear_v))
        far = headed(self.linear_pos(sines)).transpose(1, 2)
        scores = (q + self.pos_bias_u).transpose(1, 2) @ k.transpose(2, 3)
        near = (q + self.pos_bias_v).transpose(1, 2) @ far.transpose(2, 3)
        scores = scores + ops.gather(near, 3, index.expand(batch, self.heads, n, n))
        scores = scores / math.sqrt(self.size)
        y = (scores if bias is None else scores + bias).softmax(-1) @ v
        out: Tensor = self.linear_out(y.transpose(1, 2).reshape(batch, n, width))
        return out


class _FeedForward(nn.Module):
    """Two convolutions over time."""

    def __init__(self, width: int, inner: int, taps: int) -> None:
        pads = (taps - 1) // 2
        self.conv1 = nn.Conv1d(width, inner, taps, padding=pads)
        self.conv2 = nn.Conv1d(inner, width, taps, padding=pads)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n, width) -> the same."""
        out: Tensor = self.conv2(self.conv1(x.transpose(1, 2)).relu()).transpose(1, 2)
        return out


class _Convolution(nn.Module):
    """The Conformer's gated, separable convolution (Gulati et al., 2020)."""

    def __init__(self, width: int, taps: int, bias: bool) -> None:
        self.pointwise_conv1 = nn.Conv1d(width, 2 * width, 1, bias=bias)
        pads = (taps - 1) // 2
        self.depthwise_conv = nn.Conv1d(width, width, taps, padding=pads, groups=width, bias=bias)
        self.norm = nn.BatchNorm1d(width)
        self.pointwise_conv2 = nn.Conv1d(width, width, 1, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n, width) -> the same."""
        y = glu(self.pointwise_conv1(x.transpose(1, 2)), 1)
        out: Tensor = self.pointwise_conv2(ops.silu(self.norm(self.depthwise_conv(y))))
        return out.transpose(1, 2)


class _Layer(nn.Module):
    """Half a feed-forward, attention, a convolution, and half a feed-forward, or a whole one."""

    def __init__(self, c: Any, side: str) -> None:
        width, macaron = c.hidden_size, c.use_macaron_style_in_conformer
        inner, taps = getattr(c, f"{side}_linear_units"), c.positionwise_conv_kernel_size
        self.before = getattr(c, f"{side}_normalize_before")
        self.scale = 0.5 if macaron else 1.0
        self.self_attn = _Attention(width, getattr(c, f"{side}_num_attention_heads"))
        self.feed_forward = _FeedForward(width, inner, taps)
        self.macaron = macaron
        if macaron:
            self.feed_forward_macaron = _FeedForward(width, inner, taps)
            self.ff_macaron_layer_norm = nn.LayerNorm(width)
        self.conv_module = _Convolution(
            width, getattr(c, f"{side}_kernel_size"), c.convolution_bias
        )
        self.conv_layer_norm, self.final_layer_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ff_layer_norm, self.self_attn_layer_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.joined = getattr(c, f"{side}_concat_after")
        if self.joined:
            self.concat_linear = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, sines: Tensor, index: Tensor, bias: Tensor | None) -> Tensor:
        """(batch, n, width) -> the same; see `_Attention`."""

        def attended(y: Tensor) -> Tensor:
            out: Tensor = self.self_attn(y, sines, index, bias)
            if self.joined:
                out = self.concat_linear(cat([y, out], -1))
            return out

        if self.macaron:
            x = self._added(x, self.feed_forward_macaron, self.ff_macaron_layer_norm, self.scale)
        x = self._added(x, attended, self.self_attn_layer_norm, 1.0)
        x = self._added(x, self.conv_module, self.conv_layer_norm, 1.0)
        x = self._added(x, self.feed_forward, self.ff_layer_norm, self.scale)
        out: Tensor = self.final_layer_norm(x)
        return out

    def _added(self, x: Tensor, part: Any, norm: nn.Module, scale: float) -> Tensor:
        y = part(norm(x) if self.before else x)
        y = x + (y if scale == 1 else scale * y)
        out: Tensor = y if self.before else norm(y)
        return out


class _Conformer(nn.Module):
    """Layers over what is said of each place, with sines of distances."""

    def __init__(self, c: Any, side: str) -> None:
        self.width = c.hidden_size
        if side == "encoder":
            self.embed = nn.Embedding(c.vocab_size, c.hidden_size)
        layers = range(getattr(c, f"{side}_layers"))
        self.conformer_layers = nn.ModuleList([_Layer(c, side) for _ in layers])

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x (batch, n, width) -> the same."""
        n = x.shape[1]
        distance = np.arange(n - 1, -n, -1)[:, None]
        rates = np.exp(np.arange(0, self.width, 2) * (-math.log(10000.0) / self.width))
        angles = np.zeros((2 * n - 1, self.width), np.float32)
        angles[:, 0::2] = np.sin(distance * rates)
        angles[:, 1::2] = np.cos(distance * rates)[:, : self.width // 2]
        places = (n - 1 - np.arange(n)[:, None] + np.arange(n)[None]).astype(np.int64)
        sines, index = (tensor(a, device=x.device) for a in (angles, places))
        sines = sines.to(x.dtype)
        x = x * math.sqrt(self.width)
        for layer in self.conformer_layers:
            x = layer(x, sines, index, bias)
        return x


class _PredictorLayer(nn.Module):
    def __init__(self, inside: int, width: int, taps: int) -> None:
        self.conv = nn.Conv1d(inside, width, taps, padding=(taps - 1) // 2)
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, in, n) -> (batch, width, n)."""
        return normed(self.layer_norm, self.conv(x).relu())


class _Predictor(nn.Module):
    """A number for each token."""

    def __init__(self, c: Any, what: str) -> None:
        width, taps = (getattr(c, f"{what}_predictor_{n}") for n in ("channels", "kernel_size"))
        count = getattr(c, f"{what}_predictor_layers")
        self.conv_layers = nn.ModuleList(
            [_PredictorLayer(width if i else c.hidden_size, width, taps) for i in range(count)]
        )
        self.linear = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n, width) -> (batch, n, 1)."""
        y = x.transpose(1, 2)
        for layer in self.conv_layers:
            y = layer(y)
        out: Tensor = self.linear(y.transpose(1, 2))
        return out


class _Embedding(nn.Module):
    def __init__(self, width: int, taps: int) -> None:
        self.conv = nn.Conv1d(1, width, taps, padding=(taps - 1) // 2)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n, 1) -> (batch, n, width)."""
        out: Tensor = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return out


class _PostLayer(nn.Module):
    def __init__(self, inside: int, outside: int, taps: int, last: bool) -> None:
        self.conv = nn.Conv1d(inside, outside, taps, padding=(taps - 1) // 2, bias=False)
        self.batch_norm, self.last = nn.BatchNorm1d(outside), last

    def forward(self, x: Tensor) -> Tensor:
        """(batch, in, n) -> (batch, out, n)."""
        y: Tensor = self.batch_norm(self.conv(x))
        return y if self.last else y.tanh()


class Postnet(nn.Module):
    """Frames of the spectrogram, and what is added to them by convolutions."""

    def __init__(self, c: Any) -> None:
        self.bins, units = c.num_mel_bins, c.speech_decoder_postnet_units
        count = c.speech_decoder_postnet_layers
        self.feat_out = nn.Linear(c.hidden_size, self.bins * c.reduction_factor)
        self.layers = nn.ModuleList(
            [
                _PostLayer(
                    units if i else self.bins,
                    units if i < count - 1 else self.bins,
                    c.speech_decoder_postnet_kernel,
                    i == count - 1,
                )
                for i in range(count)
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n, width) -> (batch, bins, frames)."""
        return self.refined(self.feat_out(x).reshape(x.shape[0], -1, self.bins).transpose(1, 2))

    def refined(self, frames: Tensor) -> Tensor:
        """Frames (batch, bins, n) with what convolutions add to them."""
        y = frames
        for layer in self.layers:
            y = layer(y)
        out: Tensor = frames + y
        return out


class FastSpeechModel(Voice):
    """Token ids (batch, n) -> samples (batch, longest), in [-1, 1]."""

    unfollowed = ("noise_scale", "noise_scale_duration", "seed", "phonemizer", "lexicon")

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: VocoderSpec, normalized: bool, rate: int) -> None:
        """config: of the spectrogram's model. spec, normalized: of the vocoder."""
        c = config
        self.config, self.rate, self.step = c, rate, spec.step * c.reduction_factor
        inner: Any = nn.Module()
        inner.encoder, inner.decoder = _Conformer(c, "encoder"), _Conformer(c, "decoder")
        inner.duration_predictor = _Predictor(c, "duration")
        for what in ("pitch", "energy"):
            inner.register_module(f"{what}_predictor", _Predictor(c, what))
            taps = getattr(c, f"{what}_embed_kernel_size")
            inner.register_module(f"{what}_embed", _Embedding(c.hidden_size, taps))
        inner.speech_decoder_postnet = Postnet(c)
        self.model = inner
        self.vocoder = MelVocoder(spec, normalized)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read how texts become tokens."""
        from rushlight.models.speech.speaking.arpabet_tokens import arpabet_tokens

        self.tokens, self.files = arpabet_tokens(files, self.config.vocab_size)

    def encode(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """What is said of each token (batch, n, width), and logs of durations (batch, n).

        ids: (batch, n). ValueError for another shape.
        """
        if ids.ndim != 2 or 0 in ids.shape:
            raise ValueError(f"fastspeech2_conformer: ids are {ids.shape}; they must be (batch, n)")
        m: Any = self.model
        x = m.encoder(m.encoder.embed(ids))
        pitch, energy = m.pitch_embed(m.pitch_predictor(x)), m.energy_embed(m.energy_predictor(x))
        return x + energy + pitch, m.duration_predictor(x)[..., 0]

    def frames(self, logs: Array, speed: float) -> Array:
        """The frames of each token, (batch, n) int64, of the `logs` of durations; speed: how fast.

        FormatError for numbers of no use, which damaged weights give.
        """
        frames = np.maximum(np.round(np.exp(logs.astype(np.float32)) - np.float32(1)), 0)
        slow = self.config.speaking_speed / speed
        frames = frames if slow == 1 else np.round(frames * np.float32(slow))
        if not np.isfinite(frames).all() or frames.sum(1).max() > MOST_FRAMES:
            raise FormatError("fastspeech2_conformer: durations are too long: wrong weights")
        counts: Array = frames.astype(np.int64)
        if not counts.sum():
            counts[:] = 1
        return counts

    def decode(self, x: Tensor, frames: Array) -> Tensor:
        """Samples (batch, longest) of what `encode` says, by `frames` of each token (batch, n).

        `x` is (batch, n, width). ValueError where the frames have another shape.
        """
        if frames.shape != tuple(x.shape[:2]):
            raise ValueError(
                f"fastspeech2_conformer: frames are {frames.shape}; they must be {x.shape[:2]}"
            )
        totals = frames.sum(1)
        longest = int(totals.max())
        rows, seen = np.zeros((len(frames), longest), np.int64), np.zeros((len(frames), longest))
        for i, (counts, total) in enumerate(zip(frames, totals, strict=True)):
            rows[i, :total] = np.repeat(np.arange(len(counts)), counts.astype(np.intp))
            seen[i, :total] = 1
        index = tensor(rows, device=x.device).unsqueeze(-1).expand(*rows.shape, x.shape[-1])
        kept = tensor(seen.astype(np.float32), device=x.device).to(x.dtype).unsqueeze(-1)
        m: Any = self.model
        mel = m.speech_decoder_postnet(m.decoder(ops.gather(x, 1, index) * kept))
        samples: Tensor = self.vocoder(mel)
        return samples

    def forward(self, ids: Tensor, *, speed: float = 1.0) -> Tensor:
        """Samples (batch, longest) of token ids (batch, n); speed: how fast, 1 as trained.

        ValueError as `encode` has it.
        """
        x, logs = self.encode(ids)
        return self.decode(x, self.frames(logs.detach().numpy(), speed))

    def speak(self, text: VoiceText, options: Mapping[str, Any], draw: Any) -> Any:
        """The samples of `text`, and how many each token has, as `Voice.speak` has it.

        `options` are the task's; `draw` is not used. FormatError where the weights give no speech.
        """
        x, logs = self.encode(tensor(np.asarray([text.ids], np.int64), device=self.device))
        values = np.asarray((yield logs.float().readback()))
        frames = self.frames(values, options["speed"])
        samples = self.decode(x, frames)
        heard = np.asarray((yield samples.float().readback()), np.float32)[0]
        return heard, frames[0] * self.step

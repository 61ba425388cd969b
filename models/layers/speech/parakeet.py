"""The network of Parakeet: fast conformers over mel features, with CTC or a transducer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.mel import mel_filters
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.speech.conformer import by_distance, distance_angles
from rushlight.models.layers.speech.letters import Letters, stored_letters
from rushlight.models.layers.speech.samples import RATE, stored_settings
from rushlight.models.layers.speech.wav2vec2 import WaveModel
from rushlight.models.layers.speech.wave_heads import MOST_TAPS
from rushlight.models.small_files import small_json

HOP, WINDOW, N_FFT = 160, 400, 512
_EMPHASIS, _LEAST_POWER, _LEAST_SPREAD = 0.97, 2.0**-24, 1e-5
_TOGETHER = 2048  # frames whose spectra are in memory at once


def mel_features(samples: npt.NDArray[np.float32], bins: int) -> npt.NDArray[np.float32]:
    """Logarithms of powers (frames, bins) of samples (n,), scaled per bin; a frame each 10 ms.

    As NeMo has them: emphasized, in Hann windows of 25 ms around each hop, mean 0 and variance 1.
    """
    wide = samples.astype(np.float64)
    wide = np.concatenate([wide[:1], wide[1:] - _EMPHASIS * wide[:-1]])
    frames = len(wide) // HOP
    full = np.concatenate([np.zeros(N_FFT // 2), wide, np.zeros(N_FFT)])
    window = np.zeros(N_FFT)
    before = (N_FFT - WINDOW) // 2
    window[before : before + WINDOW] = np.hanning(WINDOW)
    filters = mel_filters(bins, N_FFT, RATE).T
    features = np.zeros((frames, bins))
    for first in range(0, frames, _TOGETHER):
        count = min(_TOGETHER, frames - first)
        piece = full[first * HOP : (first + count - 1) * HOP + N_FFT]
        waves = np.lib.stride_tricks.sliding_window_view(piece, N_FFT)[::HOP]
        powers = np.abs(np.fft.rfft(waves * window)) ** 2
        features[first : first + count] = np.log(powers @ filters + _LEAST_POWER)
    if frames < 2:
        return np.zeros((frames, bins), np.float32)
    spread = features.std(0, ddof=1) + _LEAST_SPREAD
    return np.asarray((features - features.mean(0)) / spread, np.float32)


class Subsampling(nn.Module):
    """Convolutions over frames and mels, each of which halves both, and a projection."""

    def __init__(self, c: Any) -> None:
        taps, stride, channels = (
            c.subsampling_conv_kernel_size,
            c.subsampling_conv_stride,
            c.subsampling_conv_channels,
        )
        count = int(np.log2(max(c.subsampling_factor, 1)))
        if taps % 2 == 0 or not (0 < taps <= MOST_TAPS and 1 < stride <= 16 and 0 < count <= 16):
            raise FormatError(
                f"config.json: subsampling_conv_kernel_size {taps}, subsampling_conv_stride "
                f"{stride} and subsampling_factor {c.subsampling_factor} do not fit; supported: an "
                "odd size, 2 to 16, and a factor of 2 or more"
            )
        self.sizes = taps, stride, count
        layers: list[nn.Module] = [
            nn.Conv2d(1, channels, taps, stride=stride, padding=taps // 2),
            nn.ReLU(),
        ]
        for _ in range(count - 1):
            layers += [
                nn.Conv2d(
                    channels, channels, taps, stride=stride, padding=taps // 2, groups=channels
                ),
                nn.Conv2d(channels, channels, 1),
                nn.ReLU(),
            ]
        self.layers = nn.ModuleList(layers)
        self.linear = nn.Linear(channels * (c.num_mel_bins // stride**count), c.hidden_size)

    def counted(self, count: Tensor) -> Tensor:
        """How many frames come of so many."""
        taps, stride, layers = self.sizes
        for _ in range(layers):
            count = (count + 2 * (taps // 2) - taps) // stride + 1
        return count

    def forward(self, x: Tensor, count: Tensor | None) -> Tensor:
        """(batch, frames, mels) -> (batch, fewer, width); count (batch, 1): frames to be read."""
        x = x.unsqueeze(1)
        taps, stride, _ = self.sizes
        for layer in self.layers:
            x = layer(x)
            if count is None or not isinstance(layer, nn.Conv2d):
                continue
            if layer.stride != (1, 1):
                count = (count + 2 * (taps // 2) - taps) // stride + 1
            places = ops.arange(x.shape[2], device=x.device).unsqueeze(0)
            x = ops.where((places < count)[:, None, :, None], x, 0.0)
        x = x.transpose(1, 2)
        out: Tensor = self.linear(x.reshape(x.shape[0], x.shape[1], -1))
        return out


class ParakeetLayer(nn.Module):
    """A conformer whose attention reads distances (Rekesh et al., 2023)."""

    def __init__(self, c: Any) -> None:
        width, heads = c.hidden_size, c.num_attention_heads
        self.heads, self.size = heads, c.head_dim or width // max(heads, 1)
        inside, biased = heads * self.size, c.attention_bias
        for i in (1, 2):
            put(self, f"feed_forward{i}.linear1", nn.Linear(width, c.intermediate_size, biased))
            put(self, f"feed_forward{i}.linear2", nn.Linear(c.intermediate_size, width, biased))
        for name in "qkv":
            put(self, f"self_attn.{name}_proj", nn.Linear(width, inside, bias=biased))
        put(self, "self_attn.o_proj", nn.Linear(inside, width, bias=biased))
        put(self, "self_attn.relative_k_proj", nn.Linear(width, inside, bias=False))
        attention: Any = self.get_submodule("self_attn")
        attention.bias_u, attention.bias_v = (parameter(heads, self.size) for _ in range(2))
        taps, bias = c.conv_kernel_size, c.convolution_bias
        if taps % 2 == 0 or not 0 < taps <= MOST_TAPS:
            raise FormatError(f"config.json: conv_kernel_size is {taps}; it must be odd")
        put(self, "conv.pointwise_conv1", nn.Conv1d(width, 2 * width, 1, bias=bias))
        put(
            self,
            "conv.depthwise_conv",
            nn.Conv1d(width, width, taps, padding=taps // 2, groups=width, bias=bias),
        )
        put(self, "conv.norm", nn.BatchNorm1d(width))
        put(self, "conv.pointwise_conv2", nn.Conv1d(width, width, 1, bias=bias))
        for name in ("feed_forward1", "self_att", "conv", "feed_forward2", "out"):
            setattr(self, f"norm_{name}", nn.LayerNorm(width))
        self.activation = ACTIVATIONS[c.hidden_act]

    def forward(self, x: Tensor, seen: Tensor | None, angles: Tensor) -> Tensor:
        """(batch, frames, width) -> the same; seen (batch, frames): false for padding."""
        x = x + 0.5 * self._fed(1, self._normed("feed_forward1", x))
        x = x + self._attention(self._normed("self_att", x), seen, angles)
        x = x + self._convolved(self._normed("conv", x), seen)
        x = x + 0.5 * self._fed(2, self._normed("feed_forward2", x))
        return self._normed("out", x)

    def _normed(self, name: str, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(f"norm_{name}")(x)
        return out

    def _fed(self, number: int, x: Tensor) -> Tensor:
        y = self.activation(self.get_submodule(f"feed_forward{number}.linear1")(x))
        out: Tensor = self.get_submodule(f"feed_forward{number}.linear2")(y)
        return out

    def _attention(self, x: Tensor, seen: Tensor | None, angles: Tensor) -> Tensor:
        part: Any = self.get_submodule("self_attn")
        batch, length, _ = x.shape
        q, k, v = (
            y.reshape(batch, length, self.heads, self.size).transpose(1, 2)
            for y in (part.q_proj(x), part.k_proj(x), part.v_proj(x))
        )
        keys = part.relative_k_proj(angles).reshape(-1, self.heads, self.size).permute(1, 2, 0)
        scale = self.size**-0.5
        bias = by_distance((q + part.bias_v.unsqueeze(1)) @ keys) * scale
        mask = None if seen is None else seen[:, None, None, :]
        y = ops.attention(q + part.bias_u.unsqueeze(1), k, v, mask=mask, bias=bias, scale=scale)
        out: Tensor = part.o_proj(y.transpose(1, 2).reshape(batch, length, -1))
        return out

    def _convolved(self, x: Tensor, seen: Tensor | None) -> Tensor:
        part: Any = self.get_submodule("conv")
        a, b = part.pointwise_conv1(x.transpose(1, 2)).chunk(2, 1)
        x = a * b.sigmoid()
        x = x if seen is None else ops.where(seen.unsqueeze(1), x, 0.0)
        y = self.activation(part.norm(part.depthwise_conv(x)))
        out: Tensor = part.pointwise_conv2(y)
        return out.transpose(1, 2)


class ParakeetModel(WaveModel):
    """Parakeet (NVIDIA, 2024): mel features to a token for each frame, by CTC."""

    base = "encoder"
    head = True

    @nn.layers_on("meta")
    def __init__(self, config: Any, encoder: Any, names: Collection[str]) -> None:
        """config, encoder: those of the model and of its encoder; names: the checkpoint's."""
        self.config, self.encoding, self.features = config, encoder, encoder.num_mel_bins
        self.kind, self.labels, self.problem = "ctc", (), None
        put(self, "encoder.subsampling", Subsampling(encoder))
        layers = [ParakeetLayer(encoder) for _ in range(encoder.num_hidden_layers)]
        put(self, "encoder.layers", nn.ModuleList(layers))
        self.scaled = encoder.hidden_size**0.5 if encoder.scale_input else 1.0
        self.letters: Letters | None = None
        self.put_head()

    def put_head(self) -> None:
        """Make what follows the encoder."""
        self.ctc_head = nn.Conv1d(self.encoding.hidden_size, self.config.vocab_size, 1)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Check the features' settings; read the pieces of words."""
        stored_settings(files, "ParakeetFeatureExtractor", feature_size=self.features)
        self.letters = stored_letters(files, self.config.vocab_size, self._blank)

    @property
    def _blank(self) -> int | None:
        blank: int | None = self.config.pad_token_id
        return blank

    @property
    def step(self) -> int:
        """The number of samples from one frame to the next."""
        _, stride, count = self.encoding_sizes
        return HOP * int(stride**count)

    @property
    def encoding_sizes(self) -> tuple[int, int, int]:
        """Taps, stride and number of the convolutions that make fewer frames."""
        subsampling: Any = self.get_submodule("encoder.subsampling")
        sizes: tuple[int, int, int] = subsampling.sizes
        return sizes

    @property
    def least(self) -> int:
        """The number of samples that make two frames of features, whose spread is known."""
        return 2 * HOP

    def ready(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The features (1, frames, mels) of one recording's samples (n,)."""
        enough = np.zeros(max(0, self.least - len(samples)), np.float32)
        return mel_features(np.concatenate([samples, enough]), self.features)[None]

    def forward(self, samples: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits (batch, fewer frames, vocab) of features (batch, frames, mels), see `ready`.

        attention_mask (batch, frames): false or zero for padding, which is on the right. ValueError
        for another shape, TypeError for whole numbers.

        `samples` are the features.
        """
        x, _ = self.encoded(samples, attention_mask)
        out: Tensor = self.ctc_head(x.transpose(1, 2))
        return out.transpose(1, 2)

    def encoded(self, features: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """States (batch, fewer frames, width), and which are seen; arguments as of `forward`."""
        name, wanted = self.config.model_type, self.features
        if features.ndim != 3 or features.shape[2] != wanted or not features.shape[1]:
            raise ValueError(
                f"{name}: features are {features.shape}; they must be (batch, frames, {wanted})"
            )
        if not features.dtype.is_floating_point:
            raise TypeError(f"{name}: features are {features.dtype.name}; they must be float32")
        if mask is not None and mask.shape != features.shape[:2]:
            raise ValueError(
                f"{name}: attention_mask is {mask.shape}; it must be {features.shape[:2]}"
            )
        count = None if mask is None else (mask != 0).long().sum(1, keepdim=True)
        subsampling: Any = self.get_submodule("encoder.subsampling")
        x = subsampling(features.to(float32), count) * self.scaled
        seen = None
        if count is not None:
            places = ops.arange(x.shape[1], device=x.device).unsqueeze(0)
            seen = places < subsampling.counted(count)
        angles = tensor(distance_angles(x.shape[1], x.shape[2]), device=x.device)
        for layer in self.get_submodule("encoder.layers"):  # type: ignore[attr-defined]
            x = layer(x, seen, angles)
        return x, seen

    def seen_frames(self, mask: Tensor) -> Tensor:
        """(batch, fewer frames), false for padding, by attention_mask (batch, frames)."""
        subsampling: Any = self.get_submodule("encoder.subsampling")
        count = subsampling.counted((mask != 0).long().sum(1, keepdim=True))
        frames = int(subsampling.counted(tensor([mask.shape[1]])).item())
        seen: Tensor = ops.arange(frames, device=mask.device).unsqueeze(0) < count
        return seen


class TransducerModel(ParakeetModel):
    """Parakeet as a transducer (Graves, 2012): text from frames and the text before it.

    With durations (Xu et al., 2023) a token also says how many frames it is long. start: the token
    that stands before a text.
    """

    def put_head(self) -> None:
        """Make what reads the text, and what joins both."""
        c, width = self.config, self.config.decoder_hidden_size
        self.durations: tuple[int, ...] = tuple(getattr(c, "durations", ()))
        if not 0 < c.num_decoder_layers <= 64 or any(
            type(n) is not int or not 0 <= n <= 64 for n in self.durations
        ):
            raise FormatError(
                f"config.json: num_decoder_layers {c.num_decoder_layers} and durations "
                f"{list(self.durations)!r:.80} are out of range; supported: up to 64"
            )
        self.encoder_projector = nn.Linear(self.encoding.hidden_size, width)
        put(self, "decoder.embedding", nn.Embedding(c.vocab_size, width))
        put(
            self,
            "decoder.lstm",
            nn.LSTM(width, width, num_layers=c.num_decoder_layers, batch_first=True),
        )
        put(self, "decoder.decoder_projector", nn.Linear(width, width))
        put(self, "joint.head", nn.Linear(width, c.vocab_size + len(self.durations)))
        self.activation, self.start = ACTIVATIONS[c.hidden_act], c.blank_token_id

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Check the features' settings; read the pieces of words, and the first token."""
        super().configure(files)
        stored = small_json(files, "config.json") | small_json(files, "generation_config.json")
        start = stored.get("decoder_start_token_id", self.blank)
        start = self.blank if start is None else start
        if type(start) is not int or not 0 <= start < self.config.vocab_size:
            raise FormatError(
                f"decoder_start_token_id is {start!r:.80}; it must be one of "
                f"{self.config.vocab_size} tokens"
            )
        self.start = start

    @property
    def _blank(self) -> int | None:
        return self.blank

    @property
    def blank(self) -> int:
        """The token that says nothing."""
        return int(self.config.blank_token_id)

    def transcriber(self, options: Mapping[str, Any]) -> Any:
        """What transcribes with these options of the task automatic-speech-recognition."""
        from rushlight.models.speech.transducer import TransducerTranscriber

        return TransducerTranscriber(self, options)

    @property
    def followed(self) -> frozenset[str]:
        """The options of automatic-speech-recognition that the checkpoint follows."""
        from rushlight.models.speech.transducer import TransducerTranscriber

        words = self.letters is not None and self.letters.words
        return frozenset(TransducerTranscriber.taken) - (set() if words else {"words"})

    def forward(  # type: ignore[override]
        self, samples: Tensor, decoder_ids: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        """Scores (batch, fewer frames, length, vocab and durations) of features and ids.

        `samples` are features (batch, frames, mels), `decoder_ids` (batch, length) the text so
        far; attention_mask and errors are those of `ParakeetModel.forward`.
        """
        x, _ = self.encoded(samples, attention_mask)
        text, _ = self.read(decoder_ids, None)
        return self.joined(self.encoder_projector(x).unsqueeze(2), text.unsqueeze(1))

    def read(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """What the text's part gives (batch, length, width) for further ids, and its new state."""
        part: Any = self.get_submodule("decoder")
        y, state = part.lstm(part.embedding(ids), state)
        return part.decoder_projector(y), state

    def joined(self, frames: Tensor, text: Tensor) -> Tensor:
        """Scores of frames and texts that broadcast, (..., width)."""
        out: Tensor = self.get_submodule("joint.head")(self.activation(frames + text))
        return out

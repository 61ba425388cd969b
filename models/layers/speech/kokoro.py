"""Kokoro's network: phonemes and a style to durations, pitch and loudness, and these to samples."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.activations import leaky_relu
from rushlight.core.functional.network.normalization import instance_norm
from rushlight.core.nn.parameter import Buffer, parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.speech.harmonics import HARMONICS, resynthesis, source
from rushlight.models.layers.speech.voice import MOST_FRAMES, Voice, VoiceText

Array = npt.NDArray[Any]
_SLOPE = 0.2
_RATE = 24000
USUAL = "af_heart"  # the voice that speaks unless another is asked for


class _Styled(nn.Module):
    """What a style makes of channels: how they are scaled and shifted."""

    def __init__(self, style: int, channels: int) -> None:
        self.fc = nn.Linear(style, 2 * channels)

    def scale(self, style: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, channels) of a style (batch, size): the factor and the shift."""
        scale_and_shift = self.fc(style)
        half = scale_and_shift.shape[1] // 2
        return scale_and_shift[:, :half] + 1, scale_and_shift[:, half:]


class AdaIN(_Styled):
    """Each channel at mean 0 and variance 1 over time, as the style has it (Huang, 2017)."""

    def __init__(self, style: int, channels: int, affine: bool) -> None:
        super().__init__(style, channels)
        if affine:
            self.norm: Any = nn.Module()
            self.norm.weight, self.norm.bias = parameter(channels), parameter(channels)
        self.affine = affine

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """x (batch, channels, n) -> the same."""
        factor, shift = self.scale(style)
        norm = self.norm if self.affine else None
        y = instance_norm(x, weight=norm and norm.weight, bias=norm and norm.bias)
        return y * factor.unsqueeze(-1) + shift.unsqueeze(-1)


class _AdaLayerNorm(_Styled):
    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """x (batch, n, channels) -> the same."""
        factor, shift = self.scale(style)
        y = ops.layer_norm(x, [x.shape[-1]])
        return y * factor.unsqueeze(1) + shift.unsqueeze(1)


class StyledBlock(nn.Module):
    """Two convolutions after norms by the style; `doubled`: with two frames for each."""

    def __init__(
        self, inside: int, outside: int, style: int, doubled: bool = False, affine: bool = False
    ) -> None:
        self.conv1 = nn.Conv1d(inside, outside, 3, padding=1)
        self.conv2 = nn.Conv1d(outside, outside, 3, padding=1)
        self.norm1, self.norm2 = AdaIN(style, inside, affine), AdaIN(style, outside, affine)
        self.straight, self.doubled = inside == outside, doubled
        if not self.straight:
            self.conv1x1 = nn.Conv1d(inside, outside, 1, bias=False)
        if doubled:
            self.pool = nn.ConvTranspose1d(
                inside, inside, 3, stride=2, padding=1, output_padding=1, groups=inside
            )

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """x (batch, inside, n) -> (batch, outside, n or 2n)."""
        y = leaky_relu(self.norm1(x, style), _SLOPE)
        if self.doubled:
            y = self.pool(y)
        y = self.conv2(leaky_relu(self.norm2(self.conv1(y), style), _SLOPE))
        if self.doubled:
            batch, channels, n = x.shape
            x = x.unsqueeze(-1).expand(batch, channels, n, 2).reshape(batch, channels, 2 * n)
        if not self.straight:
            x = self.conv1x1(x)
        out: Tensor = (y + x) * math.sqrt(0.5)
        return out


class _SnakeBlock(nn.Module):
    """Dilated convolutions with norms by the style and periodic activations (Ziyin, 2020)."""

    def __init__(
        self, channels: int, taps: int, dilations: list[int], style: int, affine: bool
    ) -> None:
        def convs(dilated: bool) -> nn.ModuleList[nn.Conv1d]:
            steps = [d if dilated else 1 for d in dilations]
            return nn.ModuleList(
                [
                    nn.Conv1d(channels, channels, taps, dilation=d, padding=(taps * d - d) // 2)
                    for d in steps
                ]
            )

        self.convs1, self.convs2 = convs(True), convs(False)
        for side in ("1", "2"):
            norms = nn.ModuleList([AdaIN(style, channels, affine) for _ in dilations])
            self.register_module(f"adain{side}", norms)
            alphas = nn.ParameterList([parameter(1, channels, 1) for _ in dilations])
            self.register_module(f"alpha{side}", alphas)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """x (batch, channels, n) -> the same."""
        for i in range(len(self.convs1)):
            y = x
            for side in ("1", "2"):
                y = self.get_submodule(f"adain{side}")[i](y, style)  # type: ignore[index]
                alpha = self.get_submodule(f"alpha{side}")[i]  # type: ignore[index]
                wave = (y * alpha).sin()
                y = self.get_submodule(f"convs{side}")[i](y + wave * wave / alpha)  # type: ignore[index]
            x = x + y
        return x


def _leaky_norm(x: Tensor, norm: Any) -> Tensor:
    """The norm of each frame's channels of x (batch, channels, n), and the leaky ReLU."""
    y = ops.layer_norm(x.transpose(1, 2), [x.shape[1]], norm.gamma, norm.beta)
    return leaky_relu(y.transpose(1, 2), _SLOPE)


def _both_ways(inside: int, outside: int) -> nn.LSTM:
    return nn.LSTM(inside, outside // 2, batch_first=True, bidirectional=True)


class _TextEncoder(nn.Module):
    """Phonemes as the decoder reads them."""

    def __init__(self, c: Any) -> None:
        width, taps = c.hidden_dim, c.text_encoder_kernel_size
        self.embedding = nn.Embedding(c.n_token, width)
        rows = []
        for _ in range(c.n_layer):
            norm: Any = nn.Module()
            norm.gamma, norm.beta = parameter(width), parameter(width)
            rows.append(
                nn.ModuleList([nn.Conv1d(width, width, taps, padding=(taps - 1) // 2), norm])
            )
        self.cnn, self.lstm = nn.ModuleList(rows), _both_ways(width, width)

    def forward(self, ids: Tensor) -> Tensor:
        """(batch, n) -> (batch, n, width)."""
        x = self.embedding(ids).transpose(1, 2)
        for conv, norm in self.cnn:
            x = _leaky_norm(conv(x), norm)
        out: Tensor = self.lstm(x.transpose(1, 2))[0]
        return out


class _Predictor(nn.Module):
    """Durations, pitch and loudness."""

    def __init__(self, c: Any, affine: bool) -> None:
        width, style = c.hidden_dim, c.style_dim
        steps: list[nn.Module] = []
        for _ in range(c.n_layer):
            steps += [_both_ways(width + style, width), _AdaLayerNorm(style, width)]
        self.text_encoder: Any = nn.Module()
        self.text_encoder.lstms = nn.ModuleList(steps)
        self.lstm, self.shared = (_both_ways(width + style, width) for _ in range(2))
        self.duration_proj: Any = nn.Module()
        self.duration_proj.linear_layer = nn.Linear(width, c.max_dur)
        half = width // 2
        for name in ("F0", "N"):
            blocks = [
                StyledBlock(width, width, style, affine=affine),
                StyledBlock(width, half, style, True, affine),
                StyledBlock(half, half, style, affine=affine),
            ]
            self.register_module(name, nn.ModuleList(blocks))
            self.register_module(f"{name}_proj", nn.Conv1d(half, 1, 1))

    def read(self, x: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """States (batch, n, width + size) of x (batch, n, width), and frames (batch, n) of each."""
        styles = style.unsqueeze(1).expand(x.shape[0], x.shape[1], style.shape[1])
        x = cat([x, styles], 2)
        steps = self.text_encoder.lstms
        for i in range(0, len(steps), 2):
            x = cat([steps[i + 1](steps[i](x)[0], style), styles], 2)
        states = self.lstm(x)[0]
        return x, self.duration_proj.linear_layer(states).sigmoid().sum(-1)

    def curves(self, x: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """Pitch and loudness (batch, 1, 2n) of frames (batch, n, width + size)."""
        shared = self.shared(x)[0].transpose(1, 2)
        curves = []
        for name in ("F0", "N"):
            y = shared
            for block in self.get_submodule(name).children():
                y = block(y, style)
            curves.append(self.get_submodule(f"{name}_proj")(y))
        return curves[0], curves[1]


class _Generator(nn.Module):
    """iSTFTNet (Kaneko et al., 2022) with a source of harmonics: frames to a spectrogram."""

    def __init__(self, c: Any, spec: Any, affine: bool) -> None:
        self.spec, style = spec, c.style_dim
        self.m_source: Any = nn.Module()
        self.m_source.l_linear = nn.Linear(HARMONICS, 1)
        bins, width, count = spec.gen_istft_n_fft + 2, spec.upsample_initial_channel, 0
        ups, blocks, convs, noise_blocks = [], [], [], []
        rows = list(zip(spec.resblock_kernel_sizes, spec.resblock_dilation_sizes, strict=True))
        rates = spec.upsample_rates
        for i, (rate, taps) in enumerate(zip(rates, spec.upsample_kernel_sizes, strict=True)):
            half = width // 2
            pads = (taps - rate) // 2
            ups.append(nn.ConvTranspose1d(width, half, taps, stride=rate, padding=pads))
            blocks += [_SnakeBlock(half, k, d, style, affine) for k, d in rows]
            step, last = math.prod(rates[i + 1 :]), i == len(rates) - 1
            convs.append(
                nn.Conv1d(bins, half, 1)
                if last
                else nn.Conv1d(bins, half, 2 * step, stride=step, padding=(step + 1) // 2)
            )
            noise_blocks.append(_SnakeBlock(half, 11 if last else 7, [1, 3, 5], style, affine))
            width, count = half, count + 1
        self.ups, self.resblocks = nn.ModuleList(ups), nn.ModuleList(blocks)
        self.noise_convs, self.noise_res = nn.ModuleList(convs), nn.ModuleList(noise_blocks)
        self.conv_post = nn.Conv1d(width, bins, 7, padding=3)

    def forward(self, x: Tensor, style: Tensor, har: Tensor) -> Tensor:
        """x (batch, width, n) and the source's spectrogram -> one (batch, bins, n * rates + 1)."""
        kinds = len(self.spec.resblock_kernel_sizes)
        last = len(self.ups) - 1
        for i, up in enumerate(self.ups):
            noise = self.noise_res[i](self.noise_convs[i](har), style)
            x = up(leaky_relu(x, 0.1))
            if i == last:  # a frame more at the start, the mirror of the second
                x = cat([x[:, :, 1:2], x], 2)
            x = x + noise
            total = self.resblocks[i * kinds](x, style)
            for j in range(1, kinds):
                total = total + self.resblocks[i * kinds + j](x, style)
            x = total / kinds
        out: Tensor = self.conv_post(leaky_relu(x, 0.01))
        return out


class _Decoder(nn.Module):
    def __init__(self, c: Any, spec: Any, affine: bool) -> None:
        style, wide, beside = c.style_dim, c.decoder_width, c.decoder_beside
        inner = wide + 2 + beside
        last = spec.upsample_initial_channel
        self.encode = StyledBlock(c.hidden_dim + 2, wide, style, affine=affine)
        blocks = [StyledBlock(inner, wide, style, affine=affine) for _ in range(3)]
        self.decode = nn.ModuleList([*blocks, StyledBlock(inner, last, style, True, affine)])
        self.F0_conv, self.N_conv = (nn.Conv1d(1, 1, 3, stride=2, padding=1) for _ in range(2))
        self.asr_res = nn.ModuleList([nn.Conv1d(c.hidden_dim, beside, 1)])
        self.generator = _Generator(c, spec, affine)

    def forward(self, x: Tensor, pitch: Tensor, loud: Tensor, style: Tensor, har: Tensor) -> Tensor:
        """x (batch, width, n), curves (batch, 1, 2n) -> a spectrogram, see `_Generator`."""
        curves = [self.F0_conv(pitch), self.N_conv(loud)]
        beside = self.asr_res[0](x)
        x = self.encode(cat([x, *curves], 1), style)
        for block in self.decode:
            x = block(cat([x, beside, *curves], 1), style)
        out: Tensor = self.generator(x, style, har)
        return out


class KokoroModel(Voice):
    """Phonemes' ids (batch of 1, n) and a style (1, 2 * style_dim) -> samples (1, m)."""

    rate = _RATE
    unfollowed = ("noise_scale_duration",)

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: Any, bert: Any, names: Collection[str]) -> None:
        """spec: istftnet of config.json. bert: the network of plbert. names: of the tensors."""
        c = config
        self.config, self.spec, self.context = c, spec, bert.config.max_position_embeddings
        affine = any(name.endswith("norm1.norm.weight") for name in names)
        self.bert = bert
        self.bert_encoder = nn.Linear(bert.config.hidden_size, c.hidden_dim)
        self.predictor, self.text_encoder = _Predictor(c, affine), _TextEncoder(c)
        self.decoder = _Decoder(c, spec, affine)
        self.voices = nn.Module()
        prefix = "voices."
        self.voice_names = sorted(n.removeprefix(prefix) for n in names if n.startswith(prefix))
        shape = (self.context - 2, 1, 2 * c.style_dim)
        for name in self.voice_names:
            self.voices.register_buffer(name, Buffer(ops.empty(shape, device="meta")))
        self.speakers, self.speaker_size = max(len(self.voice_names), 1), shape[2]
        self.step = 2 * math.prod(spec.upsample_rates) * spec.gen_istft_hop_size

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read how texts become phonemes."""
        from rushlight.models.speech.speaking.kokoro_tokens import readers_of

        self.readers, self.files = readers_of(files, self.config, self.context)
        self.tokens = self.readers["a"]

    def reader(self, options: Mapping[str, Any]) -> Any:
        """What makes tokens for the language of the voice that the options ask for."""
        names = self._names(options)
        return self.readers.get(names[0][:1] if names else "a", self.tokens)

    def _names(self, options: Mapping[str, Any]) -> list[str]:
        """The names of voices that the options ask for; [] where they give numbers."""
        value, number = options.get("speaker_embeddings"), options.get("speaker")
        names = self.voice_names
        if isinstance(value, str) and all(name in names for name in value.split(",")):
            return value.split(",")
        if value is not None:
            return []
        if number is not None:
            if not 0 <= number < len(names):
                raise ValueError(
                    f"kokoro: speaker is {number}; the voice has speakers 0 to {len(names) - 1}"
                )
            return [names[number]]
        return [USUAL if USUAL in names else names[0]] if names else []

    def style(self, options: Mapping[str, Any], count: int) -> Tensor:
        """The style (1, 2 * style_dim) of a text of `count` phonemes.

        options: speaker, the number of a voice by the order of names, or speaker_embeddings: names
        with commas between them, whose mean it is, a file, or numbers. ValueError for what is none
        of these, and where there is no voice.
        """
        if names := self._names(options):
            packs = [self.voices.get_buffer(name) for name in names]
            total = packs[0]
            for pack in packs[1:]:
                total = total + pack
            pack = total / len(packs)
            return pack[min(max(count, 1), pack.shape[0]) - 1]
        from rushlight.models.speech.speaking.speakers import numbers_of

        value = options.get("speaker_embeddings")
        if value is None:
            raise ValueError(
                "kokoro: the checkpoint has no voices; put its folder voices beside the weights, "
                "or pass speaker_embeddings, a file of one"
            )
        if isinstance(value, str) and "." not in value:
            raise ValueError(
                f"kokoro: speaker_embeddings {value!r} is no voice of the checkpoint and no file; "
                f"it has {', '.join(self.voice_names) or 'none'}"
            )
        numbers = numbers_of(value)
        if numbers.size % self.speaker_size or not numbers.size:
            raise ValueError(
                f"kokoro: speaker_embeddings are {numbers.shape}; a voice has {self.speaker_size} "
                "numbers, or so many for each length of a text"
            )
        rows = numbers.reshape(-1, self.speaker_size)
        row = rows[min(max(count, 1), len(rows)) - 1][None]
        return tensor(row, device=self.device).to(self.dtype)

    def encode(self, ids: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """States (1, n, width) of phonemes' ids (1, n), and the frames (1, n) that each lasts.

        style: (1, 2 * style_dim). ValueError for another shape, or more ids than the context.
        """
        if ids.ndim != 2 or ids.shape[0] != 1 or not 3 <= ids.shape[1] <= self.context:
            raise ValueError(f"kokoro: ids are {ids.shape}; they must be (1, 3 to {self.context})")
        known = self.bert_encoder(self.bert(ids))
        states: tuple[Tensor, Tensor] = self.predictor.read(known, style[:, style.shape[1] // 2 :])
        return states

    def frames(self, durations: Array, speed: float) -> Array:
        """The frames of each phoneme, (n,) int64, of `durations` (n,); speed: how fast.

        FormatError for numbers of no use, which damaged weights give.
        """
        frames = np.maximum(np.round(durations.astype(np.float32) / np.float32(speed)), 1)
        if not np.isfinite(frames).all() or frames.sum() > MOST_FRAMES:
            raise FormatError("kokoro: durations are too long: wrong weights, or speed")
        counts: Array = frames.astype(np.int64)
        return counts

    def curves(self, states: Tensor, frames: Array, style: Tensor) -> tuple[Tensor, Tensor]:
        """Pitch in Hz and loudness (1, 1, 2m) of `states` (1, n, width), by `frames` (n,) of each.

        style: (1, 2 * style_dim). ValueError where there are not as many frames as states.
        """
        half = style.shape[1] // 2
        out: tuple[Tensor, Tensor] = self.predictor.curves(_spread(states, frames), style[:, half:])
        return out

    def decode(
        self, ids: Tensor, frames: Array, curves: tuple[Tensor, Tensor], style: Tensor, har: Array
    ) -> Tensor:
        """Samples (1, m * step) of phonemes' ids (1, n), by `frames` (n,) of each.

        curves: pitch and loudness. style: (1, 2 * style_dim). har: the spectrogram of the source,
        (bins, m). ValueError where there are not as many frames as ids.
        """
        x = _spread(self.text_encoder(ids), frames).transpose(1, 2)
        spectrum = tensor(har[None].astype(np.float32), device=self.device).to(self.dtype)
        half = style.shape[1] // 2
        out = self.decoder(x, *curves, style[:, :half], spectrum)
        return resynthesis(out, self.spec.gen_istft_n_fft, self.spec.gen_istft_hop_size)

    def harmonics(self, pitch: Array, weight: Array, bias: Array, noise: Array | None) -> Array:
        """The spectrogram (bins, m) of the source of a pitch (2m,).

        weight, bias: of the network's m_source.l_linear. noise: normal numbers (samples, 9).
        ValueError for noise of another shape.
        """
        s = self.spec
        scale = math.prod(s.upsample_rates) * s.gen_istft_hop_size
        shape = len(pitch) * scale, HARMONICS
        if noise is not None and noise.shape != shape:
            raise ValueError(f"kokoro: noise is {noise.shape}; it must be {shape}")
        return source(
            pitch, scale, _RATE, (weight, bias), noise, (s.gen_istft_n_fft, s.gen_istft_hop_size)
        )

    def forward(
        self, ids: Tensor, style: Tensor, *, speed: float = 1.0, noise: Array | None = None
    ) -> Tensor:
        """Samples (1, m) of phonemes' ids (1, n) in a style (1, 2 * style_dim).

        speed: how fast, 1 as trained. noise: normal numbers (m, 9); None: none. ValueError as
        `encode` has it.
        """
        states, durations = self.encode(ids, style)
        frames = self.frames(durations.detach().float().numpy()[0], speed)
        curves = self.curves(states, frames, style)
        linear = self.decoder.generator.m_source.l_linear
        values = (t.detach().float().numpy() for t in (curves[0], linear.weight, linear.bias))
        pitch, weight, bias = (np.asarray(v).reshape(-1) for v in values)
        return self.decode(ids, frames, curves, style, self.harmonics(pitch, weight, bias, noise))

    def speak(self, text: VoiceText, options: Mapping[str, Any], draw: Any) -> Any:
        """The samples of `text`, and how many each token has, as `Voice.speak` has it.

        `options` are the task's, `draw` gives normal numbers. ValueError for a voice that there is
        not, FormatError where the weights give no speech.
        """
        style = self.style(options, len(text.ids) - 2)
        ids = tensor(np.asarray([text.ids], np.int64), device=self.device)
        states, durations = self.encode(ids, style)
        frames = self.frames(np.asarray((yield durations.float().readback()))[0], options["speed"])
        curves = self.curves(states, frames, style)
        linear = self.decoder.generator.m_source.l_linear
        source_inputs = cat([t.reshape(-1) for t in (linear.weight, linear.bias, curves[0])], 0)
        values = np.asarray((yield source_inputs.float().readback()))
        weight, bias, pitch = np.split(values, (HARMONICS, HARMONICS + 1))
        scale = 1.0 if options.get("noise_scale") is None else options["noise_scale"]
        shape = (int(frames.sum()) * self.step, HARMONICS)
        noise = draw(shape) * np.float32(scale) if scale else None
        har = self.harmonics(pitch, weight, bias, noise)
        samples = self.decode(ids, frames, curves, style, har)
        heard = np.asarray((yield samples.float().readback()), np.float32)[0]
        return heard, frames * self.step


def _spread(x: Tensor, frames: Array) -> Tensor:
    """x (1, n, width) -> (1, m, width): each row as often as `frames` (n,) say."""
    if frames.shape != (x.shape[1],):
        raise ValueError(f"kokoro: frames are {frames.shape}; they must be ({x.shape[1]},)")
    rows = np.repeat(np.arange(len(frames)), frames.astype(np.intp)).astype(np.int64)
    return x[:, tensor(rows, device=x.device)]

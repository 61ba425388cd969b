"""CLAP's towers: a Swin Transformer over spectrograms, and the vectors it shares with texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.functional.reductions import normalize
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.bands import htk_bank, periodic_hann, powers, slaney_bank
from rushlight.models.audio.files import Values
from rushlight.models.audio.inputs import Sound
from rushlight.models.layers.encoder import Encoder, EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.sound.model import SoundModel, extractor_settings, setting
from rushlight.models.layers.vision.attention.swin import Layer, PatchMerging, SwinSpec
from rushlight.models.layers.vision.clip import TextTower
from rushlight.models.layers.vision.transformer import LayerSpec
from rushlight.models.small_files import find_tokenizer

_AUDIO, _TEXT = "audio_model.audio_encoder", "text_model"
_PADDINGS, _CUTS = ("repeatpad", "repeat", "pad"), ("fusion", "rand_trunc")


@dataclass(frozen=True)
class SoundTower:
    """The tower of sounds. side: of the square that bands are folded to. channels: of its input.

    fused: a recording longer than the window is heard as a whole, coarsely, and in three pieces,
    and attention weighs the two (Wu et al., 2023); squeeze: what divides its channels. normed:
    whether patches are normalized.
    """

    swin: SwinSpec
    bands: int
    side: int
    patch: tuple[int, int]
    stride: tuple[int, int]
    fused: bool
    squeeze: int
    normed: bool


class _Fusion(nn.Module):
    """Attentional feature fusion (Dai et al., 2021): weights of two maps, near and far."""

    def __init__(self, width: int, squeeze: int) -> None:
        inner = max(width // squeeze, 1)

        def parts() -> list[nn.Module]:
            return [
                nn.Conv2d(width, inner, 1),
                nn.BatchNorm2d(inner),
                nn.ReLU(),
                nn.Conv2d(inner, width, 1),
                nn.BatchNorm2d(width),
            ]

        self.local_att = nn.Sequential(*parts())
        self.global_att = nn.Sequential(nn.AdaptiveAvgPool2d(1), *parts())

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        joint = x + other
        weight = (self.local_att(joint) + self.global_att(joint)).sigmoid()
        mixed: Tensor = 2 * x * weight + 2 * other * (1 - weight)
        return mixed


class _Projection(nn.Module):
    """Two products with an activation between them."""

    def __init__(self, inside: int, width: int, act: str) -> None:
        self.activation = ACTIVATIONS[act]
        self.linear1, self.linear2 = nn.Linear(inside, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear2(self.activation(self.linear1(x)))
        return out


class ClapModel(SoundModel):
    """Vectors of sounds and texts that are alike where a sound is what a text says.

    `encode_audio(features, longer)` and `encode_text(ids)` give (batch, features), before they are
    normalized. `forward(ids, features, longer)` gives the logits (sounds, texts). bands: what
    recordings become, (batch, channels, frames, bands); four channels where the tower fuses.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Any, sound: SoundTower, text_config: Any, text: EncoderSpec) -> None:
        c, spec = config, sound.swin
        self.config, self.sound, self.rate = config, sound, 48000
        first, last = spec.stages[0].width, spec.stages[-1].width
        put(self, f"{_AUDIO}.batch_norm", nn.BatchNorm2d(sound.bands))
        patch = f"{_AUDIO}.patch_embed"
        padding = tuple((p - s) // 2 for p, s in zip(sound.patch, sound.stride, strict=True))
        put(self, f"{patch}.proj", nn.Conv2d(1, first, sound.patch, sound.stride, padding))
        if sound.normed:
            put(self, f"{patch}.norm", nn.LayerNorm(first))
        if sound.fused:
            put(self, f"{patch}.fusion_model", _Fusion(first, sound.squeeze))
            wide = (sound.patch[0], sound.patch[1] * 3), (sound.stride[0], sound.stride[1] * 3)
            put(self, f"{patch}.mel_conv2d", nn.Conv2d(1, first, *wide, padding))
        for i, stage in enumerate(spec.stages):
            path = f"{_AUDIO}.layers.{i}"
            layers = [Layer(spec, stage, j % 2 == 1) for j in range(stage.layers)]
            put(self, f"{path}.blocks", nn.ModuleList(layers))
            if i + 1 < len(spec.stages):
                put(self, f"{path}.downsample", PatchMerging(stage.width, False))
        put(self, f"{_AUDIO}.norm", nn.LayerNorm(last))
        self.audio_projection = _Projection(last, c.projection_dim, c.projection_hidden_act)
        self.text_model = Encoder(text_config, text)
        self.text_projection = _Projection(text.width, c.projection_dim, c.projection_hidden_act)
        self.logit_scale_a, self.logit_scale_t = parameter(), parameter()
        layer = LayerSpec(text.width, text.heads, text.inner)
        self.text = TextTower(
            layer, text.layers, text.vocab, text.context, causal=False, pad=text.pad, masked=True
        )
        self.bands = Bands(sound.bands, fused=sound.fused)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, and how recordings become bands."""
        self.tokenizer = find_tokenizer(files)
        self.bands = Bands.stored(files, self.sound.bands, self.sound.fused)
        self.rate = self.bands.rate
        name = "preprocessor_config.json"
        if name in files:
            self.files = {name: files[name]}

    def inputs_of(self, recordings: Sequence[Sound]) -> dict[str, Tensor]:
        """{"features", "longer"} of recordings, as `encode_audio` takes them."""
        pairs = [self.bands(samples) for samples in recordings]
        longer = [far for _, far in pairs]
        if self.sound.fused and not any(longer):
            longer[0] = True  # as in training, where a batch had one at least
        rows = np.stack([row for row, _ in pairs])
        values = tensor(rows, device=self.device).to(self.dtype)
        return {"features": values, "longer": tensor(np.array(longer), device=self.device)}

    def encode_audio(self, features: Tensor, longer: Tensor | None = None) -> Tensor:
        """(batch, features) of bands (batch, channels, frames, bands), not normalized.

        longer (batch,): true for recordings whose pieces a tower that fuses hears too. ValueError
        for bands of another shape.
        """
        spec = self.sound
        net: Any = self.get_submodule(_AUDIO)
        ratio = spec.side // spec.bands
        frames = spec.side * ratio
        channels = 4 if spec.fused else 1
        fits = features.ndim == 4 and features.shape[1] == channels
        if not fits or features.shape[3] != spec.bands or not 0 < features.shape[2] <= frames:
            raise ValueError(
                f"{self.config.model_type}: features are {features.shape}; they must be (batch, "
                f"{channels}, up to {frames}, {spec.bands})"
            )
        x = net.batch_norm(features.transpose(1, 3)).transpose(1, 3)
        if x.shape[2] < frames:
            x = interpolate(x, (frames, spec.bands), mode="bicubic", align_corners=True)
        x = x.reshape(len(x), channels * ratio, spec.side, spec.bands).transpose(2, 3)
        x = self._patches(x.reshape(len(x), channels, spec.side, spec.side), longer)
        x = x.permute(0, 2, 3, 1)
        x = net.patch_embed.norm(x) if spec.normed else x
        for i, stage in enumerate(net.layers.children()):
            for layer in stage.blocks:
                x = layer(x)
            if i + 1 < len(spec.swin.stages):
                x = stage.downsample(x)
        vector: Tensor = self.audio_projection(net.norm(x).mean((1, 2)))
        return vector

    def _patches(self, x: Tensor, longer: Tensor | None) -> Tensor:
        """Patches (batch, width, rows, columns) of squares (batch, channels, side, side)."""
        embed: Any = self.get_submodule(f"{_AUDIO}.patch_embed")
        if not self.sound.fused:
            patches: Tensor = embed.proj(x)
            return patches
        far: Tensor = embed.proj(x[:, :1])
        batch, pieces, side = len(x), x.shape[1] - 1, x.shape[2]
        near = embed.mel_conv2d(x[:, 1:].reshape(batch * pieces, 1, side, side))
        near = near.unflatten(0, (batch, pieces)).permute(0, 2, 3, 1, 4).flatten(3)
        near = pad(near, (0, far.shape[3] - near.shape[3]))
        fused: Tensor = embed.fusion_model(far, near)
        if longer is None:
            return fused
        return fused.where(longer.reshape(-1, 1, 1, 1) != 0, far)

    def encode_text(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(batch, features) of token ids (batch, length), not normalized.

        attention_mask (batch, length): false or zero for padding.
        """
        states = self.text_model(ids, attention_mask)
        vector: Tensor = self.text_projection(self.text_model.pooler(states))
        return vector

    def forward(  # type: ignore[override]
        self,
        ids: Tensor,
        features: Tensor,
        longer: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Logits (sounds, texts) of token ids (texts, length) and bands.

        `features` and `longer` are as of `encode_audio`, `attention_mask` as of `encode_text`;
        ValueError as there.
        """
        texts = normalize(self.encode_text(ids, attention_mask).to(float32), dim=-1)
        return self.compare(self.encode_audio(features, longer), texts)

    def compare(self, sounds: Tensor, texts: Tensor) -> Tensor:
        """Logits (sounds, texts) of sounds' vectors and normalized texts' vectors."""
        scale = self.logit_scale_a.to(float32).exp()
        logits: Tensor = normalize(sounds.to(float32), dim=-1) @ texts.T * scale
        return logits


class Bands:
    """CLAP's features of samples (n,): (channels, frames, bands), and whether they are longer.

    Powers under a Hann window in mel bands, in decibels. What is shorter than `seconds` is repeated
    or filled with silence; of what is longer the middle is taken, or where it is `fused` the whole
    in as many frames and three pieces, from the middles of its thirds (the published extractor
    draws them).
    """

    def __init__(self, count: int, settings: Mapping[str, Any] | None = None, **own: Any) -> None:
        """settings: the extractor's; own: fused, whether the tower hears pieces."""
        said = settings or {}
        self.rate = setting(said, "sampling_rate", 48000, 1000, 192000)
        self.hop = setting(said, "hop_length", 480, 1, 1 << 16)
        self.n_fft = setting(said, "fft_window_size", 1024, 2, 1 << 16)
        self.most = int(setting(said, "max_length_s", 10, 1, 3600)) * self.rate
        low = setting(said, "frequency_min", 0.0, 0, self.rate / 2)
        high = setting(said, "frequency_max", 14000.0, 0, self.rate / 2)
        self.padding = said.get("padding", "repeatpad")
        self.cut = said.get("truncation", "fusion" if own.get("fused") else "rand_trunc")
        for key, value, known in (
            ("padding", self.padding, _PADDINGS),
            ("truncation", self.cut, _CUTS),
        ):
            if value not in known:
                raise FormatError(
                    f"preprocessor_config.json: {key} {brief(value)} is not supported; supported: "
                    f"{', '.join(known)}"
                )
        bins = self.n_fft // 2 + 1
        self.filters = (
            htk_bank(count, bins, low, high, self.rate)
            if self.cut == "fusion"
            else slaney_bank(count, self.n_fft, low, high, self.rate)
        )
        self.window = periodic_hann(self.n_fft)

    @classmethod
    def stored(cls, files: Mapping[str, bytes], count: int, fused: bool) -> Bands:
        """Those of the checkpoint's files; FormatError where they are not for a tower so `fused`.

        `files` are the small files, `count` is the number of bands.
        """
        settings = extractor_settings(files, "ClapFeatureExtractor")
        bands = cls(count, settings, fused=fused)
        if setting(settings, "feature_size", count, 1, 1 << 12) != count:
            raise FormatError(
                f"preprocessor_config.json: feature_size {settings['feature_size']} is not "
                f"config.json's num_mel_bins {count}"
            )
        if fused and bands.cut != "fusion":
            raise FormatError(
                f'preprocessor_config.json: truncation "{bands.cut}" makes no pieces, which '
                "enable_fusion of config.json asks for"
            )
        return bands

    def __call__(self, samples: Sound) -> tuple[npt.NDArray[np.float32], bool]:
        most, frames = self.most, self.most // self.hop + 1
        if len(samples) <= most:
            rows = self._decibels(self._filled(samples[:]))
            return np.stack([rows] * (4 if self.cut == "fusion" else 1)), False
        if self.cut != "fusion":
            start = (len(samples) - most) // 2
            return self._decibels(samples[start : start + most])[None], True
        rows = self._decibels(samples[:])
        if len(rows) == frames:
            return np.stack([rows] * 4), False
        thirds = np.array_split(np.arange(len(rows) - frames + 1), 3)
        starts = [int(third[len(third) // 2]) if len(third) else 0 for third in thirds]
        coarse = interpolate(tensor(rows)[None, None], (frames, rows.shape[1]), mode="bilinear")
        pieces = [rows[start : start + frames] for start in starts]
        return np.stack([coarse.numpy()[0, 0], *pieces]), True

    def _filled(self, samples: Values) -> Values:
        """Samples of the full length."""
        times = self.most // len(samples)
        if self.padding == "repeat":
            samples = np.tile(samples, times + 1)[: self.most]
        elif self.padding == "repeatpad":
            samples = np.tile(samples, times)
        return np.pad(samples, (0, self.most - len(samples)))

    def _decibels(self, samples: Values) -> npt.NDArray[np.float32]:
        half = self.n_fft // 2
        padded = np.pad(samples, half, mode="reflect")
        bands = powers(padded, self.window, self.hop, self.n_fft) @ self.filters.T
        return (10 * np.log10(np.maximum(bands, 1e-10))).astype(np.float32)

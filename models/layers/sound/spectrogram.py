"""The Audio Spectrogram Transformer: patches of a spectrogram that overlap, read by a ViT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.bands import kaldi_bank, kaldi_logs
from rushlight.models.audio.inputs import Sound
from rushlight.models.layers.naming import put
from rushlight.models.layers.sound.model import SoundModel, extractor_settings, flag, setting
from rushlight.models.layers.vision.transformer import Layer, LayerSpec, put_parameter

BASE = "audio_spectrogram_transformer"
_PREFIX = ("cls_token", "distillation_token")


class SpectrogramTransformer(SoundModel):
    """Bands (batch, frames, bands) -> logits, or the states (batch, tokens, width) without a head.

    The head reads the mean of the two first tokens' states (Touvron et al., 2021).
    """

    @nn.layers_on("meta")
    def __init__(self, config: Any, layer: LayerSpec, labels: tuple[str, ...], base: str) -> None:
        """base: what the names of all but the head begin with."""
        c = self.config = config
        self.labels, self.base, width = labels, base, layer.width
        side, strides = c.patch_size, (c.frequency_stride, c.time_stride)
        grid = [
            (n - side) // stride + 1
            for n, stride in zip((c.num_mel_bins, c.max_length), strides, strict=True)
        ]
        if min(grid) < 1:
            raise FormatError(
                f"config.json: num_mel_bins {c.num_mel_bins} or max_length {c.max_length} is "
                f"below patch_size {side}"
            )
        first = f"{base}embeddings."
        put(self, f"{first}patch_embeddings.projection", nn.Conv2d(1, width, side, strides))
        for name in _PREFIX:
            put_parameter(self, f"{first}{name}", 1, 1, width)
        put_parameter(self, f"{first}position_embeddings", 1, grid[0] * grid[1] + 2, width)
        layers = nn.ModuleList([Layer(layer) for _ in range(c.num_hidden_layers)])
        put(self, f"{base}encoder.layer", layers)
        put(self, f"{base}layernorm", nn.LayerNorm(width, layer.eps))
        if labels:
            put(self, "classifier.layernorm", nn.LayerNorm(width, layer.eps))
            put(self, "classifier.dense", nn.Linear(width, len(labels)))
        self.normalization: tuple[float, float] | None = (-4.2677393, 4.5689974)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the classes' kind and how bands are normalized."""
        super().configure(files)
        stored = extractor_settings(files, "ASTFeatureExtractor")
        bands = setting(stored, "num_mel_bins", self.config.num_mel_bins, 1, 1 << 12)
        frames = setting(stored, "max_length", self.config.max_length, 1, 1 << 20)
        if (bands, frames) != (self.config.num_mel_bins, self.config.max_length):
            raise FormatError(
                f"preprocessor_config.json: max_length {frames} and num_mel_bins {bands} are not "
                f"config.json's {self.config.max_length} and {self.config.num_mel_bins}"
            )
        self.rate = setting(stored, "sampling_rate", 16000, 1000, 192000)
        mean = setting(stored, "mean", -4.2677393, -1e6, 1e6)
        spread = setting(stored, "std", 4.5689974, 1e-6, 1e6)
        self.normalization = (mean, spread) if flag(stored, "do_normalize", True) else None
        name = "preprocessor_config.json"
        if name in files:
            self.files = {name: files[name]}

    def inputs_of(self, recordings: Sequence[Sound]) -> dict[str, Tensor]:
        """{"features": (batch, frames, bands)}: Kaldi's bands, filled with zeros or cut."""
        c = self.config
        bank = kaldi_bank(c.num_mel_bins, 257, 20, self.rate // 2, self.rate)
        rows = np.zeros((len(recordings), c.max_length, c.num_mel_bins), np.float32)
        step = int(self.rate * 0.01)
        most = (c.max_length - 1) * step + int(self.rate * 0.025)
        for row, samples in zip(rows, recordings, strict=True):
            bands = kaldi_logs(samples[:most], bank, self.rate)[: c.max_length]
            row[: len(bands)] = bands
        if self.normalization is not None:
            mean, spread = self.normalization
            rows = (rows - np.float32(mean)) / np.float32(2 * spread)
        return {"features": tensor(rows, device=self.device).to(self.dtype)}

    def hidden(self, features: Tensor) -> Tensor:
        """The states (batch, tokens, width) after the last norm; ValueError for another shape."""
        c: Any = self.config
        net: Any = self.get_submodule(self.base[:-1]) if self.base else self
        if features.ndim != 3 or features.shape[1:] != (c.max_length, c.num_mel_bins):
            raise ValueError(
                f"{c.model_type}: features are {features.shape}; they must be (batch, "
                f"{c.max_length}, {c.num_mel_bins})"
            )
        table: Any = net.embeddings
        patches = table.patch_embeddings.projection(features.transpose(1, 2).unsqueeze(1))
        x = patches.flatten(2).transpose(1, 2)
        first = [getattr(table, name).expand(len(x), -1, -1) for name in _PREFIX]
        x = cat([*first, x], 1) + table.position_embeddings
        for layer in net.encoder.layer:
            x = layer(x)
        out: Tensor = net.layernorm(x)
        return out

    def forward(self, features: Tensor) -> Tensor:
        """Bands (batch, frames, bands) -> logits (batch, classes), or the states."""
        x = self.hidden(features)
        if not self.labels:
            return x
        head: Any = self.get_submodule("classifier")
        logits: Tensor = head.dense(head.layernorm((x[:, 0] + x[:, 1]) / 2))
        return logits

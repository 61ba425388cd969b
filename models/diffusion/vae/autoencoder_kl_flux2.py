"""FLUX.2's autoencoder: AutoencoderKL, with means and deviations of its latents' squares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from rushlight.core import nn
from rushlight.core.nn.parameter import Buffer
from rushlight.core.ops.creation import ones, zeros
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.config import known, read_part
from rushlight.models.diffusion.vae.autoencoder_kl import AutoencoderKL, KLConfig


@dataclass
class KLFlux2Config(KLConfig):
    """The keys of config.json."""

    down_block_types: Any = ("DownEncoderBlock2D",) * 4
    up_block_types: Any = ("UpDecoderBlock2D",) * 4
    block_out_channels: Any = (128, 256, 512, 512)
    decoder_block_out_channels: Any = None
    layers_per_block: int = 2
    latent_channels: int = 32
    sample_size: Any = 1024
    scaling_factor: float = 1.0
    batch_norm_eps: float = 1e-4
    patch_size: Any = (2, 2)

    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {"force_upcast": (), "batch_norm_momentum": ()}


class AutoencoderKLFlux2(AutoencoderKL):
    """AutoencoderKL whose latents are taken in squares of 2 x 2, normalized by stored moments."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        c = read_part(KLFlux2Config, config)
        known("patch_size", tuple(c.patch_size), ((2, 2),))
        inside = {name: config[name] for name in config if name in _SHARED}
        super().__init__({**_DEFAULTS, **inside})
        if c.decoder_block_out_channels is not None:
            self.decoder = type(self.decoder)(
                replace(c, block_out_channels=c.decoder_block_out_channels)
            )
        self.config = c
        count = 4 * c.latent_channels
        self.bn = moments = nn.Module()
        moments.running_mean = Buffer(zeros((count,), device="meta"))
        moments.running_var = Buffer(ones((count,), device="meta"))

    @staticmethod
    def rename_tensors(tensors: Mapping[str, Tensor], config: Any = None) -> dict[str, Tensor]:
        """The tensors as AutoencoderKL's, without the number of batches of training."""
        renamed = AutoencoderKL.rename_tensors(tensors, config)
        renamed.pop("bn.num_batches_tracked", None)
        return renamed

    def scaled(self, latents: Tensor) -> Tensor:
        """Latents (batch, c, h, w) as the denoiser knows them: (batch, 4 c, h / 2, w / 2)."""
        batch, channels, height, width = latents.shape
        x = latents.reshape(batch, channels, height // 2, 2, width // 2, 2)
        x = x.permute(0, 1, 3, 5, 2, 4).reshape(batch, 4 * channels, height // 2, width // 2)
        mean, deviation = self._moments(x)
        return (x - mean) / deviation

    def unscaled(self, latents: Tensor) -> Tensor:
        """The denoiser's latents (batch, 4 c, h / 2, w / 2) as `decode` takes them."""
        mean, deviation = self._moments(latents)
        batch, channels, height, width = latents.shape
        x = (latents * deviation + mean).reshape(batch, channels // 4, 2, 2, height, width)
        return x.permute(0, 1, 4, 2, 5, 3).reshape(batch, channels // 4, 2 * height, 2 * width)

    def _moments(self, like: Tensor) -> tuple[Tensor, Tensor]:
        bn: Any = self.bn
        config: Any = self.config
        mean, variance = bn.running_mean, bn.running_var
        deviation = (variance + config.batch_norm_eps).sqrt()
        shaped = (values.reshape(1, -1, 1, 1).to(like.dtype) for values in (mean, deviation))
        return next(shaped), next(shaped)


_SHARED = frozenset(KLConfig.__dataclass_fields__) | set(KLConfig.neutral)
_DEFAULTS = {
    name: getattr(KLFlux2Config, name)
    for name in ("down_block_types", "up_block_types", "block_out_channels", "layers_per_block",
                 "latent_channels", "sample_size", "scaling_factor")
}  # fmt: skip

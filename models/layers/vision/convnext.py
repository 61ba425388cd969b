"""ConvNeXt's stages (Liu et al., 2022), and those of version 2 (Woo et al., 2023)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.core import nn
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import activation
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.outputs.stages import normed_maps, put_norms

EPS = 1e-6  # of all norms but the last


class SimpleNorm(nn.Module):
    """x by the root of its last dim's variance, of which the mean is not taken away; timm's."""

    def __init__(self, width: int, eps: float) -> None:
        self.weight, self.eps = parameter(width), eps

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.var(-1, keepdim=True) + self.eps).rsqrt() * self.weight


NORMS: dict[str, Callable[[int, float], nn.Module]] = {
    "layer": nn.LayerNorm,
    "rms": nn.RMSNorm,
    "simple": SimpleNorm,
}


class ChannelNorm(nn.LayerNorm):
    """A LayerNorm over the channels of (batch, channels, height, width)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def over_channels(norm: Any, x: Tensor) -> Tensor:
    """A norm of a last dim, over the channels of (batch, channels, height, width)."""
    normed: Tensor = norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    return normed


class _Response(nn.Module):
    """Global response normalization (Woo et al., 2023) of (batch, height, width, channels)."""

    def __init__(self, width: int) -> None:
        self.weight, self.bias = parameter(1, 1, 1, width), parameter(1, 1, 1, width)

    def forward(self, x: Tensor) -> Tensor:
        size = x.square().sum((1, 2), keepdim=True).sqrt()
        share = size / (size.mean(-1, keepdim=True) + 1e-6)
        return self.weight * (x * share) + self.bias + x


class Layer(nn.Module):
    """A 7x7 convolution of each channel, and an MLP; layer scale in version 1, where there is."""

    def __init__(self, width: int, act: str, second: bool, scaled: bool, norm: nn.Module) -> None:
        self.act, self.scaled = activation(act), scaled
        if scaled:
            self.layer_scale_parameter = parameter(width)
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.layernorm = norm
        self.pwconv1 = nn.Linear(width, 4 * width)
        if second:
            self.grn = _Response(4 * width)
        self.second = second
        self.pwconv2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layernorm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.act(self.pwconv1(y))
        y = self.pwconv2(self.grn(y) if self.second else y)
        if self.scaled:
            y = self.layer_scale_parameter * y
        out: Tensor = x + y.permute(0, 3, 1, 2)
        return out


class ConvNeXt(ImageModel):
    """ConvNeXt in transformers' names; named: states of a backbone, which have own norms."""

    def __init__(
        self, c: Any, labels: tuple[str, ...], scaled: bool, named: Sequence[int] = ()
    ) -> None:
        self.config, self.labels, self.named = c, labels, named
        second = c.model_type == "convnextv2"
        before, base = c.hidden_sizes[0], f"{c.model_type}."
        norm = NORMS[getattr(c, "norm", "layer")]
        eps, between = getattr(c, "inner_eps", EPS), getattr(c, "stem_width", 0)
        stem = nn.Conv2d(c.num_channels, before, c.patch_size, c.patch_size)
        put(
            self,
            f"{base}embeddings.patch_embeddings",
            nn.Sequential(
                nn.Conv2d(c.num_channels, between, 3, 2, 1),
                nn.GELU() if c.stem_act else nn.Identity(),
                nn.Conv2d(between, before, 3, 2, 1),
            )
            if between
            else stem,
        )
        put(self, f"{base}embeddings.layernorm", norm(before, eps))
        for i, (width, depth) in enumerate(zip(c.hidden_sizes, c.depths, strict=True)):
            stage = f"{base}encoder.stages.{i}"
            if i:
                put(
                    self,
                    f"{stage}.downsampling_layer",
                    nn.Sequential(norm(before, eps), nn.Conv2d(before, width, 2, 2)),
                )
            layers = [
                Layer(width, c.hidden_act, second, scaled, norm(width, eps)) for _ in range(depth)
            ]
            put(self, f"{stage}.layers", nn.Sequential(*layers))
            before = width
        put_norms(self, named, [c.hidden_sizes[0], *c.hidden_sizes], EPS)
        if not named:
            put(self, f"{base}layernorm", norm(before, c.layer_norm_eps))
        self.inner = getattr(c, "inner_head", 0)
        if self.inner:
            self.pre_logits = nn.Linear(before, self.inner)
            before = self.inner
        if labels:
            put(self, "classifier", nn.Linear(before, len(labels)))

    def hidden(self, pixels: Tensor) -> Tensor:
        return self.feature_maps(pixels)[-1] if self.named else self._states(pixels)[-1]

    def feature_maps(self, pixels: Tensor) -> list[Tensor]:
        """The maps (batch, channels, height, width) that a backbone names, after their norms."""
        return normed_maps(self, [x.permute(0, 2, 3, 1) for x in self._states(pixels)])

    def _states(self, pixels: Tensor) -> list[Tensor]:
        base: Any = self.get_submodule(self.config.model_type)
        x: Tensor = self.checked(pixels, self.config.num_channels)
        x = over_channels(base.embeddings.layernorm, base.embeddings.patch_embeddings(x))
        maps = [x]
        for i, stage in enumerate(base.encoder.stages.children()):
            if i:
                norm, conv = stage.downsampling_layer
                x = conv(over_channels(norm, x))
            x = stage.layers(x)
            maps.append(x)
        return maps

    def encode_image(self, pixels: Tensor) -> Tensor:
        if self.named:
            return super().encode_image(pixels)
        x, norm = self.hidden(pixels), self.get_submodule(f"{self.config.model_type}.layernorm")
        early = getattr(self.config, "norm_first", False)
        pooled: Tensor = over_channels(norm, x).mean((2, 3)) if early else norm(x.mean((2, 3)))
        return ACTIVATIONS["gelu"](self.pre_logits(pooled)) if self.inner else pooled

"""The network of SEW: wav2vec 2.0 whose layers run on fewer frames, and SEW-D's attention."""

from __future__ import annotations

from dataclasses import replace

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.padding import pad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.blocks import disentangled
from rushlight.models.layers.encoder import EncoderContext, EncoderLayer
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.speech.wav2vec2 import PositionConv, WaveModel
from rushlight.models.layers.speech.wave_heads import MOST_TAPS


class Upsampling(nn.Module):
    """Each frame as `squeeze` frames."""

    def __init__(self, width: int, squeeze: int, act: str) -> None:
        self.projection = nn.Linear(width, width * squeeze)
        self.squeeze, self.activation = squeeze, ACTIVATIONS[act]

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, width) -> (batch, frames * squeeze, width)."""
        batch, frames, width = x.shape
        return self.activation(self.projection(x)).reshape(batch, frames * self.squeeze, width)


class SEWModel(WaveModel):
    """SEW (Wu et al., 2021): samples to a token for each frame, classes, or hidden states."""

    base, adapts = "sew", False

    def put_front(self) -> None:
        """Make the convolutions over samples, a norm, and a projection where widths differ."""
        inside, c = self._put_convs(), self.config
        eps = getattr(c, "feature_layer_norm_eps", c.layer_norm_eps)
        self.put("layer_norm", make_norm(inside, NormSpec("layer", eps)))
        self.projects = inside != self.spec.width
        if self.projects:
            self.put("feature_projection", nn.Linear(inside, self.spec.width))

    def put_encoder(self) -> None:
        """Make positions, the layers, and what makes as many frames again."""
        super().put_encoder()
        act = self.config.feat_extract_activation
        self.put("encoder.upsample", Upsampling(self.spec.width, self._squeeze, act))

    def positions(self) -> nn.Module:
        """What makes positions of the frames."""
        c = self.config
        return PositionConv(
            self.spec.width,
            c.num_conv_pos_embeddings,
            c.num_conv_pos_embedding_groups,
            c.feat_extract_activation,
            stride=self._squeeze,
        )

    @property
    def _squeeze(self) -> int:
        factor: int = self.config.squeeze_factor
        if not 0 < factor <= MOST_TAPS:
            raise FormatError(f"config.json: squeeze_factor is {factor}; it must be 1 or more")
        return factor

    @property
    def least(self) -> int:
        """The number of samples that make as many frames as are read as one."""
        return super().least + (self._squeeze - 1) * self.step

    def frames(self, samples: Tensor, attention_mask: Tensor | None) -> Tensor:
        """What the encoder reads (batch, frames, width) of samples (batch, n)."""
        x = self.part("layer_norm", self._convolved(samples, attention_mask))
        return self.part("feature_projection", x) if self.projects else x

    def encode(self, x: Tensor, seen: Tensor | None) -> list[Tensor]:
        """Fewer frames before the first layer and after each; at the end as many as there were."""
        squeeze, count = self._squeeze, x.shape[1]
        places = self.part("encoder.pos_conv_embed", x)
        frames = min(count // squeeze, places.shape[1])
        groups = x[:, : frames * squeeze].reshape(x.shape[0], frames, squeeze, -1)
        x = self.placed(groups.mean(2) + places[:, :frames])
        if seen is not None:  # a frame is seen if one of those is
            parts = seen[:, : frames * squeeze].long().reshape(-1, frames, squeeze)
            seen = parts.sum(-1) > 0
        states, context = [x], self.context(x, seen)
        for i, path in enumerate(self.spec.paths):
            x = self.get_submodule(self.prefix + path)(x, context, i)
            states.append(x)
        x = self.part("encoder.upsample", x)
        return [*states, pad(x, (0, 0, 0, max(0, count - x.shape[1])))]

    def placed(self, x: Tensor) -> Tensor:
        """Frames and positions as the first layer reads them."""
        return self.part("encoder.layer_norm", x)


class SEWDModel(SEWModel):
    """SEW-D (Wu et al., 2021): SEW with the disentangled attention of DeBERTa."""

    base = "sew_d"

    def put_encoder(self) -> None:
        """Make positions, the layers with their table, and what makes as many frames again."""
        self.put("encoder.pos_conv_embed", self.positions())
        for path in self.spec.paths:
            self.put(path, EncoderLayer(self.spec))
        if self.spec.disentangled is not None:
            root = self.get_submodule(f"{self.prefix}encoder")
            eps = self.spec.norm.eps
            disentangled.put_table(root, self.spec.width, self.spec.disentangled, eps)
        act = self.config.feat_extract_activation
        self.put("encoder.upsample", Upsampling(self.spec.width, self._squeeze, act))

    def placed(self, x: Tensor) -> Tensor:
        """Frames and positions as the first layer reads them."""
        return x

    def context(self, x: Tensor, seen: Tensor | None) -> EncoderContext:
        """What the layers share, for frames (batch, frames, width): the table of distances too."""
        context = super().context(x, seen)
        if self.spec.disentangled is None:
            return context
        root = self.get_submodule(f"{self.prefix}encoder")
        table = disentangled.table_of(root, self.spec.disentangled, x.shape[1])
        return replace(context, table=table)

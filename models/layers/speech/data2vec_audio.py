"""The network of data2vec's audio model: wav2vec 2.0's with several convolutions for positions."""

from __future__ import annotations

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.speech.wav2vec2 import WaveModel
from rushlight.models.layers.speech.wave_heads import MOST_TAPS


class PositionConvs(nn.Module):
    """Convolutions in groups after each other, with norms without parameters between them."""

    def __init__(self, width: int, count: int, taps: int, groups: int, act: str) -> None:
        if groups < 1 or width % groups or not (0 < count <= 64 and 0 < taps <= MOST_TAPS):
            raise FormatError(
                f"config.json: num_conv_pos_embeddings {count} of conv_pos_kernel_size {taps} and "
                f"num_conv_pos_embedding_groups {groups} do not fit a hidden_size of {width}; "
                f"supported: up to 64, up to {MOST_TAPS}, and a divisor"
            )
        self.even, self.activation = taps % 2 == 0, ACTIVATIONS[act]
        self.layers = nn.ModuleList([nn.Module() for _ in range(count)])
        for layer in self.layers:
            put(layer, "conv", nn.Conv1d(width, width, taps, padding=taps // 2, groups=groups))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, width) -> the same."""
        for layer in self.layers:
            y = layer.get_submodule("conv")(x.transpose(1, 2)).transpose(1, 2)
            y = y[:, : y.shape[1] - 1] if self.even else y
            x = self.activation(ops.layer_norm(y, (y.shape[-1],), eps=1e-5))
        return x


class Data2VecAudioModel(WaveModel):
    """data2vec (Baevski et al., 2022) of audio: a token for each frame, classes, or states."""

    base = "data2vec_audio"

    def positions(self) -> nn.Module:
        """What makes positions of the frames."""
        c = self.config
        return PositionConvs(
            self.spec.width,
            c.num_conv_pos_embeddings,
            c.conv_pos_kernel_size,
            c.num_conv_pos_embedding_groups,
            c.feat_extract_activation,
        )

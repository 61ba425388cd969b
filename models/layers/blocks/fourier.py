"""FNet's layers (Lee-Thorp et al., 2021): Fourier transforms in place of attention."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderContext, EncoderSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec, put_mlp, run_mlp
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm


def waves(size: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The cosines and sines of the discrete Fourier transform of `size` numbers."""
    at = np.arange(size)
    angles = 2 * np.pi / size * (np.outer(at, at) % size)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class FourierLayer(nn.Module):
    """A transform over places and features, and a feed-forward part."""

    def __init__(self, spec: EncoderSpec) -> None:
        self.spec, names = spec, spec.names
        put(self, names.attention_norm, make_norm(spec.width, spec.norm))
        self.mlp_spec = MLPSpec(
            spec.inner, spec.activation, False, True, names=MLPNames(up=names.up, down=names.down)
        )
        put_mlp(self, spec.width, self.mlp_spec)
        put(self, names.mlp_norm, make_norm(spec.width, spec.norm))
        self.dropout = nn.Dropout(spec.dropout)
        self.features = waves(spec.width)

    def forward(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """(batch, length, width) -> the same."""
        names = self.spec.names
        even, odd = (x @ tensor(table, dtype=x.dtype, device=x.device) for table in self.features)
        cos, sin = self._places(x, context)
        x = self._called(names.attention_norm, cos @ even - sin @ odd + x)
        y = self.dropout(run_mlp(self, self.mlp_spec, x))
        return self._called(names.mlp_norm, y + x)

    def _places(self, x: Tensor, context: EncoderContext) -> tuple[Tensor, Tensor]:
        """The cosines and sines over places, (1 or batch, length, length), of the real ones."""
        length = x.shape[1]
        if context.mask is None:
            cos, sin = (
                tensor(table, dtype=x.dtype, device=x.device).unsqueeze(0)
                for table in waves(length)
            )
            return cos, sin
        real = context.mask[:, 0, 0]  # (batch, length)
        whole = real.to("int64")
        at, count = whole.cumsum(1) - 1, whole.sum(1).clamp(min=1).reshape(-1, 1, 1)
        turns = (at.unsqueeze(2) * at.unsqueeze(1)) % count
        angles = turns.float() / count.float() * (2 * np.pi)
        both = (real.unsqueeze(2) & real.unsqueeze(1)).to(x.dtype)
        return angles.cos().to(x.dtype) * both, angles.sin().to(x.dtype) * both

    def _called(self, name: str, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(name)(x)
        return out

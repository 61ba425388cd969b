"""XLM's layers (Lample and Conneau, 2019): their parts lie in lists of the model."""

from __future__ import annotations

from rushlight.core import nn
from rushlight.models.layers.encoder import EncoderLayer, EncoderSpec
from rushlight.models.layers.naming import put

PARTS = ("layer_norm1", "ffns", "layer_norm2")


class ScatteredLayer(EncoderLayer):
    """A layer with the attention's projections; its norms and MLP are the model's, at PARTS.

    `scatter` places them there. The layer holds them in a dict, which registers nothing.
    """

    def __init__(self, spec: EncoderSpec, first: bool = False) -> None:
        super().__init__(spec, first)
        self.apart: dict[str, nn.Module] = {}
        for name in PARTS:
            self.apart[name] = getattr(self, name)
            delattr(self, name)

    def get_submodule(self, target: str) -> nn.Module:
        """The module at a path, of the layer or of its parts that lie apart."""
        first, _, rest = target.partition(".")
        apart = getattr(self, "apart", {})
        if first in apart:
            found = apart[first]
            within: nn.Module = found.get_submodule(rest) if rest else found
            return within
        return super().get_submodule(target)

    def scatter(self, root: nn.Module, number: int) -> None:
        """Register the norms and the MLP below `root`."""
        for name, part in self.apart.items():
            put(root, f"{name}.{number}", part)

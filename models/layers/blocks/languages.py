"""X-MOD's layers (Pfeiffer et al., 2022): an adapter of the language after feed-forward parts."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderContext, EncoderLayer, EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS, run_mlp
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm

_PATH = "output.adapter_"


@dataclass(frozen=True)
class LanguagesSpec:
    """Adapters `size` features wide of the languages, and the one that is used. normed: their input
    passes a norm of its own; else, if `reuse`, that of the layer. first: the residual is of what
    is normed.
    """

    languages: tuple[str, ...]
    used: str
    size: int
    normed: bool = False
    reuse: bool = True
    first: bool = True


class Adapter(nn.Module):
    """Two projections with an activation between."""

    def __init__(self, width: int, size: int, activation: str) -> None:
        self.dense1, self.dense2 = nn.Linear(width, size), nn.Linear(size, width)
        self.act = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> the same."""
        out: Tensor = self.dense2(self.act(self.dense1(x)))
        return out


class LanguageLayer(EncoderLayer):
    """A layer with an adapter for each language."""

    def __init__(self, spec: EncoderSpec, languages: LanguagesSpec) -> None:
        super().__init__(spec)
        self.languages, width = languages, spec.width
        if languages.normed:
            put(self, _PATH + "layer_norm", make_norm(width, spec.norm))
        for name in languages.languages:
            adapter = Adapter(width, languages.size, spec.activation)
            put(self, f"{_PATH}modules.{name}", adapter)

    def forward(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """(batch, length, width) -> the same."""
        names, before = self.spec.names, self.spec.place == "before"
        y = self._called(names.attention_norm, x) if before else x
        x = x + self.dropout(self._attention(y, context, layer))
        x = x if before else self._called(names.attention_norm, x)
        y = self._called(names.mlp_norm, x) if before else x
        x = self._adapted(x + self.dropout(run_mlp(self, self.mlp_spec, y)))
        return x if before else self._called(names.mlp_norm, x)

    def _adapted(self, x: Tensor) -> Tensor:
        languages, y = self.languages, x
        if languages.normed:
            y = self._called(_PATH + "layer_norm", x)
        elif languages.reuse:
            y = self._called(self.spec.names.mlp_norm, x)
        adapted = self._called(f"{_PATH}modules.{languages.used}", y)
        out: Tensor = self.dropout(adapted) + (y if languages.first else x)
        return out

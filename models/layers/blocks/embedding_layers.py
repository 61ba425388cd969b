"""An encoder of texts with a decoder's layers, which read in both directions."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import AttentionContext, AttentionSpec
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.positions.packing import placed
from rushlight.models.layers.positions.rotary import Rotary
from rushlight.models.sentence import SentenceEncoder


class LayersEncoder(SentenceEncoder):
    """Hidden states by the layers of a description with `streams`, and a projection of them."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: DecoderSpec, features: int) -> None:
        self.config, self.spec, names = config, spec, spec.names
        self.width, self.context_length, self.vocab_size = features, spec.context, spec.vocab
        put(self, names.embedding, nn.Embedding(spec.vocab, spec.width))
        self._ends = (spec.streams.ends(spec),)
        for path, module in self._ends[0].named_children():
            put(self, path, module)
        layers = nn.ModuleList(spec.streams.layer(spec, i) for i in range(len(spec.layers)))
        put(self, names.layers, layers)
        put(self, str(names.norm), make_norm(spec.width, spec.norm))
        self.embedding_projection = nn.Linear(spec.width, features, bias=False)
        attentions = (layer.attention for layer in spec.layers)
        self.rotary = Rotary(a.rotary for a in attentions if isinstance(a, AttentionSpec))

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The projected states (batch, length, features) of ids (batch, length).

        attention_mask (batch, length): false or zero for padding, on either side.
        """
        names = self.spec.names
        positions, mask = placed(self, ids, attention_mask, None)
        context = AttentionContext(self.rotary.angles(positions), mask, positions=positions)
        x = self.get_submodule(names.embedding)(ids) * self.spec.embedding_scale
        x = self._ends[0].spread(ids, x, context)
        for layer in self.get_submodule(names.layers).children():
            x = layer(x, context)
        x = self.get_submodule(str(names.norm))(self._ends[0].gathered(x))
        out: Tensor = self.embedding_projection(x)
        return out

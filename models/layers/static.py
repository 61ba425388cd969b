"""Encoders whose tokens' vectors do not depend on other tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.text.tokenizer import Encoding
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.sentence import SentenceEncoder

_LONGEST = 512  # tokens of a text, in model2vec
_ANY = 1 << 24


class StaticEncoder(SentenceEncoder):
    """A table of vectors by token; a text without tokens has zeros.

    shapes: of "embedding.weight" or, as model2vec stores them, of "embeddings" with "mapping", the
    row of each token, and "weights", a factor for each token. model2vec leaves unknown tokens out.
    """

    context_length = _ANY
    special_tokens = False

    @nn.layers_on("meta")
    def __init__(self, config: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.config = config
        self.unknown: int | None = None
        for name, shape in shapes.items():
            if len(shape) != (1 if name in ("mapping", "weights") else 2) or 0 in shape:
                raise FormatError(f"tensor {name!r} is {shape}, which no table of vectors has")
        table = "embedding.weight" if "embedding.weight" in shapes else "embeddings"
        self.width = shapes[table][1]
        if table == "embeddings":
            self.embeddings = parameter(*shapes[table])
        else:
            rows, width = shapes[table]
            put(self, "embedding", nn.Embedding(rows, width))
        self.register_buffer("mapping", None)
        if "mapping" in shapes:
            self.mapping = ops.zeros(*shapes["mapping"], dtype="int64", device="meta")
        self.weights = parameter(*shapes["weights"]) if "weights" in shapes else None
        self.normalize = config.normalize

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, the modules and the prompts; model2vec's limit is 512 tokens."""
        normalize = self.normalize
        super().configure(files)
        two = self.config.model_type == "model2vec"
        self.normalize = normalize or ("modules.json" in files and self.normalize)
        self.max_length = _LONGEST if two else _ANY
        if two and self.tokenizer is not None and "tokenizer.json" in files:
            model = parse_json(files["tokenizer.json"], "tokenizer.json", depth=64).get("model", {})
            token = model.get("unk_token")
            named = self.tokenizer.token_to_id(token) if isinstance(token, str) else None
            self.unknown = model.get("unk_id") if named is None else named

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The vectors (batch, length, width) of token ids (batch, length)."""
        table = self.embeddings if hasattr(self, "embeddings") else self.embedding.weight
        rows = (
            ids if self.mapping is None else ops.embedding(self.mapping.unsqueeze(1), ids)[..., 0]
        )
        out = ops.embedding(table, rows)
        if self.weights is None:
            return out
        return out.float() * ops.embedding(self.weights.unsqueeze(1), ids)

    def _tokens(self, rows: list[str]) -> list[Encoding]:
        assert self.tokenizer is not None
        encodings = self.tokenizer.encode_batch(rows, add_special_tokens=False)
        return [self._kept(encoding) for encoding in encodings]

    def _kept(self, encoding: Encoding) -> Encoding:
        places = [i for i, id in enumerate(encoding.ids) if id != self.unknown][: self.max_length]
        if len(places) == len(encoding):
            return encoding
        return replace(
            encoding,
            ids=[encoding.ids[i] for i in places],
            offsets=[encoding.offsets[i] for i in places],
            special=[encoding.special[i] for i in places],
        )

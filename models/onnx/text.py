"""Encoders of texts whose layers are a graph: vectors, classes, masked words, answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.dtype import float32, int64
from rushlight.core.functional.joining import stack
from rushlight.core.functional.reductions import normalize
from rushlight.core.io.text.tokenizer import Encoding
from rushlight.core.jit.function import jit
from rushlight.core.onnx import OnnxModule
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.embedding import Way
from rushlight.models.layers.heads import KINDS, Scoring, labels_of
from rushlight.models.onnx.graph import (
    GraphConfig,
    GraphModel,
    Graphs,
    ask,
    context_of,
    log,
    names_in,
    names_out,
    rank,
    refuse_outputs,
    sizes,
    whole,
)

# Outputs that are a vector of each text, and those that are states of tokens, the best first.
VECTORS = ("sentence_embedding", "text_embeds", "dense_vecs")
STATES = ("last_hidden_state", "token_embeddings", "hidden_states")
_ENDS = ("start_logits", "end_logits")


class TextGraph(GraphModel, Scoring):
    """An encoder as a graph: `model(ids, attention_mask)` gives the last hidden state.

    kind: the end of the class that config.json names, of `heads.KINDS`; "" for one without a head.
    embeds_by: where vectors of texts come from, in words.
    """

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.encoder_name = next(iter(graphs))
        graph = self.encoder
        self.kind = kind_of(config, graph)
        self.tasks = (KINDS[self.kind] if self.kind else "feature-extraction",)
        self.vocab_size = whole(config, "vocab_size", default=1 << 28)
        self.context_length = context_of(config)
        self.vector_output = next((n for n in VECTORS if n in names_out(graph)), "")
        self.state_output = self._find_states()
        self.width = self._find_width()
        self.types = 2 if "token_type_ids" in names_in(graph) else 0
        self.problem = config.get("problem_type")
        if self.kind in ("ForSequenceClassification", "ForTokenClassification"):
            self.labels = labels_of(vars(config))
        told = config.get("sentence_transformers")
        named = told.get("activation_fn") if isinstance(told, Mapping) else None
        self.activation = named or config.get("sbert_ce_default_activation_function")

    @property
    def encoder(self) -> OnnxModule:
        """The graph of texts."""
        return self.graph(self.encoder_name)

    def _find_states(self) -> str:
        outputs = names_out(self.encoder)
        named = next((name for name in STATES if name in outputs), "")
        if named or self.kind:
            return named
        # Some exporters call states logits.
        plain = [name for name in outputs if rank(self.encoder, name) in (3, None)]
        return plain[0] if plain else ""

    def _find_width(self) -> int:
        for name in (self.vector_output, self.state_output):
            for info in self.encoder.outputs:
                if info.name == name and sizes(info) and isinstance(sizes(info)[-1], int):
                    return int(sizes(info)[-1])  # type: ignore[arg-type]
        config = self.config
        keys = ("projection_dim",) if self.vector_output == "text_embeds" else ()
        return whole(config, *keys, "hidden_size", "d_model", "dim", "n_embd", default=1)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, and how texts are embedded where the graph does not do it."""
        super().configure(files)
        if self.vector_output:
            # The graph is past the modules that come after the encoder.
            self.pooling, self.after = "mean_tokens", None
            self.embeds_by = f"the graph's output {self.vector_output}"
        else:
            pooling = self.pooling if isinstance(self.pooling, str) else " and ".join(self.pooling)
            self.embeds_by = f"{pooling} of the graph's output {self.state_output or 'logits'}"
        if not self.kind:
            log.info("%s: vectors are %s", self.config.model_type, self.embeds_by)

    @property
    def embedding_width(self) -> int:
        """Features of an embedding, before `dim`."""
        return self.width if self.vector_output else super().embedding_width

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Hidden states (batch, length, width) of token ids (batch, length).

        attention_mask (batch, length): false or zero for padding. Raises ValueError for a text
        longer than the context, and where the graph gives no states of tokens.

        `token_type_ids` (batch, length): the segment of each token, 0 unless set.
        """
        if not self.state_output:
            refuse_outputs(self.encoder, "call logits() or encode() of it")
        states: Tensor = self._asked(ids, attention_mask, token_type_ids)[self.state_output]
        return states

    def logits(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """The head's scores: (batch, length, vocab) of masked words, (batch, labels) of texts,
        (batch, length, labels) of tokens, (batch, length, 2) of the starts and ends of answers.

        `ids`, `attention_mask` and `token_type_ids` are (batch, length), as in `forward`, and so is
        what it raises.
        """
        results = self._asked(ids, attention_mask, token_type_ids)
        if self.kind == "ForQuestionAnswering":
            return stack([results[name] for name in _ENDS], -1)
        if "logits" not in results:
            refuse_outputs(self.encoder, "no logits")
        scores: Tensor = results["logits"]
        return scores

    def vectors(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The graph's own vectors (batch, width) of texts. ValueError where it gives none."""
        if not self.vector_output:
            refuse_outputs(self.encoder, "call encode(), which pools the states of tokens")
        vectors: Tensor = self._asked(ids, attention_mask, None)[self.vector_output]
        return vectors

    def _asked(self, ids: Tensor, mask: Tensor | None, types: Tensor | None) -> dict[str, Any]:
        if ids.ndim != 2 or ids.shape[1] > self.context_length:
            raise ValueError(
                f"{self.config.model_type}: ids are {ids.shape}; they must be (batch, up to "
                f"{self.context_length})"
            )
        given = {
            "input_ids": ids,
            "attention_mask": None if mask is None else (mask != 0).to(int64),
            "token_type_ids": None if types is None else types.to(int64),
        }
        return ask(self.encoder, given)

    def _embed(self, batch: list[Encoding], way: Way) -> Tensor:
        if not self.vector_output:
            return super()._embed(batch, way)
        return _own_vectors(self, *self._padded(batch), way)[: len(batch)]


@jit
def _own_vectors(model: TextGraph, ids: Tensor, mask: Tensor, way: Way) -> Tensor:
    out = model.vectors(ids, mask).to(float32)
    out = out[:, : way.dim] if way.dim else out
    return normalize(out, dim=-1) if way.normalize else out


def kind_of(config: GraphConfig, graph: OnnxModule) -> str:
    """The head that config.json names, or that the graph's outputs tell; "" for none."""
    named, outputs = config.get("architectures"), names_out(graph)
    if set(_ENDS) <= set(outputs):
        return "ForQuestionAnswering"
    if "logits" not in outputs:
        return ""
    first = named[0] if isinstance(named, list) and named else None
    for kind in KINDS:
        if isinstance(first, str) and first.endswith(kind):
            return kind
    if first is None and config.get("id2label") is not None:
        return "ForSequenceClassification" if rank(graph, "logits") == 2 else (
            "ForTokenClassification"
        )  # fmt: skip
    return ""

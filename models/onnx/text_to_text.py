"""Text to text by the graphs of an encoder and a decoder, in the project's searches.

Such decoders have no mask of their own tokens, so their past is as long as what was written, and
grows with each step: steps are planned by length and kept, and not captured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core import ops
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import as_dtype, float32, int64
from rushlight.core.basis.errors import LoadError
from rushlight.core.onnx import OnnxModule
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.sampling import Array
from rushlight.models.generation.search.memory import Head
from rushlight.models.generation.text_to_text import Seq2SeqLM
from rushlight.models.onnx.graph import (
    GraphConfig,
    GraphModel,
    Graphs,
    ask,
    context_of,
    names_in,
    sizes,
    whole,
)

_BRANCH = "use_cache_branch"


class TextToTextGraph(GraphModel, Seq2SeqLM):
    """Text to text as graphs: forward(ids, decoder_ids) -> logits."""

    tasks = ("text2text-generation", "translation", "summarization")

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.stepper = Stepper(self, graphs)
        self.vocab_size = self.stepper.vocabulary(config)
        self.source_vocab_size = whole(config, "vocab_size", default=self.vocab_size)
        self.context_length = context_of(config)
        self._sessions: Any = GraphSessions()

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The encoder's hidden states (batch, length, width) of ids (batch, length)."""
        if ids.ndim != 2 or ids.shape[1] > self.context_length:
            raise ValueError(
                f"{self.config.model_type}: ids are {ids.shape}; they must be (batch, up to "
                f"{self.context_length})"
            )
        mask = None if attention_mask is None else (attention_mask != 0).to(int64)
        given = {"input_ids": ids, "attention_mask": mask}
        states: Tensor = next(iter(ask(self.graph("encoder_model"), given).values()))
        return states

    def forward(
        self, ids: Tensor, decoder_ids: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        """Logits (batch, decoder length, vocab) of ids and decoder_ids, (batch, length) each.

        attention_mask (batch, length) of ids: false or zero for padding. Raises ValueError past the
        context.

        `decoder_ids` are those that the decoder has written.
        """
        mask = ops.ones(ids.shape, dtype=int64, device=ids.device)
        mask = mask if attention_mask is None else (attention_mask != 0).to(int64)
        states = DecoderState(self.stepper, self.encode(ids, mask), mask)
        return states.step(decoder_ids)


class Stepper:
    """The decoder's graphs: the one that begins, and the one that goes on with a past."""

    def __init__(self, model: GraphModel, graphs: Graphs) -> None:
        names = [name for name in graphs if name.startswith("decoder")]
        self.first: OnnxModule = model.graph(names[0])
        self.merged = _BRANCH in names_in(self.first)
        past = [n for n in names_in(self.first) if n.startswith("past_key_values.")]
        self.later = model.graph(names[1]) if len(names) > 1 else self.first if past else None
        self.past = [
            n for n in names_in(self.later or self.first) if n.startswith("past_key_values.")
        ]
        if self.later is not None and not self.past:
            raise LoadError(f"{self.later.name} takes no past_key_values")
        shapes = {n: sizes(names_in(self.later or self.first)[n]) for n in self.past}
        self.shapes = {n: (shape[1], shape[3]) for n, shape in shapes.items() if len(shape) == 4}
        for name in self.past:
            if not all(isinstance(n, int) for n in self.shapes.get(name, (None,))):
                raise LoadError(
                    f"{self.first.name}: {name} has the shape {shapes[name]}; it must be (batch, "
                    "heads, length, features) with heads and features said"
                )

    def vocabulary(self, config: GraphConfig) -> int:
        """The number of tokens that logits are of. LoadError without logits."""
        info = next((o for o in self.first.outputs if o.name == "logits"), None)
        if info is None:
            raise LoadError(f"{self.first.name} gives no logits")
        last = sizes(info)[-1:]
        if last and isinstance(last[0], int):
            return last[0]
        return whole(config, "decoder_vocab_size", "vocab_size")

    def begin(self, ids: Tensor, states: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
        """The graph's outputs for the first tokens."""
        given = self._given(ids, states, mask)
        rows = ids.shape[0]
        known = names_in(self.first)
        for name, (heads, features) in self.shapes.items():
            if name in known:
                given[name] = ops.zeros(rows, heads, 0, features, device=ids.device)
        given[_BRANCH] = np.array([False])
        return ask(self.first, given)

    def go_on(
        self, ids: Tensor, states: Tensor, mask: Tensor | None, past: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """The graph's outputs for tokens after a past."""
        assert self.later is not None
        given = {**self._given(ids, states, mask), **past, _BRANCH: np.array([True])}
        return ask(self.later, given, capture=False)

    def _given(self, ids: Tensor, states: Tensor, mask: Tensor | None) -> dict[str, Any]:
        return {
            "input_ids": ids,
            "decoder_input_ids": ids,
            "encoder_hidden_states": states,
            "encoder_attention_mask": mask,
        }


class DecoderState:
    """Rows of answers that a decoder's graphs go on with: their past, and what they read.

    states: (rows, length, width) of the encoder; mask: (rows, length), zero for padding.
    """

    def __init__(self, stepper: Stepper, states: Tensor, mask: Tensor | None = None) -> None:
        self.stepper, self.states, self.mask = stepper, states, mask
        self.past: dict[str, Tensor] = {}
        self.ids: Tensor | None = None  # all tokens, where a graph takes no past
        self.length = 0

    def step(self, ids: Tensor) -> Tensor:
        """Logits (rows, n, vocab) after further ids (rows, n)."""
        stepper, count = self.stepper, ids.shape[1]
        if stepper.later is None:
            self.ids = ids if self.ids is None else ops.cat([self.ids, ids], 1)
            results = stepper.begin(self.ids, self.states, self.mask)
            self.length += count
            return results["logits"][:, -count:]
        if not self.past:
            results = stepper.begin(ids, self.states, self.mask)
        else:
            # A graph that goes on takes one token, or several where it says so.
            results = stepper.go_on(ids, self.states, self.mask, self.past)
        before = self.past
        self.past = {}
        for name in stepper.past:
            new = results.get(name.replace("past_key_values", "present"))
            # Keys and values of the source are those of the first step.
            if before and (new is None or ".encoder." in name):
                new = before[name]
            if new is None:
                raise LoadError(f"{stepper.first.name} gives nothing for {name}")
            self.past[name] = new
        self.length += count
        return results["logits"]

    def reorder(self, rows: Tensor) -> None:
        """Continue row rows[i] in row i."""
        self.past = {name: t.index_select(0, rows) for name, t in self.past.items()}
        self.states = self.states.index_select(0, rows)
        self.mask = None if self.mask is None else self.mask.index_select(0, rows)
        self.ids = None if self.ids is None else self.ids.index_select(0, rows)


class GraphSession:
    """The answers to `sources` texts, `copies` rows of each, as a search goes on with them."""

    def __init__(self, model: TextToTextGraph, copies: int, width: int, cache_type: str) -> None:
        if as_dtype(cache_type) is not float32:
            raise ValueError(
                f"generate: cache_type {cache_type!r} is not supported by a graph, whose keys and "
                'values are its own; supported: "float32"'
            )
        self.copies, self.width = copies, width
        self.state: DecoderState | None = None

    def begin(
        self, model: TextToTextGraph, rows: Sequence[Sequence[int]], pad: int, linear: str
    ) -> None:
        """Encode the sources."""
        ids = np.full((len(rows), self.width), pad, np.int64)
        mask = np.zeros((len(rows), self.width), np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)], mask[i, : len(row)] = row, 1
        placed, seen = (from_numpy(x).to(model.device) for x in (ids, mask))
        with autograd.no_grad():
            states = model.encode(placed, seen)
            self.state = DecoderState(
                model.stepper, _each(states, self.copies), _each(seen, self.copies)
            )

    def step(self, model: TextToTextGraph, tokens: Array, head: Head | None) -> Readback[Array]:
        """Decode tokens (rows, n) and begin to read the logits (rows, vocab) after them."""
        assert self.state is not None
        with autograd.no_grad():
            logits = self.state.step(from_numpy(tokens).to(model.device))
            return logits[:, -1].float().readback()

    def reorder(self, rows: Array) -> None:
        """Continue row rows[i] in row i."""
        assert self.state is not None
        if (rows != np.arange(len(rows))).any():
            with autograd.no_grad():
                device = self.state.states.device
                self.state.reorder(from_numpy(rows.astype(np.int64)).to(device))


class GraphSessions:
    """Makes the session of each search; nothing of one serves another."""

    def take(
        self, model: TextToTextGraph, sources: int, copies: int, width: int, cache_type: str
    ) -> GraphSession:
        """A session for one search of `sources` texts."""
        return GraphSession(model, copies, width, cache_type)

    def give(self, session: GraphSession) -> None:
        """Forget a session's tensors."""
        session.state = None


def _each(x: Tensor, copies: int) -> Tensor:
    """(sources, ...) -> (sources * copies, ...), the copies of a source one after another."""
    if copies == 1:
        return x
    many = x.unsqueeze(1).expand(x.shape[0], copies, *x.shape[1:])
    return many.reshape(-1, *x.shape[1:])

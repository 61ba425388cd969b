"""Language models whose layers are a graph, in the project's generation loop.

The loop's cache has buffers that keep their shapes while tokens come, so that a step is captured
once; a graph takes `past_key_values` and gives them with the new ones behind. So the graph's past
is as long as the buffers, with what is not filled yet hidden by attention_mask: before the tokens,
as padding is in a batch. Where a graph has no such mask its past is what there is, step by step.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core import ops
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import DType, as_dtype, int64
from rushlight.core.basis.errors import LoadError
from rushlight.core.jit import capture
from rushlight.core.onnx import OnnxModule
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec, KeysAndValues
from rushlight.models.generation.generate import CausalLM
from rushlight.models.layers.head import last_hidden
from rushlight.models.onnx.graph import (
    GraphConfig,
    GraphModel,
    Graphs,
    ask,
    context_of,
    names_in,
    names_out,
    positions_of,
    sizes,
    whole,
)

_PAST = re.compile(r"past_key_values\.(\d+)\.(key|value)")
_KEEP = ("num_logits_to_keep", "logits_to_keep")
# Where the past of a graph lies within the buffers' length, see `Past`.
BEHIND, BEFORE, EXACT = "behind", "before", "exact"


class DecoderGraph(GraphModel, CausalLM):
    """A language model as a graph: forward(ids, cache) -> logits.

    place: where the tokens of the past lie. BEHIND: at the end of it, hidden slots come first;
    BEFORE: at its begin, as GroupQueryAttention counts them; EXACT: there are no hidden slots, and
    steps are not captured; None: it is found by a trial when the first cache is made.
    """

    tasks = ("text-generation", "chat")

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.decoder_name = next(name for name in graphs if name != "embed_tokens")
        graph, inputs = self.decoder, names_in(self.decoder)
        self.vocab_size = self._find_vocabulary()
        self.context_length = context_of(config)
        self.embeds = "inputs_embeds" in inputs and "input_ids" not in inputs
        if self.embeds and "embed_tokens" not in graphs:
            raise LoadError(
                f"{graph.name} takes inputs_embeds; the folder has no embed_tokens.onnx"
            )
        self.past = [name for name in inputs if name.startswith("past")]
        unknown = [name for name in self.past if not _PAST.fullmatch(name)]
        if unknown:
            raise LoadError(
                f"{graph.name}: the input {unknown[0]} is not supported; supported: "
                "past_key_values.N.key and past_key_values.N.value"
            )
        self.specs = self._find_specs()
        self.place = self._find_place() if self.past else EXACT

    @property
    def decoder(self) -> OnnxModule:
        """The graph that gives logits."""
        return self.graph(self.decoder_name)

    def _find_vocabulary(self) -> int:
        info = next((o for o in self.decoder.outputs if o.name == "logits"), None)
        if info is None:
            there = ", ".join(names_out(self.decoder))
            raise LoadError(f"{self.decoder.name} gives no logits; it gives {there}")
        last = sizes(info)[-1:]
        if last and isinstance(last[0], int):
            return last[0]
        return whole(self.config, "vocab_size")

    def _find_specs(self) -> tuple[KeysAndValues, ...]:
        """What each layer's past holds, by the shapes (batch, heads, length, features)."""
        inputs, config, specs = names_in(self.decoder), self.config, []
        heads = whole(config, "num_attention_heads", "n_head", "num_heads", default=1)
        for layer in sorted({int(m[1]) for name in self.past if (m := _PAST.fullmatch(name))}):
            rows = []
            for kind in ("key", "value"):
                name = f"past_key_values.{layer}.{kind}"
                told = sizes(inputs[name]) if name in inputs else ()
                if len(told) != 4:
                    raise LoadError(
                        f"{self.decoder.name}: {name} has the shape {told}; it must be (batch, "
                        "heads, length, features)"
                    )
                count, features = (n if isinstance(n, int) else None for n in (told[1], told[3]))
                rows.append(
                    (
                        count or whole(config, "num_key_value_heads", default=heads),
                        features or whole(config, "head_dim", default=0 or self._width() // heads),
                    )
                )
            specs.append(KeysAndValues(rows[0][0], rows[0][1], rows[1][1]))
        return tuple(specs)

    def _width(self) -> int:
        return whole(self.config, "hidden_size", "n_embd", "d_model", "word_embed_proj_dim")

    def _find_place(self) -> str | None:
        inputs = names_in(self.decoder)
        if "attention_mask" not in inputs:
            return EXACT
        if any(node.op == "GroupQueryAttention" for node in self.decoder.model.graph.nodes):
            return BEFORE
        return BEHIND if "position_ids" in inputs else None

    def cache_specs(self) -> Sequence[CacheSpec]:
        """The keys and values of each layer."""
        if not self.past:
            raise ValueError(
                f"{self.decoder.name} takes no past_key_values, so it does not go on with a text; "
                "export it with its past"
            )
        return self.specs

    def new_cache(self, batch: int = 1, dtype: DType | str = "float32") -> Cache:
        """An empty cache for `batch` rows, with keys and values of a dtype: float32 or float16.

        ValueError for q8_0, whose rows no graph reads.
        """
        if as_dtype(dtype).kind == "q":
            raise ValueError(
                f"cache: {self.decoder.name} does not read them in {as_dtype(dtype).name}; "
                'use "float16" or "float32"'
            )
        self.try_out()
        return super().new_cache(batch, dtype)

    def trials(self) -> Generator[Readback[Any], Any, None]:
        """Find out whether hidden slots before the past change nothing."""
        if self.place is not None:
            return
        ids = tensor([[1 % self.vocab_size, 2 % self.vocab_size]], device=self.device)
        first, rest = ids[:, :1], ids[:, 1:]
        with autograd.no_grad():
            plain = self._results(first, (), None, None, capture=False)
            past = self._presents(plain, 1)
            hidden = [ops.cat([t * 0, t * 0, t], 2) for t in past]
            ones = ops.ones(1, 4, dtype=int64, device=self.device)
            seen = ops.cat([ones[:, :2] * 0, ones[:, :2]], 1)
            both = [
                self._results(rest, past, ones[:, :2], None, capture=False),
                self._results(rest, hidden, seen, None, capture=False),
            ]
            reads = [results["logits"].float().readback() for results in both]
        a, b = np.asarray((yield reads[0])), np.asarray((yield reads[1]))
        hides = np.allclose(a, b, rtol=1e-3, atol=1e-3 * float(np.abs(a).max() + 1e-9))
        self.place = BEHIND if hides else EXACT

    def forward(
        self,
        ids: Tensor,
        cache: Cache | None = None,
        *,
        attention_mask: Tensor | None = None,
        logits_to_keep: int = 0,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Logits (batch, length, vocab) of token ids (batch, length).

        logits_to_keep: only the logits of that many last tokens; 0 keeps all. lengths: (batch,),
        the ids of each row without padding on the right; the last tokens are counted within them.
        cache: holds the earlier tokens, and these are added. attention_mask (batch, length),
        without a cache: false or zero for padding. Raises ValueError past the context.
        """
        if ids.ndim != 2 or ids.shape[1] > self.context_length:
            raise ValueError(
                f"{self.config.model_type}: ids are {ids.shape}; they must be (batch, up to "
                f"{self.context_length})"
            )
        keep = logits_to_keep if lengths is None else 0
        if cache is None:
            mask = None if attention_mask is None else (attention_mask != 0).to(int64)
            results = self._results(ids, (), mask, None, keep=keep)
        elif attention_mask is not None:
            raise ValueError(f"{self.config.model_type}: give attention_mask or a cache, not both")
        else:
            results = self._continued(ids, cache, lengths, keep)
        return last_hidden(results["logits"], logits_to_keep, lengths)

    def _continued(
        self, ids: Tensor, cache: Cache, lengths: Tensor | None, keep: int
    ) -> dict[str, Tensor]:
        """Run the graph after what the cache holds, and add the new keys and values to it."""
        batch, count = ids.shape
        cache.reserve(count)
        place, size = self.place, cache.longest
        if place == EXACT:
            if capture.active:
                capture.refuse("the past of the graph grows with each token")
            if batch > 1 and "attention_mask" not in names_in(self.decoder):
                raise ValueError(
                    f"{self.decoder.name} has no attention_mask; generate the prompts one by one"
                )
        elif place == BEFORE:
            size = cache.capacity  # which has room for the new tokens
        elif cache.static:
            size = min(cache.capacity, cache.limit - count)
        slots = ops.arange(size, device=ids.device).unsqueeze(0)
        held = cache.lengths.unsqueeze(1)
        past = [buffer[:, :, :size] for layer in cache.buffers for buffer in layer]
        if place == BEFORE:
            mask = slots < held + count
        else:
            # The tokens of each row move to the end of its slots.
            index = slots - (size - held)
            mask = ops.cat([index >= 0, ops.ones(batch, count, device=ids.device).bool()], 1)
            if place != EXACT or batch > 1:
                index = index.clamp(min=0)[:, None, :, None]
                past = [t.gather(2, index.expand(*t.shape)) for t in past]
        results = self._results(
            ids, past, mask.to(int64), cache.positions(count), keep=keep, capture=place != EXACT
        )
        new = self._presents(results, None)
        for i, offset in enumerate(cache.offsets()):
            pair = new[2 * i : 2 * i + 2]
            if place == BEFORE:
                rows = (held + ops.arange(count, device=ids.device))[:, None, :, None]
                pair = [t.gather(2, rows.expand(*t.shape[:2], count, t.shape[3])) for t in pair]
            else:
                pair = [t[:, :, size : size + count] for t in pair]
            cache.write(i, offset, *pair)
        cache.advance(count, lengths)
        return results

    def _presents(self, results: Mapping[str, Tensor], count: int | None) -> list[Tensor]:
        """The keys and values that a run gave, in the order of `past`; of the last `count`."""
        names = [
            f"{'present' if f'present.{i}.{kind}' in results else 'present_key_values'}.{i}.{kind}"
            for i in range(len(self.specs))
            for kind in ("key", "value")
        ]
        return [results[name] if count is None else results[name][:, :, -count:] for name in names]

    def _results(
        self,
        ids: Tensor,
        past: Sequence[Tensor],
        mask: Tensor | None,
        positions: Tensor | None,
        *,
        keep: int = 0,
        capture: bool = True,
    ) -> dict[str, Tensor]:
        """The graph's outputs; past: keys and values of each layer in turn, () for none."""
        device = ids.device
        given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        order = [
            f"past_key_values.{i}.{k}" for i in range(len(self.specs)) for k in ("key", "value")
        ]
        if not past:
            shapes = [
                (spec.heads, n)
                for spec in self.specs
                for n in (spec.features, spec.value_features or spec.features)
            ]
            past = [ops.zeros(ids.shape[0], heads, 0, n, device=device) for heads, n in shapes]
        else:
            given["use_cache_branch"] = np.array([True])
        given.setdefault("use_cache_branch", np.array([False]))
        given |= {name: t.float() for name, t in zip(order, past, strict=True)}
        if positions is None and mask is not None:
            positions = positions_of(ids, mask)[:, -ids.shape[1] :]
        given["position_ids"] = positions
        given |= {name: np.array(keep, np.int64) for name in _KEEP}
        if self.embeds:
            (embedded, *_) = ask(self.graph("embed_tokens"), {"input_ids": ids}).values()
            given["inputs_embeds"] = embedded
        return ask(self.decoder, given, capture=capture)

    def encode_iter(
        self, texts: Sequence[str], batch_size: int = 32, **options: Any
    ) -> Generator[tuple[int, int], None, Tensor]:
        """ValueError: the graph gives logits, and no states that vectors could be made of.

        `texts`, `batch_size` and `options` are those of an encoder.
        """
        raise ValueError(
            f"{self.decoder.name} gives logits alone, so texts have no vectors; load the "
            "checkpoint's safetensors, or a graph of feature-extraction"
        )

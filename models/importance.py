"""Importance of weight columns: sums of squares of what linear layers are multiplied by.

A quantizer weighs the error of each column by it. The sums are those of llama.cpp (tools/imatrix);
`core/io/weights/imatrix.py` reads and writes its files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.io.weights.imatrix import write_imatrix, write_legacy_imatrix
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families import family_of
from rushlight.models.generation.generate import CausalLM
from rushlight.models.gguf.architecture import architecture_of, kind_of
from rushlight.models.layers.mlp import ExpertStack, TransposedLinear
from rushlight.models.model import Model
from rushlight.models.perplexity import Perplexity, Progress, causal, perplexity

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Importance:
    """What a text showed of a model's weights, by their names in GGUF.

    sums: (1, columns), of experts (experts, columns), float64: the sums of squares of the inputs.
    counts: (1,) or (experts,): the tokens in each sum. quality: the model's perplexity there.
    """

    sums: dict[str, Array]
    counts: dict[str, Array]
    context: int
    quality: Perplexity

    def save(
        self,
        path: str | os.PathLike[str],
        datasets: Sequence[str] = (),
        *,
        overwrite: bool = False,
    ) -> None:
        """Write a GGUF file, or llama.cpp's older format if the name ends in .dat.

        datasets: names of the texts. FileExistsError unless `overwrite`.
        """
        if str(path).endswith(".dat"):
            write_legacy_imatrix(
                path,
                self.sums,
                self.counts,
                self.quality.windows,
                dataset=datasets[0] if datasets else "",
                overwrite=overwrite,
            )
            return
        sums = {n: s if len(s) > 1 else s[0] for n, s in self.sums.items()}
        write_imatrix(
            path,
            sums,
            self.counts,
            self.quality.windows,
            chunk_size=self.context,
            datasets=datasets,
            overwrite=overwrite,
        )


def importance(
    model: Model,
    text: str | Sequence[int],
    *,
    context: int = 512,
    linear: str = "fast",
    progress: Progress | None = None,
) -> Importance:
    """The importance of the columns of every linear layer, over windows of a text.

    Each layer's inputs are squared and summed over all tokens, as llama.cpp does; of a mixture of
    experts over the tokens that choose an expert. The head is left out, as there. text, context,
    linear: as in `perplexity`, which evaluates the windows. ValueError for a family without names
    in GGUF, and as `perplexity`.
    """
    with _watched(causal(model)) as sums:

        def told(done: int, total: int) -> None:
            sums.read()
            if progress is not None:
                progress(done, total)

        quality = perplexity(model, text, context=context, linear=linear, progress=told)
    return Importance(sums.sums, sums.counts, context, quality)


class _Watch:
    """Sums that are pending on the device, and those that were read."""

    def __init__(self) -> None:
        self.pending: dict[str, list[Tensor]] = {}
        self.sums: dict[str, Array] = {}
        self.counts: dict[str, Array] = {}

    def forward(self, name: str, module: nn.Module) -> Callable[..., Tensor]:
        """The module's forward function that also sums squares of its input."""
        usual = module.forward
        experts = module.weight.shape[0] if isinstance(module, ExpertStack) else 0

        def forward(x: Tensor, *index: Tensor) -> Tensor:
            rows = x.reshape(-1, x.shape[-1]).float().square()
            # (rows, columns + 1): the last column counts the rows.
            rows = ops.cat([rows, ops.ones(rows.shape[0], 1, device=x.device)], 1)
            if experts:
                empty = ops.zeros(experts, rows.shape[1], device=x.device)
                squares = empty.index_add(0, index[0].reshape(-1), rows)
            else:
                squares = rows.sum(0, keepdim=True)
            self.pending.setdefault(name, []).append(squares)
            out: Tensor = usual(x, *index)
            return out

        return forward

    def read(self) -> None:
        """Add what is pending to the sums, by one read."""
        parts = [(name, t) for name, pending in self.pending.items() for t in pending]
        self.pending = {}
        flat = ops.cat([t.reshape(-1) for _, t in parts]).numpy().astype(np.float64)
        start = 0
        for name, t in parts:
            values = flat[start : start + t.numel()].reshape(t.shape)
            start += t.numel()
            self.sums[name] = self.sums.get(name, 0) + values[:, :-1]
            self.counts[name] = self.counts.get(name, 0) + values[:, -1]


@contextmanager
def _watched(model: CausalLM) -> Iterator[_Watch]:
    """A watch over the model's linear layers that have names in GGUF, while the block runs."""
    watch, names = _Watch(), gguf_names(model)
    modules = [
        (names[path], module)
        for path, module in model.named_modules()
        if isinstance(module, (nn.Linear, TransposedLinear, ExpertStack)) and path in names
    ]
    try:
        for name, module in modules:
            vars(module)["forward"] = watch.forward(name, module)
        yield watch
    finally:
        for _, module in modules:
            vars(module).pop("forward", None)


def gguf_names(model: CausalLM) -> dict[str, str]:
    """The name in GGUF of the weight of every module of the layers, by the module's path."""
    family = family_of(model.config.model_type, "model_type")
    if family.gguf is None:
        raise ValueError(f"importance: {model.config.model_type} has no names in GGUF")
    known = architecture_of(family, kind_of(family, model)).names
    parts = {ours: theirs for theirs, ours in known.items() if "{}" in theirs}
    by_path = {}
    for path, _ in model.named_modules():
        number = re.search(r"\.(\d+)\.", path)
        their_name = (
            parts.get(path[: number.start(1)] + "{}" + path[number.end(1) :]) if number else None
        )
        if their_name is not None and number is not None:
            by_path[path] = f"{their_name.format(number[1])}.weight"
    return by_path

"""Fine-tuning: rows of a JSONL file become batches, and a loop trains what takes gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

from rushlight.core import optim
from rushlight.core.backends import Generator as Draws
from rushlight.core.functional.random import randperm
from rushlight.core.nn.utils import clip_grad_norm_
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters import disable_adapter
from rushlight.models.finetune.examples import (
    Batch,
    Example,
    examples_of,
    packed,
    padded,
    preference_of,
)
from rushlight.models.finetune.heads import embed
from rushlight.models.finetune.losses import (
    causal_loss,
    dpo_loss,
    log_probabilities,
    ranking_loss,
)

B = TypeVar("B")
Watch = Callable[[int, int, float], object]
# Asks for the number in a tensor, and returns the loss of each step: a page waits where it may.
Steps = Generator[Tensor, float, list[float]]


def finetune(model: Any, rows: Sequence[Mapping[str, Any]], **options: Any) -> list[float]:
    """Train the parameters that take gradients on `rows`; returns the loss of each step.

    rows: all of one kind, by their keys: "messages", "prompt" with "completion", or "text" for a
    language model (`examples_of`); "prompt", "chosen" and "rejected" for preferences (`dpo_loss`,
    with `beta`; the reference is the model without its adapters); "anchor" and "positive" for a
    sentence encoder (`ranking_loss`). options: those of `finetuning` and of `train`. ValueError for
    rows of another kind, naming the row.
    """
    return _driven(finetuning(model, rows, **options))


def finetuning(
    model: Any,
    rows: Sequence[Mapping[str, Any]],
    *,
    steps: int | None = None,
    epochs: float = 1,
    batch_size: int = 4,
    length: int | None = None,
    pack: bool = False,
    beta: float = 0.1,
    seed: int = 0,
    **options: Any,
) -> Steps:
    """`finetune` step by step, for a page.

    steps: the number of updates, by default that of `epochs`. batch_size: examples of a step.
    length: the most tokens of an example, and pack: rows of so many tokens, which hold several.
    options: those of `train`.

    `model` writes, or gives sentence vectors; `rows` have the keys that `finetune` names; `beta` is
    dpo_loss's; `seed` of the order. Raises ValueError for rows of other keys, or none.
    """
    first = rows[0] if rows else {}
    loss: Callable[[Any], Tensor]
    batches: list[Any]
    if "anchor" in first:
        pairs = [
            (_named(i, row, "anchor"), _named(i, row, "positive")) for i, row in enumerate(rows)
        ]
        batches = _groups(pairs, batch_size)
        loss = _pairs_loss(model)
    elif "chosen" in first:
        both = [_of(i, preference_of, model, row, length) for i, row in enumerate(rows)]
        batches = _groups(both, batch_size)
        loss = _preferences_loss(model, beta)
    else:
        examples = [
            example
            for i, row in enumerate(rows)
            for example in _of(i, examples_of, model, row, length)
        ]
        if not examples:
            raise ValueError("finetune: there are no rows")
        if pack:
            width = length or min(512, model.context_length)
            batches = packed(examples, width, rows=batch_size, device=model.device)
        else:
            batches = _groups(examples, batch_size)
        loss = _texts_loss(model)
    count = steps if steps is not None else max(1, round(epochs * len(batches)))
    return _training(model, batches, loss, steps=count, seed=seed, **options)


def train(
    model: Any, batches: Sequence[B], loss: Callable[[B], Tensor], *, steps: int, **options: Any
) -> list[float]:
    """Take `steps` steps of AdamW on loss(batch), in an order that is drawn anew for each epoch.

    options: lr=2e-4 rises for the first `warmup` (0.1) share of the steps and falls to zero as a
    cosine does. weight_decay. clip=1.0: the largest norm of all gradients. seed. watch(step, steps,
    loss) is called after each step. The model is in training mode meanwhile. ValueError if no
    parameter takes gradients; FloatingPointError for a loss that is not finite, before the step
    that it would spoil.

    `model` is what loss runs; `batches` are taken in turn.
    """
    return _driven(_training(model, batches, loss, steps=steps, **options))


def _driven(going: Steps) -> list[float]:
    """The result of steps; their numbers are waited for."""
    sent: Any = None
    while True:
        try:
            sent = float(going.send(sent).item())
        except StopIteration as finished:
            losses: list[float] = finished.value
            return losses


def _training(
    model: Any,
    batches: Sequence[B],
    loss: Callable[[B], Tensor],
    *,
    steps: int,
    lr: float = 2e-4,
    warmup: float = 0.1,
    weight_decay: float = 0.0,
    clip: float | None = 1.0,
    seed: int = 0,
    watch: Watch | None = None,
) -> Steps:
    """The steps of `train`."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained or not batches or steps < 1:
        what = (
            "no parameter takes gradients; add an adapter"
            if not trained
            else (f"there are {len(batches)} batches for {steps} steps")
        )
        raise ValueError(f"train: {what}")
    optimizer = optim.AdamW(trained, lr=lr, weight_decay=weight_decay)
    draws, order, losses = Draws().manual_seed(seed), list[int](), list[float]()
    was = model.training
    model.train()
    try:
        for step in range(steps):
            order = order or randperm(len(batches), generator=draws).tolist()
            for group in optimizer.param_groups:
                group["lr"] = lr * _share(step, steps, warmup)
            optimizer.zero_grad()
            loss_value = loss(batches[order.pop()])
            losses.append((yield loss_value))
            if not math.isfinite(losses[-1]):
                raise FloatingPointError(
                    f"train: the loss of step {step} is {losses[-1]}; choose a lower rate than {lr}"
                )
            loss_value.backward()
            if clip is not None:
                clip_grad_norm_(trained, clip)
            optimizer.step()
            if watch is not None:
                watch(step + 1, steps, losses[-1])
    finally:
        model.train(was)
    return losses


def _share(step: int, steps: int, warmup: float) -> float:
    """The share of the rate at a step: a line up, then half a cosine down."""
    rising = warmup * steps
    falling = 0.5 * (1 + math.cos(math.pi * step / steps))
    return min(1.0, (step + 1) / rising) * falling if rising else falling


def _groups(items: Sequence[Any], size: int) -> list[list[Any]]:
    return [list(items[i : i + size]) for i in range(0, len(items), size)]


def _named(number: int, row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"row {number}: {key!r} must be a text")
    return value


def _of(number: int, make: Callable[..., Any], model: Any, row: Any, length: int | None) -> Any:
    try:
        return make(model, row, max_length=length)
    except ValueError as error:
        raise ValueError(f"row {number}: {error}") from None


def _texts_loss(model: Any) -> Callable[[Any], Tensor]:
    def loss(batch: Batch | list[Example]) -> Tensor:
        if isinstance(batch, list):  # padding is on the right, where nothing sees it
            batch_of_rows = padded(batch, device=model.device)
            return causal_loss(model(batch_of_rows.ids), batch_of_rows.labels)
        return causal_loss(model(batch.ids, segments=batch.segments), batch.labels)

    return loss


def _preferences_loss(model: Any, beta: float) -> Callable[[Any], Tensor]:
    def loss(pairs: list[tuple[Example, Example]]) -> Tensor:
        both_sides = padded([p[side] for side in (0, 1) for p in pairs], device=model.device)
        with autograd.no_grad(), disable_adapter(model):
            reference = log_probabilities(model(both_sides.ids), both_sides.labels).chunk(2)
        policy = log_probabilities(model(both_sides.ids), both_sides.labels).chunk(2)
        return dpo_loss(*policy, *reference, beta=beta)

    return loss


def _pairs_loss(model: Any) -> Callable[[Any], Tensor]:
    def loss(pairs: list[tuple[str, str]]) -> Tensor:
        anchors, positives = zip(*pairs, strict=True)
        both = embed(model, [*anchors, *positives]).chunk(2)
        return ranking_loss(*both)

    return loss

"""Losses of fine-tuning: of the next tokens, of preferences, and of pairs of texts."""

from __future__ import annotations

from rushlight.core import ops
from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.network.activations import logsigmoid
from rushlight.core.functional.network.cross_entropy import cross_entropy
from rushlight.core.functional.reductions import normalize
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.finetune.examples import IGNORED


def causal_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean of -log p(label) of the next token, (batch, length, vocab) and (batch, length).

    The logits of a token are compared with the label of the one after it. Labels of -100 are not
    counted. Logits of a narrow dtype are computed with in float32.
    """
    if logits.ndim != 3 or logits.shape[:2] != labels.shape:
        raise ShapeError(
            f"causal_loss: logits are {logits.shape}, labels {labels.shape}; they must be (batch, "
            "length, vocab) and (batch, length)"
        )
    rows = logits[:, :-1].reshape(-1, logits.shape[2])
    rows = rows.float() if rows.dtype.itemsize < 4 else rows
    return cross_entropy(rows, labels[:, 1:].reshape(-1), ignore_index=IGNORED)


def log_probabilities(logits: Tensor, labels: Tensor) -> Tensor:
    """log p of the labelled tokens of each row, added up: (batch,). See `causal_loss`."""
    wanted = labels[:, 1:]
    counted = wanted != IGNORED
    logp = logits[:, :-1].float().log_softmax(-1)
    chosen = logp.gather(2, wanted.clamp(min=0).unsqueeze(2)).squeeze(2)
    return chosen.masked_fill(counted.logical_not(), 0).sum(1)


def dpo_loss(
    chosen: Tensor,
    rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    *,
    beta: float = 0.1,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Direct preference optimization (Rafailov et al., 2023), over (batch,) log-probabilities.

    -log sigmoid(beta ((chosen - reference_chosen) - (rejected - reference_rejected))). The
    reference is the model without its adapter (`rl.adapters.disable_adapter`). label_smoothing: the
    share of pairs that are taken to be the other way round (Mitchell, 2023).

    Raises ShapeError for shapes that do not broadcast.
    """
    margin = ((chosen - reference_chosen) - (rejected - reference_rejected)) * beta
    loss = -logsigmoid(margin) * (1 - label_smoothing)
    if label_smoothing:
        loss = loss - logsigmoid(-margin) * label_smoothing
    return loss.mean()


def ranking_loss(
    anchors: Tensor, positives: Tensor, negatives: Tensor | None = None, *, scale: float = 20.0
) -> Tensor:
    """MultipleNegativesRanking (Henderson et al., 2017): pair i against the other texts of a batch.

    anchors, positives: (n, width); negatives: (m, width), further texts that fit no anchor. The
    cross entropy of scale * cosine, where an anchor's own positive is the right class.

    Raises ShapeError for widths that differ.
    """
    others = positives if negatives is None else ops.cat((positives, negatives))
    scores = normalize(anchors, dim=-1) @ normalize(others, dim=-1).t() * scale
    return cross_entropy(scores, ops.arange(anchors.shape[0], device=anchors.device))

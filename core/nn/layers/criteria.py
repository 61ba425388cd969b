"""Losses as layers with fixed options; the functions say what they compute."""

from __future__ import annotations

from typing import Any

from rushlight.core.functional.network.cross_entropy import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    nll_loss,
)
from rushlight.core.functional.network.ctc import ctc_loss
from rushlight.core.functional.network.losses import (
    cosine_embedding_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    reduction_of,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from rushlight.core.nn.layers.fixed import Fixed
from rushlight.core.nn.layers.nonlinear import PairwiseDistance
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss",
    "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
    "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Fixed):
    """A loss; torch shows none of its options."""

    def extra_repr(self) -> str:
        """Nothing, as in torch."""
        return ""


class _Reduced(_Loss):
    """A loss whose only option is its reduction."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        self._fix(reduction=reduction_of(size_average, reduce, reduction))


class _Weighted(_Loss):
    """A loss with a reduction and weights, which are a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self.register_buffer("weight", weight)
        self._fix(reduction=reduction_of(size_average, reduce, reduction))
        self._given += ("weight",)


class CrossEntropyLoss(_Loss):
    """`cross_entropy` with fixed options; the class weights are a buffer.

    `weight` (classes,) weighs each class. Targets equal to `ignore_index` are left out.
    `label_smoothing`, from 0 to 1, is the share that all classes get. `reduction` is "mean",
    "sum" or "none"; `size_average` and `reduce` are torch's old spelling of it. The call raises
    ValueError for another reduction, and for shapes that do not fit.
    """

    function = staticmethod(cross_entropy)
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        self.register_buffer("weight", weight)
        self._fix(
            ignore_index=ignore_index,
            reduction=reduction_of(size_average, reduce, reduction),
            label_smoothing=label_smoothing,
        )
        self._given += ("weight",)


class MSELoss(_Reduced):
    """`mse_loss` with a fixed reduction.

    `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old spelling
    of it. The call raises ValueError for another reduction.
    """

    function = staticmethod(mse_loss)


class L1Loss(_Reduced):
    """`l1_loss` with a fixed reduction.

    `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old spelling
    of it. The call raises ValueError for another reduction.
    """

    function = staticmethod(l1_loss)


class NLLLoss(_Loss):
    """`nll_loss` of log-probabilities; the class weights are a buffer.

    `weight` (classes,) weighs each class. Targets equal to `ignore_index` are left out.
    `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old spelling
    of it. The call raises ValueError for another reduction, and for shapes that do not fit;
    IndexError for an index that is no class.
    """

    function = staticmethod(nll_loss)
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self.register_buffer("weight", weight)
        chosen = reduction_of(size_average, reduce, reduction)
        self._fix(ignore_index=ignore_index, reduction=chosen)
        self._given += ("weight",)


class BCELoss(_Weighted):
    """`binary_cross_entropy` of probabilities; the weights are a buffer.

    `weight` multiplies each element's loss. `reduction` is "mean", "sum" or "none";
    `size_average` and `reduce` are torch's old spelling of it. The call raises ValueError for
    another reduction, and for an input and a target of different shapes.
    """

    function = staticmethod(binary_cross_entropy)


class BCEWithLogitsLoss(_Loss):
    """`binary_cross_entropy_with_logits`; the weights are buffers.

    `weight` multiplies each element's loss, `pos_weight` that of positive targets. `reduction`
    is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old spelling of it. The
    call raises ValueError for another reduction, and for an input and a target of different
    shapes.
    """

    function = staticmethod(binary_cross_entropy_with_logits)
    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)
        self._fix(reduction=reduction_of(size_average, reduce, reduction))
        self._given += (
            "weight",
            "pos_weight",
        )


class SmoothL1Loss(_Loss):
    """`smooth_l1_loss` with fixed options.

    `beta` is the difference above which the loss is linear. `reduction` is "mean", "sum" or
    "none"; `size_average` and `reduce` are torch's old spelling of it. The call raises
    ValueError for another reduction, and for a negative beta.
    """

    function = staticmethod(smooth_l1_loss)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        self._fix(reduction=reduction_of(size_average, reduce, reduction), beta=beta)


class HuberLoss(_Loss):
    """`huber_loss` with fixed options."""

    function = staticmethod(huber_loss)

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        self._fix(reduction=reduction, delta=delta)


class KLDivLoss(_Loss):
    """`kl_div` with fixed options.

    `log_target`: targets are logarithms too. `reduction` is "mean", "batchmean", "sum" or
    "none"; `size_average` and `reduce` are torch's old spelling of it. The call raises
    ValueError for another reduction.
    """

    function = staticmethod(kl_div)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        self._fix(reduction=reduction_of(size_average, reduce, reduction), log_target=log_target)


class PoissonNLLLoss(_Loss):
    """`poisson_nll_loss` with fixed options.

    `log_input`: inputs are logarithms of rates; otherwise `eps` keeps log(0) away. `full` adds
    Stirling's term. `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are
    torch's old spelling of it. The call raises ValueError for another reduction.
    """

    function = staticmethod(poisson_nll_loss)

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._fix(
            log_input=log_input,
            full=full,
            eps=eps,
            reduction=reduction_of(size_average, reduce, reduction),
        )


class GaussianNLLLoss(_Loss):
    """`gaussian_nll_loss` with fixed options.

    `full` adds log(2 pi) / 2. `eps` is the least variance. `reduction` is "mean", "sum" or
    "none". The call raises ValueError for another reduction, for shapes that do not fit, and
    for negative variances.
    """

    function = staticmethod(gaussian_nll_loss)

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        self._fix(full=full, eps=eps, reduction=reduction)


class MarginRankingLoss(_Loss):
    """`margin_ranking_loss` with fixed options.

    `margin` is how far apart the two inputs must be. `reduction` is "mean", "sum" or "none";
    `size_average` and `reduce` are torch's old spelling of it. The call raises ValueError for
    another reduction.
    """

    function = staticmethod(margin_ranking_loss)

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._fix(margin=margin, reduction=reduction_of(size_average, reduce, reduction))


class HingeEmbeddingLoss(_Loss):
    """`hinge_embedding_loss` with fixed options.

    `margin` is how far apart the unlike must be. `reduction` is "mean", "sum" or "none";
    `size_average` and `reduce` are torch's old spelling of it. The call raises ValueError for
    another reduction.
    """

    function = staticmethod(hinge_embedding_loss)

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._fix(margin=margin, reduction=reduction_of(size_average, reduce, reduction))


class CosineEmbeddingLoss(_Loss):
    """`cosine_embedding_loss` with fixed options.

    `margin` is the cosine that the unlike may have. `reduction` is "mean", "sum" or "none";
    `size_average` and `reduce` are torch's old spelling of it. The call raises ValueError for
    another reduction.
    """

    function = staticmethod(cosine_embedding_loss)

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._fix(margin=margin, reduction=reduction_of(size_average, reduce, reduction))


class SoftMarginLoss(_Reduced):
    """`soft_margin_loss` with a fixed reduction.

    `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old spelling
    of it. The call raises ValueError for another reduction.
    """

    function = staticmethod(soft_margin_loss)


class MultiLabelSoftMarginLoss(_Weighted):
    """`multilabel_soft_margin_loss`; the weights are a buffer.

    `weight` (classes,) weighs each class. `reduction` is "mean", "sum" or "none";
    `size_average` and `reduce` are torch's old spelling of it. The call raises ValueError for
    another reduction.
    """

    function = staticmethod(multilabel_soft_margin_loss)


class MultiMarginLoss(_Loss):
    """`multi_margin_loss`; the weights are a buffer.

    `p` is the power, 1 or 2; `margin` how far the right class must lead; `weight` (classes,)
    weighs each class. `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are
    torch's old spelling of it. The call raises ValueError for another reduction, and for
    another p.
    """

    function = staticmethod(multi_margin_loss)
    weight: Tensor | None

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self.register_buffer("weight", weight)
        self._fix(p=p, margin=margin, reduction=reduction_of(size_average, reduce, reduction))
        self._given += ("weight",)


class MultiLabelMarginLoss(_Reduced):
    """`multilabel_margin_loss` with a fixed reduction.

    `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old spelling
    of it. The call raises ValueError for another reduction.
    """

    function = staticmethod(multilabel_margin_loss)


class TripletMarginLoss(_Loss):
    """`triplet_margin_loss` with fixed options.

    `margin` is how much further the negative must be, in the `p`-norm; `eps` is added to
    differences. `swap`: the nearer of anchor and positive counts (Balntas et al., 2016).
    `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old spelling
    of it. The call raises ValueError for another reduction.
    """

    function = staticmethod(triplet_margin_loss)

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        self._fix(
            margin=margin,
            p=p,
            eps=eps,
            swap=swap,
            reduction=reduction_of(size_average, reduce, reduction),
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`triplet_margin_with_distance_loss` with fixed options.

    `distance_function` of two tensors, the 2-norm unless set. `margin` is how much further the
    negative must be. `swap`: the nearer of anchor and positive counts. `reduction` is "mean",
    "sum" or "none". The call raises ValueError for another reduction.
    """

    function = staticmethod(triplet_margin_with_distance_loss)

    def __init__(
        self,
        *,
        distance_function: Any = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        distance = PairwiseDistance() if distance_function is None else distance_function
        self._fix(distance_function=distance, margin=margin, swap=swap, reduction=reduction)


class CTCLoss(_Loss):
    """`ctc_loss` with fixed options.

    `blank` is the class that writes nothing. `reduction` is "mean", "sum" or "none".
    `zero_infinity`: targets too long for their input count as 0. The call raises ValueError for
    another reduction, and for shapes that do not fit (Graves et al., 2006).
    """

    function = staticmethod(ctc_loss)

    def __init__(
        self,
        blank: int = 0,
        reduction: str = "mean",
        zero_infinity: bool = False,
    ) -> None:
        self._fix(blank=blank, reduction=reduction, zero_infinity=zero_infinity)

"""Errors name the op, the value, the shapes, and say what to do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl

F: Any = rl.nn.functional
X, Y = rl.ones(3, 4), rl.arange(4)
C = (1, 2, 5, 5)
ANY: Any = 1.5

MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: X + rl.ones(3),
        ValueError,
        "add: shapes (3, 4) and (3,) do not broadcast: dim 1 is 4 in one and 3 in another",
    ),
    (
        lambda: X * "a",
        TypeError,
        "mul: an operand is a str; it must be a Tensor or a Python number",
    ),
    (lambda: rl.add(1, 2), TypeError, "add: one of the operands must be a Tensor"),
    (lambda: X.softmax(2), IndexError, "softmax: dim 2 is out of range for shape (3, 4)"),
    (lambda: X.sum((0, 5)), IndexError, "sum: dim 5 is out of range for shape (3, 4)"),
    (lambda: X.sum((0, 0)), ValueError, "sum: dims (0, 0) name a dim twice for shape (3, 4)"),
    (lambda: X.sum(ANY), TypeError, "sum: dim must be an int, not 1.5"),
    (lambda: Y.mean(), TypeError, "mean: int64 is not a floating dtype; use x.float().mean()"),
    (
        lambda: rl.zeros(3, 0).amax(1),
        IndexError,
        "amax: shape (3, 0) has no elements along dims (1,",
    ),
    (
        lambda: rl.zeros(3, 0).argmax(1),
        IndexError,
        "argmax: shape (3, 0) has no elements along dim 1",
    ),
    (
        lambda: X @ X,
        ValueError,
        "matmul: (3, 4) @ (3, 4): the last dim of the first is 4, the one "
        "before the last of the second 3; they must be equal",
    ),
    (
        lambda: X @ rl.tensor(1.0),
        ValueError,
        "matmul: shapes (3, 4) and (); 0-d tensors have no pro",
    ),
    (
        lambda: rl.linear(X, rl.ones(2, 5)),
        ValueError,
        "linear: x has 4 features in its last dim, weight (2, 5) takes 5; x is (3, 4)",
    ),
    (
        lambda: rl.linear(Y, rl.ones(2, 4)),
        TypeError,
        "linear: input is int64, weight is float32; they must have one dtype",
    ),
    (
        lambda: rl.linear(X, rl.ones(2, 4), rl.ones(3)),
        ValueError,
        "linear: bias is (3,); weight (2, ",
    ),
    (lambda: X.reshape(5), ValueError, "reshape: 12 elements do not fit shape (5,)"),
    (lambda: X.reshape(-1, -1), ValueError, "reshape: shape (-1, -1) may have one -1"),
    (lambda: X.reshape(2.0), TypeError, "reshape: (2.0,) must be ints, or one sequence of ints"),
    (
        lambda: X.t().view(12),
        ValueError,
        "view: shape (4, 3) with strides (1, 4) cannot be viewed as "
        "(12,) without a copy; use reshape",
    ),
    (
        lambda: X.expand(2, 3, 5),
        ValueError,
        "expand: shape (3, 4) does not expand to (2, 3, 5): dim 2",
    ),
    (lambda: X.expand(4), ValueError, "expand: (4,) has fewer dims than the tensor's shape (3, 4)"),
    (lambda: X.permute(0), ValueError, "permute: (0,) does not name each of the 2 dims once"),
    (
        lambda: rl.ones(2, 2, 2).t(),
        ValueError,
        "t: shape (2, 2, 2) has more than two dims; use tran",
    ),
    (
        lambda: X.narrow(1, 3, 2),
        IndexError,
        "narrow: start 3 and length 2 do not fit dim 1 of shape",
    ),
    (lambda: X.split([1, 1]), ValueError, "split: sizes [1, 1] do not add up to 3"),
    (lambda: X.split(0), ValueError, "split: split_size is 0; it must be positive"),
    (lambda: X.chunk(0), ValueError, "chunk: chunks is 0; it must be positive"),
    (lambda: rl.tensor(1.0).unbind(), IndexError, "unbind: a 0-d tensor has no dim 0"),
    (lambda: X.unfold(0, 4, 1), ValueError, "unfold: size 4, step 1 and dilation 1 give no window"),
    (lambda: X.repeat(2), ValueError, "repeat: (2,) has fewer numbers than the tensor's shape"),
    (lambda: X.roll((1, 2), 0), ValueError, "roll: shifts (1, 2) and dims (0,) differ in number"),
    (lambda: rl.pad(X, (1,)), ValueError, "pad: (1,) is not a pair for each of at most 2 dims"),
    (
        lambda: rl.pad(X, (1, 1), mode="reflect"),
        ValueError,
        "pad: mode 'reflect' is not supported; supported: constant",
    ),
    (lambda: rl.cat([]), ValueError, "cat: no tensors to join"),
    (
        lambda: rl.cat([X, rl.ones(2, 3)]),
        ValueError,
        "cat: shapes (3, 4) and (2, 3) differ in a dim other than 0",
    ),
    (lambda: rl.stack([X, Y]), ValueError, "stack: shapes (3, 4) and (4,) differ"),
    (lambda: X[5], IndexError, "index 5 is out of range for dim 0 of shape (3, 4)"),
    (lambda: X[0, 0, 0], IndexError, "index: (0, 0, 0) names more dims than shape (3, 4) has"),
    (lambda: X[rl.tensor([3])], IndexError, "index: index 3 is out of range for size 3"),
    (
        lambda: X[rl.tensor([True])],
        IndexError,
        "index: mask is (1,), but the dims that it indexes are (3,)",
    ),
    (lambda: X[::-1], ValueError, "index: step -1 is not positive; use flip to go backwards"),
    (
        lambda: X["a"],
        TypeError,
        "index: 'a' is not an index; use ints, slices, None, ..., or tensors of",
    ),
    (lambda: X[1.5], TypeError, "index: 1.5 is not an index; use ints"),
    (lambda: X[[0.5]], TypeError, "index: [0.5] holds float64, not integers or booleans"),
    (lambda: X[rl.ones(1)], TypeError, "index: a float32 tensor is not an index; use .long()"),
    (lambda: X.__setitem__(0, rl.ones(3)), ValueError, "assignment: (3,) does not expand to (4,)"),
    (lambda: X.__setitem__(0, [1, 2]), TypeError, "assignment: a list; use a number or rl.tensor"),
    (
        lambda: X.gather(0, rl.tensor([[3]])),
        IndexError,
        "gather: index 3 is out of range for size 3",
    ),
    (
        lambda: X.gather(0, rl.tensor([[-1]])),
        IndexError,
        "gather: index -1 is out of range for siz",
    ),
    (
        lambda: X.gather(0, rl.tensor([0])),
        ValueError,
        "gather: index (1,) does not fit (3, 4) outside",
    ),
    (
        lambda: X.gather(0, rl.ones(1, 1)),
        TypeError,
        "gather: index is float32; it must be an integer",
    ),
    (
        lambda: X.scatter(0, rl.zeros(2, 2, dtype=rl.int64), rl.ones(1, 1)),
        ValueError,
        "scatter: index (2, 2) is larger than the source (1, 1)",
    ),
    (
        lambda: X.index_select(0, rl.tensor([[0]])),
        ValueError,
        "index_select: index (1, 1) must be 1-d",
    ),
    (lambda: X.index_add(0, Y, X), ValueError, "index_add: source is (3, 4); it must be (4, 4)"),
    (
        lambda: rl.embedding(X, rl.tensor([3])),
        IndexError,
        "embedding: index 3 is out of range for siz",
    ),
    (
        lambda: rl.embedding(rl.ones(3), Y),
        ValueError,
        "embedding: weight is (3,); it must be (rows, w",
    ),
    (lambda: X.topk(5), ValueError, "topk: k is 5, dim -1 of shape (3, 4) has 4 elements"),
    (lambda: rl.where(X, X, X), TypeError, "where: condition is float32; it must be bool"),
    (lambda: X.masked_fill(Y, 0), TypeError, "masked_fill: mask is int64; it must be bool"),
    (
        lambda: rl.ones(5).masked_fill(X > 0, 0),
        ValueError,
        "masked_fill: ",
    ),
    (lambda: X & 1, TypeError, "bitwise_and: float32 is not a bool or an integer dtype"),
    (lambda: ~X, TypeError, "bitwise_not: float32 is not a bool or an integer dtype"),
    (lambda: (X > 0) - (X > 0), TypeError, "sub: two bool operands are not supported; use a ^ b"),
    (
        lambda: -(X > 0),
        TypeError,
        "neg: bool is not supported; convert with .long() or .float() first",
    ),
    (
        lambda: rl.tensor([1], dtype=rl.uint8).clamp(max=300),
        ValueError,
        "300 does not fit dtype uint8",
    ),
    (lambda: rl.full((2,), 300, dtype=rl.uint8), ValueError, "300 does not fit dtype uint8"),
    (
        lambda: rl.full((2,), float("nan"), dtype=rl.int32),
        ValueError,
        "nan does not fit dtype int32",
    ),
    (lambda: rl.zeros(-1), ValueError, "zeros: size -1 in (-1,) is negative"),
    (lambda: rl.zeros(2.5), TypeError, "zeros: (2.5,) must be ints, or one sequence of ints"),
    (lambda: rl.arange(1, 0), ValueError, "arange: step 1 does not lead from 1 to 0"),
    (lambda: rl.linspace(0, 1, -1), ValueError, "linspace: steps is -1; it must not be negative"),
    (lambda: rl.gelu(X, "fast"), ValueError, "gelu: approximate is 'fast'; it must be \"none\" or"),
    (
        lambda: rl.div(X, 2, rounding_mode="up"),
        ValueError,
        "div: rounding_mode is 'up'; it must be",
    ),
    (lambda: X.clamp(), ValueError, "clamp: give min, max or both"),
    (
        lambda: rl.layer_norm(X, (3,)),
        ValueError,
        "layer_norm: x is (3, 4), whose last dims are not ",
    ),
    (
        lambda: rl.layer_norm(X, 4, rl.ones(3)),
        ValueError,
        "layer_norm: weight or bias is (3,); it mu",
    ),
    (lambda: rl.layer_norm(Y, 4), TypeError, "layer_norm: x is int64; it must be a floating dtype"),
    (
        lambda: rl.rope(X, rl.ones(3, 3), rl.ones(3, 3)),
        ValueError,
        "rope: cos (3, 3) and sin (3, 3) ",
    ),
    (
        lambda: rl.conv2d(rl.ones(C), rl.ones(1, 3, 2, 2)),
        ValueError,
        "conv2d: x (1, 2, 5, 5) has 2 channels, weight (1, 3, 2, 2) with groups=1 takes 3",
    ),
    (
        lambda: rl.conv2d(rl.ones(C), rl.ones(1, 2, 6, 6)),
        ValueError,
        "conv2d: weight (1, 2, 6, 6) is larger than padded x (1, 2, 5, 5)",
    ),
    (
        lambda: rl.conv2d(rl.ones(C), rl.ones(1, 2, 2, 2), stride=0),
        ValueError,
        "conv2d: stride is 0;",
    ),
    (lambda: X.to("cuda:0"), ValueError, "'cuda:0'"),
    (
        lambda: rl.conv2d(X, X),
        ValueError,
        "conv2d: input is (3, 4) and weight (3, 4); they must have 3 or 4 dims",
    ),
    (
        lambda: rl.max_pool2d(rl.ones(C), 6),
        ValueError,
        "max_pool2d: the window (6, 6) is larger than",
    ),
    (lambda: rl.attention(X, X, X), ValueError, "attention: q is (3, 4); it must have 4 dims"),
    (
        lambda: rl.attention(rl.ones(1, 3, 2, 4), rl.ones(1, 2, 2, 4), rl.ones(1, 2, 2, 4)),
        ValueError,
        "attention: q (1, 3, 2, 4), k (1, 2, 2, 4) and v (1, 2, 2, 4) do not fit",
    ),
    (
        lambda: rl.attention(rl.ones(C), rl.ones(C), rl.ones(C), mask=rl.ones(1, 1, 5, 5)),
        TypeError,
        "attention: mask is float32; use bool, or bias for numbers",
    ),
    (
        lambda: rl.attention(rl.ones(C), rl.ones(C), rl.ones(C), bias=rl.ones(5, 5)),
        ValueError,
        "attention: bias is (5, 5); it must expand to (1, 2, 5, 5)",
    ),
    (
        lambda: rl.attention(rl.ones(C), rl.ones(C), rl.ones(C), window=0),
        ValueError,
        "attention: win",
    ),
    (lambda: rl.jit(ANY), TypeError, "jit: 1.5 is not callable"),
    (
        lambda: rl.autograd.backward([X]),
        RuntimeError,
        "backward: the tensor does not require grad, so",
    ),
    (
        lambda: rl.ones(2, requires_grad=True).backward(),
        RuntimeError,
        "backward: shape (2,) is not a scalar; pass a gradient of that shape",
    ),
    (
        lambda: rl.promote_types(rl.float8_e5m2, rl.float16),
        TypeError,
        "no promotion between float8_e5",
    ),
    (lambda: X.slice(0, 0, 2, 0), ValueError, "slice: step 0 is not positive; use flip to go back"),
    (lambda: X.quantile(2.0), ValueError, "quantile: q is 2.0; it must be a number from 0 to 1"),
    (lambda: X.quantile(math.nan), ValueError, "quantile: q is nan; it must be a number from 0 to"),
    (
        lambda: rl.ones(1).nanquantile(rl.tensor([0.5, -0.1])),
        ValueError,
        "nanquantile: q is tensor([ 0.5000, -0.1000]); it must be from 0 to 1",
    ),
    (
        lambda: X.quantile(rl.ones(1, 1)),
        ValueError,
        "quantile: q is tensor([[1.]]); it must be a n",
    ),
    (lambda: X.histc(0), ValueError, "histc: bins is 0; it must be at least 1"),
    (lambda: X.histc(4, 3, 1), ValueError, "histc: the range is 3 to 1; it must rise, and be fin"),
    (lambda: (X / 0).histc(), ValueError, "histc: the range is inf to inf; it must rise, and be"),
    (lambda: X.histogram(0), ValueError, "histogram: bins is 0; it must be at least 1"),
    (
        lambda: X.histogram(3, weight=rl.ones(5)),
        ValueError,
        "histogram: weight is (5,); x has 12 points",
    ),
    (lambda: Y.bincount(minlength=-1), ValueError, "bincount: minlength is -1; it must not be neg"),
    (
        lambda: rl.trapezoid(X, rl.arange(2.0)),
        ValueError,
        "trapezoid: x is (2,), y (3, 4); x must have 4 places along dim -1",
    ),
    (
        lambda: rl.cumulative_trapezoid(X, rl.ones(2, 4), dim=0),
        ValueError,
        "cumulative_trapezoid: x is (2, 4), y (3, 4); x must have 3 places along dim 0",
    ),
    (
        lambda: rl.gradient(X, spacing=(rl.arange(2.0), rl.arange(4.0))),
        ValueError,
        "gradient: coordinates (2,) of dim 0 of (3, 4); they must be (3,)",
    ),
    (lambda: rl.tril_indices(-1, 2), ValueError, "tril_indices: the sizes are -1 and 2; they mu"),
    (lambda: X.renorm(2, 0, -1), ValueError, "renorm: p is 2, maxnorm -1; p is positive, maxn"),
    (
        lambda: rl.lstm_cell(X, (rl.ones(3, 2),) * 2, rl.ones(8, 5), rl.ones(8, 2)),
        ValueError,
        "lstm_cell: input is (3, 4); it must be (n, 5) or (5,)",
    ),
    (
        lambda: rl.gru_cell(X, rl.ones(1, 2), rl.ones(6, 4), rl.ones(6, 2)),
        ValueError,
        "gru_cell: hx is (1, 2); it must be (3, 2)",
    ),
    (
        lambda: rl.rnn_relu_cell(X, rl.ones(3, 2), rl.ones(6, 4), rl.ones(6, 2)),
        ValueError,
        "rnn_relu_cell: the weights are (6, 4), (6, 2); for states of 2 they must be (2, width)",
    ),
    (
        lambda: rl.nn.LSTMCell(4, 2)(X, (rl.ones(3, 3), rl.ones(3, 3))),
        ValueError,
        "LSTMCell: hx is (3, 3) and (3, 3); it must be (3, 2) for both h and c",
    ),
    (
        lambda: rl.gru(
            rl.ones(5, 3, 4),
            rl.ones(1, 3, 2),
            [rl.ones(6, 3), rl.ones(6, 2)],
            False,
            1,
            0.0,
            False,
            False,
            False,
        ),
        ValueError,
        "gru: weights 0 take 3 features; their input has 4",
    ),
    (
        lambda: rl.gru(
            rl.ones(5, 3, 4),
            rl.ones(1, 2, 2),
            [rl.ones(6, 4), rl.ones(6, 2)],
            False,
            1,
            0.0,
            False,
            False,
            False,
        ),
        ValueError,
        "gru: a state is (1, 2, 2); it must be (1, 3, 2)",
    ),
    (
        lambda: F.scaled_dot_product_attention(X, X, X, rl.ones(3, 2)),
        ValueError,
        "scaled_dot_product_attention: attn_mask is (3, 2); it must broadcast to (..., queries, "
        "keys), here (3, 3)",
    ),
    (
        lambda: F.scaled_dot_product_attention(X, X, X, rl.ones(3, 3).int()),
        TypeError,
        "scaled_dot_product_attention: attn_mask is int32; it must be bool or numbers to add",
    ),
    (
        lambda: F.scaled_dot_product_attention(X, X, X[:2]),
        ValueError,
        "scaled_dot_product_attention: query is (3, 4), key (3, 4), value (2, 4); they must be",
    ),
    (
        lambda: F.scaled_dot_product_attention(X[0], X, X),
        ValueError,
        "scaled_dot_product_attention: query is (4,), key (3, 4), value (3, 4); they must be",
    ),
    *[
        (
            lambda options=options: rl.nn.MultiheadAttention(4, 2)(X, X, X, **options),
            ValueError,
            f"multi_head_attention_forward: {text}",
        )
        for options, text in (
            (
                {"attn_mask": rl.ones(3, 5)},
                "attn_mask is (3, 5); it must be (queries, keys) or (n * heads, queries, keys), "
                "here (3, 3) or (2, 3, 3)",
            ),
            ({"attn_mask": rl.ones(3, 2), "need_weights": False}, "attn_mask is (3, 2); it must"),
            ({"attn_mask": rl.ones(9)}, "attn_mask is (9,); it must be (queries, keys) or"),
            (
                {"key_padding_mask": rl.ones(5)},
                "key_padding_mask is (5,); it must be (keys,), here (3,)",
            ),
            ({"key_padding_mask": rl.ones(2)}, "key_padding_mask is (2,); it must be (keys,), her"),
        )
    ],
    (
        lambda: rl.nn.MultiheadAttention(4, 2)(X, X, X[:2]),
        ValueError,
        "multi_head_attention_forward: query is (3, 4), key (3, 4), value (2, 4); key and value",
    ),
]


@pytest.mark.parametrize("index", range(len(MISTAKES)), ids=lambda i: MISTAKES[i][2][:28])
def test_the_message_says_it(index: int) -> None:
    call, kind, text = MISTAKES[index]
    with pytest.raises(kind, match=re.escape(text)):
        call()


def test_own_exceptions_carry_their_hint() -> None:
    error = rl.errors.RushlightError("it broke", hint="mend it")
    assert str(error) == "it broke\n  hint: mend it" and error.hint == "mend it"
    assert str(rl.FormatError("bad header")) == "bad header"
    assert issubclass(rl.FormatError, ValueError) and issubclass(rl.CaptureError, RuntimeError)
    assert rl.errors.nearest("wieght", ["bias", "weight", "width"])[0] == "weight"


def test_docstrings() -> None:
    for name in rl.__all__:
        if name != "autograd" and name != "errors":
            assert getattr(rl, name).__doc__, name

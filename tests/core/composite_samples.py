"""Samples of composites: a call of tensors, and the same in NumPy. A new composite gets a row.

A composite that torch has needs none where a case of the golden files (data/core_*.json,
data/nn_goldens.json) calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import rushlight as rl
from rushlight.core.tools.testing import draws

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Composite:
    """One call: `call` of tensors gives what `reference` gives of the arrays in float64."""

    call: Callable[..., rl.Tensor]
    reference: Callable[..., Any]
    inputs: tuple[Array, ...] = (draws(1, (3, 5)),)
    family: str = "several"


F = rl.nn.functional
X, ROW = draws(1, (3, 5)), draws(2, (1, 5))
IMAGES = draws(3, (4, 6, 2, 3))


def _normal(x: Array, dims: tuple[int, ...]) -> Array:
    centred = x - x.mean(dims, keepdims=True)
    normal: Array = centred / np.sqrt((centred**2).mean(dims, keepdims=True) + 1e-5)
    return normal


def _recurrence(a: Array, b: Array, h: Array) -> Array:
    found = []
    for t in range(b.shape[1]):
        h = a[:, t] * h + b[:, t]
        found.append(h)
    return np.stack(found, 1)


def _scan(x: Array, dt: Array, a: Array, b: Array, c: Array, h: Array) -> Array:
    """y and the last state, one token after another."""
    heads, found = x.shape[2], []
    b, c = (np.repeat(t, heads // t.shape[2], 2) for t in (b, c))
    rates = a[:, None, :] if a.ndim == 2 else a[:, None, None]
    for t in range(x.shape[1]):
        step = dt[:, t, :, None, None]
        h = np.exp(step * rates) * h + step * x[:, t, :, :, None] * b[:, t, :, None, :]
        found.append((h * c[:, t, :, None, :]).sum(-1) + 0.5 * x[:, t])
    return np.concatenate([np.stack(found, 1).ravel(), h.ravel()])


def _scanned(chunk: int) -> Callable[..., rl.Tensor]:
    def call(
        x: rl.Tensor, dt: rl.Tensor, a: rl.Tensor, b: rl.Tensor, c: rl.Tensor, h: rl.Tensor
    ) -> rl.Tensor:
        d = rl.full((x.shape[2],), 0.5, dtype=x.dtype, device=x.device)
        y, state = F.selective_scan(x, dt, a, b, c, d, h, chunk)
        return rl.cat([y.reshape(-1), state.reshape(-1)])

    return call


def _convolved(x: Array, w: Array, bias: Array, state: Array) -> Array:
    all_, k = np.concatenate([state, x], 1), w.shape[2]
    y = [(all_[:, t : t + k] * w[:, 0].T).sum(1) + bias for t in range(x.shape[1])]
    last = np.stack([all_[0, 2 : 1 + k], all_[1, 5 : 4 + k]])  # 2 and 5 real tokens
    return np.concatenate([np.stack(y, 1).ravel(), last.ravel()])


def _conv_call(x: rl.Tensor, w: rl.Tensor, bias: rl.Tensor, state: rl.Tensor) -> rl.Tensor:
    y, last = F.causal_conv1d(x, w, bias, state, rl.tensor([2, 5]))
    return rl.cat([y.reshape(-1), last.reshape(-1)])


STEPS = abs(draws(11, (2, 7, 6)))
SCAN_HEADS = (
    draws(10, (2, 7, 6, 3)),
    STEPS,
    -abs(draws(12, (6,))),
    draws(13, (2, 7, 2, 5)),
    draws(14, (2, 7, 2, 5)),
    draws(15, (2, 6, 3, 5)),
)
SCAN_STATES = (
    draws(16, (2, 7, 6, 1)),
    STEPS,
    -abs(draws(17, (6, 5))),
    draws(18, (2, 7, 1, 5)),
    draws(19, (2, 7, 1, 5)),
    draws(20, (2, 6, 1, 5)),
)

SAMPLES = {
    "causal_conv1d": Composite(
        _conv_call,
        _convolved,
        (draws(21, (2, 6, 4)), draws(22, (4, 1, 3)), draws(23, (4,)), draws(24, (2, 2, 4))),
    ),
    "linear_recurrence": Composite(
        lambda a, b, h: F.linear_recurrence(a, b, h, chunk=3),
        _recurrence,
        (draws(25, (2, 8, 3)), draws(26, (2, 8, 3)), draws(27, (2, 3))),
    ),
    "selective_scan": Composite(_scanned(3), _scan, SCAN_HEADS),
    "batch_norm": Composite(
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: _normal(x, (0, 2, 3)),
        (IMAGES,),
    ),
    "group_norm": Composite(
        lambda x: F.group_norm(x, 2),
        lambda x: _normal(x.reshape(4, 2, 3, 2, 3), (2, 3, 4)).reshape(x.shape),
        (IMAGES,),
    ),
    "broadcast_to": Composite(
        lambda x: x.broadcast_to((3, 5)), lambda x: np.broadcast_to(x, (3, 5)), (ROW,)
    ),
    "broadcast_tensors": Composite(
        lambda x, y: rl.stack(rl.broadcast_tensors(x, y)),
        lambda x, y: np.stack(np.broadcast_arrays(x, y)),
        (X, ROW),
    ),
    "full_like": Composite(lambda x: x.full_like(2.5), lambda x: np.full_like(x, 2.5)),
    "zeros_like": Composite(lambda x: x.zeros_like(), np.zeros_like),
    "ones_like": Composite(lambda x: x.ones_like(), np.ones_like),
    "empty_like": Composite(lambda x: rl.empty_like(x), np.zeros_like),
}

# Those that no sample can show, each with the file of the test that does.
ELSEWHERE = {
    **dict.fromkeys(
        ("dropout", "gumbel_softmax", "rand_like", "randn_like", "randperm"), "ops/test_random.py"
    ),
    **dict.fromkeys(("gated_delta_rule", "wkv"), "ops/test_recurrence.py"),
    **dict.fromkeys(("float_power", "float_power_"), "test_torch_names.py"),
    **dict.fromkeys(
        """apply_ cuda data_ptr detach_ element_size fill_diagonal_ get_device is_conj
        is_floating_point is_pinned is_same_size is_signed is_tensor map_ ndimension nelement
        pin_memory poisson share_memory_ to_dense type""".split(),
        "test_settings.py",
    ),
    **dict.fromkeys(
        (
            "bernoulli",
            "bernoulli_",
            "cauchy_",
            "exponential_",
            "geometric_",
            "log_normal_",
            "multinomial",
            "normal",
            "normal_",
            "randint_like",
            "random_",
            "slice",
            "uniform_",
        ),
        "ops/test_drawing.py",
    ),
    "masked_select_async": "tensor/test_async_reads.py",
}

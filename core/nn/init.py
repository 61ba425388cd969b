"""Initial values of tensors: each function writes in place and returns its tensor.

Random numbers are Philox draws of the tensor's device, the same on every device for one seed.
"""

from __future__ import annotations

import math

import numpy as np

from rushlight.core import ops
from rushlight.core.backends import Generator
from rushlight.core.functional.creation import eye as _eye
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor, from_numpy

_GAINS = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
                     "conv_transpose2d", "conv_transpose3d", "sigmoid"), 1.0),
    "tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 0.75,
}  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through a nonlinearity.

    param: leaky_relu's slope, by default 0.01.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        known = ", ".join([*_GAINS, "leaky_relu"])
        raise ValueError(
            f"calculate_gain: nonlinearity {nonlinearity!r} is not supported; supported: {known}"
        )
    return _GAINS[nonlinearity]


def _write(tensor: Tensor, value: Tensor) -> Tensor:
    if tensor.device.type == "meta":
        raise RuntimeError(
            f"init: the tensor of shape {tensor.shape} is on the meta device and has no memory; "
            "call init_() on its module, or load weights into it, first"
        )
    with autograd.no_grad():
        return tensor.copy_(value)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element `val`."""
    return _write(tensor, ops.full((), val, dtype=tensor.dtype, device=tensor.device))


def zeros_(tensor: Tensor) -> Tensor:
    """Every element zero."""
    return constant_(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Every element one."""
    return constant_(tensor, 1)


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform numbers in [a, b).

    `tensor` is written in place, from `a` to `b`, and returned. `generator` draws the numbers, the
    default one unless set. Raises RuntimeError for a `tensor` on the meta device.
    """
    draw = ops.rand(tensor.shape, device=tensor.device, generator=generator)
    return _write(tensor, draw * (b - a) + a)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal numbers of this mean and standard deviation.

    `tensor` is written in place and returned; `mean` and `std` are numbers. `generator` draws the
    numbers, the default one unless set. Raises RuntimeError for a `tensor` on the meta device.
    """
    draw = ops.randn(tensor.shape, device=tensor.device, generator=generator)
    return _write(tensor, draw * std + mean)


def _erfinv(x: Tensor) -> Tensor:
    """Inverse error function to about 1e-6 (Giles, "Approximating the erfinv function", 2010)."""
    w = -((1 - x) * (1 + x)).log()
    near, far = w - 2.5, w.sqrt() - 3
    p = near * 2.81022636e-08 + 3.43273939e-07
    q = far * -0.000200214257 + 0.000100950558
    for a, b in (
        (-3.5233877e-06, 0.00134934322),
        (-4.39150654e-06, -0.00367342844),
        (0.00021858087, 0.00573950773),
        (-0.00125372503, -0.0076224613),
        (-0.00417768164, 0.00943887047),
        (0.246640727, 1.00167406),
        (1.50140941, 2.83297682),
    ):
        p, q = p * near + a, q * far + b
    return p.where(w < 5, q) * x


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal numbers of this mean and deviation, restricted to [a, b].

    They are the inverse of the distribution function at uniform numbers, one draw per element.

    `tensor` is written in place and returned; `mean` and `std` are numbers. `generator` draws the
    numbers, the default one unless set. Raises RuntimeError for a `tensor` on the meta device.
    """
    low, high = (math.erf((v - mean) / (std * math.sqrt(2))) for v in (a, b))
    draw = ops.rand(tensor.shape, device=tensor.device, generator=generator)
    # Kept away from +-1, where the inverse is infinite; the clamp then ensures the bounds.
    level = (draw * (high - low) + low).clamp(-1 + 1e-7, 1 - 1e-7)
    return _write(tensor, (_erfinv(level) * (std * math.sqrt(2)) + mean).clamp(a, b))


def fans(tensor: Tensor) -> tuple[int, int]:
    """The inputs per output and the outputs per input: (fan_in, fan_out).

    A weight is (out, in, ...), where further dims are the taps of a convolution.
    """
    if tensor.ndim < 2:
        raise ValueError(f"init: a tensor of shape {tensor.shape} has no fan; it needs two dims")
    taps = math.prod(tensor.shape[2:])
    return tensor.shape[1] * taps, tensor.shape[0] * taps


# As programs for torch name them.
_calculate_fan_in_and_fan_out, _no_grad_trunc_normal_ = fans, trunc_normal_


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f'init: mode is {mode!r}; it must be "fan_in" or "fan_out"')
    return fans(tensor)[mode == "fan_out"]


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform numbers of variance gain^2 * 2 / (fan_in + fan_out) (Glorot and Bengio, 2010).

    `tensor` is written in place and returned. `generator` draws the numbers, the default one unless
    set. Raises RuntimeError for a `tensor` on the meta device, ValueError for one of less than two
    dims.
    """
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out)) (Glorot, 2010).

    `tensor` is written in place and returned. `generator` draws the numbers, the default one unless
    set. Raises RuntimeError for a `tensor` on the meta device, ValueError for one of less than two
    dims.
    """
    std = gain * math.sqrt(2.0 / sum(fans(tensor)))
    return normal_(tensor, 0.0, std, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with standard deviation gain / sqrt(fan), of fan_in or fan_out (He, 2015).

    `tensor` is written in place and returned. `mode` is the fan; `nonlinearity` gives the gain,
    with `a` as leaky_relu's slope. `generator` draws the numbers, the default one unless set.
    Raises RuntimeError for a `tensor` on the meta device, ValueError for another mode or
    nonlinearity, or less than two dims.
    """
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f'kaiming_normal_: mode is {mode!r}; it must be "fan_in" or "fan_out"')
    fan = fans(tensor)[mode == "fan_out"]
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(fan), generator)


def eye_(tensor: Tensor) -> Tensor:
    """The identity, of a matrix."""
    return _write(tensor, _eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform numbers of variance gain^2 / fan (He et al., 2015); `a` is leaky_relu's slope.

    mode: "fan_in" keeps the variance of activations, "fan_out" that of gradients.

    `tensor` is written in place and returned. `nonlinearity` gives the gain. `generator` draws the
    numbers, the default one unless set. Raises RuntimeError for a `tensor` on the meta device,
    ValueError for another mode or nonlinearity, or less than two dims.
    """
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f'kaiming_uniform_: mode is {mode!r}; it must be "fan_in" or "fan_out"')
    fan = fans(tensor)[0 if mode == "fan_in" else 1]
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / max(fan, 1))
    return uniform_(tensor, -bound, bound, generator)


def default_(weight: Tensor, bias: Tensor | None) -> None:
    """torch's default of linear and convolution layers: both uniform in +-1 / sqrt(fan_in)."""
    bound = 1 / math.sqrt(max(fans(weight)[0], 1))
    uniform_(weight, -bound, bound)
    if bias is not None:
        uniform_(bias, -bound, bound)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The identity of a convolution, (out, in, ...): each group passes as many channels as it can.

    ValueError for other numbers of dims than 3 to 5, or groups that do not divide the outputs.
    """
    out, inside, *taps = tensor.shape if tensor.ndim in (3, 4, 5) else (0, 0)
    if not out or out % groups:
        raise ValueError(
            f"dirac_: a tensor of shape {tensor.shape} with {groups} groups; it must "
            "have 3 to 5 dims, and outputs that the groups divide"
        )
    values = np.zeros(tensor.shape, np.float32)
    for row in range(out):
        if row % (out // groups) < inside:
            values[(row, row % (out // groups), *(n // 2 for n in taps))] = 1
    return _write(tensor, from_numpy(values))


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Orthogonal rows or columns of norm `gain`, of the dims after the first (Saxe et al., 2014).

    Drawn on cpu, whatever the device of the tensor.

    `tensor` is written in place and returned. `generator` draws the numbers, the default one unless
    set. Raises ValueError for less than two dims, RuntimeError for a tensor on the meta device.
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: a tensor of shape {tensor.shape} needs two dims")
    rows, cols = tensor.shape[0], math.prod(tensor.shape[1:])
    draw = ops.randn((max(rows, cols), min(rows, cols)), generator=generator).numpy()
    q, r = np.linalg.qr(draw)
    q = q * np.sign(np.diag(r))
    scaled = np.ascontiguousarray((q.T if rows < cols else q).reshape(tensor.shape) * gain)
    return _write(tensor, from_numpy(scaled.astype(np.float32)))


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal numbers, of which a share `sparsity` of each column is zero (Martens, 2010).

    `tensor`, a matrix, is written in place and returned; `std` is the normal numbers'. `generator`
    draws the numbers, the default one unless set. Raises ValueError for other dims, RuntimeError
    for a tensor on the meta device.
    """
    if tensor.ndim != 2:
        raise ValueError(f"sparse_: a tensor of shape {tensor.shape} is no matrix")
    normal_(tensor, 0.0, std, generator)
    order = ops.rand(tensor.shape, device=tensor.device, generator=generator).argsort(0).argsort(0)
    nonzero = order >= math.ceil(sparsity * tensor.shape[0])
    return _write(tensor, tensor.detach() * nonzero.to(tensor.dtype))


# torch's old names without the underscore.
uniform, normal, constant, eye, dirac = uniform_, normal_, constant_, eye_, dirac_
xavier_uniform, xavier_normal = xavier_uniform_, xavier_normal_
kaiming_uniform, kaiming_normal = kaiming_uniform_, kaiming_normal_
orthogonal, sparse = orthogonal_, sparse_

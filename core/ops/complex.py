"""Complex numbers as pairs of real ones, in the same memory, and their Fourier transform.

A gradient is that of torch: of a real number by the real part, and i times that by the imaginary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import PARTS, complex_of
from rushlight.core.basis.errors import TypeMismatch
from rushlight.core.basis.layout import Layout
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.declare import public
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer_real(x: Meta) -> Meta:
    before = x.layout
    layout = Layout((*before.shape, 2), (*(2 * s for s in before.strides), 1), 2 * before.offset)
    return Meta(PARTS[x.dtype], layout)


def _infer_complex(x: Meta) -> Meta:
    before = x.layout
    layout = Layout(
        before.shape[:-1], tuple(s // 2 for s in before.strides[:-1]), before.offset // 2
    )
    return Meta(complex_of(x.dtype), layout)


def _infer_fft(x: Meta, *, dim: tuple[int, ...], forward: bool) -> Meta:
    return x.fresh()


def _fft_grad(c: Context, g: Tensor) -> Tensor:
    return FFT(g, dim=c.attrs["dim"], forward=not c.attrs["forward"])


def _complex_grad(c: Context, g: Tensor) -> Tensor:
    return view_as_complex(g)


VIEW_AS_REAL: Op = Op(
    "view_as_real",
    infer=_infer_real,
    view=True,
    grads=(rule(_complex_grad),),
    complex=True,
    batch="same",
)
VIEW_AS_COMPLEX = Op(
    "view_as_complex",
    infer=_infer_complex,
    view=True,
    grads=(rule(lambda c, g: view_as_real(g)),),
    complex=True,
    batch="same",
)
# Sums of x exp(-2 pi i k t / n), or with + where not `forward`; nothing is divided by n.
FFT: Op = Op("fft", infer=_infer_fft, grads=(rule(_fft_grad),), complex=True, batch="dim")


@public
def view_as_real(x: Tensor) -> Tensor:
    """A view of complex numbers (...) as real and imaginary parts (..., 2)."""
    if x.dtype.kind != "c":
        raise TypeMismatch(f"view_as_real: {x.dtype.name} is not complex")
    return VIEW_AS_REAL(x)


@public
@casts(cpu="float32")
def view_as_complex(x: Tensor) -> Tensor:
    """A view of pairs (..., 2) as complex numbers (...); a copy where the memory has no pairs."""
    if x.dtype not in PARTS.values() or x.shape[-1:] != (2,):
        raise TypeMismatch(
            f"view_as_complex: {x.dtype.name} of shape {x.shape}; it takes float32 or float64, "
            "and a last dim of 2"
        )
    layout = x.layout
    if layout.strides[-1] != 1 or layout.offset % 2 or any(s % 2 for s in layout.strides[:-1]):
        x = x.clone()
    return VIEW_AS_COMPLEX(x)


@public
def imag(x: Tensor) -> Tensor:
    """A view of the imaginary parts."""
    return view_as_real(x).select(-1, 1)

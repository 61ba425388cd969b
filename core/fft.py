"""Fourier transforms, under the names of torch.fft."""

from rushlight.core.functional import declared as _declared
from rushlight.core.ops.declare import FFT as _FFT

assert _declared.__all__  # the import has run every declaration
globals().update(_FFT)
__all__ = sorted(_FFT)

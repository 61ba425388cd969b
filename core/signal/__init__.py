"""Signals, under the names of torch.signal: windows."""

from rushlight.core.signal import windows

__all__ = ["windows"]

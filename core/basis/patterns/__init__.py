"""Regular expressions from files, matched in bounded time."""

from rushlight.core.basis.patterns.matching import Pattern, compiled

__all__ = ["Pattern", "compiled"]

"""Language and embedding models: families, loading, generation and tasks."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.models import adapters, audio, finetune
    from rushlight.models.generation.prefix_cache import PrefixCache
    from rushlight.models.gguf.quantize import dequantize, quantize
    from rushlight.models.loading import assemble, load, load_async
    from rushlight.models.model import Model
    from rushlight.models.speech.live import LiveTranscriber
    from rushlight.models.tasks.pipeline import pipeline

if __name__ != "rushlight.models":  # imported by its bare name from the repository root
    raise ImportError("import rushlight.models, not models")

__all__ = [
    "LiveTranscriber", "Model", "PrefixCache", "adapters", "assemble", "audio", "dequantize",
    "finetune", "load", "load_async", "pipeline", "quantize",
]  # fmt: skip

# What is here is imported when it is first asked for, as are the folders.
_PLACES = {
    "LiveTranscriber": "speech.live",
    "Model": "model",
    "PrefixCache": "generation.prefix_cache",
    "assemble": "loading",
    "dequantize": "gguf.quantize",
    "load": "loading",
    "load_async": "loading",
    "pipeline": "tasks",
    "quantize": "gguf.quantize",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A name of `_PLACES` or a module here; AttributeError for any other."""
        place = f"{__name__}.{_PLACES.get(name, name)}"
        if name.startswith("_") or importlib.util.find_spec(place) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module(place)
        value = globals()[name] = getattr(module, name) if name in _PLACES else module
        return value

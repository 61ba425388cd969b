"""Language and embedding models: families, loading, generation and tasks."""

from rushlight.models import adapters, audio, tuning
from rushlight.models.gguf.quantize import dequantize, quantize
from rushlight.models.loading import assemble, load, load_async
from rushlight.models.model import Model
from rushlight.models.speech.live import LiveTranscriber
from rushlight.models.tasks import pipeline

if __name__ != "rushlight.models":  # imported by its bare name from the repository root
    raise ImportError("import rushlight.models, not models")

__all__ = [
    "LiveTranscriber", "Model", "adapters", "assemble", "audio", "dequantize", "load", "load_async",
    "pipeline", "quantize", "tuning",
]  # fmt: skip

"""Model families, one file each, and the loader that picks among them."""

from rushlight.models.loading import MODEL_TYPES, assemble, load, load_async
from rushlight.models.model import Model

if __name__ != "rushlight.models":  # the folder was found under the repository root
    raise ImportError("import rushlight.models, not models")

__all__ = ["MODEL_TYPES", "Model", "assemble", "load", "load_async"]

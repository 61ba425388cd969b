"""Many inputs through one task, in several processes, with what was done kept after each part."""

from rushlight.models.bulk.running import Summary, run_all

__all__ = ["Summary", "run_all"]

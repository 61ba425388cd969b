"""The page's Python: what was read as hOCR or as a PDF that can be searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.models.image.transcripts import hocr, pdf


def made(job: Any, kind: str, pages: Sequence[Mapping[str, Any]], pictures: Sequence[Any]) -> Any:
    """The pages as "hocr", a text, or as "pdf": bytes; pictures: their JPEGs."""
    del job
    return hocr(pages) if kind == "hocr" else pdf(pages, [bytes(one) for one in pictures])

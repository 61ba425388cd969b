"""Silero VAD at 8 kHz out of its ONNX graph, made when it is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.models.hub import onnx_silero


def convert(files: Mapping[str, Any]) -> None:
    """Write model.safetensors and the JSON files of silero_vad.onnx: paths by name."""
    onnx_silero.convert(files, "else_branch")

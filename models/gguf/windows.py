"""Windows of some layers as a GGUF file has them: a number, and which layers have one."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.models.gguf.architecture import listed
from rushlight.models.layers.building import FULL, SLIDING

PATTERN = "attention.sliding_window_pattern"
KEYS = {"sliding_window": "attention.sliding_window", "pattern": PATTERN}


def adjust_windows(c: dict[str, Any]) -> None:
    """The kinds of layers, of a file's list."""
    count, told = c["num_hidden_layers"], c.get("pattern")
    told = told.tolist() if isinstance(told, np.ndarray) else told
    if isinstance(told, list):  # some files have numbers, and layers that take no part
        told = [kind == 1 if type(kind) is int else kind for kind in told[:count]]
    windows = listed(PATTERN, told, bool, [False] * count)
    c["layer_types"] = [SLIDING if within else FULL for within in windows]


def tell_windows(model: Any) -> dict[str, Any]:
    """Which layers have a window."""
    windows = [layer.attention.window is not None for layer in model.spec.layers]
    return {PATTERN: np.array(windows)}


def adjust_kinds(c: dict[str, Any]) -> None:
    """Windows, and positions of both kinds of layers, each with its share of a head."""
    adjust_windows(c)
    head = max(c["head_dim"], 1)
    scaling = c.pop("rope_scaling", None) or {"rope_type": "default"}
    base = c.get("rope_theta", 10000.0)
    rotated = c.get("rotated", head)
    c["rope_parameters"] = {
        kind: {**scaling, "rope_theta": theta, "partial_rotary_factor": part / head}
        for kind, theta, part in (
            (FULL, base, rotated),
            (SLIDING, c.get("swa_theta", base), c.get("swa_rotated", rotated)),
        )
    }


def tell_bases(model: Any) -> dict[str, Any]:
    """The base of the layers with a window, where they have one of their own."""
    within = [
        layer.attention.rotary.theta
        for layer in model.spec.layers
        if layer.attention.window is not None and layer.attention.rotary is not None
    ]
    return {"rope.freq_base_swa": within[0]} if within else {}

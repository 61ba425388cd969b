"""The task text-to-image: a picture of what a prompt says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.models.diffusion.request import FOLLOWED, OPTIONS, REFERENCES, SIZES, drawing
from rushlight.models.tasks.record import Input, Run, Task


def run(model: Any, prompt: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"width", "height", "image", "settings"} of a prompt; a list for several prompts.

    image: (height, width, 3) uint8. settings: what draws the same picture again.
    """
    return (yield from drawing(model, prompt, options))


TASK = Task(
    name="text-to-image",
    summary="Draw a picture of what a prompt says.",
    input=Input("prompt", "texts", "The prompt."),
    output="value",
    run=run,
    options=(*REFERENCES, *FOLLOWED, *OPTIONS, *SIZES),
)

"""The task video-classification: what a video shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.functional.joining import stack
from rushlight.core.tensor.autograd import no_grad
from rushlight.models.image.video import frames_of
from rushlight.models.layers.vision.model import captured
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task


def run(model: Any, video: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"label", "score"} of the likeliest classes of a video.

    video: its frames, an animated picture, a folder of pictures, or a file of video.
    """
    if not model.labels:
        raise ValueError("video-classification: the checkpoint has no head with classes")
    count = options["num_frames"] or model.frames
    frames = frames_of(video, count, options["frame_sampling_rate"])
    with no_grad():
        batch = stack([model.processor([frame], model.device)[0] for frame in frames], 0)
        scores = captured(model, "forward", batch.unsqueeze(0).to(model.dtype)).float().softmax(-1)
    row = np.asarray((yield scores[0].readback()))
    yield Progress("classify", 1, 1)
    order = np.argsort(-row, kind="stable")[: options["top_k"]].tolist()
    return [{"label": model.labels[i], "score": float(row[i])} for i in order]


TASK = Task(
    name="video-classification",
    summary="Say what a video shows.",
    input=Input("video", "images", "Its frames, an animated picture, a folder, or a file."),
    output="value",
    run=run,
    options=(
        Option("top_k", "int", 5, "How many classes are told.", least=1),
        Option("num_frames", "int", None, "Frames that are seen; else the model's.", least=1),
        Option(
            "frame_sampling_rate",
            "int",
            None,
            "Frames from one that is seen to the next; else they are spread over the video.",
            least=1,
        ),
    ),
)

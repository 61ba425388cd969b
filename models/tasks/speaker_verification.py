"""The task speaker-verification: whether the same voice speaks in recordings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.tensor.autograd import no_grad
from rushlight.models.audio.inputs import samples_of
from rushlight.models.layers.sound.voices import raised
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task


def run(model: Any, recordings: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"similarity", "same", "embeddings"} of two recordings or more.

    embeddings: a vector of length 1 for each, who speaks there. similarity: the cosine of the first
    one's with that of the second; of more recordings with each of the others. same: whether that is
    above `threshold`. ValueError for one recording alone.
    """
    if len(recordings) < 2:
        raise ValueError("speaker-verification: one recording alone; name two to compare, or more")
    vectors = []
    for audio in recordings:
        samples = samples_of(audio, model.rate)
        if len(samples) < 60 * model.rate:
            samples = raised(np.asarray(samples))
        with no_grad():
            vector = model.voice(samples).float()
        values = np.asarray((yield vector.readback()), np.float64)
        vectors.append(values / max(float(np.linalg.norm(values)), 1e-12))
        yield Progress("listen", len(vectors), len(recordings))
    alike = [round(float(vectors[0] @ other), 6) for other in vectors[1:]]
    same = [value >= options["threshold"] for value in alike]
    return {
        "similarity": alike[0] if len(alike) == 1 else alike,
        "same": same[0] if len(same) == 1 else same,
        "embeddings": [vector.tolist() for vector in vectors],
    }


TASK = Task(
    name="speaker-verification",
    summary="Say whether the same voice speaks in recordings.",
    input=Input("recordings", "recordings", "Two recordings or more: files, or their samples."),
    output="value",
    run=run,
    options=(Option("threshold", "float", 0.75, "The similarity from which voices are the same."),),
    command=Command("compare-voices", "resemblyzer", result="value"),
)

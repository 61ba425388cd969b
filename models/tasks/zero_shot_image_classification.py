"""The task zero-shot-image-classification: which of any labels fit an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import float32
from rushlight.core.functional.reductions import normalize
from rushlight.core.io.text.tokenizer import pad_batch
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.files import load_all
from rushlight.models.image.plot import drawable
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"label", "score"} of every label for each image, the likeliest first; a list for a single
    image.

    Scores are a softmax over the labels for CLIP, and a sigmoid of each for SigLIP. ValueError for
    missing labels, or a template without {}.
    """
    labels, sentences = asked(options, "zero-shot-image-classification")
    texts = text_vectors(model, sentences)
    pixels, size, rankings = load_all(images, shrink=True), options["batch_size"], []
    for start in range(0, len(pixels), size):
        with no_grad():
            batch = model.processor(pixels[start : start + size], model.device).to(model.dtype)
            logits = model.compare(model.encode_image(batch), texts)
            scores = logits.sigmoid() if model.biased else logits.softmax(-1)
        for row in np.asarray((yield scores.readback())):
            order = np.argsort(-row, kind="stable").tolist()
            rankings.append([{"label": labels[j], "score": float(row[j])} for j in order])
        yield Progress("classify", len(rankings), len(pixels))
    return drawable(images, pixels, rankings)


def asked(options: Mapping[str, Any], task: str) -> tuple[list[str], list[str]]:
    """The labels of a task's options, and the sentences that are made of them."""
    labels, template = options["candidate_labels"], options["hypothesis_template"]
    labels = [label.strip() for label in labels.split(",")] if isinstance(labels, str) else labels
    labels = [label for label in labels or () if label]
    if not labels:
        raise ValueError(f"{task}: candidate_labels is missing; name the labels")
    if "{}" not in template:
        raise ValueError(f"{task}: hypothesis_template {template!r} has no {{}} for the label")
    return labels, [template.replace("{}", label) for label in labels]


def text_vectors(model: Any, texts: list[str]) -> Tensor:
    """The normalized vectors (texts, features) of texts; long ones are cut to the context."""
    return normalize(text_features(model, texts), dim=-1)


def text_features(model: Any, texts: list[str]) -> Tensor:
    """`text_vectors` before they are normalized."""
    if model.tokenizer is None:
        raise ValueError(f"{model.config.model_type}: the checkpoint has no tokenizer for labels")
    said = model.text
    encoded = model.tokenizer.encode_batch(texts, max_length=said.context)
    padding = model.tokenizer.pad_id if said.pad is None else said.pad
    if padding is None:
        padding = 1 if said.end == -1 else encoded[0].ids[-1]
    filled = not said.causal and not said.masked
    ids, mask = pad_batch(encoded, padding, length=said.context if filled else None)
    with no_grad():
        token_ids = tensor(ids, device=model.device)
        seen = tensor(mask, device=model.device) if said.masked else None
        features: Tensor = model.encode_text(token_ids, seen).to(float32)
    return features


TASK = Task(
    name="zero-shot-image-classification",
    summary="Say which of any labels fit an image.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option("candidate_labels", "texts", (), "The labels, or one text with commas."),
        Option(
            "hypothesis_template",
            "text",
            "This is a photo of {}.",
            "A sentence with {} for the label.",
        ),
        Option("batch_size", "int", 8, "Images computed at a time.", least=1),
    ),
)

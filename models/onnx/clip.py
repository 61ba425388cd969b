"""Vectors of images and texts that are compared, as one graph of both or a graph of each."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import float32, int64
from rushlight.core.functional.reductions import normalize
from rushlight.core.onnx import OnnxModule
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.onnx.graph import (
    GraphConfig,
    GraphModel,
    Graphs,
    ask,
    log,
    names_in,
    names_out,
    refuse_outputs,
    whole,
)
from rushlight.models.small_files import find_tokenizer

_IMAGES = ("image_embeds", "pooler_output")
_TEXTS = ("text_embeds", "pooler_output")
_PUBLISHED = 100.0  # what CLIP's authors and OpenCLIP multiply cosines by


class ClipGraph(GraphModel, ImageModel):
    """`encode_image(pixels)` and `encode_text(ids)` give (batch, features) of graphs.

    biased: SigLIP's sigmoid of pairs; else CLIP's softmax.
    """

    tasks = ("zero-shot-image-classification", "image-feature-extraction")

    def __init__(self, config: GraphConfig, graphs: Graphs) -> None:
        super().__init__(config, graphs)
        self.biased = "siglip" in config.model_type
        self.processor = KINDS["Siglip" if self.biased else "CLIP"]
        told = config.get("text_config")
        texts = GraphConfig(**{"model_type": "", **(told if isinstance(told, Mapping) else {})})
        masked = "attention_mask" in names_in(self.texts)
        self.text = SimpleNamespace(
            context=whole(texts, "max_position_embeddings", default=64 if self.biased else 77),
            pad=None,
            end=-1 if self.biased else None,
            causal=not self.biased,
            masked=masked and not self.biased,
        )
        self._compared: tuple[float, float] | None = None

    @property
    def both(self) -> bool:
        """Whether one graph takes images and texts."""
        return len(self.graph_names) == 1

    @property
    def texts(self) -> OnnxModule:
        """The graph of texts."""
        return self.graph(self.graph_names[0])

    @property
    def images(self) -> OnnxModule:
        """The graph of images."""
        return self.graph(self.graph_names[-1])

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, and what the checkpoint asks of images."""
        super().configure(files)
        self.tokenizer = find_tokenizer(files)

    def hidden(self, pixels: Tensor) -> Tensor:
        """The vectors of images."""
        return self.encode_image(pixels)

    def encode_image(self, pixels: Tensor) -> Tensor:
        """(batch, features) of pixels (batch, channels, height, width)."""
        given: dict[str, Any] = {"pixel_values": pixels}
        if self.both:
            given["input_ids"] = self._words(1)
        return _first(self.images, ask(self.images, given), _IMAGES)

    def encode_text(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(batch, features) of token ids (batch, length).

        attention_mask (batch, length): false or zero for padding.
        """
        mask = None if attention_mask is None else (attention_mask != 0).to(int64)
        given = {"input_ids": ids, "attention_mask": mask}
        if self.both:
            given["pixel_values"] = self._blank()
        return _first(self.texts, ask(self.texts, given), _TEXTS)

    def forward(self, *given: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits (images, texts) of ids (texts, length) and pixels, the two that are given."""
        ids, pixels = given
        texts = normalize(self.encode_text(ids, attention_mask).to(float32), dim=-1)
        return self.compare(self.encode_image(pixels), texts)

    def compare(self, images: Tensor, texts: Tensor) -> Tensor:
        """Logits (images, texts) of images' vectors and normalized texts' vectors."""
        scale, bias = self._scale_and_bias()
        cosines: Tensor = normalize(images.to(float32), dim=-1) @ texts.T
        return cosines * scale + bias

    def _scale_and_bias(self) -> tuple[float, float]:
        """What cosines are multiplied by, and what is added: by the graph's own logits."""
        self.try_out()
        assert self._compared is not None
        return self._compared

    def trials(self) -> Generator[Readback[Any], Any, None]:
        """Find out what cosines are multiplied by."""
        if self._compared is not None:
            return
        if "logits_per_image" not in names_out(self.images):
            log.warning(
                "%s: the graphs do not say what cosines are multiplied by; it is taken for %d",
                self.config.model_type,
                _PUBLISHED,
            )
            self._compared = _PUBLISHED, 0.0
            return
        with autograd.no_grad():
            given = {"input_ids": self._words(4), "pixel_values": self._blank()}
            results = ask(self.images, given)
            vectors = [_first(self.images, results, names) for names in (_IMAGES, _TEXTS)]
            values = [normalize(v.float(), dim=-1) for v in vectors]
            reads = [v.float().readback() for v in (*values, results["logits_per_image"])]
        arrays = []
        for read in reads:
            arrays.append(np.asarray((yield read), np.float64))
        a, b, logits = arrays
        cosines = (a @ b.T).reshape(-1)
        columns = [cosines, np.full_like(cosines, float(self.biased))]
        solved, *_ = np.linalg.lstsq(np.stack(columns, 1), logits.reshape(-1), rcond=None)
        self._compared = float(solved[0]), float(solved[1]) if self.biased else 0.0

    def _words(self, rows: int) -> Tensor:
        """Different texts (rows, n), where a graph wants some."""
        length = self.text.context if self.biased else 3
        ids = np.tile(np.arange(1, length + 1) % 2 + 1, (rows, 1))
        ids[:, 0] = np.arange(rows) + 3
        return tensor(ids.astype(np.int64), device=self.device)

    def _blank(self) -> Tensor:
        """A grey image, where a graph wants one."""
        return self.processor([np.full((32, 32, 3), 128, np.uint8)], self.device)


def _first(graph: OnnxModule, results: Mapping[str, Tensor], names: tuple[str, ...]) -> Tensor:
    """The first of these outputs that is there. ValueError if none is."""
    name = next((n for n in names if n in results), "")
    if not name:
        refuse_outputs(graph, f"none of {', '.join(names)}")
    return results[name]

"""Towers of images and texts whose vectors are compared: CLIP's and SigLIP's, in their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.diagonals import tril
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.functional.reductions import normalize
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.transformer import (
    CLIP_NAMES,
    AttentionPool,
    Layer,
    LayerSpec,
    put_parameter,
)
from rushlight.models.small_files import find_tokenizer


@dataclass(frozen=True)
class ImageTower:
    """The tower of images. first: a class token and a norm before the layers (CLIP). head: an
    attention that pools (SigLIP); without either the last hidden state is all there is. before: the
    norm's name. resized: pictures of other sizes have the positions interpolated, `smooth` by
    means of what they cover.
    """

    layer: LayerSpec
    layers: int
    image: tuple[int, int]
    patch: tuple[int, int]
    channels: int = 3
    first: bool = True
    head: bool = False
    projection: int | None = None
    before: str = "pre_layrnorm"
    resized: bool = False
    smooth: bool = False


@dataclass(frozen=True)
class TextTower:
    """The tower of texts. end: the token whose state is the text's; None: the largest id's;
    -1: the last token, for SigLIP, whose tokens see each other; `head` is its projection. Where
    tokens see each other texts are filled up to the context with `pad`, unless a mask tells the
    padding (masked).
    """

    layer: LayerSpec
    layers: int
    vocab: int
    context: int
    end: int | None = None
    causal: bool = True
    head: int | None = None
    projection: int | None = None
    pad: int | None = None
    masked: bool = False


class ClipModel(ImageModel):
    """Vectors of images and texts that are alike where an image shows what a text says.

    `encode_image(pixels)` and `encode_text(ids)` give (batch, features), before they are
    normalized. `forward(ids, pixels)` gives the logits (images, texts). biased: SigLIP's sigmoid of
    pairs (Zhai et al., 2023), whose logits have a bias; else CLIP's softmax (Radford et al., 2021).
    """

    @nn.layers_on("meta")
    def __init__(
        self, config: Any, image: ImageTower | None, text: TextTower | None, biased: bool = False
    ) -> None:
        self.config, self.image, self.text, self.biased = config, image, text, biased
        if image is not None:
            self._make_image(image)
            self.image_size = None if image.resized else image.image
            kind = KINDS["CLIP" if image.first else "Siglip"]
            side = min(image.image)
            self.processor = (
                replace(kind, shortest=side, crop=image.image)
                if image.first
                else (replace(kind, size=image.image))
            )
        if text is not None:
            self._make_text(text)
        if image is not None and text is not None:
            self.logit_scale = parameter(*((1,) if biased else ()))
            if biased:
                self.logit_bias = parameter(1)

    def _make_image(self, spec: ImageTower) -> None:
        width, eps = spec.layer.width, spec.layer.eps
        if min(n // p for n, p in zip(spec.image, spec.patch, strict=True)) < 1:
            raise FormatError(f"config.json: image_size {spec.image} is below a patch {spec.patch}")
        count = (spec.image[0] // spec.patch[0]) * (spec.image[1] // spec.patch[1])
        base = "vision_model."
        put(
            self,
            f"{base}embeddings.patch_embedding",
            nn.Conv2d(spec.channels, width, spec.patch, spec.patch, bias=not spec.first),
        )
        if spec.first:
            put_parameter(self, f"{base}embeddings.class_embedding", width)
            put(self, f"{base}{spec.before}", nn.LayerNorm(width, eps))
        put(self, f"{base}embeddings.position_embedding", nn.Embedding(count + spec.first, width))
        layers = nn.ModuleList([Layer(spec.layer) for _ in range(spec.layers)])
        put(self, f"{base}encoder.layers", layers)
        put(self, f"{base}post_layernorm", nn.LayerNorm(width, eps))
        if spec.head:
            put(self, f"{base}head", AttentionPool(spec.layer))
        if spec.projection is not None:
            self.visual_projection = nn.Linear(width, spec.projection, bias=False)

    def _make_text(self, spec: TextTower) -> None:
        width, base = spec.layer.width, "text_model."
        put(self, f"{base}embeddings.token_embedding", nn.Embedding(spec.vocab, width))
        put(self, f"{base}embeddings.position_embedding", nn.Embedding(spec.context, width))
        layers = nn.ModuleList([Layer(spec.layer) for _ in range(spec.layers)])
        put(self, f"{base}encoder.layers", layers)
        put(self, f"{base}final_layer_norm", nn.LayerNorm(width, spec.layer.eps))
        if spec.head is not None:
            put(self, f"{base}head", nn.Linear(width, spec.head))
        if spec.projection is not None:
            self.text_projection = nn.Linear(width, spec.projection, bias=False)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, and what the checkpoint asks of images."""
        super().configure(files)
        self.tokenizer = find_tokenizer(files)

    def hidden(self, pixels: Tensor) -> Tensor:
        """The states (batch, tokens, width) of the image tower; SigLIP's after the last norm."""
        x, spec = self.states(pixels)[-1], self.image
        last = self.get_submodule("vision_model.post_layernorm")
        return x if spec is not None and spec.first else last(x)

    def _places(self, grid: tuple[int, int]) -> Tensor:
        """The positions (tokens, width) of a grid of patches."""
        spec: Any = self.image
        table: Any = self.get_submodule("vision_model.embeddings.position_embedding")
        own = tuple(n // p for n, p in zip(spec.image, spec.patch, strict=True))
        if not spec.resized or grid == own:
            weight: Tensor = table.weight
            return weight
        first = int(spec.first)
        old = table.weight[first:].T.reshape(1, -1, *own)
        mode = "bilinear" if spec.smooth else "bicubic"
        new = interpolate(old, size=grid, mode=mode, antialias=spec.smooth).flatten(2)[0].T
        return cat([table.weight[:first], new], 0)

    def patched(self, pixels: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """The patches (batch, tokens, width), and their grid."""
        x = self.get_submodule("vision_model.embeddings.patch_embedding")(pixels)
        return x.flatten(2).transpose(1, 2), (x.shape[2], x.shape[3])

    def states(self, pixels: Tensor) -> list[Tensor]:
        """The states (batch, tokens, width) before the image tower's layers, and after each."""
        spec: Any = self.image
        if spec is None:
            raise ValueError(f"{self.config.model_type} has no tower of images")
        base: Any = self.get_submodule("vision_model")
        table, x = base.embeddings, self.checked(pixels, spec.channels)
        x, grid = self.patched(x)
        if spec.first:
            x = cat([table.class_embedding.expand(len(x), 1, -1), x], 1)
        x = x + self._places(grid)
        if spec.first:
            x = base.get_submodule(spec.before)(x)
        states = [x]
        for layer in base.encoder.layers:
            states.append(layer(states[-1]))
        return states

    def encode_image(self, pixels: Tensor) -> Tensor:
        """(batch, features) of pixels (batch, channels, height, width), not normalized."""
        x, base = self.hidden(pixels), self.get_submodule("vision_model")
        spec: Any = self.image
        if spec.first:
            x = base.get_submodule("post_layernorm")(x[:, 0])
        else:
            x = base.get_submodule("head")(x) if spec.head else x.mean(1)
        return self.visual_projection(x) if spec.projection is not None else x

    def encode_text(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(batch, features) of token ids (batch, length), not normalized.

        attention_mask (batch, length): false or zero for padding. ValueError past the context.
        """
        spec: Any = self.text
        if spec is None:
            raise ValueError(f"{self.config.model_type} has no tower of texts")
        if ids.ndim != 2 or not 0 < ids.shape[1] <= spec.context:
            raise ValueError(
                f"{self.config.model_type}: ids are {ids.shape}; they must be (batch, up to "
                f"{spec.context})"
            )
        base: Any = self.get_submodule("text_model")
        table, length = base.embeddings, ids.shape[1]
        x = table.token_embedding(ids) + table.position_embedding.weight[:length]
        seen = None
        if attention_mask is not None:
            seen = (attention_mask != 0)[:, None, None, :]
            if spec.causal:
                seen = seen & tril(ops.ones(length, length, device=ids.device)).bool()
        for layer in base.encoder.layers:
            x = layer(x, seen, spec.causal and seen is None)
        x = base.final_layer_norm(x)
        if spec.end == -1:
            pooled = x[:, -1]
        else:
            ends = ids if spec.end is None else (ids == spec.end).to(ids.dtype)
            place = ends.argmax(1).reshape(-1, 1, 1).expand(-1, 1, x.shape[2])
            pooled = x.gather(1, place)[:, 0]
        if spec.head is not None:
            pooled = base.head(pooled)
        features: Tensor = self.text_projection(pooled) if spec.projection is not None else pooled
        return features

    def forward(self, *given: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits (images, texts) of ids (texts, length) and pixels; of one tower its vectors."""
        if self.image is None:
            return self.encode_text(given[0], attention_mask)
        if self.text is None:
            return self.encode_image(*given)
        ids, pixels = given
        texts = normalize(self.encode_text(ids, attention_mask).to(float32), dim=-1)
        return self.compare(self.encode_image(pixels), texts)

    def compare(self, images: Tensor, texts: Tensor) -> Tensor:
        """Logits (images, texts) of images' vectors and normalized texts' vectors."""
        scale = self.logit_scale.to(float32).exp()
        logits: Tensor = normalize(images.to(float32), dim=-1) @ texts.T * scale
        return logits + self.logit_bias.to(float32) if self.biased else logits


def layer_of(c: Any) -> LayerSpec:
    """The layer that a tower's configuration describes."""
    return LayerSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        c.layer_norm_eps,
        names=CLIP_NAMES,
    )

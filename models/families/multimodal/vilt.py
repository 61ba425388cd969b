"""ViLT (Kim et al., 2021): one transformer over a question and the patches of a picture."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops import cat
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.files import Pixels
from rushlight.models.image.preprocessor_config import FILES, HALF
from rushlight.models.image.processor import Floats, Processor
from rushlight.models.image.settings import Settings
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.transformer import Layer, LayerSpec, put_parameter
from rushlight.models.layers.vision.vit import pair
from rushlight.models.model import Model
from rushlight.models.small_files import find_tokenizer, small_json

ARCHITECTURES = ("ViltForQuestionAnswering",)
_LONGER = 1333 / 800  # the most that the longer side is of the shorter


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int = 30522
    type_vocab_size: int = 2
    modality_type_vocab_size: int = 2
    max_position_embeddings: int = 40
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    image_size: Any = 384
    patch_size: Any = 32
    num_channels: int = 3
    qkv_bias: bool = True
    model_type: str = "vilt"
    # Of a picture with more patches transformers draws some at random.
    neutral = {"max_image_length": (-1,), "num_images": (), "embedding_size": ()}


@dataclass(frozen=True)
class ViltProcessor:
    """Sides are multiples of `step`, the shorter `shortest` about, and the ratio is kept nearly."""

    inner: Processor = Processor(filter="bicubic", mean=HALF[0], std=HALF[1])
    shortest: int | None = 384
    step: int = 32

    def one(self, image: Pixels) -> Floats:
        """Normalized pixels (3, height, width) of one picture."""
        if self.shortest is None:
            return self.inner.one(image)
        sides = [float(side) for side in image.shape[:2]]
        scale = self.shortest / min(sides)
        sides = [self.shortest if side == min(sides) else scale * side for side in sides]
        most = int(_LONGER * self.shortest)
        if max(sides) > most:
            sides = [most / max(sides) * side for side in sides]
        tall, wide = (max(1, int(side + 0.5) // self.step) * self.step for side in sides)
        return replace(self.inner, size=(tall, wide)).one(image)


class Vilt(Model):
    """Token ids and pixels -> logits (batch, answers)."""

    @nn.layers_on("meta")
    def __init__(self, config: Config, labels: tuple[str, ...]) -> None:
        c = self.config = config
        self.labels, self.processor = labels, ViltProcessor()
        image, self.patch = pair(c.image_size, "image_size"), pair(c.patch_size, "patch_size")
        self.grid = tuple(n // p for n, p in zip(image, self.patch, strict=True))
        if min(self.grid) < 1:
            raise FormatError(f"config.json: image_size {image} is below patch_size {self.patch}")
        layer = LayerSpec(
            c.hidden_size, c.num_attention_heads, c.intermediate_size, c.hidden_act,
            c.layer_norm_eps, (c.qkv_bias,) * 3,
        )  # fmt: skip
        width, table = c.hidden_size, "vilt.embeddings"
        for name, rows in (
            ("word", c.vocab_size), ("position", c.max_position_embeddings),
            ("token_type", c.type_vocab_size),
        ):  # fmt: skip
            put(self, f"{table}.text_embeddings.{name}_embeddings", nn.Embedding(rows, width))
        put(self, f"{table}.text_embeddings.LayerNorm", nn.LayerNorm(width, c.layer_norm_eps))
        put_parameter(self, f"{table}.cls_token", 1, 1, width)
        count = self.grid[0] * self.grid[1] + 1
        put_parameter(self, f"{table}.position_embeddings", 1, count, width)
        kinds = nn.Embedding(c.modality_type_vocab_size, width)
        put(self, f"{table}.token_type_embeddings", kinds)
        patches = nn.Conv2d(c.num_channels, width, self.patch, self.patch)
        put(self, f"{table}.patch_embeddings.projection", patches)
        layers = nn.ModuleList([Layer(layer) for _ in range(c.num_hidden_layers)])
        put(self, "vilt.encoder.layer", layers)
        put(self, "vilt.layernorm", nn.LayerNorm(width, c.layer_norm_eps))
        put(self, "vilt.pooler.dense", nn.Linear(width, width))
        self.classifier = nn.Sequential(
            nn.Linear(width, 2 * width), nn.LayerNorm(2 * width), nn.GELU(),
            nn.Linear(2 * width, len(labels)),
        )  # fmt: skip

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, and what the checkpoint asks of pictures."""
        self.tokenizer = find_tokenizer(files)
        for name in FILES:
            stored = small_json(files, name)
            v = stored.get("image_processor", stored if name == FILES[1] else None)
            if not isinstance(v, dict):
                continue
            said = Settings(v, name)
            size: Any = v.get("size", 384)
            size = size.get("shortest_edge") if isinstance(size, dict) else size
            normal = said.flag("do_normalize", True)
            inner = Processor(
                filter=said.filter("bicubic"),
                scale=said.number("rescale_factor", 1 / 255, 1e-9, 1e9)
                if said.flag("do_rescale", True)
                else 1.0,
                mean=said.three("image_mean", HALF[0]) if normal else None,
                std=said.three("image_std", HALF[1]) if normal else None,
            )
            resizes = said.flag("do_resize", True)
            shortest = said.side("size", size) if resizes else None
            self.processor = ViltProcessor(inner, shortest, said.whole("size_divisor", 32))
            return

    def forward(self, ids: Tensor, pixels: Tensor) -> Tensor:
        """Logits (batch, answers) of ids (batch, length) and pixels (batch, 3, height, width).

        ValueError past the context of texts.
        """
        vilt: Any = self.get_submodule("vilt")
        table, c = vilt.embeddings, self.config
        if ids.ndim != 2 or not 0 < ids.shape[1] <= c.max_position_embeddings:
            raise ValueError(
                f"vilt: ids are {ids.shape}; they must be (batch, up to "
                f"{c.max_position_embeddings}); ask a shorter question"
            )
        texts, kinds = table.text_embeddings, table.token_type_embeddings.weight
        words = texts.word_embeddings(ids) + texts.token_type_embeddings.weight[0]
        words = words + texts.position_embeddings.weight[: ids.shape[1]]
        seen = table.patch_embeddings.projection(pixels)
        places = self._places(seen.shape[2], seen.shape[3])
        seen = seen.flatten(2).transpose(1, 2)
        seen = cat([table.cls_token.expand(seen.shape[0], -1, -1), seen], 1) + places
        x = cat([texts.LayerNorm(words) + kinds[0], seen + kinds[1]], 1)
        for layer in vilt.encoder.layer:
            x = layer(x)
        pooled = vilt.pooler.dense(vilt.layernorm(x)[:, 0]).tanh()
        logits: Tensor = self.classifier(pooled)
        return logits

    def _places(self, tall: int, wide: int) -> Tensor:
        """The positions (1, 1 + places, width) of a grid, between those of the table."""
        embeddings: Any = self.get_submodule("vilt.embeddings")
        table: Tensor = embeddings.position_embeddings
        if (tall, wide) == self.grid:
            return table
        old = table[:, 1:].reshape(1, *self.grid, -1).permute(0, 3, 1, 2)
        new = interpolate(old, size=(tall, wide), mode="bilinear", align_corners=True)
        return cat([table[:, :1], new.flatten(2).transpose(1, 2)], 1)

    def choose(self, image: Pixels, question: str) -> Tensor:
        """The scores (1, answers) of answers to a question; ValueError without a tokenizer."""
        if self.tokenizer is None:
            raise ValueError("vilt: the checkpoint has no tokenizer, so it takes no question")
        ids = tensor([list(self.tokenizer.encode(question).ids)], device=self.device)
        pixels = tensor(self.processor.one(image)[None], device=self.device)
        with no_grad():
            return self(ids, pixels.to(self.dtype)).float().sigmoid()  # type: ignore[no-any-return]


def build(config: dict[str, Any], names: Collection[str]) -> Vilt:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    return Vilt(c, labels_of(config))


FAMILY = Family(
    model_types=("vilt",),
    tasks=("visual-question-answering",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)

"""Grounding DINO (Liu et al., 2023): boxes of what a text names, by words and pictures at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.encoder import bert
from rushlight.models.families.family import Family
from rushlight.models.families.vision import detr, swin
from rushlight.models.families.vision.deformable_detr import projected, put_projections
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.encoder import Encoder, EncoderContext
from rushlight.models.layers.encoding import bert_spec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.deformable import (
    Deformable,
    anchors_of,
    centers,
    unsigmoid,
)
from rushlight.models.layers.vision.attention.queries import (
    Layer,
    QuerySpec,
    sine_boxes,
    sine_places,
    sines,
)
from rushlight.models.layers.vision.attention.swin import Swin
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.outputs.detection import Head
from rushlight.models.layers.vision.outputs.stages import stages_of
from rushlight.models.layers.vision.transformer import put_parameter
from rushlight.models.small_files import find_tokenizer

ARCHITECTURES = ("GroundingDinoForObjectDetection",)
_ENDS = (101, 102, 1012, 1029)  # BERT's ids of [CLS], [SEP], "." and "?", which part phrases


@dataclass
class Config(detr.Config):
    """The keys of config.json."""

    neutral = {
        "embedding_size": (),
        "focal_alpha": (),
        "disable_custom_kernels": (),
        "text_enhancer_dropout": (),
        "fusion_droppath": (),
        "fusion_dropout": (),
        "decoder_bbox_embed_share": (),  # which the tensors tell
        "num_channels": (),
    }

    text_config: dict[str, Any] = field(default_factory=dict)
    num_queries: int = 900
    num_feature_levels: int = 4
    encoder_n_points: int = 4
    decoder_n_points: int = 4
    two_stage: bool = True
    max_text_len: int = 256
    embedding_init_target: bool = True
    query_dim: int = 4
    two_stage_bbox_embed_share: bool = False
    positional_embedding_temperature: float = 20
    layer_norm_eps: float = 1e-5
    model_type: str = "grounding-dino"


class _Attention(nn.Module):
    """Attention of queries to keys and values, in BERT's names."""

    def __init__(self, width: int, heads: int) -> None:
        if heads < 1 or width % heads:
            raise FormatError(f"config.json: {width} channels do not fit {heads} heads")
        self.heads = heads
        for name in ("query", "key", "value", "out_proj"):
            self.register_module(name, nn.Linear(width, width))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        parts = zip(("query", "key", "value"), (q, k, v), strict=True)
        queries, keys, values = (
            self.get_submodule(n)(t).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for n, t in parts
        )
        seen = scaled_dot_product_attention(queries, keys, values, mask)
        made: Tensor = self.get_submodule("out_proj")(seen.transpose(1, 2).flatten(2))
        return made


class _Fusion(nn.Module):
    """What pictures and texts make of each other, added in a learned part."""

    def __init__(self, c: Config) -> None:
        width, inner, self.heads = c.d_model, c.encoder_ffn_dim // 2, c.encoder_attention_heads // 2
        if self.heads < 1 or inner % self.heads:
            raise FormatError(f"config.json: {inner} channels do not fit {self.heads} heads")
        for kind in ("vision", "text"):
            put(self, f"layer_norm_{kind}", nn.LayerNorm(width, c.layer_norm_eps))
            put(self, f"attn.{kind}_proj", nn.Linear(width, inner))
            put(self, f"attn.values_{kind}_proj", nn.Linear(width, inner))
            put(self, f"attn.out_{kind}_proj", nn.Linear(inner, width))
            put_parameter(self, f"{kind}_param", width)

    def forward(self, pictures: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        of: Any = self
        x, y = of.layer_norm_vision(pictures), of.layer_norm_text(texts)
        q, k, seen, said = (
            getattr(of.attn, name)(t).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for name, t in (
                ("vision_proj", x),
                ("text_proj", y),
                ("values_vision_proj", x),
                ("values_text_proj", y),
            )
        )
        to_texts = scaled_dot_product_attention(q, k, said).transpose(1, 2).flatten(2)
        to_pictures = scaled_dot_product_attention(k, q, seen).transpose(1, 2).flatten(2)
        x = x + of.vision_param * of.attn.out_vision_proj(to_texts)
        return x, y + of.text_param * of.attn.out_text_proj(to_pictures)


class _Words(nn.Module):
    """A layer of texts, whose words see those of their phrase."""

    def __init__(self, c: Config) -> None:
        width, inner, self.act = c.d_model, c.encoder_ffn_dim // 2, c.activation_function
        self.self_attn = _Attention(width, c.encoder_attention_heads // 2)
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.layer_norm_before = nn.LayerNorm(width, c.layer_norm_eps)
        self.layer_norm_after = nn.LayerNorm(width, c.layer_norm_eps)

    def forward(self, x: Tensor, places: Tensor, mask: Tensor) -> Tensor:
        asked = x + places
        x = self.layer_norm_before(x + self.self_attn(asked, asked, x, mask))
        normed: Tensor = self.layer_norm_after(x + self.fc2(ACTIVATIONS[self.act](self.fc1(x))))
        return normed


class GroundingDino(ImageModel):
    """Grounding DINO in transformers' names. `detect(pixels, ids)` scores each token."""

    prompted = True

    def __init__(self, c: Config, seen: Swin, taken: Sequence[int], heads: int, text: Any) -> None:
        self.config, self.heads, width = c, heads, c.d_model
        self.processor, eps = KINDS["GroundingDino"], c.layer_norm_eps
        put(self, detr.BACKBONE[:-1], seen)
        widths = [seen.spec.stages[i - 1].width for i in taken]
        put_projections(self, "model.input_proj_vision", widths, width, c.num_feature_levels)
        put(self, "model.text_backbone", Encoder(text, bert_spec(text, pooler=False)))
        put(self, "model.text_projection", nn.Linear(text.hidden_size, width))
        put(self, "model.query_position_embeddings", nn.Embedding(c.num_queries, width))
        put_parameter(self, "model.level_embed", c.num_feature_levels, width)
        for i in range(c.encoder_layers):
            at = f"model.encoder.layers.{i}"
            put(self, f"{at}.text_enhancer_layer", _Words(c))
            put(self, f"{at}.fusion_layer", _Fusion(c))
            put(self, f"{at}.deformable_layer", self._layer(c, "encoder"))
        for i in range(c.decoder_layers):
            put(self, f"model.decoder.layers.{i}", self._layer(c, "decoder"))
        put(self, "model.decoder.layer_norm", nn.LayerNorm(width, eps))
        head = Head(width, width, 2)
        head.layers[0] = nn.Linear(2 * width, width)
        put(self, "model.decoder.reference_points_head", head)
        put(self, "model.enc_output", nn.Linear(width, width))
        put(self, "model.enc_output_norm", nn.LayerNorm(width, eps))
        put(self, "model.encoder_output_bbox_embed", Head(width, 4))
        for i in range(heads):
            put(self, f"bbox_embed.{i}", Head(width, 4))

    def _layer(self, c: Config, kind: str) -> Layer:
        decoding = kind == "decoder"
        heads = c.decoder_attention_heads if decoding else c.encoder_attention_heads
        inner = c.decoder_ffn_dim if decoding else c.encoder_ffn_dim
        layer = Layer(QuerySpec(c.d_model, heads, inner, c.activation_function, c.layer_norm_eps))
        points = c.decoder_n_points if decoding else c.encoder_n_points
        reads = Deformable(c.d_model, heads, c.num_feature_levels, points)
        put(layer, "encoder_attn" if decoding else "self_attn", reads)
        if decoding:
            for name in ("self_attn", "encoder_attn_text"):
                put(layer, name, _Attention(c.d_model, heads))
            for name in ("encoder_attn_text", "encoder_attn"):
                put(layer, f"{name}_layer_norm", nn.LayerNorm(c.d_model, c.layer_norm_eps))
        return layer

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, and what the checkpoint asks of images."""
        super().configure(files)
        self.tokenizer = find_tokenizer(files)

    def prompt(self, labels: Sequence[str]) -> tuple[Tensor, list[list[int]]]:
        """Ids (1, length) of labels in one text, and the places of each one's tokens."""
        if self.tokenizer is None:
            raise ValueError("grounding-dino: the checkpoint has no tokenizer for labels")
        if bad := next((label for label in labels if "." in label or "?" in label), None):
            raise ValueError(f"grounding-dino: the label {bad!r} has a point, which ends a phrase")
        text = ". ".join(label.strip().lower() for label in labels) + "."
        ids = list(self.tokenizer.encode(text).ids)[: self.config.max_text_len]
        parts: list[list[int]] = [[]]
        for place, number in enumerate(ids):
            if number not in _ENDS:
                parts[-1].append(place)
            elif parts[-1]:
                parts.append([])
        parts = [part for part in parts if part]
        if len(parts) != len(labels):
            raise ValueError(
                f"grounding-dino: {len(labels)} labels have {len(parts)} phrases in at most "
                f"{self.config.max_text_len} tokens; ask for fewer at a time"
            )
        return tensor(np.array([ids]), device=self.device), parts

    def _said(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States of a text (batch, length, width), its words' places, and what each word sees."""
        net: Any = self.get_submodule("model")
        numbers = np.asarray(ids.numpy())
        seen, places = phrases(numbers)
        mask = tensor(seen[:, None], device=ids.device)
        at = tensor(places, device=ids.device)
        text = net.text_backbone
        table = text.embeddings
        x = table.word_embeddings(ids) + table.token_type_embeddings.weight[0]
        x = table.LayerNorm(x + table.position_embeddings(at))
        context = EncoderContext(mask, None, text.rotary.angles(at))
        for i, path in enumerate(text.spec.paths):
            x = text.get_submodule(path)(x, context, i)
        width = self.config.d_model
        where = sines(at, width).to(x.dtype)
        return net.text_projection(x), where, mask

    def hidden(self, pixels: Tensor) -> Tensor:
        """The smallest map of the backbone (batch, channels, height, width)."""
        backbone: Any = self.get_submodule(detr.BACKBONE[:-1])
        last: Tensor = backbone.feature_maps(self.checked(pixels))[-1]
        return last

    def detect(self, pixels: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (batch, queries, length) of ids' tokens, and boxes (batch, queries, 4)."""
        net: Any = self.get_submodule("model")
        c, backbone = self.config, self.get_submodule(detr.BACKBONE[:-1])
        maps: Any = backbone
        levels = projected(net.input_proj_vision, maps.feature_maps(self.checked(pixels)))
        grids = [(x.shape[2], x.shape[3]) for x in levels]
        theta = float(c.positional_embedding_temperature)
        places = [
            sine_places(grid, c.d_model, x, theta) + net.level_embed[i]
            for i, (grid, x) in enumerate(zip(grids, levels, strict=True))
        ]
        x, where = cat([t.flatten(2).transpose(1, 2) for t in levels], 1), cat(places, 1)
        words, word_places, mask = self._said(ids.expand(len(x), -1))
        points = centers(grids, x)
        for layer in net.encoder.layers.children():
            x, words = layer.fusion_layer(x, words)
            words = layer.text_enhancer_layer(words, word_places, mask)
            part = layer.deformable_layer
            seen = part.self_attn(x + where, x, points, grids)
            x = part.fed(part.self_attn_layer_norm(x + seen))
        memory = x
        x, boxes = self._asked(memory, words, grids)
        return self._decoded(x, boxes, memory, words, grids)

    def _asked(
        self, memory: Tensor, words: Tensor, grids: list[tuple[int, int]]
    ) -> tuple[Tensor, Tensor]:
        """The queries' states, and the boxes that they begin with."""
        net: Any = self.get_submodule("model")
        c = self.config
        anchors, inside = anchors_of(grids, memory)
        encoded = net.enc_output_norm(net.enc_output(memory * inside))
        scores = (encoded @ words.transpose(1, 2)).max(-1)[0]
        if scores.shape[1] < c.num_queries:
            raise ValueError(
                f"grounding-dino: the picture has {scores.shape[1]} places; the {c.num_queries} "
                "queries need a larger one"
            )
        best = scores.topk(c.num_queries, 1)[1].unsqueeze(-1)
        boxes = net.encoder_output_bbox_embed(encoded) + anchors
        boxes = boxes.gather(1, best.expand(-1, -1, 4)).sigmoid()
        learned: Tensor = net.query_position_embeddings.weight
        return learned.unsqueeze(0).expand(len(memory), -1, -1), boxes

    def _decoded(
        self, x: Tensor, boxes: Tensor, memory: Tensor, words: Tensor, grids: Any
    ) -> tuple[Tensor, Tensor]:
        decoder: Any = self.get_submodule("model.decoder")
        made, moved = x, boxes
        for i, layer in enumerate(decoder.layers.children()):
            asked = decoder.reference_points_head(sine_boxes(boxes, self.config.d_model // 2))
            q = x + asked
            x = layer.self_attn_layer_norm(x + layer.self_attn(q, q, x))
            read = layer.encoder_attn_text(x + asked, words, words)
            x = layer.encoder_attn_text_layer_norm(x + read)
            seen = layer.encoder_attn(x + asked, memory, boxes, grids)
            x = layer.fed(layer.encoder_attn_layer_norm(x + seen))
            head = self.get_submodule(f"bbox_embed.{min(i, self.heads - 1)}")
            made = decoder.layer_norm(x)
            moved = (head(made) + unsigmoid(boxes)).sigmoid()
            boxes = (head(x) + unsigmoid(boxes)).sigmoid()
        return made @ words.transpose(1, 2), moved

    def ground(
        self, pixels: Tensor, texts: tuple[Tensor, list[list[int]]]
    ) -> tuple[Tensor, Tensor]:
        """Logits (batch, queries, labels) and boxes (batch, queries, 4) of what `prompt` gives."""
        ids, parts = texts
        logits, boxes = self.detect(pixels, ids)
        best = [stack([logits[..., place] for place in part], -1).max(-1)[0] for part in parts]
        return stack(best, -1), boxes

    def forward(self, *given: Tensor) -> Tensor:
        ids, pixels = given
        return self.detect(pixels, ids)[0]


def phrases(ids: Any) -> tuple[Any, Any]:
    """Which tokens (batch, length, length) see each other, and the place of each in its phrase.

    Phrases end with a point, a question mark or a mark of BERT; those marks see themselves, and so
    do the tokens after the last of them.
    """
    batch, length = ids.shape
    seen = np.broadcast_to(np.eye(length, dtype=bool), (batch, length, length)).copy()
    places = np.zeros((batch, length), np.int64)
    for row in range(batch):
        ends = np.nonzero(np.isin(ids[row], _ENDS))[0]
        before = -1
        for end in ends.tolist():
            if end not in (0, length - 1):
                seen[row, before + 1 : end + 1, before + 1 : end + 1] = True
                places[row, before + 1 : end + 1] = np.arange(end - before)
            before = end
    return seen, places


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> GroundingDino:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("activation_function", c.activation_function, tuple(ACTIVATIONS))
    choose("position_embedding_type", c.position_embedding_type, ("sine",))
    choose("query_dim", c.query_dim, (4,))
    choose("two_stage", c.two_stage, (True,))  # with others the reference itself fails
    choose("embedding_init_target", c.embedding_init_target, (True,))
    choose("two_stage_bbox_embed_share", c.two_stage_bbox_embed_share, (False,))
    told, said = c.backbone_config or {}, c.text_config or {}
    choose("backbone_config.model_type", told.get("model_type"), ("swin",))
    choose("text_config.model_type", said.get("model_type", "bert"), ("bert",))
    seen = read_config(swin.Config, told | {"architectures": None})
    text = read_config(bert.Config, said | {"architectures": None, "model_type": "bert"})
    taken = stages_of(told, len(seen.depths), (2, 3, 4))
    if c.d_model % 32 or 0 in taken or not len(taken) <= c.num_feature_levels <= 16:
        raise FormatError(
            f"config.json: d_model {c.d_model}, num_feature_levels {c.num_feature_levels} and the "
            f"stages {taken} do not agree; the width must be a multiple of 32"
        )
    net = Swin(seen, replace(swin.describe(seen, ""), last=False, named=taken), ())
    heads = c.decoder_layers if "bbox_embed.1.layers.0.weight" in names else 1
    return GroundingDino(c, net, taken, heads, text)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors without what files have twice."""
    twice, swin_base = "model.decoder.bbox_embed.", f"{detr.BACKBONE}swin."
    by_name = {}
    for name, t in tensors.items():
        if name.startswith(twice):
            name = name.removeprefix("model.decoder.")
        by_name[name.replace(swin_base, detr.BACKBONE)] = t
    return by_name


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether a tensor is computed, or of a norm that nothing reads."""
    norm = name.startswith((f"{detr.BACKBONE}layernorm.", f"{detr.BACKBONE}swin.layernorm."))
    return (
        norm
        or name.endswith((".relative_position_index", ".position_ids"))
        or (name.startswith("model.text_backbone.pooler."))
    )


FAMILY = Family(
    model_types=("grounding-dino",),
    tasks=("zero-shot-object-detection",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=unused,
)

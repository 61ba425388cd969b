"""KOSMOS-2 (Peng et al., 2023): a decoder that sees a picture's rows first and writes boxes.

What stands before a prompt is the same for all, so its keys and values are what is remembered.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.reductions import normalize
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec, KeysAndValues
from rushlight.models.generation.search.memory import Memory
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.mlp import ACTIVATIONS, MLPNames, MLPSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.seeing.built import renaming
from rushlight.models.layers.seeing.captions import Captioner
from rushlight.models.layers.seq2seq.cross import MemoryAttention
from rushlight.models.layers.seq2seq.lengths import begin_decoding
from rushlight.models.layers.seq2seq.spec import PositionSpec, Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext, Stacked
from rushlight.models.layers.vision.clip import ClipModel, ImageTower, layer_of
from rushlight.models.layers.vision.towers import ClipVision, tower
from rushlight.models.layers.vision.transformer import put_parameter
from rushlight.models.layers.vision.vit import pair

ARCHITECTURES = ("Kosmos2ForConditionalGeneration",)
_BASE, _EYE, _PROJECT = "text_model.model", "eye", "image_to_text_projection"
_BINS = 32  # places of a side
_PAIR = r"<patch_index_(\d+)>\s*<patch_index_(\d+)>"
_ENTITY = re.compile(
    rf"(?:<phrase>([^<]+)</phrase>)?<object>((?:\s*{_PAIR}\s*(?:</delimiter_of_multi_objects/>)?)+)"
    r"</object>"
)


@dataclass
class Vision(ClipVision):
    """The keys of vision_config."""

    hidden_size: int = 1024
    intermediate_size: int = 4096
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    patch_size: Any = 14
    model_type: str = "kosmos_2_vision_model"


@dataclass
class Text:
    """The keys of text_config."""

    vocab_size: int = 65037
    max_position_embeddings: int = 2048
    embed_dim: int = 2048
    layers: int = 24
    ffn_dim: int = 8192
    attention_heads: int = 32
    activation_function: str = "gelu"
    layer_norm_eps: float = 1e-5
    scale_embedding: bool = True
    bos_token_id: int | None = 0
    pad_token_id: int | None = 1
    model_type: str = "kosmos_2_text_model"
    neutral = {"tie_word_embeddings": (), "layerdrop": (), "add_cross_attention": (False,)}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    latent_query_num: int = 64
    tie_word_embeddings: bool = True
    model_type: str = "kosmos-2"


class _Attention(MemoryAttention):
    """Attention whose result is normalised before its last matrix."""

    def __init__(self, width: int, spec: AttentionSpec, norm: NormSpec) -> None:
        super().__init__(width, spec)
        self.inner_attn_ln = make_norm(width, norm)

    def merged(self, y: Tensor) -> Tensor:
        """(batch, heads, length, head_dim) -> (batch, length, width) by the last matrix."""
        batch, _, length, _ = y.shape
        y = self.inner_attn_ln(y.transpose(1, 2).reshape(batch, length, -1))
        out: Tensor = self.get_submodule(self.spec.names.out)(y)
        return out


class _Layer(Layer):
    """A layer with norms within its parts."""

    def __init__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int) -> None:
        super().__init__(spec, stack, layer)
        put(self, stack.names.attention, _Attention(spec.width, stack.attention, spec.norm))
        put(self, "ffn.ffn_layernorm", make_norm(stack.mlp.inner, spec.norm))

    def _mlp(self, x: Tensor, context: StackContext, bias: Tensor | None) -> Tensor:
        part: Any = self.get_submodule("ffn")
        y = part.ffn_layernorm(ACTIVATIONS[self.stack.mlp.activation](part.fc1(x)))
        out: Tensor = part.fc2(y)
        return out


class Kosmos2(Stacked, Captioner):
    """Pictures to text with boxes, which may begin with a given one."""

    @nn.layers_on("meta")
    def __init__(self, config: Config, text: Text, vision: Vision, spec: Seq2SeqSpec) -> None:
        self.config, self.text, self.spec = config, text, spec
        self.vocab_size = self.source_vocab_size = spec.vocab
        self.rows = 2 + config.latent_query_num  # before a prompt, with the first tokens
        self.context_length = spec.context - self.rows
        self.put_stack(spec.encoder, spec.vocab)
        image = ImageTower(
            layer_of(vision), vision.num_hidden_layers, pair(vision.image_size, "image_size"),
            pair(vision.patch_size, "patch_size"), vision.num_channels,
        )  # fmt: skip
        eye = ClipModel(vision, image, None)
        self.processor = eye.processor
        put(self, _EYE, eye)
        put(self, f"{_PROJECT}.dense", nn.Linear(vision.hidden_size, spec.width))
        put_parameter(self, f"{_PROJECT}.latent_query", config.latent_query_num, spec.width)
        put(self, f"{_PROJECT}.x_attn", MemoryAttention(spec.width, spec.encoder.attention))
        self._sinusoids: Tensor | None = None
        self.duplicates = {"text_model.lm_head.weight": f"{_BASE}.embed_tokens.weight"}
        if not config.tie_word_embeddings:
            self.untie("text_model.lm_head.weight")

    @nn.layers_on("meta")
    def untie(self, name: str) -> dict[str, str]:
        """Give the head a weight of its own."""
        put(self, "text_model.lm_head", nn.Linear(self.spec.width, self.spec.vocab, bias=False))
        self.duplicates = {}
        return {name: name}

    def prepare(self) -> None:
        """Make the table of sinusoidal positions on the parameters' device."""
        self._sinusoids = self._table()

    def beginning(self, text: str) -> list[int]:
        """The tokens after a picture's, and those of a text."""
        return self.text_ids(f"</image> {text.strip()}" if text else "</image>")

    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The state that the cache keeps for each layer."""
        a = self.spec.encoder.attention
        return (KeysAndValues(a.heads, a.head_dim),) * self.spec.encoder.layers

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """What stands before a prompt (batch, rows, width) of pixels (batch, 3, height, width)."""
        eye, project = self.get_submodule(_EYE), self.get_submodule(_PROJECT)
        net: Any = eye
        seen = net.vision_model.post_layernorm(net.hidden(self.as_weights(ids)))
        parts: Any = project
        states = parts.dense(normalize(seen, dim=-1))
        queries = parts.latent_query.expand(states.shape[0], *parts.latent_query.shape)
        read = parts.x_attn(queries, parts.x_attn.memory(ops.cat([states, queries], 1)))
        table: Any = self.get_submodule(self.spec.encoder.names.embedding)
        first = (self.text.bos_token_id or 0, self._image)
        begin = table(
            ops.cat([ops.arange(i, i + 1, device=ids.device) for i in first], 0).unsqueeze(0)
        )
        x = ops.cat([begin.expand(read.shape[0], *begin.shape[1:]), read], 1)
        at = ops.arange(self.rows, device=ids.device).unsqueeze(0)
        at = at + (self.text.pad_token_id or 0) + 1
        places = self._position_rows(self.spec.encoder.names, at)
        return x * self.spec.embedding_scale + places.to(x.dtype)

    @property
    def _image(self) -> int:
        """The token that opens a picture."""
        found = None if self.tokenizer is None else self.tokenizer.token_to_id("<image>")
        if found is None:
            raise ValueError("kosmos-2: the checkpoint's tokenizer has no <image>")
        return found

    def remember(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Memory:
        """Each layer's keys and values of what stands before a prompt."""
        stack, x, pairs = self.spec.encoder, hidden, []
        for layer in self._layers(stack):
            attention: Any = layer.get_submodule(stack.names.attention)
            pairs.append(attention.memory(layer.get_submodule(stack.names.attention_norm)(x)))
            x = layer(x, StackContext({"causal": True}), None)
        return Memory(tuple(pairs))

    def decode(
        self,
        ids: Tensor,
        memory: Memory,
        cache: Cache | None = None,
        *,
        mask: Tensor | None = None,
        logits_to_keep: int = 0,
    ) -> Tensor:
        """Logits (batch, length, vocab) of ids (batch, length) after a picture; see `Seq2Seq`.

        `memory` is what `remember` gave, `cache` holds earlier tokens, `mask` is false for padding,
        `logits_to_keep`: only those of so many last tokens. ValueError past the context.
        """
        options, offset = begin_decoding(self, ids, cache, mask)
        context = StackContext(options, cache, prompts=memory.layers)
        x = self._run(self.spec.encoder, ids, offset + self.rows, context)
        if cache is not None:
            cache.advance(ids.shape[1])
        x = x[:, -logits_to_keep:] if logits_to_keep else x
        tied = bool(self.duplicates)
        path = self.spec.encoder.names.embedding if tied else "text_model.lm_head"
        words: Any = self.get_submodule(path)
        return ops.linear(x, words.weight)

    def answer(self, ids: Any, text: str, size: tuple[int, int]) -> dict[str, Any]:
        """The text of an answer after the prompt `text`, and the entities in it with their boxes.

        ids: the answer's tokens. size: (height, width) of the picture's file, in whose pixels boxes
        are. It raises nothing itself.
        """
        if self.tokenizer is None:
            return {}
        return located(text + self.tokenizer.decode(ids, skip_special_tokens=False), size)


def located(text: str, size: tuple[int, int]) -> dict[str, Any]:
    """{"generated_text", "entities"} of a text with places; size: (height, width) of the picture.

    An entity: {"label", "start", "end" (places in the text), "boxes" (x1, y1, x2, y2, pixels)}.
    """

    def plain(part: str) -> str:
        return re.sub("<.*?>", "", part)

    whole = plain(text)
    leading = len(whole) - len(whole.lstrip())
    entities = []
    for match in _ENTITY.finditer(text):
        name = match.group(1) or ""
        start, end = match.span(1) if match.group(1) else (match.start(), match.start())
        before, after = len(name) - len(name.lstrip()), len(name) - len(name.rstrip())
        boxes = [_box(int(a), int(b), size) for a, b in re.findall(_PAIR, match.group(2))]
        entities.append(
            {
                "label": name.strip(),
                "start": len(plain(text[:start])) - leading + before,
                "end": len(plain(text[:end])) - leading - after,
                "boxes": boxes,
            }
        )
    return {"generated_text": whole.strip(), "entities": entities}


def _box(first: int, last: int, size: tuple[int, int]) -> list[float]:
    """(x1, y1, x2, y2) in pixels of the places of two corners: their middles, or one's whole."""
    top, left, bottom, right = *divmod(first, _BINS), *divmod(last, _BINS)
    within = 0.5 if top != bottom and left != right else 0.0
    x = left + within, right + (within or 1.0)
    y = top + within, bottom + (within or 1.0)
    tall, wide = (side / _BINS for side in size)
    return [x[0] * wide, y[0] * tall, x[1] * wide, y[1] * tall]


def build(config: dict[str, Any], names: Collection[str]) -> Kosmos2:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    given = {k: v for k, v in (c.text_config or {}).items() if k != "model_type"}
    t = read_config(Text, {**given, "model_type": Text.model_type, "architectures": None})
    choose("text_config.activation_function", t.activation_function, tuple(ACTIVATIONS))
    if t.attention_heads < 1 or t.embed_dim % t.attention_heads:
        raise FormatError(
            f"config.json: text_config.embed_dim {t.embed_dim} is not a multiple of "
            f"attention_heads {t.attention_heads}"
        )
    attention = AttentionSpec(
        t.attention_heads, t.attention_heads, t.embed_dim // t.attention_heads, True, True,
        names=AttentionNames(out="out_proj"),
    )  # fmt: skip
    mlp = MLPSpec(
        t.ffn_dim, t.activation_function, False, True,
        names=MLPNames(up="ffn.fc1", down="ffn.fc2"),
    )  # fmt: skip
    stack = StackSpec(
        t.layers, attention, mlp,
        StackNames(_BASE, f"{_BASE}.embed_tokens", norm="layer_norm"), make=_Layer,
    )  # fmt: skip
    pad = t.pad_token_id or 0
    spec = Seq2SeqSpec(
        t.vocab_size, t.embed_dim, t.max_position_embeddings, stack, replace(stack, types=0),
        NormSpec("layer", t.layer_norm_eps), "before", PositionSpec("even", pad + 1, pad),
        embedding_scale=math.sqrt(t.embed_dim) if t.scale_embedding else 1.0,
    )  # fmt: skip
    return Kosmos2(c, t, tower(config, "vision_config", Vision), spec)


FAMILY = Family(
    model_types=("kosmos-2",),
    tasks=("image-to-text", "visual-question-answering"),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=renaming(("vision_model.model.", f"{_EYE}.vision_model.")),
)

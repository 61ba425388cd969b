"""GIT (Wang et al., 2022): a text decoder whose layers see the picture's tokens before the text's.

The picture's tokens see one another and no text, so their keys and values are what is remembered.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec, KeysAndValues
from rushlight.models.generation.search.memory import Memory
from rushlight.models.generation.search.options import chosen, ids_of
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.head import HeadBias
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.seeing.captions import Captioner
from rushlight.models.layers.seq2seq.lengths import begin_decoding
from rushlight.models.layers.seq2seq.stacks import StackContext, Stacked
from rushlight.models.layers.seq2seq.two_models import decoder_of
from rushlight.models.layers.vision.clip import ClipModel, ImageTower, layer_of
from rushlight.models.layers.vision.towers import ClipVision, tower
from rushlight.models.layers.vision.vit import pair

ARCHITECTURES = ("GitForCausalLM",)


@dataclass
class Vision(ClipVision):
    """The keys of vision_config."""

    patch_size: Any = 16
    model_type: str = "git_vision_model"
    neutral = {"embedding_size": ()}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vision_config: Any = None
    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 6
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    max_position_embeddings: int = 1024
    layer_norm_eps: float = 1e-12
    tie_word_embeddings: bool = False
    model_type: str = "git"
    neutral = {
        "num_image_with_embedding": (),
        "embedding_size": (),
    }  # of videos, which are not read


class Git(Stacked, Captioner):
    """Pictures to text, which may begin with a given one."""

    @nn.layers_on("meta")
    def __init__(self, config: Config, vision: Vision) -> None:
        c = self.config = config
        e = EncoderSpec(
            c.vocab_size, c.hidden_size, c.max_position_embeddings, c.num_hidden_layers,
            c.num_attention_heads, c.intermediate_size, c.hidden_act,
            NormSpec("layer", c.layer_norm_eps), types=0,
        )  # fmt: skip
        self.spec = decoder_of(e, "git")
        self.vocab_size = self.source_vocab_size = c.vocab_size
        self.context_length = c.max_position_embeddings
        # The layers of `spec.encoder`, which attend to nothing but what comes before.
        self.put_stack(self.spec.encoder, c.vocab_size)
        image = ImageTower(
            layer_of(vision), vision.num_hidden_layers, pair(vision.image_size, "image_size"),
            pair(vision.patch_size, "patch_size"), vision.num_channels,
        )  # fmt: skip
        eye = ClipModel(vision, image, None)
        self.processor = eye.processor
        put(self, "git.image_encoder", eye)
        project = "git.visual_projection.visual_projection"
        put(self, f"{project}.0", nn.Linear(vision.hidden_size, c.hidden_size))
        put(self, f"{project}.1", nn.LayerNorm(c.hidden_size, vision.layer_norm_eps))
        table = f"{self.spec.encoder.names.embedding}.weight"
        tied = c.tie_word_embeddings
        self.duplicates = {"output.weight": table} if tied else {}
        self.output: Any = (
            HeadBias(c.vocab_size) if tied else nn.Linear(c.hidden_size, c.vocab_size)
        )

    @nn.layers_on("meta")
    def untie(self, name: str) -> dict[str, str]:
        """Give the head a weight of its own."""
        self.output = nn.Linear(self.config.hidden_size, self.vocab_size)
        return {name: name, "output.bias": "output.bias"}

    def beginning(self, text: str) -> list[int]:
        """The tokens that an answer begins with, for a text; [] for none."""
        first = ids_of(chosen(self.stored, {}).bos_token_id)
        return [*first, *self.text_ids(text)] if text else []

    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The state that the cache keeps for each layer."""
        a = self.spec.encoder.attention
        return (KeysAndValues(a.heads, a.head_dim),) * self.spec.encoder.layers

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The picture's tokens (batch, tokens, width) of pixels (batch, 3, height, width)."""
        git: Any = self.get_submodule("git")
        eye = git.image_encoder
        seen = eye.vision_model.post_layernorm(eye.hidden(self.as_weights(ids)))
        for layer in git.visual_projection.visual_projection.children():
            seen = layer(seen)
        tokens: Tensor = seen
        return tokens

    def remember(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Memory:
        """Each layer's keys and values of the picture's tokens."""
        stack, x, pairs = self.spec.encoder, hidden, []
        for layer in self._layers(stack):
            pairs.append(layer.get_submodule(stack.names.attention).memory(x))
            x = layer(x, StackContext({}), None)
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
        x = self._run(self.spec.encoder, ids, offset, context)
        if cache is not None:
            cache.advance(ids.shape[1])
        x = x[:, -logits_to_keep:] if logits_to_keep else x
        table: Any = self.get_submodule(self.spec.encoder.names.embedding)
        return ops.linear(x, getattr(self.output, "weight", table.weight), self.output.bias)

    def forward(self, pixels: Tensor, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits (batch, length, vocab) of pixels (batch, 3, height, width) and ids.

        attention_mask (batch, length) of `ids`: false or zero for padding. ValueError past the
        context, and for `pixels` of another shape.
        """
        return self.decode(ids, self.memory_of(pixels), mask=attention_mask)


def build(config: dict[str, Any], names: Collection[str]) -> Git:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    return Git(c, tower(config, "vision_config", Vision))


FAMILY = Family(
    model_types=("git",),
    tasks=("image-to-text", "visual-question-answering"),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    unused=lambda name, _: name.startswith("git.img_temporal_embedding."),
)

"""BLIP (Li et al., 2022): captions, answers to questions, and whether a text fits a picture."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.reductions import normalize
from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.encoder import bert
from rushlight.models.families.family import Family
from rushlight.models.generation.search.memory import Memory
from rushlight.models.image.files import Pixels
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.seeing.captions import PictureSource, PictureWriter
from rushlight.models.layers.seq2seq.stacks import StackContext
from rushlight.models.layers.seq2seq.two_models import HeadOfWords, decoder_of
from rushlight.models.layers.vision.transformer import CLIP_NAMES, LayerSpec
from rushlight.models.layers.vision.vit import ViT, ViTSpec, pair
from rushlight.models.parts import Split, renamed

MATCHES = "BlipForImageTextRetrieval"
ANSWERS = "BlipForQuestionAnswering"
ARCHITECTURES = ("BlipForConditionalGeneration", ANSWERS, MATCHES)
# Asked by transformers' code, and of no effect.
_UNREAD: dict[str, tuple[Any, ...]] = {"decoder_pad_token_id": (), "embedding_size": ()}


@dataclass
class Vision:
    """The keys of vision_config."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    image_size: Any = 384
    patch_size: Any = 16
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    qkv_bias: bool = True  # of BLIP-2
    model_type: str = "blip_vision_model"
    neutral = {"projection_dim": ()} | _UNREAD


@dataclass
class Text:
    """The keys of text_config."""

    vocab_size: int = 30524
    hidden_size: int = 768
    encoder_hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 8
    max_position_embeddings: int = 512
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    bos_token_id: int | None = 30522
    pad_token_id: int | None = 0
    sep_token_id: int | None = 102
    tie_word_embeddings: bool = True
    model_type: str = "blip_text_model"
    neutral = {"projection_dim": (), "label_smoothing": (), "is_decoder": (True,)} | _UNREAD


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_text_hidden_size: int = 256
    model_type: str = "blip"
    neutral = {
        "projection_dim": (),
        "logit_scale_init_value": (),
        "label_smoothing": (),
        "tie_word_embeddings": (),
    } | _UNREAD


def part(kind: type[Any], given: Any, name: str) -> Any:
    """The configuration within the key `name`, read as a `kind`; FormatError for no object."""
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise FormatError(f"config.json: {name} is {brief(given)}; it must be an object")
    values = {**given, "model_type": kind.model_type, "architectures": None}
    c = read_config(kind, values)
    choose(f"{name}.hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    return c


def vision_tower(v: Any) -> ViT:
    """The encoder of pictures of BLIP and BLIP-2, without a base."""
    layer = LayerSpec(
        v.hidden_size, v.num_attention_heads, v.intermediate_size, v.hidden_act, v.layer_norm_eps,
        (v.qkv_bias,) * 3, names=replace(CLIP_NAMES, out="self_attn.projection"),
    )  # fmt: skip
    spec = ViTSpec(
        layer, v.num_hidden_layers, pair(v.image_size, "image_size"),
        pair(v.patch_size, "patch_size"), "", prefix=("class_embedding",),
        patches="embeddings.patch_embedding", stack="encoder.layers", last="post_layernorm",
    )  # fmt: skip
    return ViT(v, spec, ())


def _third(i: int) -> Any:
    return lambda t: t[i * (t.shape[0] // 3) : (i + 1) * (t.shape[0] // 3)].contiguous()


# The tower has q, k and v apart, and another name for positions.
TOWER_PARTS = {
    **renamed(".embeddings.position_embedding", ".embeddings.position_embeddings"),
    **{
        f".self_attn.qkv.{what}": Split(
            {f".self_attn.{x}_proj.{what}": _third(i) for i, x in enumerate("qkv")},
            lambda *rows: cat(list(rows)),
        )
        for what in ("weight", "bias")
    },
}


class Blip(PictureWriter):
    """Pictures, and texts beside them, to text; or to whether the text fits the picture."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, text: Text, vision: Vision, kind: str) -> None:
        self.kind, self.text = kind, text
        e = EncoderSpec(
            text.vocab_size, text.hidden_size, text.max_position_embeddings,
            text.num_hidden_layers, text.num_attention_heads, text.intermediate_size,
            text.hidden_act, NormSpec("layer", text.layer_norm_eps), types=0,
        )  # fmt: skip
        spec, seen = decoder_of(e, "text_decoder.bert"), decoder_of(e, "text_encoder").decoder
        width = text.encoder_hidden_size
        if width != vision.hidden_size or (kind == ANSWERS and width != text.hidden_size):
            raise FormatError(
                f"config.json: text_config.encoder_hidden_size is {width}; it must be hidden_size "
                f"of vision_config, {vision.hidden_size}, and in {ANSWERS} that of text_config"
            )
        spec = replace(
            spec,
            encoder=replace(seen, memory=width, crosses=True),
            decoder=replace(spec.decoder, memory=width),
        )
        head = HeadOfWords(bert.HEADS, "text_decoder", text.tie_word_embeddings)
        if kind == MATCHES:
            self.config, self.spec, self.head = config, spec, head
            self.vocab_size, self.context_length = spec.vocab, spec.context
            shared = config.image_text_hidden_size
            self.vision_proj = nn.Linear(vision.hidden_size, shared)
            self.text_proj = nn.Linear(text.hidden_size, shared)
            self.itm_head = nn.Linear(text.hidden_size, 2)
        else:
            super().__init__(config, None, spec, head, width)
            self.tasks = ("image-to-text",)
        self.vision_model = vision_tower(vision)
        self.processor = replace(self.vision_model.processor, size=self.vision_model.spec.image)
        self.source_vocab_size = spec.vocab
        if kind != ARCHITECTURES[0]:
            self.put_stack(self.spec.encoder, spec.vocab)
            self.reads_text = True
        if kind == ANSWERS:
            self.tasks = ("visual-question-answering",)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer and the processor; answers begin and end with texts' own tokens."""
        super().configure(files)
        text = self.text
        told = {
            "decoder_start_token_id": text.bos_token_id,
            "eos_token_id": text.sep_token_id,
            "pad_token_id": text.pad_token_id,
        }
        self.stored = {**self.stored, **told}

    def beginning(self, text: str) -> list[int]:
        """The tokens that a caption begins with: those of a text, the first one replaced."""
        if not text:
            return []
        return [int(self.text.bos_token_id or 0), *self.text_ids(text, True)[1:-1]]

    def prepared(self, pixels: Pixels, text: str) -> PictureSource:
        """The source of pixels, and of a question, or of the beginning of a caption."""
        source = super().prepared(pixels, "" if self.reads_text else text)
        if self.reads_text:
            if not text:
                raise ValueError(f"{self.kind}: a text beside the picture is missing; give one")
            source.extend(self.text_ids(text, True))
        return source

    def encode(  # type: ignore[override]
        self, ids: Tensor, text: Tensor | None = None, attention_mask: Tensor | None = None
    ) -> Tensor:
        """What the decoder reads of pixels `ids` (batch, 3, height, width), and of a `text`'s ids.

        attention_mask: of the text. ValueError for a bad shape.
        """
        seen = self.vision_model.hidden(self.as_weights(ids))
        return seen if text is None else self.read(text, attention_mask, seen)

    def read(self, ids: Tensor, mask: Tensor | None, seen: Tensor) -> Tensor:
        """Hidden states of texts' `ids` (batch, length) whose layers attend to `seen`, pictures'.

        mask: false or zero for padding. It raises nothing itself.
        """
        stack = self.spec.encoder
        crosses = [layer.get_submodule(stack.names.cross) for layer in self._layers(stack)]
        memory = Memory(tuple(cross.memory(seen) for cross in crosses))
        mask = None if mask is None else (mask != 0)[:, None, None, :]
        return self._run(stack, ids, 0, StackContext({"mask": mask}, None, memory))

    def memory_of(self, *inputs: Tensor) -> Memory:
        """The memory of what `place_sources` gave."""
        return self.remember(self.encode(*inputs), inputs[2] if self.reads_text else None)

    def match(self, images: Any, texts: list[str], head: bool = True) -> Tensor:
        """How texts fit pictures, as many: logits (n, 2) of not and yes; or cosines (n, n).

        head: whether the head of matches is asked. images: as `rl.image.load` takes them.
        ValueError for an empty text, or another number of texts.
        """
        rows = [self.source_ids(pair) for pair in zip(images, texts, strict=True)]
        pixels, ids, mask = self.place_sources(rows, self.source_width(rows), 0)
        return self.matched(pixels, ids, mask, head)

    def matched(self, pixels: Tensor, ids: Tensor, mask: Tensor, head: bool = True) -> Tensor:
        """`match` of what `place_sources` gives: pixels, ids and mask; see there for `head`.

        ValueError for a bad shape.
        """
        seen = self.vision_model.hidden(self.as_weights(pixels))
        if head:
            logits: Tensor = self.itm_head(self.read(ids, mask, seen)[:, 0])
            return logits
        alone = StackContext({"mask": (mask != 0)[:, None, None, :]})
        texts = self._run(self.spec.encoder, ids, 0, alone)[:, 0]
        first, second = self.vision_proj(seen[:, 0]), self.text_proj(texts)
        cosines: Tensor = normalize(first, dim=-1) @ normalize(second, dim=-1).transpose(0, 1)
        return cosines


def build(config: dict[str, Any], names: Collection[str]) -> Blip:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    kind = (config.get("architectures") or [ARCHITECTURES[0]])[0]
    text = part(Text, c.text_config, "text_config")
    vision = part(Vision, c.vision_config, "vision_config")
    return Blip(c, text, vision, kind)


FAMILY = Family(
    model_types=("blip",),
    tasks=("image-to-text", "visual-question-answering"),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    parts=TOWER_PARTS,
)

"""BLIP-2 (Li et al., 2023) and InstructBLIP (Dai et al., 2023): a Q-Former before a language model.

The language model is a decoder (OPT, Llama), or T5, whose encoder reads the picture's rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families import family_of
from rushlight.models.families.family import Family
from rushlight.models.families.multimodal.blip import TOWER_PARTS, part, vision_tower
from rushlight.models.families.multimodal.blip import Vision as BlipVision
from rushlight.models.generation.pictures import Picture, PicturePrompt, prompt_of
from rushlight.models.generation.search.memory import Memory
from rushlight.models.image.files import Pixels, load
from rushlight.models.image.preprocessor_config import CLIP, processor_of
from rushlight.models.image.processor import Processor
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.built import renaming, seeing_decoder
from rushlight.models.layers.seeing.captions import Captioner, PictureSource
from rushlight.models.layers.seeing.contents import PICTURES
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.qformer import QFormer, QFormerSpec
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.stacks import StackContext
from rushlight.models.layers.vision.transformer import put_parameter
from rushlight.models.small_files import find_tokenizer

ARCHITECTURES = ("Blip2ForConditionalGeneration", "InstructBlipForConditionalGeneration")
_WORDS = "qformer_tokenizer/"  # where the tokenizer of a Q-Former that reads texts is
_UNREAD: dict[str, tuple[Any, ...]] = {
    "embedding_size": (),
    "use_decoder_only_language_model": (True, False),
}


@dataclass
class Vision(BlipVision):
    """The keys of vision_config."""

    hidden_size: int = 1408
    intermediate_size: int = 6144
    num_hidden_layers: int = 39
    num_attention_heads: int = 16
    image_size: Any = 224
    patch_size: Any = 14
    layer_norm_eps: float = 1e-6
    model_type: str = "blip_2_vision_model"
    neutral = BlipVision.neutral | _UNREAD


@dataclass
class Queries:
    """The keys of qformer_config."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    max_position_embeddings: int = 512
    layer_norm_eps: float = 1e-12
    cross_attention_frequency: int = 2
    use_qformer_text_input: bool = False
    model_type: str = "blip_2_qformer"
    neutral = {"encoder_hidden_size": ()} | _UNREAD  # that of vision_config


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    qformer_config: Any = None
    num_query_tokens: int = 32
    image_token_index: int | None = None
    eos_token_id: Any = None
    model_type: str = "blip-2"
    neutral = {
        "image_text_hidden_size": (),
        "tie_word_embeddings": (),
        "is_encoder_decoder": (True, False),
    } | _UNREAD


class Eye:
    """What BLIP-2's models see by: the modules, and the rows that they make of pictures."""

    def __init__(self, c: Config, width: int) -> None:
        self.reads = c.model_type == "instructblip"
        q = part(Queries, c.qformer_config, "qformer_config")
        v = part(Vision, c.vision_config, "vision_config")
        if q.num_attention_heads < 1 or q.hidden_size % q.num_attention_heads:
            raise FormatError(
                f"config.json: qformer_config.hidden_size {q.hidden_size} is not a multiple of "
                f"num_attention_heads {q.num_attention_heads}"
            )
        text = (q.vocab_size, q.max_position_embeddings) if self.reads else None
        spec = QFormerSpec(
            q.hidden_size, q.num_hidden_layers, q.num_attention_heads, q.intermediate_size,
            v.hidden_size, q.cross_attention_frequency, q.hidden_act, q.layer_norm_eps, text,
            self.reads or q.use_qformer_text_input,
        )  # fmt: skip
        self.queries = (1, c.num_query_tokens, q.hidden_size)
        tower = vision_tower(v)
        self.processor = Processor(
            size=tower.spec.image, filter="bicubic", mean=CLIP[0], std=CLIP[1]
        )
        self.parts: dict[str, nn.Module] = {
            "vision_model": tower,
            "qformer": QFormer(spec),
            "language_projection": nn.Linear(q.hidden_size, width),
        }
        self.tokenizer: Any = None

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the processor, and the tokenizer of a Q-Former that reads texts."""
        self.processor = processor_of(files, self.processor)
        own = {n.removeprefix(_WORDS): files[n] for n in files if n.startswith(_WORDS)}
        if self.reads and not own and f"{_WORDS}tokenizer.json" in files:
            own = {"tokenizer.json": files[f"{_WORDS}tokenizer.json"]}
        self.tokenizer = find_tokenizer(own) if own else None

    def inputs(self, pixels: Pixels, text: str) -> dict[str, Any]:
        """What the modules read of a picture, and of a text beside it."""
        inputs: dict[str, Any] = {"pixels": self.processor.one(pixels)[None]}
        if self.reads:
            if self.tokenizer is None:
                raise ValueError(
                    f"instructblip: the checkpoint has no {_WORDS}tokenizer.json; put it there"
                )
            ids = self.tokenizer.encode(text).ids
            inputs["qformer_input_ids"] = np.array([ids], np.int64)
        return inputs

    def __call__(self, pixels: Pixels, alone: bool = True, text: str = "") -> Picture:
        """What a model reads of pixels (height, width, 3) uint8, and of a text beside them."""
        return Picture(self.inputs(pixels, text), "", (pixels.shape[0], pixels.shape[1]))

    def rows(self, model: Any, pixels: Tensor, ids: Tensor | None = None) -> Tensor:
        """The rows (batch, queries, width) of pictures."""
        seen = model.vision_model.hidden(
            pixels.to(model.dtype) if model.dtype.is_floating_point else pixels
        )
        out: Tensor = model.language_projection(model.qformer(model.query_tokens, seen, ids))
        return out


class BlipDecoder(PictureDecoder):
    """Pictures, and texts after them, to text by a decoder; pictures come before all tokens."""

    eye: Eye

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read what the decoder does, and what the checkpoint asks of pictures."""
        super().configure(files)
        self.eye.configure(files)

    def picture_prompt(
        self,
        text: str,
        images: Any = (),
        *,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
    ) -> PicturePrompt:
        """The prompt of images and a text after them; see `PictureDecoder`, without markers.

        ValueError for min_pixels and max_pixels: a picture has as many tokens in any size.
        """
        if min_pixels is not None or max_pixels is not None:
            raise ValueError(
                f"{self.config.model_type}: min_pixels and max_pixels are not supported: the "
                "number of a picture's tokens does not depend on them"
            )
        listed = list(images) if isinstance(images, list | tuple) else [images]
        count, token = self.eye.queries[1], self.sight.token
        pictures = [self.eye(load(image), text=text) for image in listed]
        ids = [token] * count * len(pictures) + self.encode_text(text, add_special_tokens=True)
        return prompt_of(ids, token, pictures, [count] * len(pictures))

    def chat_ids(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
        """Token ids of messages; see `PictureDecoder`. ValueError for messages with pictures."""
        if PICTURES.taken_out(messages)[0]:
            raise ValueError(
                f"{self.config.model_type}: it was made to caption pictures and to answer a "
                "question about them, not to chat about them; use picture_prompt(text, images)"
            )
        return super().chat_ids(messages, **options)


class BlipT5(Captioner, Seq2Seq):
    """Pictures, and texts after them, to text by T5."""

    reads_text = True

    @nn.layers_on("meta")
    def __init__(self, config: Config, spec: Any, eye: Eye, token: int) -> None:
        super().__init__(config, spec)
        self.eye, self.token, self.processor = eye, token, eye.processor
        _place(self, eye)

    def find_processor(self, files: Mapping[str, bytes]) -> Processor:
        """The processor of pictures that a checkpoint's files describe."""
        self.eye.configure(files)
        return self.eye.processor

    def prepared(self, pixels: Pixels, text: str) -> PictureSource:
        """The source of pixels, and of a text after them."""
        ids = [self.token] * self.eye.queries[1] + self.text_ids(text, True)
        size = (pixels.shape[0], pixels.shape[1])
        return PictureSource(ids, self.eye.inputs(pixels, text), (), size)

    def encode(self, *inputs: Tensor) -> Tensor:  # type: ignore[override]
        """The encoder's hidden states of pictures' inputs, ids of texts and their mask."""
        *seen, ids, mask = inputs
        shown = (mask != 0)[:, None, None, :]
        context = StackContext({"mask": shown}, rows=self.eye.rows(self, *seen))
        return self._run(self.spec.encoder, ids, 0, context)

    def memory_of(self, *inputs: Tensor) -> Memory:
        """The memory of what `place_sources` gave."""
        return self.remember(self.encode(*inputs), inputs[-1])


def _place(model: Any, eye: Eye) -> None:
    for path, module in eye.parts.items():
        put(model, path, module)
    put_parameter(model, "query_tokens", *eye.queries)


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder | BlipT5:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    text = c.text_config or {"model_type": "opt"}
    if not isinstance(text, Mapping):
        raise FormatError(f"config.json: text_config is {brief(text)}; it must be an object")
    kind = text.get("model_type")
    choose("text_config.model_type", kind, ("opt", "llama", "t5"))
    inner = {key: value for key, value in text.items() if key != "architectures"}
    inner = {"tie_word_embeddings": kind == "opt"} | inner
    vocab = inner.get("vocab_size")
    token = c.image_token_index
    if token is None:  # older files have none; what stands there is not read
        token = vocab - 1 if isinstance(vocab, int) else 0
    if kind == "t5":
        inner = {key: text[key] for key in text if key != "architectures"}
        like: Any = family_of("t5", "config.json: text_config.model_type").build(inner, [])
        spec = like.spec

        def placed(stack: Any) -> Any:
            base = f"language_model.{stack.names.base}"
            names = replace(stack.names, base=base, embedding="language_model.shared")
            return replace(stack, names=names)

        spec = replace(spec, encoder=placed(spec.encoder), decoder=placed(spec.decoder))
        return BlipT5(c, spec, Eye(c, spec.width), token)
    found: list[Eye] = []

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        rows: Tensor = model.eye.rows(model, *inputs.values())
        return rows.reshape(-1, rows.shape[-1])

    def sight(spec: DecoderSpec) -> Sight:
        found.append(Eye(c, spec.width))
        return Sight(token, "", found[0].parts, look, lambda files, _: found[0])

    model = seeing_decoder(
        {**config, "text_config": inner}, names, c, sight, kind=BlipDecoder
    )  # fmt: skip
    if not isinstance(model, BlipDecoder):  # without tensors of what sees it reads texts only
        return model
    model.eye = model.processor = found[0]
    put_parameter(model, "query_tokens", *found[0].queries)
    return model


FAMILY = Family(
    model_types=("blip-2", "instructblip"),
    tasks=("image-to-text", "visual-question-answering"),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    parts=TOWER_PARTS,
    rename_tensors=renaming(
        ("language_model.model.decoder.", "model.language_model."),
        ("language_model.model.", "model.language_model."),
        ("language_model.lm_head.", "lm_head."),
    ),
)

"""Pix2Struct (Lee et al., 2022), DePlot and MatCha: screens, pages and charts to text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.generation.search.memory import Memory
from rushlight.models.image.files import Pixels
from rushlight.models.image.flattened import FlatProcessor, flat_processor
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.mlp import ACTIVATIONS, MLPNames, MLPSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.positions.distances import RelativeSpec
from rushlight.models.layers.seeing.captions import Captioner, PictureSource
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext

ARCHITECTURES = ("Pix2StructForConditionalGeneration",)
_CONTEXT = 1 << 16  # positions are relative


@dataclass
class Vision:
    """The keys of vision_config."""

    hidden_size: int = 768
    patch_embed_hidden_size: int = 768
    d_ff: int = 2048
    d_kv: int = 64
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    dense_act_fn: str = "gelu_new"
    layer_norm_eps: float = 1e-6
    seq_len: int = 4096
    model_type: str = "pix2struct_vision_model"
    neutral = {"relative_attention_num_buckets": (), "relative_attention_max_distance": ()}


@dataclass
class Text:
    """The keys of text_config."""

    vocab_size: int = 50244
    hidden_size: int = 768
    d_kv: int = 64
    d_ff: int = 2048
    num_layers: int = 12
    num_heads: int = 12
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    dense_act_fn: str = "gelu_new"
    model_type: str = "pix2struct_text_model"
    neutral = {
        "is_decoder": (True,),
        "is_encoder_decoder": (True, False),
        "add_cross_attention": (True, False),
    }


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    tie_word_embeddings: bool = False
    model_type: str = "pix2struct"
    neutral = {"is_vqa": (), "is_encoder_decoder": (True,)}


def _stack(c: Any, layers: int, heads: int, names: StackNames, mlp: str) -> StackSpec:
    choose("dense_act_fn", c.dense_act_fn, tuple(ACTIVATIONS))
    inside = MLPNames(f"{mlp}.wi_0", f"{mlp}.wi_1", f"{mlp}.wo")
    attention = AttentionSpec(
        heads, heads, c.d_kv, scale=1.0, names=AttentionNames("query", "key", "value", "output")
    )
    return StackSpec(layers, attention, MLPSpec(c.d_ff, c.dense_act_fn, names=inside), names)


class Pix2Struct(Captioner, Seq2Seq):
    """Patches of pictures to text, which may begin with a given one, or answer a question."""

    @nn.layers_on("meta")
    def __init__(self, config: Config, spec: Seq2SeqSpec, vision: Vision, eye: Seq2SeqSpec) -> None:
        self.config, self.spec, self.eye = config, spec, eye
        self.vocab_size = self.source_vocab_size = spec.vocab
        self.context_length = spec.context
        self.processor = FlatProcessor()
        self.put_stack(spec.decoder, spec.vocab)
        if not spec.tied:
            put(self, spec.head, nn.Linear(spec.width, spec.vocab, bias=False))
        self.duplicates = self._duplicates()
        width, table = vision.hidden_size, "encoder.embeddings"
        patches = nn.Linear(vision.patch_embed_hidden_size, width)
        put(self, f"{table}.patch_projection", patches)
        for name in ("row_embedder", "column_embedder"):
            put(self, f"{table}.{name}", nn.Embedding(vision.seq_len, width))
        layers = [Layer(eye, eye.encoder, i) for i in range(eye.encoder.layers)]
        put(self, "encoder.encoder.layer", nn.ModuleList(layers))
        put(self, "encoder.layernorm", make_norm(width, eye.norm))

    def find_processor(self, files: Mapping[str, bytes]) -> FlatProcessor:
        """The processor of pictures that a checkpoint's files describe."""
        return flat_processor(files)

    def prepared(self, pixels: Pixels, text: str) -> PictureSource:
        """The source of pixels, and of a question over them, or of what the answer begins with."""
        headed = self.processor.headed
        inputs = self.processor(pixels, text)
        first = [] if headed else self.beginning(text)
        return PictureSource([], inputs, first, (pixels.shape[0], pixels.shape[1]))

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The encoder's hidden states of patches (batch, length, 2 + values), by places first."""
        encoder: Any = self.get_submodule("encoder")
        table = encoder.embeddings
        x = table.patch_projection(self.as_weights(ids[:, :, 2:]))
        x = x + table.row_embedder(ids[:, :, 0].long()) + table.column_embedder(ids[:, :, 1].long())
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        for layer in encoder.encoder.layer:
            x = layer(x, StackContext({"mask": mask}), None)
        out: Tensor = encoder.layernorm(x)
        return out

    def memory_of(self, *inputs: Tensor) -> Memory:
        """The memory of what `place_sources` gave."""
        return self.remember(self.encode(*inputs), inputs[1])


def build(config: dict[str, Any], names: Collection[str]) -> Pix2Struct:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    parts: list[Any] = []
    for key, kind in (("text_config", Text), ("vision_config", Vision)):
        given = getattr(c, key) or {}
        if not isinstance(given, Mapping):
            raise FormatError(f"config.json: {key} is {brief(given)}; it must be an object")
        told = {n: v for n, v in given.items() if n != "tie_word_embeddings"}
        parts.append(
            read_config(kind, {**told, "model_type": kind.model_type, "architectures": None})
        )
    t, v = parts
    if t.hidden_size != v.hidden_size or t.hidden_size != t.num_heads * t.d_kv:
        raise FormatError(
            f"config.json: text_config has hidden_size {t.hidden_size}; it must be num_heads * "
            f"d_kv, {t.num_heads * t.d_kv}, and that of vision_config, {v.hidden_size}"
        )
    words = StackNames(
        "decoder", "decoder.embed_tokens", layers="layer", attention="self_attention.attention",
        attention_norm="self_attention.layer_norm", cross="encoder_decoder_attention.attention",
        cross_norm="encoder_decoder_attention.layer_norm", mlp_norm="mlp.layer_norm",
        norm="final_layer_norm",
    )  # fmt: skip
    seen = replace(
        words, base="encoder.encoder", attention="attention", mlp_norm="pre_mlp_layer_norm",
        attention_norm="pre_attention_layer_norm",
    )  # fmt: skip
    decoder = _stack(t, t.num_layers, t.num_heads, words, "mlp.DenseReluDense")
    encoder = _stack(v, v.num_hidden_layers, v.num_attention_heads, seen, "mlp")
    spec = Seq2SeqSpec(
        t.vocab_size, t.hidden_size, _CONTEXT, replace(encoder, types=0), decoder,
        NormSpec("rms", t.layer_norm_epsilon), "before",
        relative=RelativeSpec(
            t.relative_attention_num_buckets, t.relative_attention_max_distance, False
        ),
        tied=c.tie_word_embeddings, head="decoder.lm_head",
    )  # fmt: skip
    eye = replace(
        spec, encoder=encoder, decoder=replace(decoder, types=0), relative=None,
        norm=NormSpec("rms", v.layer_norm_eps),
    )  # fmt: skip
    return Pix2Struct(c, spec, v, eye)


FAMILY = Family(
    model_types=("pix2struct",),
    tasks=("image-to-text", "visual-question-answering"),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)

"""wav2vec 2.0 (Baevski et al., 2020): speech to letters by CTC, classes, and its encoder alone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.speech.wav2vec2 import TASKS, WaveModel, rename_tensors
from rushlight.models.layers.speech.wave_heads import EVERY, classes_of

ARCHITECTURES = classes_of("Wav2Vec2", EVERY)
NAMES = EncoderNames(
    layers="encoder.layers",
    q="attention.q_proj",
    k="attention.k_proj",
    v="attention.v_proj",
    out="attention.out_proj",
    attention_norm="layer_norm",
    up="feed_forward.intermediate_dense",
    down="feed_forward.output_dense",
    mlp_norm="final_layer_norm",
)
# Keys of training alone.
_NEUTRAL = """apply_spec_augment mask_time_prob mask_time_length mask_time_min_masks
    mask_feature_prob mask_feature_length mask_feature_min_masks num_codevector_groups
    num_codevectors_per_group codevector_dim proj_codevector_dim contrastive_logits_temperature
    num_negatives diversity_loss_weight ctc_loss_reduction ctc_zero_infinity feat_quantizer_dropout
    feat_proj_dropout final_dropout layerdrop""".split()


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = dict.fromkeys(_NEUTRAL, ())

    vocab_size: int = 32
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    feat_extract_norm: str = "group"
    feat_extract_activation: str = "gelu"
    conv_dim: list[Any] = field(default_factory=lambda: [512] * 7)
    conv_stride: list[Any] = field(default_factory=lambda: [5, 2, 2, 2, 2, 2, 2])
    conv_kernel: list[Any] = field(default_factory=lambda: [10, 3, 3, 3, 3, 2, 2])
    conv_bias: bool = False
    num_conv_pos_embeddings: int = 128
    num_conv_pos_embedding_groups: int = 16
    do_stable_layer_norm: bool = False
    add_adapter: bool = False
    adapter_kernel_size: int = 3
    adapter_stride: int = 2
    num_adapter_layers: int = 3
    output_hidden_size: int | None = None
    adapter_attn_dim: int | None = None
    use_weighted_layer_sum: bool = False
    classifier_proj_size: int = 256
    tdnn_dim: list[Any] = field(default_factory=lambda: [512, 512, 512, 512, 1500])
    tdnn_kernel: list[Any] = field(default_factory=lambda: [5, 3, 3, 1, 1])
    tdnn_dilation: list[Any] = field(default_factory=lambda: [1, 2, 3, 1, 1])
    xvector_output_dim: int = 512
    pad_token_id: int | None = 0
    architectures: list[Any] | None = None
    model_type: str = "wav2vec2"


def describe(c: Any, names: Collection[str]) -> tuple[EncoderSpec, list[tuple[int, int, int]]]:
    """The encoder of a configuration; channels, kernel and stride of the convolutions before it."""
    choose("feat_extract_norm", c.feat_extract_norm, ("group", "layer"))
    choose("feat_extract_activation", c.feat_extract_activation, tuple(ACTIVATIONS))
    count = len(c.conv_dim)
    keys = ("conv_dim", "conv_kernel", "conv_stride")
    sizes = [numbers_of(key, getattr(c, key), count) for key in keys]
    if not 0 < count <= len(names) or min(map(min, sizes)) < 1:
        raise FormatError(f"config.json: {', '.join(keys)} must hold a positive size per layer")
    spec = EncoderSpec(
        c.vocab_size or 0,
        c.hidden_size,
        0,
        c.num_hidden_layers,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        NormSpec("layer", c.layer_norm_eps),
        "before" if c.do_stable_layer_norm else "after",
        names=NAMES,
    )
    return spec, list(zip(*sizes, strict=True))


def builder(
    config_class: type[Any],
    architectures: tuple[str, ...],
    model_class: type[WaveModel],
    describe: Callable[..., Any] = describe,
) -> Callable[[dict[str, Any], Collection[str]], WaveModel]:
    """What builds the models of a family of this kind, on the meta device."""

    def build(config: dict[str, Any], names: Collection[str]) -> WaveModel:
        c = read_config(config_class, config, architectures)
        spec, convs = describe(c, names)
        return model_class(c, spec, convs, names, labels_of(config))

    return build


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether a tensor is of training alone: the classes of a speaker's head."""
    return name == "objective.weight"


def _tasks_of(architectures: tuple[str, ...]) -> tuple[str, ...]:
    """Transcription, and the tasks of the other heads of a kind."""
    heads = {"ForSequenceClassification": TASKS["classes"], "ForXVector": TASKS["speaker"]}
    more = (task for end, task in heads.items() if any(a.endswith(end) for a in architectures))
    return ("automatic-speech-recognition", *more)


def family(
    model_type: str,
    config_class: type[Any],
    architectures: tuple[str, ...],
    model_class: type[WaveModel],
    **more: Any,
) -> Family:
    """The record of a family whose models are `WaveModel`s; more: others of its fields.

    `describe` may be another function than wav2vec 2.0's.
    """
    described = more.pop("describe", describe)
    return Family(
        model_types=(model_type,),
        tasks=_tasks_of(architectures),
        architectures=architectures,
        base_prefix=f"{model_class.base}.",
        config=config_class,
        rename_tensors=rename_tensors,
        **{
            "build": builder(config_class, architectures, model_class, described),
            "unused": unused,
            "refused": ("num_feat_extract_layers",),
            **more,
        },
    )


FAMILY = family("wav2vec2", Config, ARCHITECTURES, WaveModel)

"""Cohere Transcribe (2026): Canary with a table of positions and a product between its parts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.families.speech import canary
from rushlight.models.layers.speech.canary import CanaryModel

ARCHITECTURES = ("CohereAsrForConditionalGeneration",)
# What encoder_config means by what it leaves out.
_ENCODER = {
    "hidden_size": 1280, "num_hidden_layers": 48, "num_attention_heads": 8,
    "intermediate_size": 5120, "hidden_act": "silu", "attention_bias": True,
    "convolution_bias": True, "conv_kernel_size": 9, "subsampling_factor": 8,
    "subsampling_conv_channels": 256, "num_mel_bins": 128, "subsampling_conv_kernel_size": 3,
    "subsampling_conv_stride": 2, "scale_input": False,
}  # fmt: skip


@dataclass
class Config(canary.DecoderConfig):
    """The keys of config.json that the model depends on; defaults are transformers'."""

    encoder_config: dict[str, Any] | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    tie_word_embeddings: bool = False
    model_type: str = "cohere_asr"


def build(config: dict[str, Any], names: Collection[str]) -> CanaryModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    encoder = canary.encoder_of(c.encoder_config, _ENCODER)
    return CanaryModel(c, encoder, c, ("\u2581", *canary.PROMPT), learned=True)


# NeMo's names, which published files have, and those of the model.
_PARTS = (
    (r"^(encoder|transf_decoder|encoder_decoder_proj)\.", r"model.\1."),
    (r"\bencoder\.pre_encode\.conv\.", "encoder.subsampling.layers."),
    (r"\bencoder\.pre_encode\.out\.", "encoder.subsampling.linear."),
    (r"\btransf_decoder\._embedding\.position_embedding\.pos_enc$", "decoder.pos_emb.weight"),
    (r"\btransf_decoder\._embedding\.token_embedding\b", "decoder.embed_tokens"),
    (r"\btransf_decoder\._embedding\.layer_norm\b", "decoder.embedding_layernorm"),
    (r"\btransf_decoder\._decoder\.final_layer_norm\b", "decoder.norm"),
    (r"\btransf_decoder\._decoder\.layers\b", "decoder.layers"),
    (r"\bencoder_decoder_proj\.", "decoder.proj."),
    (r"\.self_attn\.linear_([qkv])\b", r".self_attn.\1_proj"),
    (r"\.self_attn\.linear_out\b", ".self_attn.o_proj"),
    (r"\.self_attn\.linear_pos\b", ".self_attn.relative_k_proj"),
    (r"\.self_attn\.pos_bias_([uv])\b", r".self_attn.bias_\1"),
    (r"\.first_sub_layer\.", ".self_attn."),
    (r"\.second_sub_layer\.", ".encoder_attn."),
    (r"\.query_net\b", ".q_proj"),
    (r"\.key_net\b", ".k_proj"),
    (r"\.value_net\b", ".v_proj"),
    (r"\.out_projection\b", ".o_proj"),
    (r"\.third_sub_layer\.dense_in\b", ".mlp.fc1"),
    (r"\.third_sub_layer\.dense_out\b", ".mlp.fc2"),
    (r"\.layer_norm_1\.", ".input_layernorm."),
    (r"\.layer_norm_2\.", ".post_attention_layernorm."),
    (r"\.layer_norm_3\.", ".final_layernorm."),
    (r"\.conv\.batch_norm\b", ".conv.norm"),
    (r"\blog_softmax\.mlp\.layer0\b", "proj_out"),
)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under the names of the model's parameters, of files with NeMo's names too."""
    renamed: dict[str, Tensor] = {}
    for name, values in tensors.items():
        for pattern, text in _PARTS:
            name = re.sub(pattern, text, name)
        renamed[name] = values
    return renamed


FAMILY = Family(
    model_types=("cohere_asr",),
    tasks=("automatic-speech-recognition",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=lambda name, _: name.startswith("preprocessor.featurizer."),
)

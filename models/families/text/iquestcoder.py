"""IQuest-Coder (IQuest Lab, 2026): LLaMA under a name of its own."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.building import decoder_builder

ARCHITECTURES = ("IQuestCoderForCausalLM", "LlamaForCausalLM")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"clip_qkv": (None,), "use_sliding_window": (False, None)}

    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    model_type: str = "iquestcoder"


FAMILY = Family(
    model_types=("iquestcoder",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, llama.describe, ARCHITECTURES),
    gguf_types=("llama/iquestcoder",),  # written as llama, and read as one
    gguf=llama.GGUF,
)

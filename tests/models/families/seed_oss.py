"""Rows of seed_oss."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("seed_oss",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "seed_oss": ("SeedOssForCausalLM", t.sized("seed_oss", head_dim=10)),
        "seed_oss-biases": (
            "SeedOssForCausalLM",
            t.sized(
                "seed_oss",
                head_dim=8,
                attention_bias=False,
                attention_out_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
                rope_parameters=t.YARN,
            ),
        ),
    }

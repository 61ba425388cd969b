"""Rows of nanochat."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "nanochat": ("NanoChatForCausalLM", t.sized("nanochat")),
        "nanochat-biases": (
            "NanoChatForCausalLM",
            t.sized(
                "nanochat",
                attention_bias=True,
                tie_word_embeddings=True,
                final_logit_softcapping=None,
                rope_parameters=t.LINEAR,
            ),
        ),
    }

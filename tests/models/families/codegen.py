"""Rows of codegen."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "codegen": ("CodeGenForCausalLM", t.gpt("codegen", rotary_dim=6, n_ctx=32)),
        "codegen-tied": (
            "CodeGenForCausalLM",
            t.gpt(
                "codegen",
                rotary_dim=2,
                n_head=8,
                n_inner=40,
                tie_word_embeddings=True,
                activation_function="relu",
            ),
        ),
    }

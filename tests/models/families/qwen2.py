"""Rows of qwen2."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = (
    "qwen2",
    "qwen2-yarn",
)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "qwen2": ("Qwen2ForCausalLM", t.sized("qwen2", tie_word_embeddings=True)),
        "qwen2-yarn": ("Qwen2ForCausalLM", t.sized("qwen2", rope_parameters=t.YARN)),
        "qwen2-windows": (
            "Qwen2ForCausalLM",
            t.sized(
                "qwen2",
                use_sliding_window=True,
                sliding_window=4,
                max_window_layers=1,
                rope_parameters=t.YARN,
            ),
        ),
    }

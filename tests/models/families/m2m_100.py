"""Rows of m2m_100."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "m2m_100": (
            "M2M100ForConditionalGeneration",
            t.bart("m2m_100", max_position_embeddings=30),
        ),
        "m2m_100-narrow": (
            "M2M100ForConditionalGeneration",
            t.bart(
                "m2m_100",
                d_model=20,
                scale_embedding=False,
                activation_function="gelu",
                pad_token_id=0,
            ),
        ),
    }

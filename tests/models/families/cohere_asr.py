"""Row of cohere_asr."""

from typing import Any

KIND = "speech"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "cohere_asr": (
            "CohereAsrForConditionalGeneration",
            t.parakeet(
                "cohere_asr", vocab_size=37, hidden_size=32, intermediate_size=28,
                num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=20,
                attention_bias=False,
            ),
        ),
    }  # fmt: skip

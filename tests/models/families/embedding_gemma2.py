"""Rows of embedding_gemma2_text."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.sized("embedding_gemma2_text", head_dim=10, sliding_window=3)
    del sizes["tie_word_embeddings"]
    sizes |= {"hidden_size_per_layer_input": 6, "embedding_dim": 20, "global_head_dim": 12}
    return {
        "embedding_gemma2": (
            "EmbeddingGemma2TextModel",
            sizes | {"sliding_window_pattern": 2, "num_hidden_layers": 4},
        ),
    }

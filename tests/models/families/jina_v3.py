"""Rows of jina_embeddings_v3."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("jina_embeddings_v3",)
# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "jina_embeddings_v3": ("JinaEmbeddingsV3", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "jina_embeddings_v3": ("JinaEmbeddingsV3Model", t.encoder("jina_embeddings_v3")),
        "jina_embeddings_v3-scaled": (
            "JinaEmbeddingsV3Model",
            t.encoder(
                "jina_embeddings_v3",
                type_vocab_size=2,
                num_attention_heads=2,
                hidden_act="gelu_new",
                rope_parameters=t.LINEAR,
            ),
        ),
    }

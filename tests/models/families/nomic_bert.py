"""Rows of nomic_bert."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("nomic_bert",)
# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "nomic_bert": ("NomicBert", "MaskedLM SequenceClassification TokenClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "nomic_bert": ("NomicBertModel", t.encoder("nomic_bert")),
        "nomic_bert-relu": (
            "NomicBertModel",
            t.encoder(
                "nomic_bert",
                hidden_act="relu",
                type_vocab_size=3,
                num_attention_heads=2,
                rope_parameters=t.LINEAR,
            ),
        ),
    }

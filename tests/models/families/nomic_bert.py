"""Rows of nomic_bert."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("nomic_bert", "nomic_bert-plain-experts")
# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "nomic_bert": ("NomicBert", "MaskedLM SequenceClassification TokenClassification"),
}
# A published file's keys.
MIXED: dict[str, Any] = {
    "model_type": "nomic_bert", "vocab_size": 50, "n_embd": 24, "n_layer": 4, "n_head": 3,
    "n_inner": 40, "n_positions": 20, "type_vocab_size": 1, "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu", "rotary_emb_base": 10000, "rotary_emb_fraction": 1.0,
    "qkv_proj_bias": True, "mlp_fc1_bias": True, "mlp_fc2_bias": True, "moe_every_n_layers": 2,
    "num_experts": 5, "moe_top_k": 2, "prenorm": False, "causal": False,
}  # fmt: skip


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "nomic_bert": ("NomicBertModel", t.encoder("nomic_bert")),
        "nomic_bert-experts": ("NomicBertModel/experts", MIXED | {"experts_bias": True}),
        "nomic_bert-plain-experts": ("NomicBertModel/experts", MIXED | {"type_vocab_size": 2}),
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

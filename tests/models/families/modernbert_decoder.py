"""Rows of modernbert-decoder."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "modernbert_decoder": (
            "ModernBertDecoderForCausalLM",
            {
                "model_type": "modernbert-decoder",
                **t.NEOX,
                "pad_token_id": 0,
                "local_attention": 8,
                "tie_word_embeddings": True,
                "num_hidden_layers": 4,
            },
        ),
        "modernbert_decoder-biases": (
            "ModernBertDecoderForCausalLM",
            {
                "model_type": "modernbert-decoder",
                **t.NEOX,
                "pad_token_id": 0,
                "local_attention": 10,
                "norm_bias": True,
                "attention_bias": True,
                "mlp_bias": True,
                "decoder_bias": False,
                "classifier_bias": True,
                "classifier_activation": "relu",
                "hidden_activation": "silu",
                "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            },
        ),
    }

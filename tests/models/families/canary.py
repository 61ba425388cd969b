"""Row of canary."""

from typing import Any

KIND = "speech"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    decoder = {"model_type": "canary_decoder", "vocab_size": 37, "hidden_size": 24,
               "intermediate_size": 28, "num_hidden_layers": 2, "num_attention_heads": 4,
               "num_key_value_heads": 4, "head_dim": 5, "max_position_embeddings": 20,
               "hidden_act": "gelu"}  # fmt: skip
    return {
        "canary": (
            "CanaryForConditionalGeneration",
            t.parakeet(
                "canary", vocab_size=37, decoder_config=decoder, encoder={"scale_input": False}
            ),
        ),
    }

"""Rows of encoder-decoder."""

from typing import Any

KIND = "text_to_text"
DECODER: dict[str, Any] = {"is_decoder": True, "add_cross_attention": True}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    plain = t.encoder("bert", max_position_embeddings=30)
    other = t.encoder("roberta", max_position_embeddings=30, type_vocab_size=1, pad_token_id=1)
    return {
        "bert-bert": (
            "EncoderDecoderModel",
            {
                "model_type": "encoder-decoder",
                "vocab_size": 50,
                "encoder": plain,
                "decoder": plain | DECODER | {"hidden_act": "relu"},
            },
        ),
        "distilbert-roberta": (
            "EncoderDecoderModel",
            {
                "model_type": "encoder-decoder",
                "vocab_size": 50,
                "encoder": {
                    "model_type": "distilbert",
                    "vocab_size": 50,
                    "dim": 16,
                    "n_layers": 1,
                    "n_heads": 2,
                    "hidden_dim": 20,
                    "max_position_embeddings": 20,
                },
                "decoder": other | DECODER | {"tie_word_embeddings": False},
            },
        ),
    }

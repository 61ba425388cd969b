"""Rows of marian."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "marian": ("MarianMTModel", t.bart("marian", pad_token_id=96, activation_function="swish")),
        "marian-vocabularies": (
            "MarianMTModel",
            t.bart(
                "marian",
                pad_token_id=60,
                decoder_vocab_size=71,
                share_encoder_decoder_embeddings=False,
                scale_embedding=True,
            ),
        ),
    }

"""Rows of fsmt."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.bart("fsmt", src_vocab_size=97, tgt_vocab_size=83, pad_token_id=17)
    del sizes["vocab_size"]
    return {
        "fsmt": ("FSMTForConditionalGeneration", sizes | {"langs": ["en", "de"]}),
    }

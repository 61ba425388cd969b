"""Rows of bergamot."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        # make_marian_goldens.py makes these two.
        "bergamot": ("", t.bergamot()),
        "bergamot-attention": ("", t.bergamot(recurrent_decoder=False)),
    }

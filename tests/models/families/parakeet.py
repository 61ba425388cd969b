"""Rows of parakeet: its CTC model; its transducers have goldens of their own."""

from typing import Any

KIND = "waves"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {"parakeet": ("ParakeetForCTC", t.parakeet("parakeet_ctc", pad_token_id=12))}

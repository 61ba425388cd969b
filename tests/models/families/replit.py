"""Rows of replit_lm."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "replit": ("ReplitLM", t.REPLIT),
        "replit-learned": (
            "ReplitLM",
            {
                **t.REPLIT,
                "alibi": False,
                "attn_qk_ln": True,
                "attn_clip_qkv": None,
                "no_bias": False,
                "n_heads": 4,
                "softmax_scale": 0.3,
                "logit_scale": 0.5,
            },
        ),
    }

"""Rows of chatglm."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("chatglm-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "chatglm": ("ChatGLMModel", t.CHATGLM),
        "chatglm-gguf": ("ChatGLMModel", t.CHATGLM | {"kv_channels": 8}),
        "chatglm-biases": (
            "ChatGLMModel",
            {
                **t.CHATGLM,
                "rmsnorm": False,
                "multi_query_attention": False,
                "add_bias_linear": True,
                "rope_ratio": 1,
                "num_layers": 2,
                "kv_channels": 8,
            },
        ),
    }

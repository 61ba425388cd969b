"""Rows of BLIP-2 and InstructBLIP."""

from __future__ import annotations

from typing import Any


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is captioning.py."""
    vision = {
        "hidden_size": 24,
        "intermediate_size": 28,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 8,
    }
    queries = {
        "vocab_size": 300,
        "hidden_size": 20,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 22,
        "max_position_embeddings": 40,
        "encoder_hidden_size": 24,
    }
    opt = {
        "model_type": "opt",
        "vocab_size": 300,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "ffn_dim": 36,
        "max_position_embeddings": 60,
        "word_embed_proj_dim": 32,
        "bos_token_id": 256,
        "eos_token_id": 298,
        "pad_token_id": 1,
    }
    t5 = {
        "model_type": "t5",
        "vocab_size": 300,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 36,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 256,
        "eos_token_id": 298,
        "pad_token_id": 258,
        "feed_forward_proj": "gated-gelu",
    }
    llama = {**t.SEEING.TEXT, "model_type": "llama", "eos_token_id": 298, "pad_token_id": 1}
    special = ("<s>", "</s>", "<pad>", "<image>")

    def row(kind: str, text: Any, read: str, said: str, **queried: Any) -> Any:
        model = "blip-2" if kind == "Blip2" else "instructblip"
        config = {
            "model_type": model,
            "text_config": text,
            "num_query_tokens": 3,
            "vision_config": {**vision, **queried.pop("vision", {})},
            "qformer_config": {**queries, **queried},
            "image_token_index": 259,
        }
        begin = {"decoder_start_token_id": 256, "eos_token_id": 298, "pad_token_id": 258}
        return t.Row(
            f"{kind}ForConditionalGeneration",
            config,
            ("BlipImageProcessorPil", {"size": {"height": 32, "width": 32}}),
            said,
            special,
            begin if read == "encode" else {},
            read,
            spoken="<image>" * 3 + said,
        )

    return {
        "blip_2": row("Blip2", opt, "prompt", "Question: what? Answer:",
                      vision={"qkv_bias": False}),
        "blip_2_t5": row("Blip2", t5, "encode", "What is it?", cross_attention_frequency=1),
        "instructblip": row("InstructBlip", llama, "prompt", "Describe it.", hidden_act="relu"),
        "instructblip_t5": row(
            "InstructBlip", {**t5, "feed_forward_proj": "relu"}, "encode", "x y"
        ),
    }  # fmt: skip

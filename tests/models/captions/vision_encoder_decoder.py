"""Rows of TrOCR, Donut, Nougat and other pairs of an encoder of pictures and a decoder."""

from __future__ import annotations

from typing import Any


def rows(t: Any) -> dict[str, Any]:
    """The rows; `t` is captioning.py."""
    vit = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
           "intermediate_size": 28, "image_size": 32, "patch_size": 8}  # fmt: skip
    swin = {"image_size": [32, 24], "patch_size": 2, "embed_dim": 12, "depths": [2, 2],
            "num_heads": [2, 3], "window_size": 3, "mlp_ratio": 2.0}  # fmt: skip
    role = {"is_decoder": True, "add_cross_attention": True}
    words = {"vocab_size": 300, "d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4,
             "decoder_ffn_dim": 36, "max_position_embeddings": 40, **role}  # fmt: skip
    small = {"size": {"height": 32, "width": 32}}
    begin = {"decoder_start_token_id": 256, "eos_token_id": 257, "pad_token_id": 258}

    def row(encoder: Any, decoder: Any, processor: Any, **more: Any) -> Any:
        config = {"model_type": "vision-encoder-decoder", "encoder": encoder, "decoder": decoder}
        ends = {"forced_eos_token_id": 2} if decoder["model_type"] == "mbart" else {}
        return t.Row("VisionEncoderDecoderModel", config, processor, search=begin | ends, **more)

    return {
        "trocr": row(
            {"model_type": "deit", **vit},
            {"model_type": "trocr", **words, "cross_attention_hidden_size": 24,
             "scale_embedding": True, "pad_token_id": 258},
            ("ViTImageProcessorPil", small),
        ),
        "trocr_sines": row(
            {"model_type": "vit", **vit, "qkv_bias": False},
            {"model_type": "trocr", **words, "use_learned_position_embeddings": False,
             "layernorm_embedding": False, "tie_word_embeddings": False, "pad_token_id": 3,
             "activation_function": "relu"},
            ("ViTImageProcessorPil", small), text="A b", read="begin",
        ),
        "donut": row(
            {"model_type": "donut-swin", **swin},
            {"model_type": "mbart", **words, "scale_embedding": True, "d_model": 24,
             "encoder_layers": 2, "pad_token_id": 258},
            ("DonutImageProcessorPil", {"size": {"height": 32, "width": 24},
                                        "do_align_long_axis": True}),
            text="<s_docvqa><s_question>What?</s_question><s_answer>", read="begin",
            special=("<s>", "</s>", "<pad>", "<s_docvqa>", "<s_question>", "</s_question>",
                     "<s_answer>", "</s_answer>"),
            sizes=((30, 90), (50, 21)),
        ),
        "nougat": row(
            {"model_type": "donut-swin", **swin, "qkv_bias": False, "hidden_act": "relu"},
            {"model_type": "mbart", **words, "tie_word_embeddings": False, "pad_token_id": 258},
            ("NougatImageProcessorPil", {"size": {"height": 32, "width": 24}}),
        ),
        "beit_bert": row(
            {"model_type": "beit", **vit, "use_relative_position_bias": True},
            {"model_type": "bert", "vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2,
             "num_attention_heads": 4, "intermediate_size": 36, "max_position_embeddings": 40,
             **role},
            ("BeitImageProcessorPil", small),
        ),
        "swin_gpt2": row(
            {"model_type": "swin", **swin},
            {"model_type": "gpt2", "vocab_size": 300, "n_embd": 32, "n_layer": 2, "n_head": 4,
             "n_positions": 40, **role},
            ("ViTImageProcessorPil", {"size": {"height": 32, "width": 24}}),
        ),
    }  # fmt: skip

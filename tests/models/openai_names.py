"""What OpenAI's checkpoints of Whisper hold, of a model."""

from __future__ import annotations

from typing import Any

NAMES = {
    "model.": "", "layers.": "blocks.", "embed_tokens": "token_embedding", "fc1": "mlp.0",
    "embed_positions.weight": "positional_embedding", "fc2": "mlp.2",
    "self_attn_layer_norm": "attn_ln", "encoder_attn_layer_norm": "cross_attn_ln",
    "final_layer_norm": "mlp_ln", "encoder_attn.": "cross_attn.", "self_attn.": "attn.",
    "q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "out",
    "encoder.layer_norm": "encoder.ln_post", "decoder.layer_norm": "decoder.ln",
}  # fmt: skip


def held(m: Any) -> dict[str, Any]:
    """What OpenAI's checkpoint of a model holds: the sizes, and the state dict under its names."""
    tensors = {}
    for name, value in m.state_dict().items():
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        tensors[name] = value
    c = m.config
    return {
        "dims": {
            "n_mels": c.num_mel_bins,
            "n_vocab": c.vocab_size,
            "n_audio_ctx": c.max_source_positions,
            "n_audio_state": c.d_model,
            "n_audio_head": c.encoder_attention_heads,
            "n_audio_layer": c.encoder_layers,
            "n_text_ctx": c.max_target_positions,
            "n_text_state": c.d_model,
            "n_text_head": c.decoder_attention_heads,
            "n_text_layer": c.decoder_layers,
        },
        "model_state_dict": tensors,
    }

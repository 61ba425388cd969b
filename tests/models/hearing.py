"""The table of families that read texts with sounds: tiny configurations, sounds and texts.

Goldens lie in data/hearing/; tests/parity/make_hearing_goldens.py makes them with transformers.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt


def _seeing() -> ModuleType:
    path = Path(__file__).parent / "seeing.py"
    spec = importlib.util.spec_from_file_location("seeing", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["seeing"] = module
    spec.loader.exec_module(module)
    return module


SEEING = _seeing()
values_of, tokenizer_json = SEEING.values_of, SEEING.tokenizer_json
TEXT: dict[str, Any] = {**SEEING.TEXT, "num_hidden_layers": 2}


@dataclass(frozen=True)
class Row:
    """A row. kind: the class of transformers. config: config.json. special: the texts of special
    tokens, whose ids begin at 256. extractor: class and settings of the feature extractor;
    processor: class and settings of what has it. text: a prompt with its markers. seconds: of each
    sound. tokens: attributes of the tokenizer.
    """

    kind: str
    config: dict[str, Any]
    special: tuple[str, ...]
    extractor: tuple[str, dict[str, Any]]
    processor: tuple[str, dict[str, Any]]
    text: str
    seconds: tuple[float, ...] = (0.4, 1.3)
    tokens: dict[str, str] = field(default_factory=dict)


def sound(seconds: float, number: int) -> npt.NDArray[np.float32]:
    """A tone that rises, with noise: 16000 samples a second."""
    draw = np.random.default_rng(number + 3)
    at = np.arange(round(seconds * 16000) + 7) / 16000
    tone = 0.3 * np.sin(2 * np.pi * (200 + 150 * number + 500 * at) * at)
    return np.asarray(tone + draw.normal(0, 0.03, at.shape), np.float32)


MELS = {"feature_size": 8, "chunk_length": 1}
WHISPER = ("WhisperFeatureExtractor", MELS)
TOWER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 64, "num_mel_bins": 8, "max_source_positions": 50}  # fmt: skip


def rows() -> dict[str, Row]:
    """Every row by name."""
    older = {"d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 2,
             "encoder_ffn_dim": 20, "num_mel_bins": 8, "max_source_positions": 50,
             "activation_function": "relu"}  # fmt: skip
    chunks = {"d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 2,
              "encoder_ffn_dim": 20, "num_mel_bins": 8, "downsample_hidden_size": 5,
              "n_window_infer": 200, "output_dim": 48}  # fmt: skip
    glm = {k: v for k, v in TOWER.items() if k != "max_source_positions"}
    conformer = {"input_dim": 16, "num_layers": 3, "hidden_dim": 16, "feedforward_mult": 2,
                 "num_heads": 2, "dim_head": 6, "output_dim": 9, "context_size": 20,
                 "max_pos_emb": 25, "conv_kernel_size": 4}  # fmt: skip
    former = {"model_type": "blip_2_qformer", "hidden_size": 12, "num_hidden_layers": 2,
              "num_attention_heads": 3, "intermediate_size": 14, "encoder_hidden_size": 16,
              "cross_attention_frequency": 1}  # fmt: skip
    return {
        "qwen2_audio": Row(
            "Qwen2AudioForConditionalGeneration",
            {"model_type": "qwen2_audio", "audio_config": older, "audio_token_index": 256,
             "text_config": {**TEXT, "model_type": "qwen2"}},
            ("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>", "<|im_start|>", "<|im_end|>"),
            WHISPER, ("Qwen2AudioProcessor", {}),
            "<|audio_bos|><|AUDIO|><|audio_eos|>What? And <|AUDIO|>!", (0.4, 1.3),
        ),
        "voxtral": Row(
            "VoxtralForConditionalGeneration",
            {"model_type": "voxtral", "audio_token_id": 256,
             "audio_config": {**TOWER, "intermediate_size": 32},
             "projector_hidden_act": "relu",
             "text_config": {**TEXT, "model_type": "llama", "rope_theta": 500.0}},
            ("[AUDIO]", "[BEGIN_AUDIO]", "[INST]", "[/INST]", "[TRANSCRIBE]", "<s>", "</s>"),
            WHISPER, ("VoxtralProcessor", {}), "[INST][BEGIN_AUDIO][AUDIO]And?[AUDIO][/INST]",
        ),
        "audioflamingo3": Row(
            "AudioFlamingo3ForConditionalGeneration",
            {"model_type": "audioflamingo3", "audio_config": TOWER, "audio_token_id": 256,
             "projector_bias": False, "text_config": {**TEXT, "model_type": "qwen2"}},
            ("<sound>",), WHISPER, ("AudioFlamingo3Processor", {}), "Hear <sound>: what?", (1.3,),
        ),
        "glmasr": Row(
            "GlmAsrForConditionalGeneration",
            {"model_type": "glmasr", "audio_config": {**glm, "rope_parameters": {
                "rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5}},
             "audio_token_id": 256,
             "text_config": {**TEXT, "model_type": "llama", "rope_theta": 500.0}},
            ("<|pad|>", "<|begin_of_audio|>", "<|end_of_audio|>"),
            ("WhisperFeatureExtractor", {**MELS, "chunk_length": 2}),
            ("GlmAsrProcessor", {}), "<|begin_of_audio|><|pad|><|end_of_audio|>Write.", (2.3,),
        ),
        "qwen3_asr": Row(
            "Qwen3ASRForConditionalGeneration",
            {"model_type": "qwen3_asr", "audio_config": chunks, "audio_token_id": 256,
             "text_config": {**TEXT, "model_type": "qwen3"}},
            ("<|audio_pad|>", "<|audio_start|>", "<|audio_end|>", "<asr_text>"),
            ("Qwen3ASRFeatureExtractor", {"feature_size": 8}), ("Qwen3ASRProcessor", {}),
            "<|audio_start|><|audio_pad|><|audio_end|>", (2.3,),
            {"audio_token": "<|audio_pad|>", "audio_bos_token": "<|audio_start|>",
             "audio_eos_token": "<|audio_end|>"},
        ),
        "granite_speech": Row(
            "GraniteSpeechForConditionalGeneration",
            {"model_type": "granite_speech", "encoder_config": conformer,
             "projector_config": former, "audio_token_index": 256, "has_lora_adapter": False,
             "downsample_rate": 4, "window_size": 8,
             "text_config": {**TEXT, "model_type": "granite", "logits_scaling": 2.0}},
            ("<|audio|>",),
            ("GraniteSpeechFeatureExtractor", {"n_mels": 8, "projector_window_size": 8,
                                               "projector_downsample_rate": 4}),
            ("GraniteSpeechProcessor", {}), "<|audio|>can you transcribe?", (0.9,),
        ),
    }  # fmt: skip

"""Make the goldens of families of sound with transformers, from their table.

    python tests/parity/make_sound_goldens.py [ROW ...]

Needs torch, transformers and safetensors. Writes tests/models/data/sounds/ROW.safetensors for each
row of tests/models/sounds.py; as metadata config.json, preprocessor_config.json, and the names and
shapes of the checkpoint.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

MODELS = Path(__file__).parents[1] / "models"
_spec = importlib.util.spec_from_file_location("sounds", MODELS / "sounds.py")
assert _spec is not None and _spec.loader is not None
TABLE = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(TABLE)


def made(kind: str, settings: dict[str, Any]) -> tuple[Any, dict[str, Any], dict[str, list[int]]]:
    """The model with the table's values of what it saves, its config.json, names and shapes."""
    import transformers

    cls = getattr(transformers, kind)
    config = cls.config_class(**settings, architectures=[kind])
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        cls(config).save_pretrained(folder)
        file = Path(folder) / "model.safetensors"
        state = load_file(file)
        names = {n: list(t.shape) for n, t in state.items() if t.is_floating_point()}
        values = {
            n: torch.from_numpy(TABLE.values_of(n, tuple(t.shape))) if n in names else t
            for n, t in state.items()
        }
        save_file(values, file, metadata={"format": "pt"})
        model, report = cls.from_pretrained(folder, output_loading_info=True)
        assert not any(report.values()), report
        stored = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    return model.eval(), stored, names


def _ast(model: Any, extractors: Any) -> tuple[dict[str, Any], Any]:
    c = model.config
    extractor = extractors.ASTFeatureExtractor(
        num_mel_bins=c.num_mel_bins, max_length=c.max_length, mean=-3.0, std=2.0
    )
    sounds = [TABLE.sound_of(s, 16000)[0] for s in (0.21, 0.6)]
    features = extractor(sounds, sampling_rate=16000, return_tensors="pt").input_values
    return {"features": features, "out": model(features).logits}, extractor


def _clap(model: Any, extractors: Any) -> tuple[dict[str, Any], Any]:
    """Short recordings, and where pieces are fused one that is longer, whose pieces are drawn."""
    import numpy as np

    c = model.config.audio_config
    fused = c.enable_fusion
    extractor = extractors.ClapFeatureExtractor(
        feature_size=c.num_mel_bins,
        sampling_rate=16000,
        hop_length=400,
        max_length_s=1,
        fft_window_size=256,
        frequency_min=50,
        frequency_max=7000,
        truncation="fusion" if fused else "rand_trunc",
    )
    np.random.seed(3)
    sounds = [TABLE.sound_of(s, 16000)[0] for s in (0.4, 1.7 if fused else 1.0)]
    plain = torch.nn.functional.interpolate  # it asks for 64 bands, whatever their number
    torch.nn.functional.interpolate = lambda x, size, **more: plain(
        x, size=[size[0], x.shape[-1]], **more
    )
    given = extractor(sounds, sampling_rate=16000, return_tensors="pt")
    torch.nn.functional.interpolate = plain
    ids = torch.from_numpy(TABLE.ids_of())
    mask = (ids != 1).long()
    out = model(input_ids=ids, attention_mask=mask, **given).logits_per_audio
    text = model.get_text_features(ids, attention_mask=mask).pooler_output
    tensors = {"out": out, "texts": text, "features": given.input_features}
    return tensors | {"longer": given.is_longer[:, 0].to(torch.int32)}, extractor


def _encodec(model: Any, extractors: Any) -> tuple[dict[str, Any], Any]:
    """Codes of sound of an odd length at each bandwidth, and the sound of them."""
    c = model.config
    sound = torch.from_numpy(TABLE.sound_of(0.533, c.sampling_rate, c.audio_channels))[None]
    tensors = {}
    for i, bandwidth in enumerate(c.target_bandwidths):
        coded = model.encode(sound, bandwidth=bandwidth)
        tensors[f"codes:{i}"] = coded.audio_codes.to(torch.int16)
    tensors["out"] = model.decode(
        coded.audio_codes, coded.audio_scales, last_frame_pad_length=coded.last_frame_pad_length
    ).audio_values
    return tensors, None


def _codec(model: Any, extractors: Any) -> tuple[dict[str, Any], Any]:
    """Codes of sound of an odd length, and the sound of them."""
    sound = torch.from_numpy(TABLE.sound_of(0.533, model.config.sampling_rate))[None]
    codes = model.encode(sound).audio_codes
    out = model.decode(audio_codes=codes).audio_values
    return {"codes": codes.to(torch.int16), "out": out.reshape(1, 1, -1)}, None


def _latents(model: Any, extractors: Any) -> tuple[dict[str, Any], Any]:
    """Frames of numbers of sound of an odd length, and the sound of them."""
    sound = torch.from_numpy(TABLE.sound_of(0.533, model.config.sampling_rate))[None]
    latents = model.encode(sound).latents
    out = model.decode(latents).audio_values
    return {"latents": latents.transpose(1, 2), "out": out}, None


def _musicgen(model: Any, extractors: Any) -> tuple[dict[str, Any], Any]:
    """Logits of codes that are delayed, and the sound that is composed greedily, with guidance."""
    ids = torch.from_numpy(TABLE.ids_of())
    mask, c = (ids != 1).long(), model.config.decoder
    codes = torch.from_numpy(TABLE.codes_of(len(ids), c.num_codebooks, 5, c.vocab_size))
    melody = model.config.model_type == "musicgen_melody"
    heard = torch.from_numpy(TABLE.chroma_of(len(ids), 5))
    out = model(
        input_ids=ids,
        attention_mask=mask,
        decoder_input_ids=codes.reshape(-1, codes.shape[-1]),
        **({"input_features": heard} if melody else {}),
    ).logits[:, -codes.shape[-1] :]
    model.generation_config.pad_token_id = c.pad_token_id
    model.generation_config.decoder_start_token_id = c.pad_token_id
    model.generation_config.bos_token_id = c.pad_token_id
    sound = model.generate(
        input_ids=ids[:2],
        attention_mask=mask[:2],
        do_sample=False,
        guidance_scale=3.0,
        max_new_tokens=13,
    )
    return {"out": out.reshape(*codes.shape, -1), "sound": sound}, None


MAKERS = {
    "MusicgenForConditionalGeneration": _musicgen,
    "MusicgenMelodyForConditionalGeneration": _musicgen,
    "WavTokenizerModel": _codec,
    "MimiModel": _codec,
    "PocketTTSAudioTokenizerModel": _latents,
    "DacModel": _codec,
    "EncodecModel": _encodec,
    "ClapModel": _clap,
    "ASTForAudioClassification": _ast,
}


def main(rows: list[str]) -> None:
    import transformers

    torch.set_num_threads(1)
    for row in rows or list(TABLE.ROWS):
        kind, settings = TABLE.ROWS[row]
        model, config, names = made(kind, settings)
        with torch.no_grad():
            tensors, extractor = MAKERS[kind](model, transformers)
        metadata = {"config": json.dumps(config), "names": json.dumps(names)}
        if extractor is not None:
            metadata["extractor"] = json.dumps(json.loads(extractor.to_json_string()))
        place = MODELS / "data" / "sounds" / f"{row}.safetensors"
        place.parent.mkdir(exist_ok=True)
        save_file({n: t.contiguous() for n, t in tensors.items()}, place, metadata=metadata)
        print(row, place.stat().st_size, {n: tuple(t.shape) for n, t in tensors.items()})


if __name__ == "__main__":
    main(sys.argv[1:])

"""Make the goldens of voices that make codes or frames with transformers, from their table.

    python tests/parity/make_spoken_codes.py [ROW ...]

Writes tests/models/data/voices/ROW.safetensors for each row of tests/models/spoken_codes.py, with
config.json, and the checkpoint's names and shapes, as metadata. Noise is the table's.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

MODELS = Path(__file__).parents[1] / "models"
_spec = importlib.util.spec_from_file_location("spoken_codes", MODELS / "spoken_codes.py")
assert _spec is not None and _spec.loader is not None
TABLE = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(TABLE)


def made(kind: str, settings: dict[str, Any], prefix: str = "") -> tuple[Any, dict[str, list[int]]]:
    """The model of this class with the table's values, and its names and shapes."""
    cls: Any = getattr(transformers, kind)
    with tempfile.TemporaryDirectory() as folder:
        cls(cls.config_class(**settings, architectures=[kind])).save_pretrained(folder)
        file = Path(folder) / "model.safetensors"
        state = load_file(file)
        names = {f"{prefix}{n}": list(t.shape) for n, t in state.items() if t.is_floating_point()}
        for name, t in state.items():
            if t.is_floating_point():
                state[name] = torch.from_numpy(TABLE.values_of(f"{prefix}{name}", tuple(t.shape)))
        save_file(state, file, metadata={"format": "pt"})
        model = cls.from_pretrained(folder).eval()
    return model, names


def pocket(model: Any, codec: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Ends at each place of a text with a voice, and the samples of one without and with noise."""
    c = model.config
    ids, voice = torch.from_numpy(TABLE.ids_of(36)), torch.from_numpy(TABLE.frames_of(c.latent_dim))
    prompt = [c.audio_prompt_bos_token_id, *[c.audio_prompt_token_id] * voice.shape[1]]
    whole = torch.tensor([[*prompt, *ids[0].tolist(), c.audio_bos_token_id]])
    mask = torch.ones_like(whole)
    out = model(whole, audio_prompt_latents=voice).logits
    tensors = {"out": out}
    torch.randn = lambda *shape, **_: torch.from_numpy(TABLE.noise_of(tuple(shape)))
    for name, more in (("still", {}), ("drawn", {"do_sample": True, "temperature": 0.49})):
        latents = model.generate(
            input_ids=whole, attention_mask=mask, audio_prompt_latents=voice, num_flow_steps=2,
            eos_threshold=-4.0, min_frames_before_eos=3, frames_after_eos=2, max_new_tokens=18,
            **more,
        )  # fmt: skip
        [frames] = latents
        tensors[f"{name}:frames"] = frames
        tensors[name] = codec.decode(frames[None]).audio_values[0, 0]
    return tensors


def dia(model: Any, codec: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Logits of codes that follow a text, and samples of the likeliest codes with guidance."""
    c = model.config.decoder_config
    ids, codes = torch.from_numpy(TABLE.ids_of(256)), torch.from_numpy(TABLE.codes_of(5, 3, 16))
    out = model(ids, decoder_input_ids=codes).logits.reshape(3, 5, -1)[None]
    delays = model.config.delay_pattern
    most = 1 + max(delays)
    begun = torch.full((1, most, 3), c.pad_token_id)
    for book, delay in enumerate(delays):
        begun[:, : delay + 1, book] = c.bos_token_id
    model.generation_config.update(
        bos_token_id=c.bos_token_id, eos_token_id=c.eos_token_id, pad_token_id=c.pad_token_id,
        decoder_start_token_id=c.bos_token_id,
    )  # fmt: skip
    whole = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), decoder_input_ids=begun,
        decoder_attention_mask=torch.ones(1, most), do_sample=False, guidance_scale=2.0,
        top_k=6, max_length=24,
    )  # fmt: skip
    n = whole.shape[1] - int((whole[0, :, 0] == c.pad_token_id).sum()) - 2
    frames = torch.stack([whole[0, 1 + d : 1 + d + n, book] for book, d in enumerate(delays)])
    sound = codec.decode(audio_codes=frames[None]).audio_values.reshape(-1)
    return {"out": out, "codes": frames.to(torch.int16), "sound": sound}


def csm(model: Any, codec: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Logits of each code that follows a text, and samples of the likeliest ones."""
    c = model.config
    ids, codes = torch.from_numpy(TABLE.ids_of(36)), torch.from_numpy(TABLE.codes_of(4, 3, 16))
    x = torch.cat([model.embed_text_tokens(ids), model.backbone_model.embed_tokens(codes)], 1)
    states = model.backbone_model(inputs_embeds=x).last_hidden_state[:, ids.shape[1] - 1 : -1]
    deep = torch.nn.functional.pad(codes[0, :, :-1], (1, 0))
    rest = model.depth_decoder(input_ids=deep, backbone_last_hidden_state=states[0]).logits
    out = torch.cat([model.lm_head(states[0])[:, None], rest], 1)[None]
    model.generation_config.pad_token_id = c.pad_token_id
    whole = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=9,
        depth_decoder_do_sample=False,
    )  # fmt: skip
    sound = model.codec_model.decode(whole.transpose(1, 2)).audio_values.reshape(-1)
    return {"out": out, "codes": whole[0].T.to(torch.int16), "sound": sound}


def bark(model: Any, codec: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Logits of the first stage, and the likeliest samples without and with an earlier sentence."""
    ids = torch.from_numpy(TABLE.ids_of(20))
    kinds: Any = transformers.models.bark.generation_configuration_bark
    model.generation_config = kinds.BarkGenerationConfig(**TABLE.BARK_GENERATION)
    for stage in ("semantic_config", "coarse_acoustics_config", "fine_acoustics_config"):
        told = getattr(model.generation_config, stage).to_dict()
        setattr(model.generation_config, stage, told)
    most = TABLE.BARK_GENERATION["semantic_config"]["max_input_semantic_length"]
    padded = torch.nn.functional.pad(ids, (0, most - ids.shape[1]))
    mask = torch.nn.functional.pad(torch.ones_like(ids), (0, most - ids.shape[1]))
    before = {name: torch.from_numpy(codes) for name, codes in TABLE.prompt_of().items()}
    tensors = {"out": model.semantic(ids).logits}
    for name, prompt in (("sound", None), ("spoken", before)):
        sound = model.generate(padded, attention_mask=mask, history_prompt=prompt, do_sample=False)
        tensors[name] = sound.reshape(-1)
    return tensors


VOICES = {"pocket_tts": pocket, "dia": dia, "csm": csm, "bark": bark}


def main(rows: list[str]) -> None:
    for row in rows or TABLE.ROWS:
        kind, settings = TABLE.ROWS[row]
        model, names = made(kind, settings)
        config, codec = model.config.to_dict(), None
        if settings["model_type"] in TABLE.CODECS:
            codec_kind, codec_settings = TABLE.CODECS[settings["model_type"]]
            codec, more = made(codec_kind, codec_settings, "codec.")
            names |= more
            config["codec_config"] = codec.config.to_dict()
        with torch.no_grad():
            found = VOICES[settings["model_type"]](model, codec, settings)
        metadata = {"config": json.dumps(config), "names": json.dumps(names)}
        place = MODELS / "data" / "voices" / f"{row}.safetensors"
        tensors = {name: t.detach().contiguous() for name, t in found.items()}
        save_file(tensors, place, metadata=metadata)
        print(row, place.stat().st_size, {n: tuple(t.shape) for n, t in found.items()})


if __name__ == "__main__":
    main(sys.argv[1:])

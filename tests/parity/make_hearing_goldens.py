"""Make the goldens of families that read texts with sounds, with transformers.

    python tests/parity/make_hearing_goldens.py [ROW ...]

Needs torch, transformers, tokenizers and safetensors. For each row of tests/models/hearing.py it
writes tests/models/data/hearing/ROW.safetensors: "ids" and the processor's "features" of its text
and sounds, "logits" of every fifth token of the vocabulary (and of every second or so token of a
long prompt), "text", the same of a prompt without sounds, and "answer", the tokens that greedy
search adds; as metadata config.json and the checkpoint's names and shapes. Granite's features need
torchaudio, and Voxtral's tokens mistral_common: in their place stand the same sums by torch.stft
with transformers' filters, and the placeholders by the sizes of the features.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from transformers.audio_utils import mel_filter_bank

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


TABLE, PICTURES = _module(MODELS / "hearing.py"), _module(HERE / "make_picture_goldens.py")
NEW, PLACES, _class, model_of = (
    vars(PICTURES)[name] for name in ("NEW", "PLACES", "_class", "model_of")
)


def tokenizer_of(row: Any, folder: Path) -> Any:
    """transformers' tokenizer of a row."""
    (folder / "tokenizer.json").write_bytes(TABLE.tokenizer_json(row.special))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), pad_token=row.special[-1]
    )
    for name, value in row.tokens.items():
        setattr(tokenizer, name, value)
    return tokenizer


def granite_features(sound: Any, bins: int) -> torch.Tensor:
    """Pairs of frames as torchaudio's MelSpectrogram and the reference's extractor make them."""
    wave = torch.from_numpy(sound)[None]
    spectrum = torch.stft(
        wave, 512, 160, 400, torch.hann_window(400), center=True, return_complex=True
    )
    bank = mel_filter_bank(257, bins, 0.0, 8000.0, 16000, norm=None, mel_scale="htk")
    mels = (spectrum.abs() ** 2).transpose(1, 2) @ torch.from_numpy(bank).float()
    logs = mels.clip(min=1e-10).log10()
    logs = torch.maximum(logs, logs.amax() - 8.0) / 4 + 1
    return logs[:, : logs.shape[1] // 2 * 2].reshape(1, -1, 2 * bins)


def inputs_of(row: Any, folder: Path) -> tuple[dict[str, Any], Any]:
    """What the reference's model takes of the row's text and sounds, and the tokenizer."""
    tokenizer = tokenizer_of(row, folder)
    sounds = [TABLE.sound(seconds, i) for i, seconds in enumerate(row.seconds)]
    kind, marker = row.config["model_type"], row.special[0]
    name, settings = row.extractor
    if kind == "granite_speech":
        features = granite_features(sounds[0], settings["n_mels"])
        blocks = -(-features.shape[1] // settings["projector_window_size"])
        rows = blocks * (settings["projector_window_size"] // settings["projector_downsample_rate"])
        ids = tokenizer(row.text.replace(marker, marker * rows), return_tensors="pt")
        return {"input_ids": ids["input_ids"], "input_features": features}, tokenizer
    extractor = _class(name)(**settings)
    whole = _class(row.processor[0])
    if kind == "voxtral":
        processor = whole.__new__(whole)
        processor.feature_extractor = extractor
        window = settings["chunk_length"] * 16000
        features = processor._retrieve_input_features(
            sounds, window // 160, sampling_rate=16000, padding=True, truncation=False,
            pad_to_multiple_of=window, return_tensors="pt",
        )  # fmt: skip
        audio = row.config["audio_config"]
        rows = audio["max_source_positions"] * audio["hidden_size"] // audio["intermediate_size"]
        pieces = row.text.split(marker)
        text = pieces[0]
        for sound, piece in zip(sounds, pieces[1:], strict=True):
            text += marker * rows * -(-len(sound) // window) + piece
        ids = tokenizer(text, return_tensors="pt")
        return {"input_ids": ids["input_ids"], "input_features": features}, tokenizer
    processor = whole(feature_extractor=extractor, tokenizer=tokenizer, **row.processor[1])
    told = processor(text=[row.text], audio=sounds, sampling_rate=16000, return_tensors="pt")
    return {k: v for k, v in told.items() if k != "attention_mask"}, tokenizer


def make(name: str) -> None:
    row = TABLE.rows()[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model, names = model_of(row, folder)
        config = json.loads((folder / "config.json").read_text())
        told, tokenizer = inputs_of(row, folder)
        plain = tokenizer("A text alone.", return_tensors="pt")
    out = {"ids": told["input_ids"], "features": told["input_features"].float().contiguous()}
    step = -(-told["input_ids"].shape[1] // PLACES)
    ones = torch.ones_like(told["input_ids"])
    with torch.no_grad():
        logits = model(**told, attention_mask=ones).logits
        out["logits"] = logits[:, ::step, ::5].clone().contiguous()
        out["text"] = model(input_ids=plain["input_ids"]).logits[:, :, ::5].clone().contiguous()
        answer = model.generate(
            **told, attention_mask=ones, max_new_tokens=NEW, do_sample=False, eos_token_id=None,
            pad_token_id=0,
        )  # fmt: skip
    out["answer"] = answer[:, out["ids"].shape[1] :].contiguous()
    target = MODELS / "data" / "hearing" / f"{name}.safetensors"
    target.parent.mkdir(exist_ok=True)
    packed = base64.b85encode(zlib.compress(json.dumps(names).encode())).decode()
    save_file(out, target, {"config": json.dumps(config), "names": packed})
    gap = float(out["logits"].abs().max())
    print(f"{name}: {out['ids'].shape[1]} tokens, {target.stat().st_size} bytes, largest {gap:.3g}")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or TABLE.rows():
        try:
            make(chosen)
        except Exception:  # the others are made all the same
            import traceback

            print(chosen, *traceback.format_exc().splitlines()[-6:], sep="\n")

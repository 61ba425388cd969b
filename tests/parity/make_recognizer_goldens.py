"""Write what transformers makes of sound for recognizers: features, and texts of transducers.

Needs torch and transformers. Run from the repository root:

    python tests/parity/make_recognizer_goldens.py
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
PLACE = MODELS / "data" / "recognizers.safetensors"


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    table, sounds = _module(MODELS / "families.py"), _module(MODELS / "recognizers.py")
    samples = sounds.samples()
    tensors: dict[str, torch.Tensor] = {}
    seamless = transformers.SeamlessM4TFeatureExtractor(feature_size=20, num_mel_bins=20)
    told = seamless(samples, sampling_rate=16000, return_tensors="pt")
    tensors["seamless"] = told["input_features"][0, : int(told["attention_mask"].sum())]
    parakeet = transformers.ParakeetFeatureExtractor(feature_size=20)
    told = parakeet(samples, sampling_rate=16000, return_tensors="pt")
    tensors["parakeet"] = told["input_features"][0, : int(told["attention_mask"].sum())]
    names: dict[str, Any] = {}
    for row, (architecture, settings) in sounds.transducers(table).items():
        kind = getattr(transformers, architecture)
        config = kind.config_class(**settings, architectures=[architecture])
        model = kind(config).eval()
        state = {
            n: torch.from_numpy(table.values_of(n, tuple(t.shape)))
            for n, t in model.state_dict().items()
        }
        model.load_state_dict(state)
        names[row] = {
            "config": config.to_dict(),
            "names": {n: list(t.shape) for n, t in model.state_dict().items()},
        }
        features = torch.from_numpy(table.features_of(settings))[:1]
        ids = torch.from_numpy(table.decoder_ids_of(settings["vocab_size"]))[:1, :4]
        with torch.no_grad():
            tensors[f"{row}.logits"] = model(features, decoder_input_ids=ids).logits
            written = model.generate(
                features, decoder_start_token_id=settings["blank_token_id"], max_new_tokens=60
            )
        tensors[f"{row}.ids"] = written.sequences[0]
        tensors[f"{row}.durations"] = written.durations[0]
    metadata = {"models": json.dumps(names, default=str)}
    save_file({n: t.contiguous() for n, t in tensors.items()}, PLACE, metadata=metadata)
    print(PLACE, PLACE.stat().st_size, "bytes", {n: tuple(t.shape) for n, t in tensors.items()})


if __name__ == "__main__":
    main()

"""Make the goldens of adapters with PEFT, from the rows of tests/models/peft_rows.py.

    python tests/parity/make_adapter_goldens.py [ROW ...]

Needs torch, transformers, peft, safetensors and this package. Writes
tests/models/data/adapters/ROW.safetensors: what the adapted model gives under "out"; as metadata
the model's config.json, names and shapes, and the adapter's adapter_config.json, names and shapes.
Checks that PEFT reads what `save_adapter` writes, with equal results, names and configuration.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

import rushlight as rl

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
CONFIGS = {
    "LORA": peft.LoraConfig,
    "LOHA": peft.LoHaConfig,
    "IA3": peft.IA3Config,
    "TRAINABLE_TOKENS": peft.TrainableTokensConfig,
    "ADALORA": peft.AdaLoraConfig,
    "HIRA": peft.HiraConfig,
    "LOKR": peft.LoKrConfig,
    "OFT": peft.OFTConfig,
    "VERA": peft.VeraConfig,
}
# Those that we save as LoRA on the base as it is.
CONVERTED = ("pissa", "olora")


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _checkpoint(table: Any, row: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """The class of a row's model, saved with the table's values, and what it is given."""
    if "pixels_of" in vars(table):
        _, architecture, settings, size = table.ROWS[row]
        given = {"pixel_values": torch.from_numpy(table.pixels_of(size))}
    else:
        architecture, settings = (table.ROWS | table.HEADS)[row]
        if settings["model_type"] in table.WAVES:
            given = {"input_values": torch.from_numpy(table.features_of(settings))}
        else:
            given = {"input_ids": torch.from_numpy(table.ids_of(settings["vocab_size"]))}
        if settings["model_type"] in table.TEXT_TO_TEXT:
            ids = table.decoder_ids_of(settings["vocab_size"])
            given["decoder_input_ids"] = torch.from_numpy(ids)
    kind = getattr(transformers, architecture)
    kind(kind.config_class(**settings, architectures=[architecture])).save_pretrained(folder)
    file = folder / "model.safetensors"
    values = {n: table.values_of(n, tuple(t.shape)) for n, t in load_file(file).items()}
    save_file({n: torch.from_numpy(t) for n, t in values.items()}, file, metadata={"format": "pt"})
    return kind, given


def _base(kind: Any, folder: Path) -> Any:
    return kind.from_pretrained(folder, attn_implementation="eager").eval()


def _run(model: Any, given: dict[str, Any]) -> Any:
    with torch.no_grad():
        return model(**given).logits


def main(rows: list[str]) -> None:
    torch.set_num_threads(1)
    table = _module(MODELS / "peft_rows.py")
    for row in rows or table.ROWS:
        whose, of, kind, settings = table.ROWS[row]
        with tempfile.TemporaryDirectory() as place:
            folder, target, ours = (Path(place) / n for n in ("base", "adapter", "ours"))
            cls, given = _checkpoint(_module(MODELS / f"{whose}.py"), of, folder)
            made = peft.get_peft_model(_base(cls, folder), CONFIGS[kind](**settings))
            made.save_pretrained(target)
            file = target / "adapter_model.safetensors"
            stored = load_file(file)
            for n, t in stored.items():
                if not n.endswith(".base_layer.weight"):
                    stored[n] = torch.from_numpy(table.values_of(n, tuple(t.shape)))
            save_file(stored, file, metadata={"format": "pt"})
            out = _run(peft.PeftModel.from_pretrained(_base(cls, folder), target).eval(), given)
            plain = _run(_base(cls, folder), given)
            assert not torch.allclose(out, plain, atol=1e-2), f"{row}: the adapter does nothing"
            model = rl.models.load(folder, adapter=target)
            rl.adapters.save_adapter(model, ours)
            again = _run(peft.PeftModel.from_pretrained(_base(cls, folder), ours).eval(), given)
            converted = settings.get("init_lora_weights") in CONVERTED
            same = torch.allclose(again, out, atol=1e-4) if converted else torch.equal(again, out)
            assert same, f"{row}: save_adapter changes the results"
            written = load_file(ours / file.name)
            names = {n for n in stored if not n.endswith(".base_layer.weight")}
            assert set(written) == names, set(written) ^ names
            one, two = (peft.PeftConfig.from_pretrained(p).to_dict() for p in (target, ours))
            differ = {k for k in one if one[k] != two[k]} - {"peft_version", "auto_mapping"}
            assert converted or differ <= {"base_model_name_or_path", "init_lora_weights"}, differ
            metadata = {
                "config": (folder / "config.json").read_text(encoding="utf-8"),
                "names": json.dumps(
                    {n: list(t.shape) for n, t in load_file(folder / "model.safetensors").items()}
                ),
                "adapter_config": (target / "adapter_config.json").read_text(encoding="utf-8"),
                "adapter": json.dumps({n: list(t.shape) for n, t in stored.items()}),
            }
        golden = MODELS / "data" / "adapters" / f"{row}.safetensors"
        save_file({"out": out.contiguous()}, golden, metadata=metadata)
        print(row, golden.stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1:])

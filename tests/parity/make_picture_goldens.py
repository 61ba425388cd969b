"""Make the goldens of families that read texts with pictures, with transformers.

    python tests/parity/make_picture_goldens.py [ROW ...]

Needs torch, transformers, tokenizers, safetensors and Pillow. Writes
tests/models/data/pictures/ROW.safetensors for each row of tests/models/seeing.py: "ids" and the
processor's "input:NAME" of its text and pictures, "logits" of every fifth token of the vocabulary
(and of every second or so token of a long prompt),
"text", the same of a prompt without pictures, and "answer", the tokens that greedy search adds; as
metadata config.json and the checkpoint's names and shapes.
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

import numpy as np
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
NEW = 8  # tokens of an answer
MOST = 7000  # numbers of pixels that are stored whole; more are halved
LARGE = 30_000  # above this none is stored
PLACES = 60  # tokens whose logits are stored, at most


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


TABLE = _module(MODELS / "seeing.py")


def _class(name: str) -> Any:
    found = getattr(transformers, name, None)
    if found is None:
        raise SystemExit(f"transformers has no {name}")
    return found


def model_of(row: Any, folder: Path) -> tuple[Any, dict[str, list[int]]]:
    """The model with the table's values under the names that it saves, and their shapes."""
    if row.config["model_type"] == "fast_vlm":
        _module(HERE / "fastvit_reference.py").stand_in()
    kind = _class(row.kind)
    settings = {k: v for k, v in row.config.items() if k != "model_type"}
    config = transformers.AutoConfig.for_model(row.config["model_type"], **settings)
    torch.manual_seed(0)
    kind(config).save_pretrained(folder)
    names: dict[str, list[int]] = {}
    for path in folder.glob("*.safetensors"):
        tensors = load_file(path)
        names |= {n: list(v.shape) for n, v in tensors.items()}
        values = {
            n: torch.from_numpy(TABLE.values_of(n, tuple(v.shape))) for n, v in tensors.items()
        }
        save_file(values, path, {"format": "pt"})
    model, told = kind.from_pretrained(folder, output_loading_info=True)
    wrong = {k: v for k, v in told.items() if v and k in ("missing_keys", "unexpected_keys")}
    if wrong:
        raise SystemExit(f"{row.kind}: {wrong}")
    return model.eval(), names


def processor_of(row: Any, folder: Path) -> Any:
    """transformers' processor of a row."""
    (folder / "tokenizer.json").write_bytes(TABLE.tokenizer_json(row.special))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), **row.tokens
    )
    for name, value in row.tokens.items():
        if not hasattr(tokenizer, name):
            setattr(tokenizer, name, value)
    name, settings = row.processor
    pictures = _class(name)(**settings)
    name, more = row.whole
    if name == "FuyuProcessor":  # whose processor of pictures takes arrays only
        patches = pictures.patchify_image
        pictures.patchify_image = lambda image, **given: torch.from_numpy(
            patches(np.asarray(image), **given)
        )
    kind = _class(name)
    if name == "FuyuProcessor":  # which cuts off what its tokenizers write first
        marks = kind.replace_image_token
        kind.replace_image_token = lambda *given, **more: "_" + marks(*given, **more)
    kind.check_argument_for_proper_class = lambda *given: None  # a part of video is left out
    stands = row.videos == "pictures"  # that of videos needs torchvision
    kinds = {"video_processor": pictures if stands else _class(row.videos)()} if row.videos else {}
    videos: dict[str, Any] = kinds
    if name == "Gemma4Processor":
        videos["feature_extractor"] = _class("Gemma4AudioFeatureExtractor")()
    return kind(image_processor=pictures, tokenizer=tokenizer, **videos, **more)


def make(name: str) -> None:
    row = TABLE.rows()[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model, names = model_of(row, folder)
        config = json.loads((folder / "config.json").read_text())
        processor = processor_of(row, folder)
        images = [Image.fromarray(TABLE.picture(size, i)) for i, size in enumerate(row.sizes)]
        given = [images] if row.nested else images
        told = processor(text=[row.text], images=given, return_tensors="pt", **row.call)
        plain = processor.tokenizer("A text alone.", return_tensors="pt")
    if MOST < told["pixel_values"].numel() <= LARGE:  # the model is given what is stored
        told["pixel_values"] = told["pixel_values"].half().float()
    out: dict[str, torch.Tensor] = {"ids": told["input_ids"]}
    for key, value in told.items():
        if key not in ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids"):
            small = not value.is_floating_point() and int(value.max()) < 1 << 15
            out[f"input:{key}"] = value.to(torch.int16 if small else value.dtype).contiguous()
    if told["pixel_values"].numel() > LARGE:  # ours must be equal: they make the same numbers
        out = {key: value for key, value in out.items() if not key.startswith("input:")}
    elif told["pixel_values"].numel() > MOST:
        out["input:pixel_values"] = out["input:pixel_values"].half()
    step = -(-told["input_ids"].shape[1] // PLACES)
    with torch.no_grad():
        out["logits"] = model(**told).logits[:, ::step, ::5].clone().contiguous()
        out["text"] = model(input_ids=plain["input_ids"]).logits[:, :, ::5].clone().contiguous()
        answer = model.generate(
            **told, max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0
        )
    out["answer"] = answer[:, out["ids"].shape[1] :].contiguous()
    target = MODELS / "data" / "pictures" / f"{name}.safetensors"
    packed = base64.b85encode(zlib.compress(json.dumps(names).encode())).decode()
    save_file(out, target, {"config": json.dumps(config), "names": packed})
    gap = np.abs(out["logits"].numpy()).max()
    print(f"{name}: {out['ids'].shape[1]} tokens, {target.stat().st_size} bytes, largest {gap:.3g}")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or TABLE.rows():
        try:
            make(chosen)
        except Exception:  # the others are made all the same
            import traceback

            print(chosen, *traceback.format_exc().splitlines()[-6:], sep="\n")

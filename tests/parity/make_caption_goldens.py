"""Make the goldens of families that write texts of pictures, with transformers.

    python tests/parity/make_caption_goldens.py [ROW ...]

Needs torch, transformers, safetensors and Pillow. Writes tests/models/data/captions/ROW.safetensors
for each row of tests/models/captioning.py: the processor's "input:NAME" in float16, of which all
else is computed, "logits" of `IDS` (every fifth token), and "greedy" and "beams", the tokens that
searches add; as metadata config.json and the checkpoint's names and shapes.
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
from PIL import Image
from safetensors.torch import load_file, save_file

MODELS = Path(__file__).parents[1] / "models"
NEW = 8  # tokens of an answer
IDS = [[256, 70, 3, 111, 42], [256, 9, 10, 11, 12]]


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


TABLE = _module(MODELS / "captioning.py")


def _config(kind: Any, values: dict[str, Any]) -> Any:
    told = {k: v for k, v in values.items() if k != "model_type"}
    if "encoder" in told:
        return kind.config_class(**told)
    return kind.config_class(**told)


def model_of(row: Any, folder: Path) -> tuple[Any, dict[str, list[int]]]:
    """The model with the table's values under the names that it saves, and their shapes."""
    kind = getattr(transformers, row.kind)
    torch.manual_seed(0)
    kind(_config(kind, row.config)).save_pretrained(folder)
    names: dict[str, list[int]] = {}
    for path in folder.glob("*.safetensors"):
        stored = load_file(path)
        values = {
            n: torch.from_numpy(TABLE.SEEING.values_of(n, tuple(v.shape)))
            if v.is_floating_point()
            else v
            for n, v in stored.items()
        }
        names |= {n: list(v.shape) for n, v in stored.items() if v.is_floating_point()}
        save_file(values, path, {"format": "pt"})
    model, told = kind.from_pretrained(folder, output_loading_info=True)
    wrong = {k: v for k, v in told.items() if v and k in ("missing_keys", "unexpected_keys")}
    if wrong:
        raise SystemExit(f"{row.kind}: {wrong}")
    for module in model.modules():
        table = getattr(module, "weights", None)
        if isinstance(table, torch.Tensor) and table.is_meta:  # which loading leaves empty
            module.weights = module.get_embedding(*table.shape, module.padding_idx)
    return model.eval(), names


def make(name: str) -> None:
    row = TABLE.rows()[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model, names = model_of(row, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "tokenizer.json").write_bytes(TABLE.SEEING.tokenizer_json(row.special))
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(folder / "tokenizer.json")
        )
    kind, settings = row.processor
    processor = getattr(transformers, kind)(**settings)
    images = [Image.fromarray(TABLE.SEEING.picture(s, i)) for i, s in enumerate(row.sizes)]
    told = {k: v for k, v in processor(images, return_tensors="pt").items()}
    told = {k: v.half().float() if v.is_floating_point() else v for k, v in told.items()}
    out = {f"input:{k}": v.half() if v.is_floating_point() else v for k, v in told.items()}
    said = row.spoken or row.text
    text: Any = tokenizer(said, return_tensors="pt").input_ids if said else None
    if getattr(model, "qformer", None) is not None and "Instruct" in row.kind:
        asked = tokenizer(row.text, return_tensors="pt").input_ids
        told["qformer_input_ids"] = asked.expand(len(images), -1)
    if row.read in ("encode", "prompt", "choose"):
        out["ids"] = text
        told["input_ids"] = text.expand(len(images), -1)
    if row.read == "rows":  # of the text the rows and what is before them come first
        before, told["input_ids"] = text[:, :5].expand(2, -1), text.expand(2, -1)
        told["image_embeds_position_mask"] = torch.tensor([[0, 0, 1, 1, 1] + [0] * 99] * 2)
    ids = "input_ids" if row.read == "decode" else "decoder_input_ids"
    started = {}
    if row.read in ("begin", "decode") and text is not None:
        started = {ids: text.expand(len(images), -1)}
    with torch.no_grad():
        if row.read == "choose":
            out["logits"] = model(**told).logits
        elif not hasattr(model, "generate"):
            scored = model(**told), model(**told, use_itm_head=False)
            out["match"], out["cosine"] = (s.itm_score for s in scored)
        elif row.read == "prompt":
            out["logits"] = model(**told).logits[:, :, ::5].clone()
            out["greedy"] = model.generate(**told, max_new_tokens=NEW, do_sample=False)
        else:
            seen: list[torch.Tensor] = []  # of a decoder whose logits are not given on
            inner = model if row.read == "rows" else getattr(model, "text_decoder", model)
            hook = inner.register_forward_hook(lambda *given: seen.append(given[2].logits))
            if row.read == "rows":
                mask = told.pop("image_embeds_position_mask")
                asked = torch.cat([before, torch.tensor(IDS)], 1)
                model(**told | {"input_ids": asked, "image_embeds_position_mask": mask[:, :10]})
                told["image_embeds_position_mask"] = mask[:, : text.shape[1]]
            else:
                model(**told, **{ids: torch.tensor(IDS)})
            hook.remove()
            logits = seen[0]
            out["logits"] = logits[:, -len(IDS[0]) :, ::5].clone()
            for search, beams in (("greedy", 1), ("beams", 3)):
                out[search] = model.generate(
                    **{k: v.clone() for k, v in (told | started).items()}, max_new_tokens=NEW,
                    do_sample=False, num_beams=beams, **(row.search if row.given else {}),
                )  # fmt: skip
    out = {k: v.clone().contiguous() for k, v in out.items()}
    target = MODELS / "data" / "captions" / f"{name}.safetensors"
    packed = base64.b85encode(zlib.compress(json.dumps(names).encode())).decode()
    save_file(out, target, {"config": json.dumps(config), "names": packed})
    shown = {k: v.tolist() for k, v in out.items() if k in ("greedy", "beams", "match")}
    print(f"{name}: {target.stat().st_size} bytes, {shown}")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or TABLE.rows():
        make(chosen)

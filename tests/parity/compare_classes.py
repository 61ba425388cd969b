"""Load what every class of transformers saves, for each model_type that is served.

    python tests/parity/compare_classes.py [--json FILE] [KIND ...]

Needs torch, transformers, pytest, safetensors and this package. For a row of each model_type of
tests/models/families.py and vision.py, every class of transformers whose configuration is that of
the model_type is built with random weights, saved with save_pretrained and loaded here. Outcomes:

- equal NAME: what our model gives is the reference's result of that name: logits, or the hidden
  state of a model below the head; "tied" for logits of the embedding, where a class has no head;
- refused: a LoadError that names the class;
- none: the reference itself does not build or save the class;
- WRONG: our results are none of the reference's; ESCAPED: another exception. These are printed.

The kinds of `architectures` that tools leave are tried with the row's own class: absent, null, an
empty list, several, an unknown class.
"""

from __future__ import annotations

import argparse
import collections
import copy
import importlib
import importlib.util
import inspect
import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import rushlight as rl
from rushlight.models.families import families

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
CLOSE = 2e-4
MAPPED = ("ForInstanceSegmentation", "ForUniversalSegmentation", "ForObjectDetection")
LARGEST = 6_000_000  # parameters of a model that is computed


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


TEXT, SEEN = _module(MODELS / "families.py"), _module(MODELS / "vision.py")


def rows() -> Iterator[tuple[str, dict[str, Any], Any]]:
    """(class, config.json, size of pixels) of the first row of each model_type."""
    known, done = families(), set()
    for name, config in TEXT.ROWS.values():
        kind = config["model_type"]
        if kind not in done and kind in known and hasattr(transformers, name):
            done.add(kind)
            yield name, config, None
    for library, name, settings, size in SEEN.ROWS.values():
        kind = getattr(getattr(transformers, name, None), "config_class", None)
        if library == "transformers" and kind is not None and kind.model_type in known:
            if kind.model_type not in done:
                done.add(kind.model_type)
                yield name, {"model_type": kind.model_type} | settings, size


def classes_of(kind: Any) -> list[tuple[Any, str]]:
    """The classes of the module of `kind`, with the key of their configuration within that of it.

    The key is "" for those of the same configuration.
    """
    module = importlib.import_module(kind.__module__)
    parts = {"": kind.config_class, **getattr(kind.config_class, "sub_configs", {})}
    found = []
    for name in sorted(getattr(module, "__all__", ())):
        cls: Any = getattr(module, name)
        if not isinstance(cls, type) or not issubclass(cls, transformers.PreTrainedModel):
            continue
        if name.endswith("PreTrainedModel"):
            continue
        of_class = getattr(cls, "config_class", None)
        for key, config in parts.items():
            if of_class is config:
                found.append((cls, key))
                break
    return found


def given(config: dict[str, Any], size: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The inputs of transformers, and ours."""
    if size is not None:
        seen = config.get("vision_config", config)
        pixels = SEEN.pixels_of(size, seen.get("num_channels", 3))
        return {"pixel_values": pixels, "input_ids": SEEN.ids_of()}, (pixels,)
    kind, vocab = config["model_type"], config.get("vocab_size", 131)
    if kind in TEXT.SPEECH:
        both = TEXT.features_of(config), TEXT.decoder_ids_of(vocab)
        name = "input_features" if kind == "whisper" else "input_values"
        return {name: both[0], "decoder_input_ids": both[1]}, both
    if kind in TEXT.WAVES:
        return {"input_values": TEXT.features_of(config)}, (TEXT.features_of(config),)
    ids = TEXT.ids_of(vocab)
    if kind in TEXT.TEXT_TO_TEXT:
        both = ids, TEXT.decoder_ids_of(config.get("decoder_vocab_size") or vocab)
        return {"input_ids": ids, "decoder_input_ids": both[1]}, both
    return {"input_ids": ids}, (ids,)


def tensors_in(found: Any, at: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in a result, with the path to it."""
    if isinstance(found, torch.Tensor):
        yield at, found
    elif isinstance(found, dict):
        for key, value in found.items():
            yield from tensors_in(value, f"{at}.{key}".lstrip("."))
    elif isinstance(found, list | tuple):
        for i, value in enumerate(found):
            yield from tensors_in(value, f"{at}.{i}".lstrip("."))


def reference(model: Any, inputs: dict[str, Any]) -> list[tuple[str, np.ndarray]]:
    """The results of a model and of every model within it."""
    found: list[tuple[str, np.ndarray]] = []

    def note(module: Any, _: Any, out: Any) -> None:
        name = "" if module is model else "below."
        for path, t in tensors_in(out):
            if t.is_floating_point():
                found.append((name + path, t.detach().float().numpy()))

    for module in model.modules():
        if isinstance(module, transformers.PreTrainedModel) or "Encoder" in type(module).__name__:
            module.register_forward_hook(note)
    torches = {n: torch.from_numpy(x) for n, x in inputs.items()}
    if type(model).__name__.endswith("ForMultipleChoice"):
        torches = {n: t.unsqueeze(1) for n, t in torches.items()}
    taken = inspect.signature(model.forward).parameters
    torches = {n: t for n, t in torches.items() if n in taken}
    more = {"use_cache": False} if "use_cache" in taken else {}
    with torch.no_grad():
        try:
            model(**torches, **more, return_dict=True)
        except Exception:
            if not found and model.base_model is not model:
                model.base_model(**torches, return_dict=True)
    named = dict(found)
    if "start_logits" in named and "end_logits" in named:
        found.append(("logits", np.stack((named["start_logits"], named["end_logits"]), -1)))
    try:
        weight = getattr(model.get_input_embeddings(), "weight", None)
    except NotImplementedError:  # of a model of images and texts
        weight = None
    if weight is not None and weight.ndim != 2:
        weight = None
    for name, x in list(found):
        if weight is not None and x.ndim == 3 and x.shape[-1] == weight.shape[-1]:
            for scale in (1, x.shape[-1] ** -0.5):
                found.append((f"tied {name}", x @ weight.detach().numpy().T * scale))
    return found


def ours(model: Any, inputs: tuple[Any, ...], text: Any) -> Iterator[tuple[str, np.ndarray]]:
    """What our model gives."""
    x = [rl.tensor(one) for one in inputs]
    x = x[:1] if type(model).__name__ == "TextEncoder" else x
    names = ["logits"] if type(model).__name__ == "HeadedEncoder" else []
    with rl.no_grad():
        if type(model).__name__ in ("ClipModel", "ChineseClip"):
            for name, one in (("encode_image", x[0]), ("encode_text", text)):
                try:
                    yield name, getattr(model, name)(one).numpy()
                except Exception as error:
                    if not isinstance(error, (ValueError, rl.LoadError, AttributeError)):
                        raise
            return
        if names:
            yield "logits", model.logits(*x).numpy()
        if getattr(getattr(model, "spec", None), "headless", False):
            yield "hidden", model.hidden(*x).numpy()
            return
        for path, t in tensors_of(model(*x)):
            yield path or "forward", t


def tensors_of(found: Any, at: str = "") -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(found, rl.Tensor):
        yield at, found.numpy()
    elif isinstance(found, dict):
        for key, value in found.items():
            yield from tensors_of(value, key)
    elif isinstance(found, list | tuple):
        for i, value in enumerate(found):
            yield from tensors_of(value, f"{at}{i}")
    elif hasattr(found, "__dict__"):
        yield from tensors_of(vars(found), at)


def near(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        if a.size != b.size or a.shape[0] != b.shape[0]:
            return False
        if a.ndim == 3 and b.ndim == 4 and a.shape[2] == b.shape[1]:  # the places of a map
            b = b.transpose(0, 2, 3, 1)
        b = b.reshape(a.shape)
    return bool(np.abs(a - b).max() < CLOSE * max(np.abs(b).max(), 1e-3))


def outcome(
    model: Any, row: Any, folder: Path, inputs: dict[str, Any], mine: tuple[Any, ...]
) -> str:
    """The outcome of a saved `model`; row: the class of the row, which serves the model_type."""
    name = type(model).__name__
    LOG.clear()
    try:
        m = rl.models.load(folder)
    except rl.LoadError as error:
        named = name in str(error) or "architecture" in str(error)
        return "refused" if named else f"refused otherwise: {str(error)[:150]}"
    except Exception as error:
        return f"ESCAPED {type(error).__name__}: {str(error)[:150]}"
    if sum(p.numel() for p in model.parameters()) > LARGEST:
        return "large"
    wanted = reference(model, inputs)
    for kind in (transformers.AutoModel, row):
        try:
            made = kind.from_pretrained(folder, attn_implementation="eager").eval()
        except Exception:  # it has no such class
            continue
        wanted += [(f"{type(made).__name__} {n}", x) for n, x in reference(made, inputs)]
    told = [r for r in LOG if "float64" not in r]
    try:
        got = list(ours(m, mine, rl.tensor(inputs["input_ids"]) if "input_ids" in inputs else None))
    except Exception as error:
        if type(model) is row and name.endswith(MAPPED):
            return "other form, see the goldens"
        return f"ESCAPED in the call: {type(error).__name__}: {str(error)[:150]}"
    if not got:
        return "WRONG: gives nothing"
    seen = []
    for path, x in got:
        same = next((n for n, y in wanted if near(x, y)), None)
        if same is None and type(model) is row and name.endswith(MAPPED):
            return "other form, see the goldens"
        if same is None:
            return f"WRONG {path} {x.shape}; {[(n, y.shape) for n, y in wanted][:5]} {told}"
        seen.append(same)
    return f"equal {', '.join(seen)} | tasks {m.tasks} lacking {sorted(m.lacking)} | {told}"


LOG: list[str] = []


class Keeper(logging.Handler):
    """Keeps warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            LOG.append(record.getMessage()[:160])


def main() -> None:
    reader = argparse.ArgumentParser()
    reader.add_argument("--json")
    reader.add_argument("kinds", nargs="*")
    given_args = reader.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    logger = logging.getLogger("rushlight")
    logger.addHandler(Keeper())
    logger.propagate = False
    results: dict[str, str] = {}
    for name, config, size in rows():
        kind = getattr(transformers, name)
        if given_args.kinds and config["model_type"] not in given_args.kinds:
            continue
        for cls, key in classes_of(kind):
            torch.manual_seed(3)
            told = copy.deepcopy(config.get(key, {}) if key else config)
            label = f"{config['model_type']} {cls.__name__}"
            inputs, mine = given(config, size)
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                try:
                    if not key and not cls.__name__.endswith("Answering"):
                        told = {"num_labels": 3} | told
                    made = cls.config_class.from_dict(told)
                    made._attn_implementation = "eager"
                    model = cls(made).eval()
                    for p in model.parameters():
                        if p.requires_grad:
                            p.data += torch.randn_like(p) * 0.05
                    model.save_pretrained(folder)
                except Exception as error:
                    results[label] = f"none: {type(error).__name__} {str(error)[:80]}"
                    continue
                results[label] = outcome(model, kind, folder, inputs, mine)
                print(label, "->", results[label], flush=True)
                file = folder / "config.json"
                if cls is kind:
                    plain = json.loads(file.read_text())
                    for what, value in (
                        ("absent", ...),
                        ("null", None),
                        ("empty", []),
                        ("several", [*plain["architectures"], "OtherModel"]),
                        ("unknown", ["NoSuchModel"]),
                    ):
                        plain["architectures"] = value
                        if value is ...:
                            del plain["architectures"]
                        file.write_text(json.dumps(plain))
                        results[f"{label} {what}"] = outcome(model, kind, folder, inputs, mine)
                        print(label, what, "->", results[f"{label} {what}"], flush=True)
    counts = collections.Counter(v.split(" ")[0].strip(":") for v in results.values())
    print(dict(counts))
    if given_args.json:
        Path(given_args.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

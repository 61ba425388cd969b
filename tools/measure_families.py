"""Writes models/families/measured.toml and docs/models.md: how near families are to references.

    python tools/measure_families.py [cpu,webgpu] [MODEL_TYPE ...]

Each row of tests/models/families.py, vision.py and seeing.py, a small random checkpoint, is
computed on each device. An error is the largest difference from the reference's results, by the
largest of these; a family has the largest of its rows. Figures of a device that is not named stay,
and if families are named those of all others.
"""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors
from rushlight.models.families import families, measured

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "models"
FILE = ROOT / "models" / "families" / "measured.toml"
PAGE = ROOT / "docs" / "models.md"
SCRIPT = "float64 script"  # beside the goldens, written from the published architecture
# What is no class of transformers, and what has tables and tests of its own.
REFERENCES = {"bergamot": SCRIPT, "chatglm": SCRIPT, "replit_lm": SCRIPT, "model2vec": SCRIPT,
              "static_embedding": SCRIPT, "rwkv5": "rwkv", "rwkv6": "rwkv", "rwkv7": "rwkv",
              "mobile_sam": "timm, transformers", "yolov3": SCRIPT, "u2net": "onnxruntime",
              "silero_vad": "onnxruntime", "resemblyzer": "resemblyzer", "crepe": "torchcrepe",
              "chronos_bolt": "chronos-forecasting", "craft_crnn": "easyocr",
              "mtcnn": "facenet-pytorch", "pyannote_segmentation": SCRIPT,
              "fast_vlm": f"{SCRIPT}, transformers"}  # fmt: skip
REFERENCES |= dict.fromkeys(  # their code is on the hub
    ("PanguEmbedded", "bailing_moe", "bailing_moe_v2", "codeshell", "deepseek", "gpt_refact",
     "jais", "kokoro", "maincoder", "maple", "mobilellm", "nanbeige", "neobert", "openelm", "plm",
     "qwen", "smallthinker", "snac", "spark2_5"), SCRIPT,
)  # fmt: skip
HEAD = """# Model families

`rushlight models` prints this table; `tools/measure_families.py` writes it. Errors are those of
small random checkpoints: the largest difference from the reference, by its largest result, in the
worst of a family's rows in `tests/models/families/`, `pictures/` and `vision.py`. Each runs on
`cpu` and `webgpu`, natively and in the tab. A family without figures has tests of its own, on real
weights.

| model_type | formats | reference | error, cpu | error, webgpu | what it is |
| --- | --- | --- | --- | --- | --- |
"""


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, TESTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _off(found: Any, wanted: Any) -> float:
    """The largest difference, by the largest number."""
    a, b = found.numpy().astype(np.float64), wanted.numpy().astype(np.float64)
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def texts(device: str, only: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """(model_type, reference, error) of each row of families.py."""
    table, tests = _module("families"), _module("test_families")
    for row, (_, config) in table.ROWS.items():
        if only and config["model_type"] not in only:
            continue
        model = tests.model(row, table, device)
        logits = rl.from_numpy(tests.run(model, *tests.given(row, table)))
        kind = str(tests.metadata(row)[0]["model_type"])
        yield kind, "transformers", _off(logits, rl.from_numpy(tests.golden(row)[0]))


def images(device: str, only: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """The same of vision.py: logits, or what a model has in place of them."""
    if only and not any(".vision." in families()[kind] for kind in only):
        return
    tests = _module("test_vision")
    for row, (source, _, _, size) in tests.table.ROWS.items():
        model, golden = (
            tests.model(row, device),
            load_safetensors(tests.DATA / f"{row}.safetensors"),
        )
        made, channels = tests.table, tests.channels(model)
        frames = getattr(model, "frames", 0)
        seen = made.frames_of(size, frames, channels) if frames else made.pixels_of(size, channels)
        pixels = rl.tensor(seen, device=device)
        ids = rl.tensor(tests.table.ids_of(), device=device)
        with rl.no_grad():
            if row == "clip-text":
                result = model(ids)
            elif getattr(model.config, "task", "classify") != "classify":
                result = model.seen(pixels)[0].sigmoid()
            elif row.startswith(("sam", "mobile_sam")):
                result = model.encode_image(pixels)
            elif row.startswith("grounding"):
                result = model.detect(pixels, rl.tensor(made.phrases_of(), device=device))[0]
            elif row.startswith("clipseg"):
                result = model(ids, pixels)
            elif row.startswith("owl"):
                result = model.ground(pixels, model.encode_text(ids))[0]
            elif "masks" in golden:
                result = model.seen(pixels)[0]
            elif "out" not in golden:  # of a backbone
                result = model.encode_image(pixels)
            else:
                result = model(ids, pixels) if "texts" in golden else model(pixels)
        yield (
            model.config.model_type,
            source,
            _off(result, golden["out" if "out" in golden else "features"]),
        )


def series(device: str, only: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """The same of series.py: forecasts."""
    tests = _module("test_time_series_forecasting")
    for row, (_, config) in tests.table.ROWS.items():
        kind = "chronos_bolt" if "chronos_config" in config else str(config["model_type"])
        if only and kind not in only:
            continue
        found = rl.from_numpy(tests.forecasts(tests.model(row, device), row)[0])
        golden = load_safetensors(tests.DATA / f"{row}.safetensors")["out"]
        yield kind, "transformers", _off(found, golden)


def pictures(device: str, only: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """The same of seeing.py: logits of prompts with pictures."""
    if only and not any(".multimodal." in families()[kind] for kind in only):
        return
    tests = _module("test_pictures")
    for name, row in tests.ROWS.items():
        kind = row.config["model_type"]
        if only and kind not in only:
            continue
        golden = load_safetensors(tests.DATA / f"{name}.safetensors")
        model = tests.model(name, device)
        with rl.no_grad():
            inputs = tests.inputs_of(model, name, golden)
            logits = model(golden["ids"].to(device), **inputs)
        wanted = golden["logits"]
        step = -(-logits.shape[1] // wanted.shape[1])
        yield kind, "transformers", _off(logits.to("cpu")[:, ::step, ::5], wanted)


def hearing(device: str, only: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """The same of hearing.py: logits of prompts with sounds."""
    if only and not any(".hearing." in families()[kind] for kind in only):
        return
    tests = _module("test_hearing")
    for name, row in tests.ROWS.items():
        kind = row.config["model_type"]
        if only and kind not in only:
            continue
        golden, model = load_safetensors(tests.DATA / f"{name}.safetensors"), tests.made(name)
        model = model.to(device)
        inputs = model.sound_prompt(row.text, tests.sounds_of(name)).inputs(device)
        inputs["features"] = golden["features"].reshape(*inputs["features"].shape).to(device)
        with rl.no_grad():
            logits = model(golden["ids"].to(device), **inputs)
        wanted = golden["logits"]
        step = -(-logits.shape[1] // wanted.shape[1])
        yield kind, "transformers", _off(logits.to("cpu")[:, ::step, ::5], wanted)


def captions(device: str, only: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """The same of captioning.py: logits of what is said of pictures."""
    if only and not any(".multimodal." in families()[kind] for kind in only):
        return
    tests = _module("test_captions")
    for name in [*tests.WRITE, *tests.CHOOSERS]:
        model, golden = (
            tests.model(name, device),
            load_safetensors(tests.DATA / f"{name}.safetensors"),
        )
        kind = model.config.model_type
        if only and kind not in only:
            continue
        with rl.no_grad():
            if name in tests.CHOOSERS:
                pixels = golden["input:pixel_values"].float().to(device)
                yield (
                    kind,
                    "transformers",
                    _off(model(golden["ids"].to(device), pixels), golden["logits"]),
                )
                continue
            made = tests.sources(model, name)
            memory = model.memory_of(*model.place_sources(made, model.source_width(made), 0))
            logits = model.decode(rl.tensor(tests.IDS, device=device), memory)
        yield kind, "transformers", _off(logits[:, :, ::5], golden["logits"])


def sounds(device: str, only: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """The same of sounds.py: logits, or the sound of codes."""
    if only and not any(".sound." in families()[kind] for kind in only):
        return
    tests = _module("test_sounds")
    for row in tests.table.ROWS:
        model, golden = tests.model(row, device), tests.golden(row)
        if only and model.config.model_type not in only:
            continue
        with rl.no_grad():
            result = tests.result_of(model, row, golden)
        yield model.config.model_type, "transformers", _off(result, rl.tensor(golden["out"]))
    if only and "snac" not in only:
        return
    model, golden = tests.model("snac", device), tests.golden("snac")
    codes = [rl.tensor(golden[f"codes:{i}"].astype(np.int64), device=device) for i in range(3)]
    result = model.decode(codes, lambda n: np.cos(np.arange(n)))
    yield "snac", SCRIPT, _off(result, rl.tensor(golden["out"]))


def spoken(device: str, only: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """The same of spoken_codes.py: what a voice's model gives of a text and what follows."""
    if only and not any(".voices." in families()[kind] for kind in only):
        return
    tests = _module("test_spoken_codes")
    for row in tests.table.ROWS:
        model, golden = tests.model(row, device), tests.golden(row)
        with rl.no_grad():
            result, wanted = tests.result_of(model, golden)
        yield model.config.model_type, "transformers", _off(result, rl.tensor(wanted))


def write(table: dict[str, dict[str, Any]]) -> None:
    """The file and the page."""
    lines = ["# Written by tools/measure_families.py: references, and errors beside them.\n"]
    for kind in sorted(families()):
        lines.append(f"\n[{kind}]\n")
        lines += [f"{k} = {v!r}\n".replace("'", '"') for k, v in sorted(table[kind].items())]
    FILE.write_text("".join(lines), encoding="utf-8")
    measured.cache_clear()
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page of the table."""
    from rushlight.cli.commands import family_rows

    rows = []
    for row in family_rows():
        errors = [f"{row[d]:.1e}" if row[d] is not None else "" for d in ("cpu", "webgpu")]
        cells = [
            row["model_type"],
            ", ".join(row["formats"]),
            row["reference"],
            *errors,
            row["about"],
        ]
        rows.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)


def main(devices: list[str], only: Sequence[str] = ()) -> None:
    table: dict[str, dict[str, Any]] = {kind: {} for kind in families()}
    if FILE.is_file():
        for kind, row in tomllib.loads(FILE.read_text(encoding="utf-8")).items():
            table.get(kind, {}).update(
                {k: v for k, v in row.items() if k not in devices or (only and kind not in only)}
            )
    sources: dict[str, set[str]] = {}
    for device in devices:
        for read in (texts, images, series, pictures, hearing, captions, sounds, spoken):
            for kind, source, off in read(device, only):
                if only and kind not in only:
                    continue
                sources.setdefault(kind, set()).add(source)
                table[kind][device] = float(f"{max(table[kind].get(device, 0.0), off):.1e}")
                print(device, kind, f"{off:.1e}", flush=True)
    for kind, module in families().items():
        kin = {s for k, m in families().items() if m == module for s in sources.get(k, ())}
        if only and kind not in only:
            continue
        if only and not sources.get(kind) and table[kind].get("reference"):
            continue
        named = REFERENCES.get(kind) or ", ".join(sorted(sources.get(kind) or kin))
        told = (table[k].get("reference") for k, m in families().items() if m == module)
        table[kind]["reference"] = named or next(filter(None, told), "transformers")
    write(table)


if __name__ == "__main__":
    main((sys.argv[1] if len(sys.argv) > 1 else "cpu,webgpu").split(","), sys.argv[2:])

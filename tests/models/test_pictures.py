"""Every family that reads texts with pictures: prompts, pixels, logits and answers are the same."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables

HERE = Path(__file__).parent
DATA = HERE / "data" / "pictures"
_spec = importlib.util.spec_from_file_location("seeing", HERE / "seeing.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
sys.modules["seeing"] = table
_spec.loader.exec_module(table)
ROWS = table.rows()


def files_of(name: str) -> dict[str, bytes]:
    """The small files of a row's checkpoint."""
    row = ROWS[name]
    config = open_tables(DATA / f"{name}.safetensors")[0][1].metadata["config"]
    kind, settings = row.processor
    pictures = {**settings, "image_processor_type": kind.removesuffix("Pil")}
    whole, more = row.whole
    return {
        "config.json": config.encode(),
        "preprocessor_config.json": json.dumps(pictures).encode(),
        "processor_config.json": json.dumps({"processor_class": whole, **more}).encode(),
        "tokenizer.json": table.tokenizer_json(row.special),
        "tokenizer_config.json": json.dumps(row.tokens).encode(),
    }


@cache
def model(name: str, device: str = "cpu") -> Any:
    told = open_tables(DATA / f"{name}.safetensors")[0][1].metadata["names"]
    names = json.loads(zlib.decompress(base64.b85decode(told)))
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    return rl.models.assemble(files_of(name), tensors, device=device)


def prompt(m: Any, name: str) -> Any:
    row = ROWS[name]
    images = [table.picture(size, i) for i, size in enumerate(row.sizes)]
    return m.picture_prompt(row.text, images)


def close(values: Any, wanted: Any, share: float = 1e-4) -> None:
    largest = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(values / largest, wanted / largest, rtol=0, atol=share)


@pytest.mark.parametrize("name", ROWS)
def test_prompts_and_pixels_agree(name: str) -> None:
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    made = prompt(m, name)
    assert made.ids == golden["ids"].numpy()[0].tolist()
    inputs = made.inputs()
    for key, t in golden.items():
        kind, _, label = key.partition(":")
        if kind != "input":
            continue
        label = "pixels" if label == "pixel_values" else label
        if label not in inputs:  # what the model does not read
            continue
        values, wanted = inputs[label].numpy(), t.to(inputs[label].dtype).numpy()
        wanted = wanted.reshape(values.shape)
        if label == "pixels":
            step = np.abs(np.diff(np.unique(np.round(wanted, 5)))).min() if wanted.size else 0.0
            np.testing.assert_allclose(values, wanted, rtol=0, atol=max(2.2 * step, 0.02))
        else:
            np.testing.assert_array_equal(values, wanted)


def inputs_of(m: Any, name: str, golden: Any) -> dict[str, Any]:
    """The reference's inputs, so that a rounding of a pixel does not count."""
    made = prompt(m, name).inputs()
    out = dict(made)
    for label in made:
        key = f"input:{'pixel_values' if label == 'pixels' else label}"
        if key in golden:
            out[label] = golden[key].reshape(*made[label].shape).to(made[label].dtype)
    return {label: t.to(m.device) for label, t in out.items()}


@pytest.mark.parametrize("name", ROWS)
def test_logits_agree(name: str) -> None:
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    with rl.no_grad():
        logits = m(golden["ids"], **inputs_of(m, name, golden))
        step = -(-logits.shape[1] // golden["logits"].shape[1])
        close(logits.numpy()[:, ::step, ::5], golden["logits"].numpy())
        plain = m.prompt_ids("A text alone.")
        if ROWS[name].alone:
            close(m(rl.tensor([plain])).numpy()[:, :, ::5], golden["text"].numpy())


@pytest.mark.parametrize("name", ROWS)
def test_answers_agree(name: str) -> None:
    """By the cache and in parts, twice: the second time all but the last token is cached."""
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    wanted = golden["answer"].numpy()[0].tolist()
    ends, m.eos_ids = m.eos_ids, frozenset()
    try:
        for _ in range(2):
            made = prompt(m, name)
            ids = [t.id for t in m.tokens(made, max_new_tokens=len(wanted), temperature=0)]
            assert ids == wanted
        batch = m.generate_batch([made, "A text alone."], max_new_tokens=4, temperature=0)
        alone = "".join(m.generate("A text alone.", max_new_tokens=4, temperature=0))
        assert batch == [m.tokenizer.decode(wanted[:4]), alone]
    finally:
        m.eos_ids = ends


def test_every_family_has_a_row() -> None:
    from rushlight.models.families import families

    room = "rushlight.models.families.multimodal."
    kinds = {kind for kind, module in families().items() if module.startswith(room)}
    assert {row.config["model_type"] for row in ROWS.values()} >= kinds

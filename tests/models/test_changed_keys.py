"""Keys of config.json that differ from a row's: the reference's results, or an error by name.

The goldens in data/changed_keys are of flags the other way, null, and absent and optional keys, one
by one and all at once; tests/parity/compare_configs.py makes them.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.families import measured
from rushlight.models.reference import reference_keys

HERE = Path(__file__).parent
DATA = HERE / "data" / "changed_keys"
CLOSE: Any = {"rtol": 2e-4, "atol": 1e-4}
# What files of the hub carry beside the keys of a model.
WILD: dict[str, Any] = {
    "output_past": True, "directionality": "bidi", "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3, "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform", "language": "english", "name": "Bert", "n_ctx": 1024,
    "max_sequence_length": 2048, "model_max_length": 4096, "layers_to_keep": [0, 2, 4],
    "generator_size": "large", "cache_implementation": "hybrid", "loss_type": "ForCausalLMLoss",
    "license": "apache-2.0", "_name_or_path": "x", "transformers.js_config": {"dtype": "q4"},
    "unsloth_fixed": True, "use_mrope": True, "is_llama_config": True, "unk_token_id": 3,
    "rope_interleaved": True, "task_specific_params": {"a": {"b": 1}}, "exported": None,
    "pruned_heads": {"0": [1]}, "summary_type": "first", "max_length": 20, "top_k": 3,
    "finetuning_task": "sst-2", "tie_weights_": True, "n_layers_to_skip": 3, "attn_softcap": False,
}  # fmt: skip


def goldens() -> list[str]:
    return sorted(path.stem for path in DATA.glob("*.json"))


class Row:
    """A row of families.py or vision.py: its file, tensors and results."""

    def __init__(self, name: str, text: ModuleType, seen: ModuleType) -> None:
        self.text = (HERE / "data" / "families" / f"{name}.safetensors").exists()
        folder = "families" if self.text else "vision"
        path = HERE / "data" / folder / f"{name}.safetensors"
        told = open_tables(path)[0][1].metadata
        self.table, self.name, self.seen = (text if self.text else seen), name, seen
        self.config: dict[str, Any] = json.loads(told["config"])
        self.names = json.loads(told["names"]) if self.text else seen.names_of(told["names"])
        self.golden = {n: t.numpy() for n, t in load_safetensors(path).items()}

    def model(self, config: dict[str, Any], names: dict[str, Any] | None = None) -> Any:
        shapes = self.names if names is None else names
        tensors = {n: rl.tensor(self.table.values_of(n, tuple(s))) for n, s in shapes.items()}
        tensors |= {
            n.removeprefix("given:"): rl.tensor(v)
            for n, v in self.golden.items()
            if n.startswith("given:")
        }
        return rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors)

    def out(self, m: Any, rows: ModuleType, looks: ModuleType) -> npt.NDArray[Any]:
        """Logits, or what stands for them in the goldens."""
        with rl.no_grad():
            found: npt.NDArray[Any]
            if self.text:
                given = rows.given(self.name, self.table)
                found = m(*(rl.tensor(x) for x in given)).numpy()
                return found
            pixels = rl.tensor(self.seen.pixels_of(self.seen.ROWS[self.name][3], looks.channels(m)))
            if "masks" in self.golden and hasattr(m, "seen"):
                found = m.seen(pixels)[0].numpy()
                return found
            ids, words = (
                rl.tensor(self.seen.ids_of()),
                self.config["model_type"] == "clip_text_model",
            )
            found = m(
                *([ids] if words or "texts" in self.golden else []), *([] if words else [pixels])
            ).numpy()
            return found


def changed(config: dict[str, Any], changes: list[list[Any]]) -> dict[str, Any]:
    found = copy.deepcopy(config)
    for path, *value in changes:
        *outer, name = path.split(".")
        told = found
        for key in outer:
            told = told[key]
        if value:
            told[name] = value[0]
        else:
            told.pop(name, None)
    return found


def agrees(row: Row, m: Any, rows: ModuleType, looks: ModuleType) -> None:
    """The results of a model are the row's goldens."""
    if row.text:
        np.testing.assert_allclose(row.out(m, rows, looks), row.golden["out"], **CLOSE)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looks, "model", lambda name: m)
        looks.test_logits_and_features_agree(row.name)


@pytest.mark.parametrize("name", goldens())
def test_changed_keys_give_the_references_results_or_are_named(
    name: str, table: ModuleType, rows: ModuleType, vision: ModuleType, looks: ModuleType
) -> None:
    row, told = Row(name, table, vision), json.loads((DATA / f"{name}.json").read_text())
    for changes in told["same"]:
        agrees(row, row.model(changed(row.config, changes)), rows, looks)
    for change in told["refused"]:
        with pytest.raises((rl.FormatError, rl.LoadError), match=change[0].rpartition(".")[2]):
            row.model(changed(row.config, [change]))
    altered = [([change], *rest) for change, *rest in told["altered"]]
    for changes, values, other, gone in [*altered, *told["at_once"]]:
        names = {n: s for n, s in (row.names | other).items() if n not in gone}
        found = row.out(row.model(changed(row.config, changes), names), rows, looks).reshape(-1)
        some = found[np.linspace(0, len(found) - 1, len(values)).astype(int)]
        largest = max(1.0, float(np.abs(found).max()))
        np.testing.assert_allclose(some / largest, np.array(values) / largest, **CLOSE)


def test_every_family_of_transformers_has_such_goldens(table: ModuleType) -> None:
    figures = measured()
    kinds = {config["model_type"] for _, config in table.ROWS.values()}
    known = {table.ROWS[name][1]["model_type"] for name in goldens() if name in table.ROWS}
    lacking = {kind for kind in kinds - known if "transformers" in figures[kind]["reference"]}
    assert lacking == set(), "python tests/parity/compare_configs.py --goldens KIND makes them"


def test_keys_of_the_wild_change_nothing(
    any_row: str, table: ModuleType, rows: ModuleType, vision: ModuleType, looks: ModuleType
) -> None:
    """In the file, and in the configurations within it."""
    row = Row(any_row, table, vision)

    def with_wild(config: dict[str, Any], kind: str) -> dict[str, Any]:
        reference = reference_keys(str(config.get("model_type"))) or reference_keys(kind)
        assert reference is not None
        more = {n: v for n, v in WILD.items() if not reference.reads(n)}
        assert len(more) >= 20
        parts = {
            n: with_wild(v, reference.parts[n])
            for n, v in config.items()
            if n in reference.parts and v
        }
        return more | config | parts

    agrees(row, row.model(with_wild(row.config, row.config["model_type"])), rows, looks)

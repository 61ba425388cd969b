"""Make the goldens of RWKV with PyPI's rwkv, from the rows of the families' table.

    python tests/parity/make_rwkv_goldens.py

Needs torch, safetensors and rwkv 0.8.32. Writes what make_family_goldens.py does; the checkpoint is
a .pth file with the authors' names, and padded rows are read alone.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import runpy
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import save_file

MODELS = Path(__file__).parents[1] / "models"
Shapes = dict[str, tuple[int, ...]]


def _seven(c: dict[str, Any], layer: int) -> Shapes:
    """Shapes of what version 7 has in place of attention."""
    width = c["hidden_size"]
    vector = (1, 1, width)
    found: Shapes = {f"x_{name}": vector for name in "rwkvag"}
    ranks = {"w": "decay", "a": "a", "v": "v", "g": "gate"}
    for name, rank in ranks.items():
        if name == "v" and layer == 0:
            continue
        low = c[f"{rank}_low_rank_dim"]
        found |= {f"{name}1": (width, low), f"{name}2": (low, width)}
        found |= {f"{name}0": vector} if name != "g" else {}
    heads = (width // c["head_dim"], c["head_dim"])
    return found | {"k_k": vector, "k_a": vector, "r_k": heads}


def _older(c: dict[str, Any]) -> Shapes:
    """Shapes of what versions 5 and 6 have in place of attention."""
    width, size = c["hidden_size"], c["head_size"]
    vector, heads = (1, 1, width), (width // size, size)
    if c["model_type"] == "rwkv6":
        mix, decay = c["time_mix_extra_dim"], c["time_decay_extra_dim"]
        low = {
            "time_maa_w1": (width, 5 * mix),
            "time_maa_w2": (5, mix, width),
            "time_decay_w1": (width, decay),
            "time_decay_w2": (decay, width),
        }
        mixes: Shapes = {f"time_maa_{name}": vector for name in "xwkvrg"}
        return (
            mixes | low | {"gate.weight": (width, width), "time_decay": vector, "time_faaaa": heads}
        )
    mixes = {f"time_mix_{name}": vector for name in ("kvrg" if c["gate"] else "kvr")}
    decays = heads[:1] if c["shared_decay"] else heads
    gate: Shapes = {"gate.weight": (width, width)} if c["gate"] else {}
    return mixes | gate | {"time_decay": decays, "time_faaaa": decays}


def _shapes(c: dict[str, Any]) -> Shapes:
    """Names and shapes of a checkpoint."""
    width, inner = c["hidden_size"], c["intermediate_size"]
    found: Shapes = {
        "emb.weight": (c["vocab_size"], width),
        "head.weight": (c["vocab_size"], width),
    }
    norms = ["ln_out", "blocks.0.ln0"]
    version = c["model_type"]
    for layer in range(c["num_hidden_layers"]):
        base = f"blocks.{layer}."
        norms += [f"{base}ln1", f"{base}ln2", f"{base}att.ln_x"]
        matrices = ["receptance", "key", "value", "output"]
        own = _seven(c, layer) if version == "rwkv7" else _older(c)
        mixes = {
            "rwkv7": ["x_k"],
            "rwkv6": ["time_maa_k", "time_maa_r"],
            "rwkv5": ["time_mix_k", "time_mix_r"],
        }[version]
        # The package reads ln_x before time_decay to tell the version.
        found[f"{base}att.ln_x.weight"] = (width,)
        found |= {f"{base}att.{name}.weight": (width, width) for name in matrices}
        found |= {f"{base}att.{name}": shape for name, shape in own.items()}
        found |= {f"{base}ffn.{name}": (1, 1, width) for name in mixes}
        found[f"{base}ffn.key.weight"] = (inner, width)
        found[f"{base}ffn.value.weight"] = (width, inner)
        if version != "rwkv7":
            found[f"{base}ffn.receptance.weight"] = (width, width)
    return found | {f"{norm}.{part}": (width,) for norm in norms for part in ("weight", "bias")}


def main() -> None:
    """Write every row's file."""
    table = SimpleNamespace(**runpy.run_path(str(MODELS / "families.py")))
    rows = {row: c for row, (_, c) in table.ROWS.items() if c["model_type"].startswith("rwkv")}
    for row, config in rows.items():
        os.environ |= {"RWKV_JIT_ON": "0", "RWKV_CUDA_ON": "0"}
        os.environ["RWKV_V7_ON"] = str(int(config["model_type"] == "rwkv7"))
        shapes = _shapes(config)
        values = {n: torch.from_numpy(table.values_of(n, shape)) for n, shape in shapes.items()}
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            torch.save(values, f"{folder}/tiny.pth")
            package = importlib.reload(importlib.import_module("rwkv.model"))
            model = package.RWKV(f"{folder}/tiny", "cpu fp32")
        ids, mask = table.ids_of(config["vocab_size"]), table.mask_of()
        out = torch.stack([model.forward(one.tolist(), None, full_output=True)[0] for one in ids])
        padded = torch.zeros_like(out)
        for one, kept, into in zip(ids, torch.from_numpy(mask), padded, strict=True):
            into[kept] = model.forward(one[kept.numpy()].tolist(), None, full_output=True)[0]
        metadata = {"config": json.dumps(config), "names": json.dumps(shapes)}
        place = MODELS / "data" / "families" / f"{row}.safetensors"
        save_file({"out": out, "padded": padded}, place, metadata=metadata)
        print(row, place.stat().st_size, "bytes", float(out.abs().max()))


if __name__ == "__main__":
    main()

"""Write the files of PyTorch that tests/core/io/test_pytorch_files.py reads.

Run with a Python that has torch and numpy (2.13 and 2.4 made the files that are committed):

    python tests/parity/make_torch_files.py
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch

DATA = Path(__file__).parents[1] / "core" / "data"


def everything() -> dict[str, Any]:
    """Every dtype, views, parameters and plain values; the test has the same in NumPy."""
    w = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    state: OrderedDict[str, Any] = OrderedDict(
        w=w, turned=w.t(), part=w[1:3, 2:5], every=w[:, ::2], parameter=torch.nn.Parameter(w * 2),
        scalar=torch.tensor(3.5), empty=torch.zeros(0, 3), spread=torch.ones(1).expand(3, 2),
        f64=w.double(), f16=w.half(), bf16=w.bfloat16(), i64=w.long() - 5, i32=w.int() - 5,
        i16=w.short() - 5, i8=w.char() - 5, u8=w.byte(), yes=w > 3, u32=w.to(torch.uint32),
        e4m3=w.to(torch.float8_e4m3fn), e5m2=w.to(torch.float8_e5m2),
    )  # fmt: skip
    state._metadata = {"": {"version": 1}}  # type: ignore[attr-defined]
    return {
        "state_dict": state, "epoch": 3, "lr": 1e-3, "name": "é", "big": 2**70, "none": None,
        "list": [w, (1, 2.5, True)], "size": w.shape, "device": torch.device("cuda:1"),
        "dtype": torch.float16, "f8": np.float64(2.5), "i4": np.int32(-3), "set": {1, 2},
        "bytes": b"abc", "param_groups": [{"betas": (0.9, 0.999), "params": [0, 1]}],
    }  # fmt: skip


def main() -> None:
    """Write all files."""
    torch.save(everything(), DATA / "torch_zip.pt")
    torch.save(everything(), DATA / "torch_zip_4.pt", pickle_protocol=4)
    torch.save(everything(), DATA / "torch_row.pt", _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(2, 3), DATA / "torch_model.pt")
    torch.save({"c": torch.zeros(2, dtype=torch.complex64)}, DATA / "torch_complex.pt")


if __name__ == "__main__":
    main()

"""Sparse tensors in coordinate form, under the names of torch.sparse."""

from typing import Any

from rushlight.core.basis.errors import ArgumentError
from rushlight.core.sparse import methods as _methods
from rushlight.core.sparse.calls import addmm, log_softmax, mm, softmax, sum
from rushlight.core.sparse.coo import SparseTensor, sparse_coo_tensor, to_sparse, typed

assert _methods
__all__ = ["SparseTensor", "addmm", "log_softmax", "mm", "sampled_addmm", "softmax",
           "sparse_coo_tensor", "spsolve", "sum", "to_sparse"]  # fmt: skip
_TYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
}
for _name, _dtype in _TYPES.items():
    globals()[_name] = typed(_dtype)


def sampled_addmm(*args: Any, **options: Any) -> Any:
    """NotImplementedError: it takes a CSR tensor in torch."""
    raise NotImplementedError(
        "sparse.sampled_addmm is not supported; multiply the dense matrices and call sparse_mask"
    )


def spsolve(*args: Any, **options: Any) -> Any:
    """NotImplementedError: it takes a CSR tensor in torch."""
    raise NotImplementedError("sparse.spsolve is not supported; use linalg.solve of dense matrices")


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> SparseTensor:
    """A sparse matrix whose diagonals are the rows of `diagonals`, by column as in torch.

    `offsets` say which diagonal each row is, `shape` the matrix's. Raises ValueError for other
    counts of rows and offsets and for one offset twice, NotImplementedError for another `layout`
    than that of coordinates.
    """
    import rushlight.core.functional.declared as f

    if layout is not None and "coo" not in str(layout):
        raise NotImplementedError(f"spdiags: {layout} is not supported; supported: sparse_coo")
    each = offsets.reshape(-1).tolist()
    if len(set(each)) != len(each) or diagonals.numel() != len(each) * diagonals.shape[-1]:
        raise ArgumentError(
            f"spdiags: diagonals is {diagonals.shape}, offsets {each}; there must be a row for "
            "each offset, and no offset twice"
        )
    rows, cols, values = [], [], []
    for diagonal, offset in zip(diagonals.reshape(-1, diagonals.shape[-1]), each, strict=True):
        low, high = max(0, offset), min(shape[1], shape[0] + offset, diagonals.shape[-1])
        col = f.arange(low, max(low, high))
        cols.append(col)
        rows.append(col - offset)
        values.append(diagonal[col])
    indices = f.stack([f.cat(rows), f.cat(cols)])
    return sparse_coo_tensor(indices, f.cat(values), shape).coalesce()

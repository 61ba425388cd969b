"""Weights that a node holds as packed integers, scales and zero points become tensors of blocks.

It happens once, when a file is loaded, weight by weight: a tensor of blocks replaces what it is
made of, so that a model never holds both, and every device multiplies by the blocks as they are.
Which blocks: q4_0 and q8_0 where they hold the same numbers, else the rows n2_16 to n8_32.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends import device as as_device
from rushlight.core.basis import quantized as rows
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.layout import Layout
from rushlight.core.io.weights.source import MmapSource
from rushlight.core.onnx.element_types import FLOAT16, INT4, UINT4, UINT8, ElementType
from rushlight.core.onnx.proto import Attribute, Graph, Model, Node, TensorRecord
from rushlight.core.onnx.weights import Files, in_one_piece
from rushlight.core.tensor.storage import Storage
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
_MANY = 1 << 20  # bytes of codes that are converted at once
_FOUR: dict[int, DType] = {16: rows.n4_16, 32: rows.n4_32, 64: rows.n4_64, 128: rows.n4_128}


@dataclass(frozen=True, slots=True)
class Codes:
    """A matrix of packed integers.

    codes: (rows, groups, bytes), the first element in the lowest bits of a byte. scales: (rows,
    groups), float32. zeros: (rows, groups), uint8, or None for the middle code. size: the elements
    of a group. halves: whether float16 holds every scale.
    """

    codes: Array
    scales: Array
    zeros: Array | None
    bits: int
    size: int
    halves: bool

    @property
    def is_symmetric(self) -> bool:
        """Whether every zero point is the middle code."""
        return self.zeros is None or bool((self.zeros == 1 << self.bits - 1).all())


def row_of(packed: Codes) -> DType | None:
    """The type of blocks that holds these numbers as they are; None if there is none."""
    unit = next((n for n in (128, 64, 32, 16) if packed.size % n == 0), 0)
    if not unit or (unit == 16 and packed.scales.shape[1] % 2):
        return None
    if packed.bits == 8:
        if not packed.is_symmetric:
            return None
        return None if unit == 16 else rows.q8_0 if packed.halves else rows.n8_32
    if packed.bits == 2:
        return None if unit == 16 else rows.n2_32
    if packed.bits != 4:
        return None
    if unit > 16 and packed.halves and packed.is_symmetric:
        return rows.q4_0
    return rows.h4_32 if unit == 32 and packed.halves else _FOUR[unit]


def blocks_of(packed: Codes, dtype: DType) -> Array:
    """The bytes of blocks (rows, bytes of a row) that hold these numbers."""
    count, groups, _ = packed.codes.shape
    scale, zero, codes = (dtype.fields.get(name) for name in ("d", "z", "qs"))
    assert scale is not None and codes is not None
    held = scale.count or 1  # groups of a block; `repeat` blocks may share one
    repeat = max(packed.size // dtype.block, 1)
    out = np.empty((count, groups // held * repeat, dtype.itemsize), np.uint8)
    store = np.dtype(np.float16 if scale.kind == "f16" else np.float32)
    step = max(1, _MANY // max(packed.codes[:1].nbytes, 1))

    def spread(x: Array, size: int) -> Array:
        """Numbers of groups as those of blocks."""
        return np.repeat(x, repeat, axis=1).reshape(len(x), -1, size)

    for at in range(0, count, step):
        cut = slice(at, at + step)
        here = out[cut]
        scales = spread(packed.scales[cut].astype(store), held)
        here[..., scale.offset : scale.offset + held * store.itemsize] = scales.view(np.uint8)
        if zero is not None:
            middle = 1 << packed.bits - 1
            known = None if packed.zeros is None else spread(packed.zeros[cut], held)
            here[..., zero.offset : zero.offset + held] = middle if known is None else known
        stored = packed.codes[cut].reshape(*here.shape[:2], -1)
        if packed.bits == 4:
            stored = _halves(stored.reshape(-1, 16)).reshape(stored.shape)
        elif packed.bits == 8:
            stored = stored ^ 128
        here[..., codes.offset :] = stored
    return out.reshape(count, -1)


def _halves(codes: Array) -> Array:
    """Blocks of 16 bytes in the order of q4_0: elements 0 to 15 in the low bits, 16 to 31 above."""
    low, high = codes & 15, codes >> 4
    even, odd = low[..., :8] | low[..., 8:] << 4, high[..., :8] | high[..., 8:] << 4
    return np.stack([even, odd], -1).reshape(codes.shape)


def unpacked_codes(stored: Array, bits: int, count: int) -> Array:
    """The first `count` numbers of `bits` bits of each row of bytes."""
    if bits == 8:
        return stored[..., :count]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = stored[..., None] >> shifts & np.uint8((1 << bits) - 1)
    return numbers.reshape(*stored.shape[:-1], -1)[..., :count]


def kind_of(dtype: DType) -> ElementType:
    """The element type of a tensor of blocks, which no file has."""
    return ElementType(0, dtype.name, np.dtype(np.uint8), 8, None, dtype)


def meta_blocks(dtype: DType, shape: tuple[int, ...]) -> Tensor:
    """A tensor of blocks without memory, on the meta device."""
    layout = Layout.contiguous(shape)
    storage = Storage.allocate(as_device("meta"), dtype.nbytes(layout.numel), dtype)
    return Tensor(storage, dtype, layout)


def pack_weights(model: Model, weights: dict[str, Tensor], files: Files) -> None:
    """Make blocks of the packed weights of a model's nodes; tensors that none reads go.

    files: where the weights lie; pages of a mapped file are given back as they are done with. A
    node whose weight is computed, is an input too, or has a form that no blocks have, is left.
    """
    _Packer(model, weights, files).run()


def packed_names(model: Model) -> set[str]:
    """The tensors of the file that `pack_weights` may read, which have to lie in memory for it."""
    found: set[str] = set()
    for graph in _graphs(model.graph):
        turned = {node.outputs[0]: node.inputs[0] for node in graph.nodes if node.op == "Reshape"}
        for node in graph.nodes:
            if node.domain == "com.microsoft" and node.op in _FORMS:
                for form in _FORMS[node.op](node):
                    places = (form.weight, form.scales, form.zeros)
                    names = [node.inputs[i] for i in places if 0 <= i < len(node.inputs)]
                    found |= {turned.get(name, name) for name in names}
    return found


class _Packer:
    def __init__(self, model: Model, weights: dict[str, Tensor], files: Files) -> None:
        self.graph, self.weights, self.files = model.graph, weights, files
        self.reads: Counter[str] = Counter()
        self.records: dict[str, tuple[TensorRecord, Graph]] = {}
        self.turned: dict[str, tuple[Node, Graph]] = {}  # results of Reshape of a tensor
        self.made: dict[tuple[Any, ...], str] = {}
        self.several: set[str] = set()  # names that more than one graph gives a tensor

    def run(self) -> None:
        graphs = list(_graphs(self.graph))
        for graph in graphs:
            given = {info.name for info in graph.inputs}
            for name, record in graph.initializers.items():
                if name in self.records:
                    self.several.add(name)
                if isinstance(record, TensorRecord) and name not in given:
                    self.records[name] = record, graph
            for info in graph.outputs:
                self.reads[info.name] += 1
            for node in graph.nodes:
                self.reads.update(n for n in node.inputs if n)
                if (
                    node.op == "Reshape"
                    and not node.domain
                    and node.inputs[:1]
                    and node.inputs[0] in self.records
                ):
                    self.turned[node.outputs[0]] = node, graph
        for graph in graphs:
            for node in list(graph.nodes):
                if node.domain == "com.microsoft" and node.op in _FORMS:
                    self.node(node)

    def root(self, name: str) -> str:
        """The tensor that a name is, perhaps in another shape."""
        return self.turned[name][0].inputs[0] if name in self.turned else name

    def array(self, name: str) -> Array | None:
        """The elements of a tensor of the file in their stored form, floats as float32."""
        entry = self.records.get(self.root(name))
        if entry is None or self.root(name) in self.several:
            return None
        record = entry[0]
        if not record.weight:
            return record.array  # type: ignore[no-any-return]
        held = self.weights[record.weight]
        return (held.float() if held.dtype.kind == "f" else held).detach().numpy()

    def kind(self, name: str) -> ElementType:
        return self.records[self.root(name)][0].kind

    def node(self, node: Node) -> None:
        """Replace the weight of a node, where it has a form that blocks hold."""
        for form in _FORMS[node.op](node):
            if len(node.inputs) <= form.weight or not node.inputs[form.weight]:
                continue
            names = [
                node.inputs[i] if 0 <= i < len(node.inputs) else ""
                for i in (form.weight, form.scales, form.zeros)
            ]
            key = (*(self.root(n) for n in names), form.bits, form.size)
            if key not in self.made:
                made = self.blocks(form, names)
                if made is None:
                    continue
                self.made[key] = self.enter(names[0], made)
            node.inputs[form.weight] = self.made[key]
            keeps = self.corrected(form, names)
            for place, name in zip((form.weight, form.scales, form.zeros), names, strict=True):
                if name and (place == form.weight or not keeps):
                    if place != form.weight:
                        node.inputs[place] = ""
                    self.release(name)
            self.reads[self.made[key]] += 1

    def corrected(self, form: Form, names: list[str]) -> bool:
        """Whether blocks lack the zero points, which then stay inputs beside the scales."""
        return bool(names[2]) and (form.bits == 8 or self.kind(names[2]).is_float)

    def blocks(self, form: Form, names: list[str]) -> tuple[DType, Array, tuple[int, ...]] | None:
        """The type, the bytes and the shape of blocks for a node's weight; None where none fit."""
        codes, scales, zeros = (self.array(n) if n else None for n in names)
        if codes is None or scales is None or not codes.size or (names[2] and zeros is None):
            return None
        kind = self.kind(names[0])
        if kind not in (UINT8, INT4, UINT4):
            return None
        if kind is not UINT8:
            codes = _repacked(codes, kind)
            if zeros is None:
                low = 8 if kind is INT4 else 0
                zeros = np.full(scales.shape, low, np.uint8)
            else:
                zeros = (zeros.astype(np.int16) + (8 if kind is INT4 else 0)).astype(np.uint8)
        lead, bits = codes.shape[: form.dims], form.bits
        count = int(np.prod(lead, dtype=np.int64))
        width = codes.size * 8 // bits // count
        size = form.size or width
        groups, rest = divmod(width, size)
        if rest or codes.size * 8 != count * width * bits or scales.size != count * groups:
            return None
        if zeros is not None and self.corrected(form, names):
            if zeros.size != count * groups:
                return None
            zeros = None
        elif zeros is not None and kind is UINT8:
            if zeros.size != count * -(-groups * bits // 8):
                return None
            zeros = unpacked_codes(zeros.reshape(count, -1), bits, groups)
        flat = scales.reshape(count, groups).astype(np.float32)
        halves = self.kind(names[1]) is FLOAT16 or _is_half(flat)
        packed = Codes(
            codes.reshape(count, groups, -1),
            flat,
            None if zeros is None else zeros.reshape(count, groups),
            bits,
            size,
            halves,
        )
        dtype = row_of(packed)
        if dtype is None:
            return None
        stored = blocks_of(packed, dtype)
        return dtype, stored, (*lead, width)

    def enter(self, name: str, made: tuple[DType, Array, tuple[int, ...]]) -> str:
        """A new tensor of the graph that holds `name`, by its name."""
        dtype, stored, shape = made
        root = self.root(name)
        graph = self.records[root][1]
        title = f"{root}.{dtype.name}"
        while title in self.weights or title in graph.initializers:
            title += "_"
        self.weights[title] = Tensor.from_buffer(stored.reshape(-1), dtype, shape)
        record = TensorRecord(title, kind_of(dtype), shape, weight=title)
        graph.initializers[title] = record
        self.records[title] = record, graph
        return title

    def release(self, name: str) -> None:
        """One reader fewer: a tensor that none reads goes."""
        self.reads[name] -= 1
        if self.reads[name]:
            return
        if name in self.turned:
            node, graph = self.turned[name]
            graph.nodes.remove(node)
            for before in filter(None, node.inputs):
                self.release(before)
        elif name in self.records and name not in self.several:
            record, graph = self.records[name]
            graph.initializers.pop(name, None)
            if self.weights.pop(record.weight, None) is not None and in_one_piece(record):
                source, span = self.files.place_of(record)
                if isinstance(source, MmapSource):
                    source.forget(span.start, span.nbytes)


def _repacked(codes: Array, kind: ElementType) -> Array:
    """Numbers of four bits, one to a byte, as two to a byte; int4 gains 8."""
    stored = (codes.astype(np.int16) + (8 if kind is INT4 else 0)).astype(np.uint8)
    return stored[..., ::2] | stored[..., 1::2] << 4


def _is_half(scales: Array) -> bool:
    with np.errstate(over="ignore"):
        return bool((scales.astype(np.float16).astype(np.float32) == scales).all())


def _graphs(graph: Graph) -> Any:
    yield graph
    for node in graph.nodes:
        for attribute in node.attributes.values():
            value = attribute.value
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Graph):
                    yield from _graphs(item)


# What operators hold packed.


@dataclass(frozen=True, slots=True)
class Form:
    """Where a node has a packed weight, its scales and zero points, and how it is packed.

    size: the elements of a group, 0 for a whole row. dims: how many dims its rows have.
    """

    weight: int
    scales: int
    zeros: int
    bits: int
    size: int
    dims: int = 1


def _integer(node: Node, name: str, default: int) -> int:
    attribute: Attribute | None = node.attributes.get(name)
    return attribute.value if attribute is not None and attribute.kind == "int" else default


def _matmul(node: Node) -> list[Form]:
    size = _integer(node, "block_size", 0)
    ordered = len(node.inputs) > 4 and node.inputs[4]
    if ordered or size < 16 or _integer(node, "weight_prepacked", 0):
        return []
    return [Form(1, 2, 3, _integer(node, "bits", 4), size)]


def _gather(node: Node) -> list[Form]:
    axes = _integer(node, "gather_axis", 0), _integer(node, "quantize_axis", 1)
    if axes[0] != 0 or axes[1] not in (1, -1):
        return []
    return [Form(0, 2, 3, _integer(node, "bits", 4), _integer(node, "block_size", 128))]


def _experts(node: Node) -> list[Form]:
    kind = node.attributes.get("quant_type")
    if (kind is not None and kind.value not in (b"int", "int")) or _integer(
        node, "weights_prepacked", 0
    ) > 0:
        return []
    size, bits = _integer(node, "block_size", 0), _integer(node, "expert_weight_bits", 4)
    out = []
    for number, places in enumerate(((2, 3, 11), (5, 6, 12), (8, 9, 13)), 1):
        own = _integer(node, f"fc{number}_expert_weight_bits", bits)
        out.append(Form(*places, own, max(size, 0), dims=2))
    return out


_FORMS = {"MatMulNBits": _matmul, "GatherBlockQuantized": _gather, "QMoE": _experts}

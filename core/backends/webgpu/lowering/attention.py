"""Lowerings of attention and of writing keys and values into a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access, packed, quads
from rushlight.core.backends.webgpu.compiler.autotune import up_to
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs, bits, fill, grid, view
from rushlight.core.backends.webgpu.lowering import attention_row, creation
from rushlight.core.backends.webgpu.lowering.indexing import storer
from rushlight.core.backends.webgpu.lowering.map import walk_lines
from rushlight.core.backends.webgpu.lowering.movement import (
    apart,
    begin,
    contiguous,
    given,
    place,
    words_view,
)
from rushlight.core.backends.webgpu.lowering.products.gemm import gemm, matrix
from rushlight.core.backends.webgpu.runtime.recorder import Kernel, Slice
from rushlight.core.basis.dtype import float32, uint8
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.packed import features_of
from rushlight.wgsl_kernels import compose, text

LANES = 128
# Workgroups that keep a GPU busy; keys are split where there would be fewer.
BUSY = 256
# Keys that a split has at least, and keys that are split at all.
SPLIT_KEYS, MANY_KEYS = 32, 128
# Scores that are kept at once where they are in memory, on a CPU and on a GPU.
ROWS_BYTES, PRODUCT_BYTES = 16 << 20, 64 << 20
# Queries and keys from which a GPU computes scores by products, whose tiles are larger.
PRODUCT_QUERIES, PRODUCT_KEYS = 64, 256
_NAMES = ("q", "k", "v", "bias", "mask", "offset", "length", "sink")


@dataclass(frozen=True, slots=True)
class Tile:
    """What a workgroup holds: `rows` queries, `keys` of them at a time, `chunk` features of keys.

    features: the most features it takes; asked: of queries and keys, where those are more.
    """

    features: int
    rows: int
    keys: int
    chunk: int
    asked: int = 0

    def lines(self) -> list[str]:
        """The constants of attention.wgsl."""
        values = {
            "LANES": LANES,
            "DMAX": self.features,
            "TQ": self.rows,
            "TK": self.keys,
            "DC": self.chunk,
            "DQ": self.asked or self.features,
            "VK": 1024 // self.features,
            "RPL": self.rows * self.features // 4 // LANES,
            "SPL": self.rows * self.keys // LANES,
        }
        return [f"const {name} = {value}u;" for name, value in values.items()]


# For many queries, and for the few of a decoding step.
_WIDEST = Tile(512, 4, 32, 32, 640)
MANY = (Tile(64, 32, 16, 64), Tile(128, 16, 32, 32), Tile(256, 8, 32, 32), _WIDEST)
FEW = (Tile(64, 8, 32, 32), Tile(128, 8, 32, 32), *MANY[2:])


def tile_for(features: int, few: bool) -> Tile:
    """The tile for heads of `features`, for few queries that share their keys or for many."""
    for tile in FEW if few else MANY:
        if features <= max(tile.features, tile.asked):
            return tile
    raise ValueError(
        f"attention: heads have {features} features, webgpu takes up to {_WIDEST.asked}, and "
        f"values of up to {_WIDEST.features}; compute on cpu"
    )


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the work is cut: query heads folded into one unit, and splits of the keys."""

    fold: int
    tile: Tile
    splits: int


def schedule(
    batch: int, heads: int, kv_heads: int, queries: int, keys: int, features: int
) -> Schedule:
    """Few queries: all heads that share keys in one workgroup, and the keys split among several."""
    fold = heads // kv_heads if queries < FEW[0].rows else 1
    rows = fold * queries
    tile = tile_for(features, rows <= FEW[0].rows)
    groups = batch * (heads // fold) * -(-rows // tile.rows)
    splits = min(-(-BUSY // groups), keys // SPLIT_KEYS, 64) if keys >= MANY_KEYS else 1
    return Schedule(fold, tile, splits)


def candidates(e: Emitter, features: int, rows: int, keys: int, heads: int) -> list[str]:
    """By rows of scores in memory, or a tile and splits of the keys, for a class of attention."""
    names = ["rows"] if e.few_lanes(keys) or not e.on_cpu else []
    names += ["products"] * (not e.on_cpu)
    for which in ("few", "many"):
        if which == "few" or tile_for(features, True) != tile_for(features, False):
            names += [f"{which} {n}" for n in (1, 2, 4, 8, 16, 32, 64) if n == 1 or 32 * n <= keys]
    return names


def attention(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """softmax(q k^T) v without the scores ever being in memory, by pieces that can be bound."""
    keys = inputs[1]
    assert keys is not None
    if keys.layout.shape[2] == 0:
        creation.full(e, [], out, {"value": 0})
        return
    inputs = [_whole_rows(e, x) if i in (1, 2) else x for i, x in enumerate(inputs)]
    if all(e.fits(x, x.layout) for x in (*given(*inputs), out)):
        _attend(e, inputs, out, attrs)
        return
    batch, kv_heads = keys.layout.shape[:2]
    if batch == kv_heads == 1:
        _attend(e, inputs, out, attrs)  # says which operand cannot be bound
        return
    dim, n = (0, batch) if batch > 1 else (1, kv_heads)
    for start, stop in ((0, n // 2), (n // 2, n)):
        parts = [None if x is None else _part(x, dim, start, stop, n) for x in inputs]
        target = _part(out, dim, start, stop, n)
        temporary = e.temporary(target.layout.shape, out.dtype)
        attention(e, parts, temporary, attrs)
        place(e, temporary, target)


def _whole_rows(e: Emitter, x: Operand | None) -> Operand | None:
    """Keys or values; packed rows begin at multiples of their size, or are copied to."""
    if x is None or x.dtype is not uint8:
        return x
    *steps, near = x.layout.strides
    size = x.layout.shape[3]
    aligned = near == 1 and all(s % size == 0 for s in (*steps, x.layout.offset))
    return x if aligned else contiguous(e, x)


def _part(x: Operand, dim: int, start: int, stop: int, n: int) -> Operand:
    """Batches, or key heads and what belongs to them, from start to stop of n."""
    if len(x.layout.shape) == 1:
        return view(x, x.layout.slice(0, start, stop)) if dim == 0 else x
    size = x.layout.shape[dim]
    if size == 1:
        return x
    each = size // n
    return view(x, x.layout.slice(dim, start * each, stop * each))


def _attend(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    q, k, v = given(*inputs[:3])
    batch, heads, queries, features = q.layout.shape
    kv_heads, keys, values = k.layout.shape[1], k.layout.shape[2], out.layout.shape[3]
    # On a CPU fusing gains nothing; the kernels of products do.
    most = min(e.binding_limit, ROWS_BYTES) // (4 * batch * heads * keys)
    if e.few_lanes(keys) and attention_row.suits(q, k, v, values):
        _row(e, inputs, out, attrs)
        return
    # The kernels of products read no packed rows.
    rows_packed = k.dtype is uint8 or v.dtype is uint8
    fits = values % 4 == 0 and most > 0 and not rows_packed
    # Values that are too wide count as features that are.
    wide = max(features, values, (values > _WIDEST.features) * (_WIDEST.asked + 1))
    cheap, name = fits and e.few_lanes(keys), "rows"
    if not cheap or wide <= _WIDEST.asked:
        chosen = schedule(batch, heads, kv_heads, queries, keys, wide)
        guess = f"{'few' if chosen.tile in FEW else 'many'} {chosen.splits}"
        if not e.on_cpu and queries >= PRODUCT_QUERIES and keys >= PRODUCT_KEYS:
            guess = "products"
        name = (
            guess
            if rows_packed
            else e.pick(
                "rows" if cheap else guess,
                "attention",
                up_to(min(wide, 512), 512),
                up_to(chosen.fold * queries, 256),
                up_to(keys, 1 << 16),
                up_to(batch * kv_heads, 64),
            )
        )
    if name == "rows" and fits:
        for first in range(0, queries, most):
            _by_rows(e, inputs, out, attrs, first, min(most, queries - first))
        return
    if name == "products" and not rows_packed:
        each = min(e.binding_limit, PRODUCT_BYTES) // (4 * batch * heads * keys)
        each = each // 32 * 32 or each  # whole tiles, if there is room for one
        if each > 0:
            for first in range(0, queries, each):
                _by_products(e, inputs, out, attrs, first, min(each, queries - first))
            return
    if name in ("rows", "products"):
        name = f"{'few' if chosen.tile in FEW else 'many'} {chosen.splits}"
    which, count = name.split()
    chosen = Schedule(chosen.fold, tile_for(wide, which == "few"), min(int(count), keys))
    per = access.per_word(out.dtype)
    # Rows that share words are rounded by the kernel that joins the splits.
    splits = chosen.splits > 1 or values % per != 0
    partial: Operand = out
    if splits:
        partial = e.temporary((batch, heads, queries, chosen.splits, values + 2), float32)
    lines, bindings, parameters = _operands(e, inputs, attrs, _NAMES)
    lines += [*chosen.tile.lines(), f"const SPLIT = {'true' if splits else 'false'};"]
    bound, offset = e.bind(partial)
    lines.append(access.writer(len(bindings), partial.dtype))
    rows = chosen.fold * queries
    tiles = -(-rows // chosen.tile.rows)
    units = heads // chosen.fold
    total = batch * units * tiles * chosen.splits
    parameters[8] = offset
    parameters[40:45] = [chosen.fold, tiles, chosen.splits, -(-keys // chosen.splits), total]
    kernel = e.kernel("attention", "r" * len(bindings) + "w", *lines)
    e.dispatch(kernel, [*bindings, bound], parameters, grid(total))
    if splits:
        _combine(e, partial, out, chosen.splits, values)


def _operands(
    e: Emitter, inputs: Inputs, attrs: Attrs, wanted: Sequence[str], fours: bool = False
) -> tuple[list[str], list[Slice], list[int]]:
    """Lines that read the operands in `wanted`, their bindings, and the parameters of every kernel.

    fours: q, k and v are read four features at once.
    """
    half = "shader-f16" in e.features
    q, k, v = given(*inputs[:3])
    heads, kv_heads = q.layout.shape[1], k.layout.shape[1]
    parameters = [0] * 51
    parameters[0] = q.layout.shape[2]
    parameters[9:16] = [
        heads,
        k.layout.shape[2],
        q.layout.shape[3],
        _values(v),
        heads // kv_heads,
        bits(attrs["scale"]),
        bits(attrs["softcap"] or 0.0),
    ]
    window = min(attrs["window"] or 0, 1 << 30)  # a larger one hides nothing, and may overflow
    parameters[38:40] = [window, int(attrs["causal"])]
    lines: list[str] = []
    bindings: list[Slice] = []
    for i, (name, x) in enumerate(zip(_NAMES, inputs, strict=True)):
        if name not in wanted:
            continue
        if x is None:
            lines.append(_MISSING[name])
            continue
        if x.dtype is uint8 and i < 3:
            lines += packed.lines(name, len(bindings), features_of(x.layout.shape[3]), 1 + i)
            bound, offset = e.bind(x)
        elif fours and i < 3:
            lines += quads.lines(name, len(bindings), x.dtype, True, half)
            (bound,), offset, _ = quads.bind(e, x, x.layout)
        else:
            lines.append(access.reader(name, len(bindings), x.dtype))
            bound, offset = e.bind(x)
        bindings.append(bound)
        strides = x.layout.strides
        if name == "sink":
            parameters[49:51] = offset, strides[1]
            continue
        parameters[1 + i] = offset
        if len(strides) == 1:
            parameters[36 + i - 5] = strides[0]
        else:
            sizes = x.layout.shape
            parameters[16 + 4 * i : 20 + 4 * i] = [
                0 if n == 1 else s for n, s in zip(sizes, strides, strict=True)
            ]
    return lines, bindings, parameters


def _values(v: Operand) -> int:
    """Features of the values."""
    size = v.layout.shape[3]
    return features_of(size) if v.dtype is uint8 else size


def _products(e: Emitter, q: Operand, k: Operand, first: int, count: int, keys: int) -> TensorView:
    """The products (batch, key heads, fold, count, keys) of some queries and the first keys."""
    batch, heads, _, features = q.layout.shape
    kv_heads = k.layout.shape[1]
    fold = heads // kv_heads
    scores = e.temporary((batch, kv_heads, fold, count, keys), float32)
    asking = q.layout.slice(2, first, first + count)
    parted = asking.reshape((batch, kv_heads, fold, count, features))
    assert parted is not None, "a dim is always parted"
    asked = k.layout.slice(2, 0, keys).permute((0, 1, 3, 2))
    answers = scores.layout
    if count == 1:  # the heads that share keys are the rows of one product
        parted, answers = parted.permute((0, 1, 3, 2, 4)), answers.permute((0, 1, 3, 2, 4))
        asked = asked.unsqueeze(2)
    else:
        asked = asked.unsqueeze(2).expand((batch, kv_heads, fold, features, keys))
    gemm(e, matrix(q, parted), matrix(k, asked), matrix(scores, answers))
    return scores


def _by_products(
    e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs, first: int, count: int
) -> None:
    """Some of the queries by two products and a softmax, for GPUs."""
    q, k, v = given(*inputs[:3])
    batch, heads = q.layout.shape[:2]
    kv_heads, keys, values = k.layout.shape[1], k.layout.shape[2], v.layout.shape[3]
    fold = heads // kv_heads
    if attrs["causal"] and inputs[5] is None:  # later keys are not seen
        keys = min(keys, first + count)
    scores = _products(e, q, k, first, count, keys)
    lines, bindings, parameters = _operands(e, inputs, attrs, _NAMES[3:])
    bound, _ = e.bind(scores)
    rows = batch * heads * count
    parameters[0], parameters[10], parameters[44], parameters[45] = count, keys, rows, first
    n = len(bindings)
    lines += [f"@group(0) @binding({n}) var<storage, read_write> weights: array<f32>;"]
    kernel = e.kernel("attention_softmax", "r" * n + "w", *lines, f"const LANES = {LANES}u;")
    e.dispatch(kernel, [*bindings, bound], parameters, grid(rows))
    shared = v.layout.slice(2, 0, keys).unsqueeze(2).expand((batch, kv_heads, fold, keys, values))
    target = out.layout.slice(2, first, first + count)
    parted = target.reshape((batch, kv_heads, fold, count, values))
    assert parted is not None, "a dim is always parted"
    gemm(e, matrix(scores), matrix(v, shared), matrix(out, parted))


def _by_rows(
    e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs, first: int, count: int
) -> None:
    """Some of the queries by products, with the scores in memory."""
    q, k, v = given(*inputs[:3])
    batch, heads = q.layout.shape[:2]
    kv_heads, keys, values = k.layout.shape[1], k.layout.shape[2], v.layout.shape[3]
    fold = heads // kv_heads
    scores = _products(e, q, k, first, count, keys)
    lines, bindings, parameters = _operands(e, inputs, attrs, _NAMES[3:])
    bound, _ = e.bind(scores)
    rows = batch * heads * count
    parameters[0], parameters[44], parameters[45] = count, rows, first
    n = len(bindings)
    width = f"const WIDTH = {e.at_once}u;"
    lines += [f"@group(0) @binding({n}) var<storage, read_write> weights: array<f32>;", width]
    kernel = e.kernel("attention_weights", "r" * n + "w", *lines)
    e.dispatch(kernel, [*bindings, bound], parameters, grid(-(-rows // e.at_once)))

    lines, bindings, parameters = _operands(e, inputs, attrs, ("v", "length"))
    target, offset = e.bind(out)
    tiles = -(-fold * count // 8)
    total = batch * kv_heads * tiles * -(-values // 8)
    parameters[0], parameters[8], parameters[41] = count, offset, tiles
    parameters[44:49] = [total, first, *out.layout.strides[:3]]
    n = len(bindings)
    lines += [access.reader("w", n, float32), access.writer(n + 1, out.dtype), width]
    kernel = e.kernel("attention_sum", "r" * (n + 1) + "w", *lines)
    e.dispatch(kernel, [*bindings, bound, target], parameters, grid(-(-total // e.at_once)))


def _row(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """One query, in one kernel."""
    q, k, v = given(*inputs[:3])
    lines, bindings, parameters = _operands(e, inputs, attrs, _NAMES, fours=True)
    batch, heads, _, features = q.layout.shape
    kv_heads, values = k.layout.shape[1], out.layout.shape[3]
    file, more = attention_row.kernel(e, heads // kv_heads, features, values, out.dtype)
    bound, parameters[8] = e.bind(out)
    enables = {s for s in lines if s.startswith("enable ")}  # each is wanted once
    lines = [*enables, *(s for s in lines if s not in enables), *more]
    lines.append(access.writer(len(bindings), out.dtype))
    parameters[44] = batch * kv_heads
    kernel = e.kernel(file, "r" * len(bindings) + "w", *lines)
    e.dispatch(kernel, [*bindings, bound], parameters, grid(batch * kv_heads))


# What stands for an operand that was not given.
_MISSING = {
    "bias": "fn load_bias(i: u32) -> f32 { return 0.0; }",
    "mask": "fn load_mask(i: u32) -> u32 { return 1u; }",
    "offset": "fn load_offset(i: u32) -> i32 { return 0; }",
    "length": "fn load_length(i: u32) -> i32 { return i32(P(10u)); }",
    "sink": "fn load_sink(i: u32) -> f32 { return LOW; }",
}


def _combine(e: Emitter, partial: Operand, out: Operand, splits: int, values: int) -> None:
    kernel = Kernel(
        compose(
            "map",
            access.reader("part", 0, float32),
            access.writer(1, out.dtype),
            text("attention_combine"),
        ),
        "rw",
        "attention_combine",
    )
    parts, start = e.bind(partial)
    bound, begin = e.bind(out)
    count = out.layout.numel
    words = -(-count // access.per_word(out.dtype))
    e.dispatch(kernel, [parts, bound], [count, begin, start, splits, values], grid(-(-words // 64)))


def cache_write(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """New rows of a cache at the offsets that a tensor gives; in place only those are written."""
    cache, values, offsets = given(*inputs)
    values = apart(e, values, out)
    begin(e, cache, out)
    if values.layout.numel == 0:
        return
    dtype = access.as_bits(out.dtype)
    given_words, out_words = words_view(values), words_view(out)
    if given_words is not None and out_words is not None:
        values, target, dtype = given_words, out_words, out_words.dtype
    else:
        values, target = view(values, values.layout, dtype), view(out, out.layout, dtype)
    kernel = e.kernel(
        "cache_write",
        "rrww",
        access.reader("value", 0, dtype),
        access.reader("offset", 1, offsets.dtype),
        storer(2, dtype),
        access.status(3),
    )
    v_bound, v_at = e.bind(values)
    i_bound, i_at = e.bind(offsets)
    o_bound, o_at = e.bind(target)
    parameters = [
        values.layout.numel,
        o_at,
        v_at,
        i_at,
        offsets.layout.strides[0],
        0,
        out.layout.shape[2],
        e.status.code("cache_write_", "capacity"),
        *values.layout.shape,
        *values.layout.strides,
        *target.layout.strides,
    ]
    e.dispatch(
        kernel,
        [v_bound, i_bound, o_bound, e.status.slice()],
        parameters,
        grid(-(-values.layout.numel // 64)),
    )


def pack_rows(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Rows of floats as bytes with scales, a word at a time."""
    (x,) = given(*inputs)
    if out.layout.numel == 0:
        return
    shape, strides = x.layout.shape, x.layout.strides
    bound, first = e.bind(x)
    target = words_view(out)
    assert target is not None, "packed rows are whole words"
    packed, start = e.bind(target)
    sizes, steps = e.walk(shape[:-1], [strides[:-1]])
    parameters = [0] * 24
    parameters[:6] = [
        target.layout.numel,
        start,
        first,
        shape[-1],
        target.layout.shape[-1],
        strides[-1],
    ]
    fill(parameters, 8, sizes, *steps)
    walk = walk_lines(len(sizes), {"at": 16})
    kernel = Kernel(
        compose(
            "map",
            access.reader("x", 0, x.dtype),
            access.writer(1, target.dtype),
            f"fn places(i: u32) -> u32 {{ var at = P(2u); {walk} return at; }}",
            text("pack_rows"),
        ),
        "rw",
        "pack_rows",
    )
    e.dispatch(kernel, [bound, packed], parameters, grid(-(-target.layout.numel // 64)))


LOWERINGS = {"attention": attention, "cache_write": cache_write, "pack_rows": pack_rows}
IN_PLACE = frozenset({"cache_write"})

"""The command `run`: an ONNX file on inputs from files and texts, with progress and results."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rushlight.cli import show
from rushlight.cli.commands import Json, check_device

if TYPE_CHECKING:
    from rushlight.core.onnx.proto import ValueInfo

_ARRAYS = (".npy", ".npz")
_FREE_SIDE = 224  # of an image where the file says no size
_INPUT = typer.Option(
    "--input", "-i", help="name=value: an image, .npy or .npz file, JSON, or a text. @FILE: a text."
)


def run(
    file: Annotated[Path, typer.Argument(help="The .onnx file.")],
    inputs: Annotated[list[str] | None, _INPUT] = None,
    device: Annotated[str, typer.Option(help="Where to compute.")] = "cpu",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write results here: .npz or .npy.")
    ] = None,
    sizes: Annotated[
        list[str] | None, typer.Option("--size", help="name=N: a free size of random inputs.")
    ] = None,
    random: Annotated[
        bool, typer.Option("--random", help="Random values for inputs that are not named.")
    ] = False,
    times: Annotated[bool, typer.Option("--times", help="Show the slowest operators.")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs; the fastest is told.")] = 1,
    as_json: Json = False,
) -> None:
    """Run an ONNX file. Images become the shape that their input takes, with values 0 to 1."""
    from rushlight.core import onnx

    check_device(device)
    if output is not None and output.suffix not in _ARRAYS:
        raise typer.BadParameter(f"--output {output}: the ending must be .npz or .npy")
    began = time.perf_counter()
    module = onnx.load(file, device=device)
    loading = time.perf_counter() - began
    named = _named(inputs or [], [info.name for info in module.inputs])
    free = {k: _positive(k, v) for k, v in (_pair(s, "--size") for s in sizes or [])}
    values = {
        info.name: value_for(info, named.get(info.name), free, random) for info in module.inputs
    }
    with show.bar(file.name, unit="operators", least=200) as progress:
        results, nodes = onnx.timed(module, **values, report=progress)
    seconds = sum(node.seconds for node in nodes)
    for _ in range(repeat if repeat > 1 else 0):
        began = time.perf_counter()
        results = module(**values)
        module.device.backend.synchronize()
        seconds = min(seconds, time.perf_counter() - began)
    outputs = _outputs(module, results)
    if output is not None:
        _write(output, outputs)
    if as_json:
        slowest = sorted(nodes, key=lambda n: -n.seconds)[:20] if times else []
        print(
            json.dumps(
                {
                    "outputs": {name: _facts(value) for name, value in outputs.items()},
                    "seconds": {"load": round(loading, 4), "run": round(seconds, 6)},
                    **({"nodes": [vars(n) for n in slowest]} if times else {}),
                }
            )
        )
        return
    for name, value in outputs.items():
        print(f"{show.printable(name)}  {described(value)}")
    if times:
        print_times(nodes)
    told = (
        f"{len(nodes)} operators on {device} in {1000 * seconds:.1f} ms, loaded in {loading:.2f} s"
    )
    print(told, file=sys.stderr)


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equal, value = text.partition("=")
    if not equal:
        raise typer.BadParameter(f"{flag} {text} is no name=value")
    return name, value


def _positive(name: str, text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise typer.BadParameter(f"--size {name}={text}: the size must be a positive number")
    return int(text)


def _named(inputs: list[str], names: list[str]) -> dict[str, str]:
    """Inputs by name; a value without a name goes to the only input."""
    out: dict[str, str] = {}
    for text in inputs:
        name, equal, value = text.partition("=")
        if not equal and len(names) == 1:
            name, value = names[0], text
        elif name not in names:
            raise typer.BadParameter(
                f"--input {text}: the file's inputs are {', '.join(names) or 'none'}"
            )
        out[name] = value
    return out


def value_for(info: ValueInfo, text: str | None, sizes: dict[str, int], random: bool) -> Any:
    """The value of an input: what its text names, or random numbers of its type.

    BadParameter for an input without a text where none may be made up.
    """
    import numpy as np

    if text is None:
        if not random:
            raise typer.BadParameter(
                f"input {info.name!r} ({info.type}) needs --input {info.name}=..., or --random"
            )
        return _random(info, sizes)
    path = Path(text.removeprefix("@"))
    if text.startswith("@"):
        return np.array([path.read_text(encoding="utf-8")], np.object_)
    if path.suffix in _ARRAYS and path.is_file():
        return _array(path, info.name)
    if path.is_file():
        return pixels(info, path)
    try:
        return np.array(json.loads(text))
    except ValueError:
        pass
    kind = info.type.kind.name if info.type is not None and info.type.kind is not None else ""
    if kind == "string":
        shape = info.type.shape if info.type is not None else None
        return np.full([1] * len(shape or ()), text, np.object_)
    raise FileNotFoundError(f"--input {info.name}={text}: no such file, and no JSON")


def _array(path: Path, name: str) -> Any:
    import rushlight as rl

    loaded = rl.load(path)
    if not isinstance(loaded, dict):
        return loaded
    if name not in loaded and len(loaded) != 1:
        raise KeyError(f"{path} has no array {name!r}; it has {', '.join(loaded)}")
    return loaded.get(name, next(iter(loaded.values())))


def pixels(info: ValueInfo, path: Path) -> Any:
    """An image as an input takes it: (1, channels, height, width), or channels last, 0 to 1.

    ValueError for an input that takes no image.
    """
    import numpy as np

    from rushlight.models.image import files
    from rushlight.models.image.resize import resize

    shape = info.type.shape if info.type is not None and info.type.shape is not None else ()
    if len(shape) not in (3, 4):
        raise ValueError(f"input {info.name!r} is {info.type}; an image takes 3 or 4 dims")
    last = shape[-1] in (1, 3, 4) and shape[-3] not in (1, 3)
    channels = shape[-1] if last else shape[-3]
    sides = shape[-3:-1] if last else shape[-2:]
    image = files.load(path)
    height, width = (
        side if isinstance(side, int) else own
        for side, own in zip(sides, image.shape, strict=False)
    )
    if image.shape[:2] != (height, width):
        print(
            f"{path}: {image.shape[1]} by {image.shape[0]} becomes {width} by {height}",
            file=sys.stderr,
        )
        image = resize(image, (height, width))
    values: Any = np.asarray(image, np.float32)
    if channels == 1:
        values = values.mean(-1, keepdims=True)
    kind = info.type.kind if info.type is not None else None
    if kind is None or kind.is_float:
        values = values / 255
    else:
        values = values.astype(kind.stored)
    values = values if last else values.transpose(2, 0, 1)
    return values[None] if len(shape) == 4 else values


def _random(info: ValueInfo, sizes: dict[str, int]) -> Any:
    import rushlight as rl

    kind = info.type.kind if info.type is not None else None
    shape = info.type.shape if info.type is not None else None
    if kind is None or shape is None or kind.carried is None:
        raise typer.BadParameter(f"input {info.name!r} is {info.type}: it cannot be made up")
    counts = []
    for place, size in enumerate(shape):
        usual = 1 if place == 0 else _FREE_SIDE if len(shape) == 4 else 16
        named = size if isinstance(size, str) else f"{info.name}.{place}"
        counts.append(size if isinstance(size, int) else sizes.get(named, usual))
    generator = rl.Generator().manual_seed(0)
    if kind.is_float:
        return rl.randn(counts, generator=generator)
    return rl.randint(0, 2, counts, generator=generator).numpy().astype(kind.stored)


def _outputs(module: Any, results: Any) -> dict[str, Any]:
    if len(module.outputs) == 1:
        return {module.outputs[0].name: results}
    return dict(results.items())


def described(value: Any) -> str:
    """A result in a line: dtype, shape, its range and first values."""
    import numpy as np

    import rushlight as rl

    if not isinstance(value, rl.Tensor):
        return show.short(str(value.tolist() if isinstance(value, np.ndarray) else value), 200)
    array = value.detach().host_values()
    first = ", ".join(f"{x:.5g}" for x in array.reshape(-1)[:6])
    more = ", ..." if array.size > 6 else ""
    told = f"{value.dtype.name}{list(value.shape)}  [{first}{more}]"
    if array.size > 1 and array.dtype.kind in "fiu":
        told += f"  min {array.min():.5g}  max {array.max():.5g}  mean {array.mean():.5g}"
    return told


def _facts(value: Any) -> Any:
    import rushlight as rl

    if not isinstance(value, rl.Tensor):
        return value.tolist() if hasattr(value, "tolist") else value
    flat = value.detach().host_values().reshape(-1)
    return {"dtype": value.dtype.name, "shape": list(value.shape), "values": flat[:1000].tolist()}


def _write(path: Path, outputs: dict[str, Any]) -> None:
    import rushlight as rl

    tensors = {name: v for name, v in outputs.items() if isinstance(v, rl.Tensor)}
    if left := [name for name in outputs if name not in tensors]:
        raise ValueError(f"{path}: the outputs {', '.join(left)} are no tensors")
    rl.save(next(iter(tensors.values())) if path.suffix == ".npy" else tensors, path)


def print_times(nodes: list[Any]) -> None:
    """Print seconds by operator, and the slowest nodes."""
    by_op: dict[str, tuple[float, int]] = {}
    for node in nodes:
        seconds, count = by_op.get(node.op, (0.0, 0))
        by_op[node.op] = seconds + node.seconds, count + 1
    total = sum(node.seconds for node in nodes) or 1.0
    print(f"{'operator':24} {'count':>6} {'ms':>10} {'%':>6}")
    for op, (seconds, count) in sorted(by_op.items(), key=lambda row: -row[1][0])[:12]:
        print(f"{op:24} {count:6} {1000 * seconds:10.2f} {100 * seconds / total:6.1f}")
    print("slowest nodes")
    for node in sorted(nodes, key=lambda n: -n.seconds)[:8]:
        told = show.printable(f"{node.title} {list(node.shape)}")
        print(f"{1000 * node.seconds:10.2f} ms  {told}")

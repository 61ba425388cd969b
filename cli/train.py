"""`rushlight train`: train what a TOML file describes; a run that was ended goes on."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rushlight.cli.commands import check_device
from rushlight.core.basis.errors import nearest

SECTIONS = ("seed", "device", "output", "model", "data", "validation", "loss", "optimizer",
            "schedule", "trainer", "metrics")  # fmt: skip
_TRAINER = ("epochs", "steps", "accumulate", "clip_norm", "clip_value", "ema", "compile",
            "report_every", "precision", "checkpoint_every", "monitor", "mode")  # fmt: skip
_LOADER = ("batch_size", "shuffle", "workers", "drop_last")
_TYPES = {int: "a whole number", str: "a text", dict: "a table", list: "a list"}


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to train, and how.")],
    device: Annotated[str | None, typer.Option(help="In place of the file's device.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="In place of the file's steps.")] = None,
    output: Annotated[Path | None, typer.Option(help="In place of the file's output.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew; do not go on.")] = False,
) -> None:
    """Train a model on data as a TOML file says: examples/fashion.toml shows its sections.

    The output folder gets checkpoints, a log and the weights. Where it holds a checkpoint the run
    goes on from there, with the numbers that it would have had.
    """
    import rushlight as rl

    table = _read(config)
    where = device or _typed(table, "device", str, "cpu")
    check_device(where)
    folder = output or _relative(config, _typed(table, "output", str, f"runs/{config.stem}"))
    options = _section(table, "trainer", _TRAINER)
    rl.manual_seed(_typed(table, "seed", int, 0))
    model = build_model(_section(table, "model"), config).to(where)
    lightning = isinstance(model, rl.LightningModule)
    taken = [name for name in ("loss", "optimizer", "schedule") if lightning and name in table]
    if taken:
        raise ValueError(f"[{taken[0]}]: a LightningModule brings its own; leave the section out")
    batches, held_out = _batches(table, config)
    epochs, goal = options.pop("epochs", 1), steps or options.pop("steps", None)
    options.pop("steps", None)
    checkpoint = rl.training.ModelCheckpoint(
        folder,
        options.pop("monitor", "val_loss") if held_out is not None else None,
        options.pop("mode", "min"),
        options.pop("checkpoint_every", None),
    )
    log = rl.training.CSVLogger(folder / "log.csv")
    trainer: dict[str, Any] = {"callbacks": [checkpoint, log], "metrics": _metrics(table)}
    if not lightning:
        optimizer = _made("optimizer", table, rl.optim, {"params": model.parameters()})
        trainer |= _schedule(table, optimizer, goal, epochs, batches, options)
        trainer |= {"optimizer": optimizer, "loss": _loss(table)}
    fitter = _called("trainer", rl.Trainer, {"model": model, **trainer, **options})
    resume = checkpoint.last if checkpoint.last.is_file() and not fresh else None
    if resume is not None:
        print(f"going on from {resume}", file=sys.stderr)
    values = fitter.fit(batches, held_out, epochs=epochs, steps=goal, resume=resume)
    if held_out is not None and fitter.position:  # it ended within an epoch
        values |= fitter.validate(held_out)
        log.on_fit_end(fitter, model)
    rl.save(model.state_dict(), folder / "model.safetensors")
    said = ", ".join(f"{name} {value:.6g}" for name, value in values.items())
    print(f"{fitter.step} steps, {said}\n{folder / 'model.safetensors'}")


def build_model(section: dict[str, Any], config: Path) -> Any:
    """The model of a [model] section: of layers, a file's, or a family's with drawn weights."""
    ways = [key for key in ("layers", "file", "family") if key in section]
    if len(ways) != 1:
        raise ValueError(
            '[model] needs one of: layers = [...], file = "FILE.py:NAME", family = "NAME"'
        )
    if ways == ["layers"]:
        _known("model", section, ("layers",))
        return _layers(_typed(section, "layers", list, []), "model.layers")
    if ways == ["file"]:
        _known("model", section, ("file", "options"))
        return _from_file(section["file"], _typed(section, "options", dict, {}), config)
    _known("model", section, ("family", "config"))
    return _of_family(section["family"], _typed(section, "config", dict, {}))


def _layers(rows: list[Any], label: str) -> Any:
    from rushlight.core import nn

    kinds = [
        n
        for n in nn.__all__
        if inspect.isclass(value := getattr(nn, n)) and issubclass(value, nn.Module)
    ]
    layers = []
    for i, row in enumerate(rows):
        row = {"type": row} if isinstance(row, str) else dict(row)
        place = f"{label}[{i}]"
        name = _choice(f"{place}: type", row.pop("type", None), kinds)
        if name == "Sequential":
            _known(place, row, ("layers",))
            layers.append(_layers(_typed(row, "layers", list, []), place))
        else:
            layers.append(_called(place, getattr(nn, name), row))
    return nn.Sequential(*layers)


def _from_file(text: Any, options: dict[str, Any], config: Path) -> Any:
    file, _, name = str(text).rpartition(":")
    path = _relative(config, file)
    if not name.isidentifier() or not path.is_file():
        raise ValueError(f"[model]: file is {text!r}; it must be FILE.py:NAME, beside the config")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    names = [n for n, value in vars(module).items() if callable(value)]
    maker = getattr(module, _choice(f"[model]: {path}", name, names))
    return _called("model.options", maker, options)


def _of_family(name: Any, config: dict[str, Any]) -> Any:
    import rushlight as rl
    from rushlight.models.families import families, family_of

    _choice("[model]: family", name, families())
    try:
        model = family_of(name, "[model]: family").build({"model_type": name, **config}, [])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"[model.config]: {error}") from error
    model.init_(device="cpu")
    with rl.no_grad():
        for p in model.parameters():
            if p.ndim >= 2:  # GPT-2's choice; norms and biases stay
                p.copy_(rl.randn(*p.shape) * 0.02)
    return model


def _batches(given: dict[str, Any], config: Path) -> tuple[Any, Any]:
    import rushlight as rl

    section = _section(given, "data")
    loader = {key: section.pop(key) for key in _LOADER if key in section}
    changes, mixes = _transforms(_typed(section, "transforms", list, []))
    section.pop("transforms", None)
    samples = _dataset("data", section, config, changes)
    validation: Any = None
    steady = [change for change in changes if isinstance(change, rl.datasets.transforms.Normalize)]
    if "validation" in given:
        other = _section(given, "validation")
        if "share" in other:
            _known("validation", other, ("share",))
            count = round(len(samples) * (1 - other["share"]))
            if not 0 < count < len(samples):
                raise ValueError(
                    f"[validation]: share is {other['share']}; of {len(samples)} "
                    "samples it must leave some on both sides"
                )
            parts = rl.utils.data.Subset
            rest = _dataset("data", section, config, steady) if changes else samples
            samples, validation = (
                parts(dataset, list(range(*ends)))
                for dataset, ends in ((samples, (0, count)), (rest, (count, len(samples))))
            )
        else:
            size = other.pop("batch_size", loader.get("batch_size", 1))
            validation = _dataset("validation", {**section, **other}, config, steady)
            validation = rl.utils.data.DataLoader(validation, size)
    loader["num_workers"] = loader.pop("workers", 0)
    if validation is not None and not isinstance(validation, rl.utils.data.DataLoader):
        validation = rl.utils.data.DataLoader(validation, loader.get("batch_size", 1))
    if mixes:
        loader["collate_fn"] = _Mixed(mixes)
    return _called("data", rl.utils.data.DataLoader, {"dataset": samples, **loader}), validation


def _transforms(rows: list[Any]) -> tuple[list[Any], list[Any]]:
    """The changes of single images, and those that mix a batch."""
    from rushlight.models.datasets import transforms

    kinds = [name for name in transforms.__all__ if name != "Compose"]
    changes: list[Any] = []
    mixes: list[Any] = []
    for i, row in enumerate(rows):
        row, place = {"type": row} if isinstance(row, str) else dict(row), f"data.transforms[{i}]"
        name = _choice(f"{place}: type", row.pop("type", None), kinds)
        transform = _called(place, getattr(transforms, name), row)
        (mixes if name in ("MixUp", "CutMix") else changes).append(transform)
    return changes, mixes


class _Mixed:
    """What makes a batch of samples, and mixes it."""

    def __init__(self, mixes: list[Any]) -> None:
        self.mixes = mixes

    def __call__(self, samples: Any) -> Any:
        from rushlight.core.utils.data import default_collate

        images, targets = default_collate(samples)
        for mix in self.mixes:
            images, targets = mix(images, targets)
        return images, targets


def _dataset(label: str, section: dict[str, Any], config: Path, changes: list[Any]) -> Any:
    import rushlight as rl

    sets = rl.datasets
    kinds: dict[str, Callable[..., Any]] = {
        "MNIST": sets.MNIST,
        "FashionMNIST": sets.FashionMNIST,
        "CIFAR10": sets.CIFAR10,
        "CIFAR100": sets.CIFAR100,
        "ImageFolder": sets.ImageFolder,
        "csv": sets.read_csv,
        "arrays": _arrays,
        "bytes": _bytes,
    }
    section = dict(section)
    kind = _choice(f"[{label}]: kind", section.pop("kind", None), kinds)
    for key in ("root", "path"):
        if key in section:
            section[key] = _relative(config, section[key])
    dataset = _called(label, kinds[kind], section, ("transform", "target_transform", "loader"))
    if changes and not hasattr(dataset, "transform"):
        raise ValueError(f"[{label}]: transforms change images; kind {kind!r} gives none")
    if changes:
        dataset.transform = rl.datasets.transforms.Compose(changes)
    return dataset


def _arrays(path: Path, names: Collection[str] = ()) -> Any:
    import rushlight as rl

    return rl.datasets.arrays(path, *names)


def _bytes(path: Path, length: int) -> Any:
    """A text's bytes as blocks of tokens, each with the tokens that follow."""
    import rushlight as rl

    return rl.datasets.text_blocks(list(path.read_bytes()), length)


def _loss(given: dict[str, Any]) -> Any:
    from rushlight.core import nn

    section = _section(given, "loss") if "loss" in given else {"name": "CrossEntropyLoss"}
    kinds = [n for n in nn.__all__ if n.endswith("Loss")]
    loss = _called(
        "loss", getattr(nn, _choice("[loss]: name", section.pop("name", None), kinds)), section
    )

    def computed(output: Any, target: Any) -> Any:
        if output.ndim == 3 and target.ndim == 2 and output.shape[:2] == target.shape:
            output, target = output.flatten(0, 1), target.flatten()  # of tokens
        return loss(output, target)

    return computed


def _schedule(
    given: dict[str, Any],
    optimizer: Any,
    goal: int | None,
    epochs: int,
    batches: Any,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    from rushlight.core.optim import lr_scheduler

    if "schedule" not in given:
        return {}
    section = _section(given, "schedule")
    interval = section.pop("interval", "epoch")
    kinds = [n for n in lr_scheduler.__all__ if n[0].isupper() and n != "LRScheduler"]
    kind = getattr(lr_scheduler, _choice("[schedule]: name", section.pop("name", None), kinds))
    steps = goal or epochs * -(-len(batches) // options.get("accumulate", 1))
    for key in ("total_steps", "T_max"):  # the length of the run
        if key in inspect.signature(kind).parameters and "epochs" not in section:
            section.setdefault(key, steps if interval == "step" else epochs)
    schedule = _called("schedule", kind, {"optimizer": optimizer, **section})
    return {"scheduler": schedule, "scheduler_interval": interval}


def _metrics(given: dict[str, Any]) -> dict[str, Any]:
    from rushlight.core import training

    kinds = ("Accuracy", "AUROC", "F1Score", "Perplexity")
    metrics = {}
    for name, row in (_section(given, "metrics") if "metrics" in given else {}).items():
        row = {"type": row} if isinstance(row, str) else dict(row)
        kind = _choice(f"[metrics]: {name}", row.pop("type", None), kinds)
        metrics[name] = _called(f"metrics.{name}", getattr(training, kind), row)
    return metrics


# --- the file's keys ---------------------------------------------------------------------------


def _read(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    _known(str(path), table, SECTIONS)
    for name in ("model", "data"):
        if name not in table:
            raise ValueError(f"{path} has no section [{name}]")
    if "optimizer" not in table and "file" not in table["model"]:
        raise ValueError(f"{path} has no section [optimizer]")
    return table


def _section(given: Mapping[str, Any], name: str, known: Collection[str] = ()) -> dict[str, Any]:
    section = dict(_typed(given, name, dict, {}))
    if known:
        _known(name, section, known)
    return section


def _typed(given: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    value = given.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{key} is {value!r}; it must be {_TYPES[kind]}")
    return value


def _known(label: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    for key in given:
        if key not in known:
            near = ", ".join(nearest(key, known)) or ", ".join(known)
            raise ValueError(f"{label} has no key {key!r}; nearest: {near}")


def _choice(label: str, name: Any, known: Collection[str]) -> str:
    if name not in known:
        near = ", ".join(nearest(str(name), known)) or ", ".join(list(known)[:20])
        raise ValueError(f"{label} is {name!r}; nearest: {near}")
    return str(name)


def _made(label: str, given: dict[str, Any], room: Any, more: dict[str, Any]) -> Any:
    section = _section(given, label)
    kinds = [n for n in room.__all__ if n[0].isupper() and n != "Optimizer"]
    name = _choice(f"[{label}]: name", section.pop("name", None), kinds)
    return _called(label, getattr(room, name), {**more, **section})


def _called(
    label: str, fn: Callable[..., Any], options: Mapping[str, Any], without: Collection[str] = ()
) -> Any:
    """fn(**options), with lists as tuples; ValueError that names an unknown or missing key."""
    known = inspect.signature(fn).parameters
    every = any(p.kind is p.VAR_KEYWORD for p in known.values())
    if not every:
        _known(label, options, [name for name in known if name not in without])
    for name, p in known.items():
        wanted = p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        if wanted and name not in options:
            raise ValueError(f"{label} needs {name} for {fn.__name__}")
    try:
        return fn(
            **{
                k: tuple(v) if isinstance(v, list) and k != "callbacks" else v
                for k, v in options.items()
            }
        )
    except TypeError as error:
        raise ValueError(f"{label}: {error}") from error


def _relative(config: Path, path: Any) -> Path:
    """A path as the config's folder sees it."""
    return config.parent / Path(str(path)).expanduser()

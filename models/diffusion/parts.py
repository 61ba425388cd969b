"""Parts: the parts of a pipeline, each loaded when it is first used, and released in turn."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rushlight.core import nn
from rushlight.core.backends import Device
from rushlight.core.basis.dtype import DType, float32
from rushlight.core.basis.errors import LoadError
from rushlight.core.io import load_weights
from rushlight.core.io.hub.folder import SmallFiles
from rushlight.core.io.text.tokenizer import Tokenizer
from rushlight.core.tensor.tensor import Tensor
from rushlight.models import schedulers
from rushlight.models.diffusion.files import INDEX, PREVIEW, AtHand
from rushlight.models.diffusion.registry import part_class
from rushlight.models.small_files import find_tokenizer, small_json

if TYPE_CHECKING:
    from rushlight.models.tasks.record import Run  # every load of a model comes by here

_WITHOUT_WEIGHTS = ("scheduler", "tokenizer", "processor", "feature_extractor", "image_processor")
# Parts that each step needs: they are in memory together.
_TOGETHER = ("unet", "transformer", "controlnet", PREVIEW)

Tensors = dict[str, Tensor]


class Source(Protocol):
    """Where a pipeline's parts are: a folder of diffusers, or a file of all."""

    index: dict[str, Any]  # model_index.json: part -> [library, class], and other values

    def files(self, part: str) -> Mapping[str, bytes]:
        """The small files of a part."""

    def tensors(self, part: str) -> Tensors:
        """The weights of a part, under diffusers' names."""

    def holds(self, part: str) -> bool:
        """Whether `tensors` gives the weights of a part without a `bring` before."""

    def bring(self, part: str) -> Run:
        """Stream the weights of a part; yields Progress in bytes."""


class Folder(AtHand):
    """A folder of diffusers: model_index.json, and a folder for each part."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index = small_json(SmallFiles(folder), INDEX)
        if (folder / PREVIEW / "config.json").is_file():
            self.index.setdefault(PREVIEW, ["diffusers", "AutoencoderTiny"])

    def files(self, part: str) -> Mapping[str, bytes]:
        """The small files of a part; LoadError where its folder is missing."""
        place = self.folder / part
        if not place.is_dir():
            raise LoadError(
                f"{self.folder}: the part {part} is missing",
                hint=f"the pipeline has it in the folder {part}/; download it too",
            )
        return SmallFiles(place)

    def tensors(self, part: str) -> Tensors:
        """The weights of a part, as stored; LoadError where there are none."""
        self.files(part)
        try:
            tensors, _ = load_weights(self.folder / part)
        except FileNotFoundError as error:
            raise LoadError(f"{self.folder}: the part {part} has no weights: {error}") from None
        return tensors


class _With:
    """A source, and one part of another folder."""

    def __init__(self, source: Source, part: str, folder: Path, kind: str) -> None:
        self._source, self._part, self._folder = source, part, folder
        self.index = {**source.index, part: ["diffusers", kind]}

    def files(self, part: str) -> Mapping[str, bytes]:
        """The small files of a part."""
        return SmallFiles(self._folder) if part == self._part else self._source.files(part)

    def tensors(self, part: str) -> Tensors:
        """The weights of a part."""
        in_folder = part == self._part
        return load_weights(self._folder)[0] if in_folder else self._source.tensors(part)

    def holds(self, part: str) -> bool:
        """Whether the weights of a part are there, as those of the other folder are."""
        return part == self._part or self._source.holds(part)

    def bring(self, part: str) -> Run:
        """Stream the weights of a part of the source."""
        return self._source.bring(part)


class Parts:
    """The parts of a source on a device. keep: "all" stay once they are loaded, or "one" does.

    dtype: floating weights are converted to it; a quantized one is that of the matrices of the
    denoiser and the text encoders. `changed` is called with a part's tensors before they are used.
    """

    def __init__(self, source: Source, device: Device, dtype: DType | None) -> None:
        self.source, self.device, self.dtype = source, device, dtype
        self.keep = "all"
        self.changed: Callable[[str, Tensors], Tensors] = lambda _, tensors: tensors
        self._modules: dict[str, nn.Module] = {}
        self._tokenizers: dict[str, Tokenizer] = {}

    def has(self, part: str) -> bool:
        """Whether model_index.json has the part."""
        entry = self.source.index.get(part)
        return isinstance(entry, list) and len(entry) == 2 and entry[1] is not None

    def class_name(self, part: str) -> str:
        """The class of a part."""
        if not self.has(part):
            raise LoadError(f"{INDEX} has no part {part}, which the pipeline needs")
        return str(self.source.index[part][1])

    def config(self, part: str) -> dict[str, Any]:
        """A part's config.json."""
        values = small_json(self.source.files(part), "config.json")
        if not values:
            raise LoadError(f"the part {part} has no config.json")
        return values

    def check(self, needed: tuple[str, ...]) -> None:
        """Raise LoadError for parts that are missing, or of classes that are not supported."""
        missing = [part for part in needed if not self.has(part)]
        if missing:
            raise LoadError(
                f"{INDEX} lacks {', '.join(missing)}; the pipeline needs {', '.join(needed)}"
            )
        for part in needed:
            self.source.files(part)
            if not part.startswith(_WITHOUT_WEIGHTS):
                part_class(self.class_name(part), part)

    def get(self, part: str) -> Any:
        """The module of a part; with keep="one" the others are released before it is loaded."""
        if part in self._modules:
            return self._modules[part]
        if self.keep == "one":
            self._make_room(part)
        kind = part_class(self.class_name(part), part)
        self._modules[part] = module = self._loaded(kind, part)
        return module

    def bring(self, *names: str) -> Run:
        """Have the weights of parts come from a source that streams them; others are read by `get`.

        With keep="one" the parts in memory are released before.
        """
        for name in names:
            if name in self._modules or self.source.holds(name):
                continue
            if self.keep == "one":
                self._make_room(name)
            yield from self.source.bring(name)

    def _make_room(self, part: str) -> None:
        """Release the parts in memory but for those that are needed together with a part."""
        staying = _TOGETHER if part in _TOGETHER else ()
        for name in [name for name in self._modules if name not in staying]:
            self.release(name)

    def add(self, part: str, folder: Path) -> None:
        """Take a part of a folder of its own; LoadError for a class that is not supported."""
        config = small_json(SmallFiles(folder), "config.json")
        part_class(str(config.get("_class_name")), f"{folder}: {part}")
        self.release(part)
        self.source = _With(self.source, part, folder, str(config["_class_name"]))

    def release(self, part: str | None = None) -> None:
        """Give up the memory of a part, or of all."""
        names = list(self._modules) if part is None else [part]
        for name in names:
            self._modules.pop(name, None)
        gc.collect()  # modules and captured steps refer to each other
        self.device.backend.trim()

    def _loaded(self, kind: Any, part: str) -> nn.Module:
        tensors = self.source.tensors(part)
        if hasattr(kind, "rename_tensors"):
            tensors = kind.rename_tensors(tensors, self.config(part))
        tensors = self.changed(part, tensors)
        quantized = self.dtype is not None and self.dtype.kind == "q"
        wanted = float32 if quantized else self.dtype
        placed = {name: _placed(t, wanted) for name, t in tensors.items()}
        module: nn.Module
        if hasattr(kind, "assembled"):
            module = kind.assembled(self.source.files(part), placed)
        else:
            module = kind(self.config(part))
            expected = set(module.state_dict())
            placed = {n: t for n, t in placed.items() if n in expected or not _computed(n)}
            module.load_state_dict(placed, assign=True)
        module.eval().requires_grad_(False)
        if quantized and part != "vae" and self.dtype is not None:
            block = self.dtype.block
            tables = ("embedding",)

            def fits(path: str, layer: Any) -> bool:
                plain = layer.weight.dtype.kind == "f" and layer.weight.shape[-1] % block == 0
                return plain and not any(word in path for word in tables)

            if any(layer._blocks and fits(n, layer) for n, layer in module.named_modules()):
                module.quantize_(self.dtype, fits)
        return module.to(self.device)

    def tokenizer(self, part: str) -> Tokenizer:
        """The tokenizer of a part such as "tokenizer_2"."""
        if part not in self._tokenizers:
            tokenizer = find_tokenizer(self.source.files(part))
            if tokenizer is None:
                raise LoadError(
                    f"the part {part} has no vocabulary",
                    hint="it has tokenizer.json, or vocab.json with merges.txt",
                )
            self._tokenizers[part] = tokenizer
        return self._tokenizers[part]

    def scheduler(self, name: str | None = None) -> schedulers.Scheduler:
        """The pipeline's scheduler, or another class made of its config."""
        config = small_json(self.source.files("scheduler"), "scheduler_config.json")
        config.setdefault("_class_name", self.class_name("scheduler"))
        return schedulers.from_config(config if name is None else {**config, "_class_name": name})

    def nbytes(self, part: str) -> int:
        """The bytes of a part's weights as stored."""
        tensors = self.source.tensors(part)
        return sum(t.dtype.nbytes(t.numel()) for t in tensors.values())


def _placed(tensor: Tensor, dtype: DType | None) -> Tensor:
    """A weight in its dtype; float8 is for storage only."""
    if tensor.dtype.name.startswith("float8"):
        tensor = tensor.to(dtype=float32)
    return tensor.to(dtype=dtype) if dtype and tensor.dtype.is_floating_point else tensor


def _computed(name: str) -> bool:
    """Whether a tensor of older files is computed here."""
    return name.endswith(("position_ids", "num_batches_tracked"))

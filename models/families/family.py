"""Family: all that the file of a family says about its models, in one record with typed fields."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from rushlight.core.tensor.tensor import Tensor
    from rushlight.models.gguf.architecture import Architecture
    from rushlight.models.layers.heads import HeadNames
    from rushlight.models.model import Model
    from rushlight.models.parts import Parts

    Tensors = Mapping[str, Tensor]
    Files = Mapping[str, bytes]

# The fields that models are found by: families/index.txt holds them.
INDEXED = ("model_types", "gguf_types", "tensors", "timm", "suffixes")


@dataclass(frozen=True, kw_only=True)
class Family:
    """What loading, saving, GGUF and the tasks ask of a family; its file ends with one, `FAMILY`.

    A field that a family does not need keeps its default. A name that is none of these is a
    TypeError where the file is imported, and so is a text in place of a tuple of texts.
    """

    model_types: tuple[str, ...]
    """The values of `model_type` in config.json that it serves."""

    tasks: tuple[str, ...]
    """The tasks of its models, the default first; heads have tasks of their own."""

    config: type[Any]
    """The dataclass whose fields are the keys of config.json that are read.

    Its `neutral` has the values with which other keys change no number, () for any; its `own` names
    fields that only our conversions and code of the hub write.
    """

    build: Callable[[dict[str, Any], Collection[str]], Model]
    """(config.json, names of the tensors) -> the model, on the meta device."""

    architectures: tuple[str, ...] = ()
    """The classes in `architectures` of config.json; a file that names none has the first."""

    base_prefix: str = ""
    """What names begin with in a checkpoint with a head, and not in one without."""

    refused: tuple[str, ...] = ()
    """Keys that the reference reads and this family refuses, but for their defaults."""

    heads: HeadNames | None = None
    """The names of an encoder's heads, which serve the tasks of `layers/heads.py`."""

    parts: Parts = field(default_factory=dict)
    """Tensors of a checkpoint that the model has in parts, by the ends of their names."""

    expert_prefix: str = ""
    """What stands before an expert's number in a checkpoint: `expert_`, or nothing."""

    rename_tensors: Callable[[Tensors], dict[str, Tensor]] | None = None
    """Another tool's tensors -> the same under the names of the model's parameters."""

    unused: Callable[[str, dict[str, Any]], bool] | None = None
    """(a tensor's name, config.json) -> whether no model of the family reads the tensor."""

    tensors: tuple[str, ...] = ()
    """Names of tensors that tell the family where config.json is missing."""

    config_of: Callable[[Tensors], dict[str, Any]] | None = None
    """The tensors of such a checkpoint -> its config.json."""

    files_of: Callable[[Tensors, Files], Files] | None = None
    """(tensors, small files) of another tool's format -> the small files of a checkpoint."""

    suffixes: tuple[str, ...] = ()
    """Endings of the names of another tool's files, which `open_parts` opens."""

    open_parts: Callable[[Path | str], tuple[Files, Tensors] | None] | None = None
    """A file, folder or address of that tool -> small files, tensors; None if it is not one."""

    timm: tuple[str, ...] = ()
    """Beginnings of timm's names of architectures."""

    timm_config: Callable[[Mapping[str, Any], Tensors], dict[str, Any]] | None = None
    """(timm's config.json, tensors) -> config.json."""

    gguf_types: tuple[str, ...] = ()
    """llama.cpp's names of architectures.

    `NAME/experts` is for files of NAME with experts, where plain ones are another family's; other
    words after the slash are for families whose files are read as NAME.
    """

    gguf: Architecture | None = None
    """How GGUF files have its models; None: they are not read or written."""

    gguf_others: Mapping[str, Architecture] = field(default_factory=dict)
    """By some of `gguf_types`: how files of these have its models."""

    def __post_init__(self) -> None:
        for name in ("tasks", "architectures", "refused", *INDEXED):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(
                isinstance(element, str) for element in value
            ):
                raise TypeError(f'Family: {name} is {value!r}; it must be a tuple such as ("x",)')
        for name, needed in (
            ("gguf_types", "gguf"),
            ("timm", "timm_config"),
            ("suffixes", "open_parts"),
        ):
            if bool(getattr(self, name)) != (getattr(self, needed) is not None):
                raise TypeError(f"Family: {name} and {needed} need one another")
        known = {*self.config.__dataclass_fields__, "neutral", "own"}
        for name, value in vars(self.config).items():
            if isinstance(value, dict | tuple) and name not in known and not name.startswith("_"):
                raise TypeError(f"Family: config has {name}, which is no field, neutral or own")

    def indexed(self) -> dict[str, list[str]]:
        """The row of families/index.txt: the values that models of the family are found by."""
        return {name: list(value) for name in INDEXED if (value := getattr(self, name))}

    def unread_keys(self, model_type: str) -> list[str]:
        """The keys of the reference's class that the family forgets, in alphabetical order.

        Each must be a field of `config`, be in its `neutral`, or be named in `refused`.
        """
        from rushlight.models.config_schema import unread_keys

        return unread_keys(self.config, model_type, self.refused)

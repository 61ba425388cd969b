"""Scheduler: what all schedulers share: diffusers' config keys, timesteps, the place of a step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from rushlight.core import ops
from rushlight.core.backends import Device, Generator
from rushlight.core.basis.dtype import DType, float32, float64, int64
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.ops.join import cat
from rushlight.core.ops.random import randn
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
# One generator for a batch, or one for each of its samples.
Generators = Generator | Sequence[Generator] | None
Self = TypeVar("Self", bound="Scheduler")

FILE = "scheduler_config.json"
_LARGEST = 1 << 20  # steps that a model is trained with


class Config(dict[str, Any]):
    """The keys of a scheduler with their values, as items and as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the scheduler's config has no key {name!r}") from None


@dataclass
class SchedulerOutput:
    """The sample before the step, and the sample without noise that it points to, if known."""

    prev_sample: Tensor
    pred_original_sample: Tensor | None = None

    @property
    def denoised(self) -> Tensor | None:
        """The sample without noise, as LCM's output calls it."""
        return self.pred_original_sample

    def __getitem__(self, place: int) -> Tensor | None:
        return (self.prev_sample, self.pred_original_sample)[place]


class Scheduler:
    """Base of schedulers: noise levels of a diffusion process, and steps from one to the next.

    `keys` are diffusers' names of the config with their defaults, `choices` the supported values.
    A key that is none of them is a TypeError, a value that is not supported a ValueError, both with
    the name.

    `set_timesteps(num_inference_steps, device)` chooses the timesteps of a run, 1 up to those of
    training; ValueError for another number. `timesteps` are then a tensor on the device. Some
    schedulers take the run's own timesteps or sigmas instead. `step` goes from one to the next.
    """

    if TYPE_CHECKING:  # schedulers take different arguments
        set_timesteps: Any
        step: Any
        add_noise: Any

    keys: ClassVar[dict[str, Any]] = {}
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {}
    order = 1
    init_noise_sigma: Any = 1.0

    def __init__(self, num_train_timesteps: int | None = None, **config: Any) -> None:
        if num_train_timesteps is not None:
            config["num_train_timesteps"] = num_train_timesteps
        name = type(self).__name__
        for key in config:
            if key not in self.keys:
                raise TypeError(
                    f"{name}: the key {key!r} is not supported; supported: {', '.join(self.keys)}"
                )
        self.config = Config({**self.keys, **config})
        self.config["_class_name"] = name
        self.config["_use_default_values"] = [key for key in self.keys if key not in config]
        for key, supported in self.choices.items():
            if key in self.config and self.config[key] not in supported:
                listed = ", ".join(map(str, supported))
                raise ValueError(
                    f"{name}: {key} {brief(self.config[key])} is not supported; supported: {listed}"
                )
        self._check_numbers(name)
        self.num_inference_steps: int | None = None
        self.timesteps: Tensor = tensor([0])
        self._times: Array = np.zeros(1)
        self._step_index: int | None = None
        self._begin_index: int | None = None
        self._tables: dict[Any, Tensor] = {}
        self.prepare()

    def _check_numbers(self, name: str) -> None:
        for key, default in self.keys.items():
            value = self.config[key]
            numbers = isinstance(default, int | float) and not isinstance(default, bool)
            flag = isinstance(default, bool)
            right = isinstance(value, bool) if flag else isinstance(value, int | float)
            if (numbers or flag) and not (right or (flag and value is None)):
                kind = "true or false" if flag else "a number"
                raise ValueError(f"{name}: {key} is {brief(value)}; it must be {kind}")
        count = self.config["num_train_timesteps"]
        if not isinstance(count, int) or not 1 <= count <= _LARGEST:
            raise ValueError(f"{name}: num_train_timesteps is {brief(count)}; 1 to {_LARGEST}")
        sigmas = ("use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas")
        chosen = [key for key in sigmas if self.config.get(key)]
        if len(chosen) > 1:
            raise ValueError(f"{name}: {' and '.join(chosen)} are both true; choose one of them")

    def prepare(self) -> None:
        """Make the tables that depend on the config alone; the first timesteps are those of
        training."""

    @classmethod
    def from_config(cls: type[Self], config: Mapping[str, Any], **changes: Any) -> Self:
        """The scheduler of a config, which may be another scheduler's, with `changes`.

        config: the keys of scheduler_config.json. Keys of other schedulers are left out, and so are
        those that the other scheduler had as its defaults. ValueError for a value that is not
        supported.
        """
        defaults = config.get("_use_default_values") or ()
        own = {k: v for k, v in config.items() if k in cls.keys and k not in defaults}
        return cls(**{**own, **changes})

    @classmethod
    def from_pretrained(
        cls: type[Self], folder: str | Path, subfolder: str | None = None, **changes: Any
    ) -> Self:
        """The scheduler of scheduler_config.json in a folder, or in `subfolder` of a pipeline's.

        changes: keys with other values. FileNotFoundError where the file is missing, FormatError
        for a damaged one.
        """
        return cls.from_config(read_config_file(folder, subfolder), **changes)

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write scheduler_config.json into a folder; returns its path."""
        place = Path(folder) / FILE
        place.parent.mkdir(parents=True, exist_ok=True)
        kept = {k: v for k, v in self.config.items() if k != "_use_default_values"}
        place.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        return place

    save_config = save_pretrained

    def __len__(self) -> int:
        return int(self.config.num_train_timesteps)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.config)})"

    # --- timesteps ------------------------------------------------------------------------------

    def _set_times(self, times: Array, device: Device | str | None, whole: bool) -> None:
        """Begin a run with these timesteps."""
        self._times = times.astype(np.int64 if whole else np.float32)
        self.timesteps = tensor(self._times, dtype=int64 if whole else float32, device=device)
        self._step_index = self._begin_index = None

    def times(self) -> list[int | float]:
        """The timesteps of the run as numbers of Python."""
        return [value.item() for value in self._times]

    def checked_steps(self, steps: Any, most: int | None = None) -> int:
        """A number of steps; ValueError if it is not 1 up to `most`, the steps of training."""
        most = int(self.config.num_train_timesteps) if most is None else most
        if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= most:
            raise ValueError(
                f"{type(self).__name__}: num_inference_steps is {brief(steps)}; it must be 1 to "
                f"{most}"
            )
        return steps

    def _only(self, **given: Any) -> None:
        """Raise ValueError unless one of these arguments is given."""
        if sum(value is not None for value in given.values()) != 1:
            raise ValueError(f"{type(self).__name__}: pass one of {', '.join(given)}")

    # --- the place of a step ----------------------------------------------------------------------

    @property
    def step_index(self) -> int | None:
        """The number of the next step of the run, None before its first."""
        return self._step_index

    @property
    def begin_index(self) -> int | None:
        """The number of the step that the run begins with, None if its timestep tells it."""
        return self._begin_index

    def set_begin_index(self, begin_index: int = 0) -> None:
        """Begin the run with this step, as image to image does."""
        self._begin_index = begin_index

    def index_for_timestep(self, timestep: Any, schedule_timesteps: Any = None) -> int:
        """The place of a timestep in the run; of one that is there twice the second."""
        times = self._times if schedule_timesteps is None else np.asarray(schedule_timesteps)
        places = np.flatnonzero(times == number_of(timestep))
        if not len(places):
            raise ValueError(
                f"{type(self).__name__}: the timestep {number_of(timestep)} is not one of the run; "
                "pass those of `timesteps`, in their order"
            )
        return int(places[1 if len(places) > 1 else 0])

    def _place(self, timestep: Any) -> int:
        """The number of this step; the first one's is known by its timestep."""
        if self._step_index is None:
            begin = self._begin_index
            self._step_index = self.index_for_timestep(timestep) if begin is None else begin
        if self._step_index >= len(self._times):
            raise ValueError(f"{type(self).__name__}: the run is over; call set_timesteps again")
        return self._step_index

    def _places(self, timesteps: Any) -> list[int]:
        """The places of the timesteps of samples whose noise is added."""
        times = np.asarray(timesteps.numpy() if isinstance(timesteps, Tensor) else timesteps)
        if self._begin_index is None:
            return [self.index_for_timestep(t) for t in times.reshape(-1)]
        place = self._begin_index if self._step_index is None else self._step_index
        return [place] * times.size

    def _running(self) -> int:
        """The number of steps of the run; ValueError before `set_timesteps`."""
        if self.num_inference_steps is None:
            raise ValueError(f"{type(self).__name__}: call set_timesteps before step")
        return self.num_inference_steps

    @property
    def draws(self) -> bool:
        """Whether the steps of a run draw noise."""
        return False

    # --- tensors ----------------------------------------------------------------------------------

    def scale_model_input(self, sample: Tensor, timestep: Any = None) -> Tensor:
        """The sample as the model takes it at a timestep: here the sample itself."""
        return sample

    def _table(self, name: str, values: Array, like: Tensor) -> Tensor:
        """A table of this scheduler in the dtype and on the device of a tensor."""
        key = (name, like.device, like.dtype)
        if key not in self._tables:
            self._tables[key] = tensor(values, device=like.device).to(dtype=like.dtype)
        return self._tables[key]


def read_config_file(folder: str | Path, subfolder: str | None = None) -> dict[str, Any]:
    """The object in scheduler_config.json of a folder, or of `subfolder` in it."""
    place = Path(folder) / (subfolder or "")
    if place.is_dir():
        inside = place / "scheduler" / FILE
        place = inside if not (place / FILE).is_file() and inside.is_file() else place / FILE
    if not place.is_file():
        raise FileNotFoundError(f"{place}: no such file; a scheduler's config is {FILE}")
    values = parse_json(place.read_bytes(), str(place), depth=16)
    if not isinstance(values, dict):
        raise FormatError(f"{place} holds a {type(values).__name__}, not an object")
    return values


def number_of(timestep: Any) -> float:
    """A timestep, or the first of those of a batch, as a number."""
    if isinstance(timestep, Tensor):
        return float(np.asarray(timestep.numpy()).reshape(-1)[0])
    return float(np.asarray(timestep).reshape(-1)[0])


def noise_like(
    sample: Tensor,
    generator: Generators,
    given: Tensor | None,
    dtype: DType | None = None,
) -> Tensor:
    """`given`, or normal random numbers of a tensor's shape.

    generator: one, of any device, or one for each sample of the batch.
    """
    wanted = sample.dtype if dtype is None else dtype
    if given is not None:
        return given.to(device=sample.device, dtype=wanted)
    drawn = wanted if wanted == float64 else float32
    if isinstance(generator, list | tuple):
        shape = (1, *sample.shape[1:])
        noise = cat([_normal(shape, g, drawn, sample.device) for g in generator], 0)
    else:
        noise = _normal(tuple(sample.shape), generator, drawn, sample.device)
    return noise.to(device=sample.device, dtype=wanted)


def _normal(shape: tuple[int, ...], generator: Any, dtype: DType, device: Device) -> Tensor:
    place = device if generator is None else generator.device
    return randn(*shape, generator=generator, device=place, dtype=dtype).to(device=device)


def spread(values: Tensor, like: Tensor) -> Tensor:
    """One value for each sample of a batch, in a shape that multiplies the batch."""
    flat = values.flatten()
    return flat.reshape(len(flat), *(1 for _ in like.shape[1:]))


def in_float32(sample: Tensor) -> Tensor:
    """The sample in float32, in which diffusers adds the steps of its solvers."""
    return sample.to(dtype=float32)


def thresholded(sample: Tensor, ratio: float, most: float) -> Tensor:
    """Dynamic thresholding (Saharia et al., 2022): clipped to a quantile of each sample's values.

    ratio: the share of values within; most: the largest bound.
    """
    flat = sample.flatten(1)
    flat = flat if flat.dtype in (float32, float64) else flat.to(dtype=float32)
    magnitudes = flat.abs().sort(dim=1)[0]
    place = ratio * (magnitudes.shape[1] - 1)
    low = int(np.floor(place))
    high = min(low + 1, magnitudes.shape[1] - 1)
    below, above = magnitudes[:, low : low + 1], magnitudes[:, high : high + 1]
    bound = (below + (above - below) * (place - low)).clamp(1.0, most)
    clipped = ops.minimum(ops.maximum(flat, -bound), bound) / bound
    return clipped.reshape(sample.shape).to(dtype=sample.dtype)


def floats(values: Sequence[Any] | Array) -> Array:
    """Numbers as float32."""
    return np.asarray(values, np.float32)

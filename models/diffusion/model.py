"""DiffusionModel: the base of pipeline classes, which say how their parts make a picture."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rushlight.core.backends import Device
from rushlight.core.basis.dtype import DType, float32
from rushlight.core.jit.function import jit
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.files import PREVIEW, parts_of
from rushlight.models.diffusion.lora import Lora, LoraReport, merged, read_lora
from rushlight.models.diffusion.parts import Parts
from rushlight.models.model import Model
from rushlight.models.schedulers import Scheduler

LARGEST = 8192  # pixels of a side


@dataclass
class Request:
    """What a call asks for, checked.

    prompts, negatives: a text for each picture, those of a prompt's several pictures in a row.
    images: pixels (height, width, 3) in bytes, masks: (height, width) shares to be painted anew,
    or none. strength: the share of the steps that an image goes through. controls: pixels of what
    a ControlNet follows, one for each picture. references: pixels of the pictures, each in its own
    size, that all are drawn after.
    """

    prompts: list[str]
    negatives: list[str] | None
    height: int
    width: int
    steps: int
    guidance: float
    seed: int
    strength: float = 1.0
    eta: float = 0.0
    guidance_rescale: float = 0.0
    clip_skip: int | None = None
    max_sequence_length: int | None = None
    scheduler: str | None = None
    images: list[Any] = field(default_factory=list)
    masks: list[Any] = field(default_factory=list)
    previews: bool = False
    latents: Any = None
    controls: list[Any] = field(default_factory=list)
    control_scale: float = 1.0
    references: list[Any] = field(default_factory=list)


@dataclass
class Conditions:
    """What the denoiser is told of the prompts, by the names that `predict` takes.

    negative: the same of the negative prompts, or None without guidance by them.
    """

    positive: dict[str, Tensor]
    negative: dict[str, Tensor] | None = None


@dataclass
class PipelineConfig:
    """The class of a pipeline, and the other values of model_index.json."""

    model_type: str
    values: Mapping[str, Any]


class DiffusionModel(Model):
    """A pipeline of diffusers. A class of pipelines overrides what differs.

    needs: the parts without which there is no picture. denoiser: the part that `predict` runs.
    multiple: sizes must be multiples of it. defaults: of options that a call leaves out.
    most_references: how many pictures it looks at while it draws another.
    """

    tasks = ("text-to-image", "image-to-image", "inpainting")
    needs: tuple[str, ...] = ()
    denoiser = "unet"
    multiple = 8
    defaults: Mapping[str, Any] = {"num_inference_steps": 50, "guidance_scale": 7.5}
    most_references = 0

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        index = parts.source.index
        self.config = PipelineConfig(str(index.get("_class_name")), index)
        parts.check(self.needs)
        self.loras: dict[str, Lora] = {}
        parts.changed = lambda part, tensors: merged(part, tensors, self.loras.values())

    # --- LoRA -------------------------------------------------------------------------------------

    def load_lora(
        self,
        file: str | os.PathLike[str],
        scale: float = 1.0,
        *,
        name: str | None = None,
        strict: bool = True,
    ) -> LoraReport:
        """Add a LoRA of diffusers or kohya, beside those that are there; how many keys matched.

        file: its safetensors; scale: how much it counts; name: what `set_lora` calls it, by default
        the file's. strict: LoadError for keys that match no weight. Weights are those of a fresh
        load with the same LoRAs, bit for bit.
        """
        called = Path(file).stem if name is None else name
        if called in self.loras:
            raise ValueError(f"load_lora: there is a LoRA {called!r} already; pass another name")
        self.loras[called] = read_lora(self, Path(file), scale, strict)
        self._changed(called)
        return self.loras[called].report

    def set_lora(self, name: str, scale: float) -> None:
        """Change how much a LoRA counts. ValueError for a name that is not there."""
        self._lora(name).scale = scale
        self._changed(name)

    def remove_lora(self, name: str | None = None) -> None:
        """Remove a LoRA, or all; the weights are those of before, bit for bit."""
        for called in [*self.loras] if name is None else [name]:
            self._lora(called)
            self._changed(called)
            del self.loras[called]

    def load_preview(self, name: str | os.PathLike[str]) -> None:
        """Make previews by a small decoder (TAESD), a folder of diffusers or a hub id.

        `name` is one of AutoencoderTiny. LoadError for another class, FetchError for a failed
        download. A folder `taesd` in the pipeline's is taken by itself.
        """
        from rushlight.models.hub.names import resolve

        self.parts.add(PREVIEW, resolve(name))

    def _lora(self, name: str) -> Lora:
        if name not in self.loras:
            raise ValueError(
                f"there is no LoRA {name!r}; there are: {', '.join(self.loras) or 'none'}"
            )
        return self.loras[name]

    def _changed(self, name: str) -> None:
        for part in self.loras[name].parts:
            self.parts.release(part)

    @property
    def device(self) -> Device:
        """The device of the parts."""
        return self.parts.device

    @property
    def dtype(self) -> DType:
        """The dtype of what the denoiser computes."""
        return dtype_of(self.parts.get(self.denoiser))

    def named_parameters(self, *args: Any, **more: Any) -> Any:
        """None: the parts have them, and are loaded when they are used."""
        return iter(())

    def parameters(self, *args: Any, **more: Any) -> Any:
        """None: the parts have them, and are loaded when they are used."""
        return iter(())

    @property
    def encoders(self) -> list[str]:
        """The names of the text encoders."""
        return [p for p in parts_of(self.config.values) if p.startswith("text_encoder")]

    # --- what a class of pipelines overrides -----------------------------------------------------

    def default_size(self) -> tuple[int, int]:
        """(height, width) of a picture whose call says none."""
        size = self.parts.config(self.denoiser).get("sample_size") or 64
        height, width = size if isinstance(size, list | tuple) else (size, size)
        return height * self.factor, width * self.factor

    @property
    def factor(self) -> int:
        """By how much latents are smaller than pixels."""
        config = self.parts.config("vae")
        return 1 << (len(config.get("block_out_channels", [0] * 4)) - 1)

    def guided(self, request: Request) -> bool:
        """Whether negative prompts take part."""
        return request.guidance > 1

    def conditions(self, request: Request) -> Conditions:
        """What the denoiser is told of the prompts."""
        raise NotImplementedError

    @property
    def denoisers(self) -> tuple[str, ...]:
        """The parts that each step needs, which are in memory together."""
        return (self.denoiser,)

    def controlled(self, request: Request, conditions: Conditions) -> Conditions:
        """The conditions with what a ControlNet follows, in pipelines that can have one."""
        return conditions

    def reference(self, pixels: Any) -> Any:
        """A picture to draw after, (height, width, 3) in bytes, in the size that is looked at."""
        return pixels

    def size_after(self, references: Sequence[Any]) -> tuple[int, int]:
        """(height, width) of a picture that is drawn after others and whose call says none."""
        height, width = references[0].shape[:2]
        return height, width

    def referred(self, request: Request) -> dict[str, Tensor]:
        """What the denoiser is told of the pictures to draw after: conditions of both sides."""
        return {}

    def latent_shape(self, request: Request) -> tuple[int, ...]:
        """(channels, height, width) of one picture's latents."""
        channels = int(self.parts.config("vae").get("latent_channels", 4))
        return channels, request.height // self.factor, request.width // self.factor

    def set_timesteps(self, scheduler: Scheduler, request: Request) -> None:
        """Begin the scheduler's run."""
        scheduler.set_timesteps(request.steps)

    def predict(self, latents: Tensor, timestep: Tensor, conditions: dict[str, Tensor]) -> Tensor:
        """One evaluation of the denoiser: its output, of the latents' shape.

        latents: (batch, ...); timestep: (batch,); conditions: one side of `Conditions`. Raises what
        loading the denoiser raises.
        """
        raise NotImplementedError

    def combine(self, positive: Tensor, negative: Tensor, request: Request) -> Tensor:
        """The output that is moved away from the negative one (Ho and Salimans, 2022).

        positive, negative: the denoiser's outputs; request: says how far. Raises nothing itself.
        """
        moved = negative + request.guidance * (positive - negative)
        if request.guidance_rescale:  # Lin et al., 2023
            dims = list(range(1, positive.ndim))
            ratio = positive.std(dim=dims, keepdim=True) / moved.std(dim=dims, keepdim=True)
            share = request.guidance_rescale
            moved = share * (moved * ratio) + (1 - share) * moved
        return moved

    def decode(self, latents: Tensor) -> Tensor:
        """Pixels (batch, 3, height, width) from -1 to 1 of latents."""
        vae = self.parts.get("vae")
        return self._unscaled(vae, latents)

    def encode(self, pixels: Tensor, noise: Tensor) -> Tensor:
        """Latents of pixels (batch, 3, height, width), drawn with noise of the latents' shape."""
        vae = self.parts.get("vae")
        mean, spread = vae.encode_mean(pixels.to(dtype=dtype_of(vae)))
        drawn = mean if spread is None else mean + spread * noise.to(dtype=mean.dtype)
        shift, scale = vae.config.shift_factor or 0.0, vae.config.scaling_factor
        latents: Tensor = (drawn - shift).to(dtype=float32) * scale
        return latents

    def decode_by(self, part: str, latents: Tensor) -> Tensor:
        """Pixels (batch, 3, height, width) from -1 to 1 of latents, by another decoder."""
        return self._unscaled(self.parts.get(part), latents)

    # --- helpers ----------------------------------------------------------------------------------

    def _unscaled(self, vae: Any, latents: Tensor) -> Tensor:
        shift, scale = vae.config.shift_factor or 0.0, vae.config.scaling_factor
        wanted = (latents / scale + shift).to(dtype=dtype_of(vae))
        out: Tensor = captured_decode(vae, wanted)
        return out

    def tensor_of(self, values: Any, dtype: DType = float32) -> Tensor:
        """Numbers as a tensor on the device."""
        return tensor(values, dtype=dtype, device=self.device)


@jit
def captured_call(module: Any, *args: Any, **options: Any) -> Any:
    """What a module makes of tensors; a later call of their shapes replays."""
    return module(*args, **options)


@jit
def captured_decode(vae: Any, latents: Tensor) -> Any:
    """Pixels of latents; a later call of their shape replays."""
    return vae.decode(latents)


def dtype_of(module: Any) -> DType:
    """The dtype in which a module computes: that of its first weight that is not quantized."""
    parameters: Iterable[Tensor] = module.parameters()
    return next((p.dtype for p in parameters if p.dtype.is_floating_point), float32)

"""The loop of sampling: noise, or a picture with noise, to a picture, step by step."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends import Generator
from rushlight.core.basis.dtype import float32
from rushlight.core.ops.creation import full
from rushlight.core.ops.join import cat
from rushlight.core.ops.random import randn
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.files import PREVIEW
from rushlight.models.diffusion.model import Conditions, DiffusionModel, Request
from rushlight.models.schedulers import Scheduler
from rushlight.models.tasks.record import Progress, Run

Pixels = npt.NDArray[np.uint8]

_TILED = 1 << 21  # pixels from which on an autoencoder works in tiles
# Colors (red, green, blue) of the latents of Stable Diffusion, for previews without a decoder.
_COLORS = (
    (0.298, 0.207, 0.208),
    (0.187, 0.286, 0.173),
    (-0.158, 0.189, 0.264),
    (-0.184, -0.271, -0.473),
)


@dataclass(frozen=True)
class Preview:
    """What a step would end with: pixels (height, width, 3) of each picture, in bytes, small."""

    step: int
    total: int
    pictures: list[Pixels]
    text: str = ""


@dataclass
class _Start:
    """Latents to begin with, the noise in them, and what images and masks give."""

    latents: Tensor
    noise: Tensor
    image: Tensor | None = None
    mask: Tensor | None = None
    hidden: Tensor | None = None  # the latents of the image without what is painted anew


def sample(model: DiffusionModel, request: Request) -> Run:
    """The pictures of a request: pixels (height, width, 3) in bytes, one for each prompt.

    Yields Progress after each step, and a Preview if the request asks for them. Raises ValueError
    for a request that the model cannot serve, before it loads any part, and FloatingPointError
    where numbers are no longer finite.
    """
    scheduler = model.parts.scheduler(request.scheduler)
    model.set_timesteps(scheduler, request)
    times, first = scheduler.times(), 0
    if request.images:
        first = _skipped(scheduler, request)
    generators = [
        Generator("cpu").manual_seed(request.seed + n) for n in range(len(request.prompts))
    ]
    total = len(times) - first
    if request.images or request.references:
        yield from model.parts.bring("vae")
    with no_grad():
        start = _begin(model, scheduler, request, generators, times, first)
        referred = model.referred(request)
    yield from model.parts.bring(*model.encoders)
    with no_grad():
        conditions = model.controlled(request, model.conditions(request))
        for side in (conditions.positive, conditions.negative):
            if side is not None:
                side.update(referred)
    seeing = (PREVIEW,) if request.previews and model.parts.has(PREVIEW) else ()
    yield from model.parts.bring(*model.denoisers, *seeing)
    passed = _passed(scheduler, request, generators)
    latents = start.latents
    for place in range(first, len(times)):
        with no_grad():
            output = _output(model, scheduler, request, latents, times[place], start, conditions)
            done = scheduler.step(output, times[place], latents, **passed)
            latents = done.prev_sample
            if start.mask is not None and start.hidden is None and start.image is not None:
                latents = _masked(scheduler, latents, start, times, place)
        step = place - first + 1
        if request.previews:
            shown = latents if done.pred_original_sample is None else done.pred_original_sample
            with no_grad():
                small = _small(model, shown)
            pixels = np.asarray((yield small.readback()), np.float32)
            yield Preview(step, total, [_bytes(picture) for picture in pixels])
        yield Progress("draw", step, total)
    with no_grad():
        finite = latents.isfinite().all().to(dtype=float32)
    _check_finite((yield finite.readback()), "latents", model.denoiser)
    yield from model.parts.bring("vae")
    with no_grad():
        decoded = _decoded(model, request, latents).to(dtype=float32)
    values = np.asarray((yield decoded.readback()), np.float32)
    _check_finite(np.isfinite(values).all(), "pixels", "vae")
    return [_bytes(picture) for picture in values]


def _check_finite(fine: Any, what: str, part: str) -> None:
    if not bool(np.asarray(fine).all()):
        raise FloatingPointError(
            f"the {what} that the part {part} made are not finite (NaN or infinite); load the "
            'model with dtype="float32" or "bfloat16"'
            + (", or with another VAE, such as one made for float16" if part == "vae" else "")
        )


def _skipped(scheduler: Scheduler, request: Request) -> int:
    """How many timesteps an image skips by its strength."""
    steps = scheduler.num_inference_steps or request.steps
    remaining_steps = min(int(steps * request.strength), steps)
    first = (steps - remaining_steps) * scheduler.order
    if remaining_steps < 1:
        raise ValueError(
            f"strength {request.strength} of {steps} steps leaves none; raise one of them"
        )
    scheduler.set_begin_index(first)
    return first


def _begin(
    model: DiffusionModel,
    scheduler: Scheduler,
    request: Request,
    generators: Sequence[Generator],
    times: list[int | float],
    first: int,
) -> _Start:
    """The latents that the loop begins with."""
    shape = model.latent_shape(request)
    if not request.images:
        noise = _noise(model, request, generators, shape)
        return _Start(noise * float(scheduler.init_noise_sigma), noise)
    pixels = _from_bytes(model, request.images)
    image = model.encode(pixels, drawn(generators, shape).to(device=model.device))
    noise = _noise(model, request, generators, shape)
    begin = tensor([times[first]] * len(noise))
    latents = _noisy(scheduler, image, noise, begin)
    if not request.masks:
        return _Start(latents, noise, image)
    if request.strength >= 1:
        latents = noise * float(scheduler.init_noise_sigma)
    painted = np.stack([np.asarray(mask) >= 0.5 for mask in request.masks]).astype(np.float32)
    rows, columns = request.height // shape[1], request.width // shape[2]
    mask = model.tensor_of(painted[:, None, ::rows, ::columns])
    start = _Start(latents, noise, image, mask)
    if model.parts.config(model.denoiser).get("in_channels") == 2 * shape[0] + 1:
        outside = pixels * (1 - model.tensor_of(painted[:, None]))
        seen = model.encode(outside, drawn(generators, shape).to(device=model.device))
        start.hidden = seen
    return start


def _noise(
    model: DiffusionModel,
    request: Request,
    generators: Sequence[Generator],
    shape: tuple[int, ...],
) -> Tensor:
    if request.latents is None:
        return drawn(generators, shape).to(device=model.device)
    latents = np.asarray(request.latents, np.float32)
    if latents.shape != (len(generators), *shape):
        raise ValueError(f"latents are {latents.shape}; they must be {(len(generators), *shape)}")
    return model.tensor_of(latents)


def drawn(generators: Sequence[Generator], shape: tuple[int, ...]) -> Tensor:
    """Noise (pictures, ...) on cpu, each picture's by its own generator."""
    return cat([randn(1, *shape, generator=g, device="cpu") for g in generators], 0)


def _noisy(scheduler: Any, image: Tensor, noise: Tensor, times: Tensor) -> Tensor:
    out: Tensor = scheduler.add_noise(image, noise, times)
    return out


def _passed(scheduler: Any, request: Request, generators: Sequence[Generator]) -> dict[str, Any]:
    """What the scheduler's steps take besides."""
    known = inspect.signature(scheduler.step).parameters
    passed: dict[str, Any] = {}
    if "eta" in known and request.eta:
        passed["eta"] = request.eta
    if "generator" in known and (scheduler.draws or request.eta):
        passed["generator"] = list(generators)
    return passed


def _output(
    model: DiffusionModel,
    scheduler: Scheduler,
    request: Request,
    latents: Tensor,
    time: int | float,
    start: _Start,
    conditions: Conditions,
) -> Tensor:
    """The denoiser's output, moved away from that of the negative prompts."""
    scaled = scheduler.scale_model_input(latents, time)
    if start.hidden is not None and start.mask is not None:
        scaled = cat([scaled, start.mask, start.hidden], 1)
    count = len(scaled)

    def at(number: int) -> Tensor:
        return full((number,), float(time), dtype=float32, device=model.device)

    positive, negative = conditions.positive, conditions.negative
    if negative is None:
        return model.predict(scaled, at(count), positive)
    if all(positive[name].shape == negative[name].shape for name in positive):
        both = {name: cat([negative[name], positive[name]], 0) for name in positive}
        away, toward = model.predict(cat([scaled, scaled], 0), at(2 * count), both).chunk(2, 0)
    else:
        away = model.predict(scaled, at(count), negative)
        toward = model.predict(scaled, at(count), positive)
    return model.combine(toward, away, request)


def _masked(
    scheduler: Scheduler, latents: Tensor, start: _Start, times: list[int | float], place: int
) -> Tensor:
    """The latents with the image's where nothing is painted anew."""
    image, mask = start.image, start.mask
    assert image is not None and mask is not None
    if place + 1 < len(times):
        image = _noisy(scheduler, image, start.noise, tensor([times[place + 1]] * len(image)))
    return (1 - mask) * image + mask * latents


def _decoded(model: DiffusionModel, request: Request, latents: Tensor) -> Tensor:
    vae = model.parts.get("vae")
    vae.tiles = request.height * request.width > _TILED
    return model.decode(latents)


def _small(model: DiffusionModel, latents: Tensor) -> Tensor:
    """Pixels (batch, 3, h, w) from -1 to 1: by TAESD, or of the latents' size by their colors."""
    if model.parts.has(PREVIEW):
        shown: Tensor = model.decode_by(PREVIEW, latents)
        return shown.to(dtype=float32)
    if latents.shape[1] == len(_COLORS):
        colors = tensor(np.array(_COLORS, np.float32), device=latents.device)
        return (latents.to(dtype=float32).movedim(1, -1) @ colors).movedim(-1, 1)
    most = latents.abs().amax()
    return latents[:, :3].to(dtype=float32) / (most + 1e-6)


def _bytes(picture: npt.NDArray[np.float32]) -> Pixels:
    """Pixels (3, height, width) from -1 to 1 as bytes (height, width, 3)."""
    shares = np.clip(picture / 2 + 0.5, 0, 1)
    return np.ascontiguousarray(np.rint(shares * 255).astype(np.uint8).transpose(1, 2, 0))


def _from_bytes(model: DiffusionModel, images: Sequence[Pixels]) -> Tensor:
    """Pixels (batch, 3, height, width) from -1 to 1 of images in bytes."""
    stacked = np.stack([np.asarray(image, np.float32) for image in images])
    return model.tensor_of(stacked.transpose(0, 3, 1, 2) / 127.5 - 1)

"""Requests of the tasks that draw: their options, checked before any part is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import brief
from rushlight.models.diffusion.loop import Pixels, sample
from rushlight.models.diffusion.model import LARGEST, DiffusionModel, Request
from rushlight.models.image.files import load_all
from rushlight.models.image.plot import Fields
from rushlight.models.image.png import save_png
from rushlight.models.image.resize import resize
from rushlight.models.tasks.record import Option, Run, as_list

_MOST = 64  # pictures of a call
SCHEDULERS = {
    "ddim": "DDIMScheduler",
    "ddpm": "DDPMScheduler",
    "dpm++2m": "DPMSolverMultistepScheduler",
    "dpm++sde": "DPMSolverSDEScheduler",
    "euler": "EulerDiscreteScheduler",
    "euler-a": "EulerAncestralDiscreteScheduler",
    "heun": "HeunDiscreteScheduler",
    "lcm": "LCMScheduler",
    "pndm": "PNDMScheduler",
    "unipc": "UniPCMultistepScheduler",
}
OPTIONS = (
    Option("negative_prompt", "texts", None, "What is not to be in the picture."),
    Option("num_inference_steps", "int", None, "Steps; the model's own by default.", least=1),
    Option("guidance_scale", "float", None, "How much the prompt counts; 1 is without guidance."),
    Option("seed", "int", None, "Of the noise: the same picture again.", least=0),
    Option(
        "num_images_per_prompt", "int", 1, "Pictures, of the seeds one after the other.", least=1
    ),
    Option("scheduler", "text", None, "Another one than the model's.", tuple(SCHEDULERS)),
    Option("eta", "float", 0.0, "The share of noise in DDIM's steps."),
    Option("guidance_rescale", "float", 0.0, "How far guidance keeps the output's deviation."),
    Option("clip_skip", "int", None, "How many last layers of CLIP are left out.", least=0),
    Option("max_sequence_length", "int", None, "The most tokens of a prompt.", least=1),
    Option("keep", "text", "all", "Parts that stay in memory.", ("all", "one")),
    Option("previews", "bool", False, "Give a small picture after each step."),
    Option("steps", "int", None, "num_inference_steps in short.", least=1),
    Option("guidance", "float", None, "guidance_scale in short."),
)
SIZES = (
    Option("width", "int", None, "Pixels of a row; the model's own by default.", least=8),
    Option("height", "int", None, "Rows of pixels; the model's own by default.", least=8),
    Option("size", "text", None, "width x height in short, such as 512 or 768x512."),
)
FOLLOWED = (
    Option("control_image", "image", None, "What a ControlNet follows: lines, depths, a pose."),
    Option(
        "controlnet_conditioning_scale", "float", 1.0, "How much of it the ControlNet asks for."
    ),
)
REFERENCES = (
    Option(
        "reference_images", "images", None, "Pictures to draw after, of models that look at some."
    ),
)
CHANGES = (
    *FOLLOWED,
    Option("strength", "float", None, "How much of the image is drawn anew, up to 1."),
)


class Picture(Fields):
    """A picture that was drawn: width, height, image (height, width, 3) uint8, and its settings."""

    def save(self, path: str | os.PathLike[str]) -> Any:
        """Write it as a PNG with its settings in the text "parameters"; returns the path."""
        return save_png(path, self["image"], self["settings"])


def drawing(
    model: DiffusionModel,
    prompts: str | Sequence[str],
    options: Mapping[str, Any],
    images: Any = None,
    masks: Any = None,
) -> Run:
    """The steps of a call: a Picture, or a list of them for several prompts, images or pictures.

    options: checked ones of a task. images: what is begun with; masks: white where they are drawn
    anew. ValueError or TypeError for what does not fit together.
    """
    request, single = request_of(model, prompts, options, images, masks)
    model.parts.keep = options["keep"]
    pixels: list[Pixels] = yield from sample(model, request)
    pictures = [_picture(model, request, n, values) for n, values in enumerate(pixels)]
    return pictures[0] if single else pictures


def _picture(model: DiffusionModel, request: Request, number: int, image: Pixels) -> Picture:
    settings = {
        "prompt": request.prompts[number],
        "negative_prompt": request.negatives[number] if request.negatives else "",
        "num_inference_steps": request.steps,
        "guidance_scale": request.guidance,
        "seed": request.seed + number,
        "width": request.width,
        "height": request.height,
        "scheduler": request.scheduler or model.parts.class_name("scheduler"),
        "pipeline": model.config.model_type,
    }
    if request.images:
        settings["strength"] = request.strength
    picture = Picture(
        {"width": request.width, "height": request.height, "image": image, "settings": settings}
    )
    picture.image = image
    return picture


def request_of(
    model: DiffusionModel,
    prompts: str | Sequence[str],
    options: Mapping[str, Any],
    images: Any = None,
    masks: Any = None,
) -> tuple[Request, bool]:
    """The request of a call, and whether it is of a single picture.

    ValueError for options out of range or that contradict each other.
    """
    texts = as_list(prompts)
    count = int(options["num_images_per_prompt"])
    if not texts:
        raise ValueError("prompt: there is none; pass a text")
    if len(texts) * count > _MOST:
        raise ValueError(f"{len(texts) * count} pictures at a time; at most {_MOST}")
    single = isinstance(prompts, str) and count == 1
    pictures = options.get("reference_images")
    references = [] if pictures is None else load_all(pictures)
    edits = model.most_references and masks is None and options.get("strength") is None
    if images is not None and edits:
        references, images = load_all(images), None
    if len(references) > model.most_references:
        raise ValueError(
            f"reference_images: {len(references)} pictures; a {model.config.model_type} looks at "
            f"{model.most_references or 'none'}"
        )
    references = [model.reference(picture) for picture in references]
    pictures = [] if images is None else load_all(images)
    if images is not None:
        single = single and not isinstance(images, list | tuple)
        if len(pictures) not in (1, len(texts)) and len(texts) != 1:
            raise ValueError(f"{len(texts)} prompts for {len(pictures)} images; as many, or one")
        most = max(len(pictures), len(texts))
        texts, pictures = _times(texts, most), _times(pictures, most)
    negatives = options["negative_prompt"]
    negatives = None if negatives is None else _times(as_list(negatives), len(texts))
    height, width = _size(model, options, pictures, references)
    steps = _either(options, "num_inference_steps", "steps")
    guidance = _either(options, "guidance_scale", "guidance")
    request = Request(
        [t for t in texts for _ in range(count)],
        None if negatives is None else [t for t in negatives for _ in range(count)],
        height,
        width,
        int(model.defaults["num_inference_steps"] if steps is None else steps),
        float(model.defaults["guidance_scale"] if guidance is None else guidance),
        int.from_bytes(os.urandom(4), "big") if options["seed"] is None else int(options["seed"]),
        eta=float(options["eta"]),
        guidance_rescale=float(options["guidance_rescale"]),
        clip_skip=options["clip_skip"],
        max_sequence_length=options["max_sequence_length"],
        scheduler=None if options["scheduler"] is None else SCHEDULERS[options["scheduler"]],
        previews=options["previews"],
        references=references,
    )
    if options.get("control_image") is not None:
        if not model.parts.has("controlnet"):
            raise ValueError("control_image: there is no ControlNet; load one by load_controlnet")
        [control] = load_all(options["control_image"])
        request.controls = [_sized(control, width, height)] * len(request.prompts)
        request.control_scale = float(options["controlnet_conditioning_scale"])
    _check(request)
    if pictures:
        strength = options.get("strength")
        strength = (0.8 if masks is None else 1.0) if strength is None else float(strength)
        if not 0 < strength <= 1:
            raise ValueError(f"strength is {strength}; it must be above 0 and at most 1")
        request.strength = strength
        sized = [_sized(picture, width, height) for picture in pictures]
        request.images = [picture for picture in sized for _ in range(count)]
    if masks is not None:
        shares = [_sized(m, width, height).mean(2) / 255 for m in load_all(masks)]
        shares = _times(shares, len(texts))
        request.masks = [share for share in shares for _ in range(count)]
    return request, single


def _check(request: Request) -> None:
    for name, value, low, high in (
        ("guidance_scale", request.guidance, 0.0, 1000.0),
        ("eta", request.eta, 0.0, 1.0),
        ("guidance_rescale", request.guidance_rescale, 0.0, 1.0),
        ("controlnet_conditioning_scale", request.control_scale, 0.0, 10.0),
    ):
        if not low <= value <= high:
            raise ValueError(f"{name} is {value}; it must be {low:g} to {high:g}")


def _either(options: Mapping[str, Any], name: str, short: str) -> Any:
    if options[name] is not None and options[short] is not None:
        raise ValueError(f"{name} and {short} say the same; pass one of them")
    return options[short] if options[name] is None else options[name]


def _times(values: list[Any], count: int) -> list[Any]:
    if len(values) not in (1, count):
        raise ValueError(f"{len(values)} values for {count} pictures; as many, or one")
    return values * count if len(values) == 1 else values


def _size(
    model: DiffusionModel,
    options: Mapping[str, Any],
    pictures: Sequence[Pixels],
    references: Sequence[Pixels],
) -> tuple[int, int]:
    """(height, width) of the pictures: as asked for, or the image's, or the model's."""
    width, height = options.get("width"), options.get("height")
    if options.get("size") is not None:
        if width is not None or height is not None:
            raise ValueError("size says what width and height say; pass one of them")
        sides = str(options["size"]).lower().split("x")
        if len(sides) not in (1, 2) or not all(s.isdecimal() and len(s) < 6 for s in sides):
            raise ValueError(f"size is {brief(options['size'])}; it must be like 512 or 768x512")
        width, height = int(sides[0]), int(sides[-1])
    step = model.multiple
    if pictures or references:
        tall, wide = pictures[0].shape[:2] if pictures else model.size_after(references)
        defaults = max(tall // step, 1) * step, max(wide // step, 1) * step
    else:
        defaults = model.default_size()
    height, width = (
        defaults[0] if height is None else height,
        defaults[1] if width is None else width,
    )
    for name, value in (("width", width), ("height", height)):
        if value % step or not step <= value <= LARGEST:
            near = max(step, round(value / step) * step)
            raise ValueError(
                f"{name} is {value}; it must be a multiple of {step} up to {LARGEST}, such as "
                f"{min(near, LARGEST)}"
            )
    return height, width


def _sized(picture: npt.NDArray[Any], width: int, height: int) -> npt.NDArray[Any]:
    """A picture in a size, by Lanczos' filter."""
    if picture.shape[:2] == (height, width):
        return picture
    return np.asarray(resize(picture, (height, width), "lanczos"))

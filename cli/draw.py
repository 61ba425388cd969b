"""The command `draw`: pictures of prompts, out of nothing or out of images, into PNG files."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from rushlight.cli import show
from rushlight.cli.commands import Json, check_device, fetched

_OPTION = typer.Option(
    "--option", help="Another option of the task: name=value, with the value as JSON or a text."
)


def draw(
    prompts: Annotated[list[str], typer.Argument(help="What to draw.", show_default=False)],
    model: Annotated[str, typer.Option(help="A model: a folder of diffusers, or a file.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The PNG file; several are numbered.")
    ] = Path("out.png"),
    image: Annotated[Path | None, typer.Option(help="An image to begin with.")] = None,
    mask: Annotated[
        Path | None, typer.Option(help="Where that is drawn anew: white in this image.")
    ] = None,
    lora: Annotated[
        list[str] | None, typer.Option(help="A LoRA file, or FILE=SCALE; repeatable.")
    ] = None,
    options: Annotated[list[str] | None, _OPTION] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps.")] = None,
    guidance: Annotated[float | None, typer.Option(help="How much the prompt counts.")] = None,
    size: Annotated[str | None, typer.Option(help="Such as 512 or 768x512.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the noise.")] = None,
    device: Annotated[str, typer.Option(help="Where to compute.")] = "cpu",
    dtype: Annotated[
        str | None, typer.Option(help="Of the weights, such as float32 or q8_0.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw a picture of a prompt into a PNG file, which holds its settings too."""
    from rushlight import models
    from rushlight.cli.see import _given
    from rushlight.models.tasks import Pipeline, check_served

    if output.suffix.lower() != ".png":
        raise typer.BadParameter(f"--output {output}: the ending must be .png")
    if mask is not None and image is None:
        raise typer.BadParameter("--mask needs --image")
    given: dict[str, Any] = {"steps": steps, "guidance": guidance, "size": size, "seed": seed}
    passed = {k: v for k, v in given.items() if v is not None} | _given(options or [])
    task = "text-to-image" if image is None else "image-to-image" if mask is None else "inpainting"
    what: Any = prompts if len(prompts) > 1 else prompts[0]
    if image is not None:
        passed["prompt"], what = what, image
        passed |= {} if mask is None else {"mask_image": mask}
    check_device(device)
    loaded = models.load(fetched(model), device, dtype)
    pipe = Pipeline(check_served(loaded, task), loaded, passed)
    for entry in lora or []:
        file, _, scale = entry.partition("=")
        told = loaded.load_lora(file, float(scale or 1))
        print(f"{file}: {told}", file=sys.stderr)
    began = time.perf_counter()
    with show.bar("draw", unit="steps", least=2) as progress:
        made = pipe(what, progress=progress)
    spent = time.perf_counter() - began
    pictures = made if isinstance(made, list) else [made]
    several = len(pictures) > 1
    files = []
    for number, picture in enumerate(pictures, 1):
        place = output.with_stem(f"{output.stem}-{number}") if several else output
        files.append(str(picture.save(place)))
    if as_json:
        rows = [{"file": f, **p["settings"]} for f, p in zip(files, pictures, strict=True)]
        print(json.dumps({"model": model, "pictures": rows, "seconds": round(spent, 4)}))
        return
    for file, picture in zip(files, pictures, strict=True):
        print(
            f"{file}  {picture['width']} x {picture['height']}, seed {picture['settings']['seed']}"
        )
    print(f"{len(files)} pictures on {device} in {spent:.2f} s", file=sys.stderr)

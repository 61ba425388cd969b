"""The files of a repository that a pipeline needs: small ones, one set of weights for each part."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.models.tasks.record import Run

INDEX = "model_index.json"
# What ends the name of a tensor of single files of Stable Diffusion.
FIRST = "model.diffusion_model.input_blocks.0.0.weight"
# Parts that judge pictures or read them for another task: nothing is drawn by them.
UNUSED = frozenset({"safety_checker", "feature_extractor", "image_encoder"})
PREVIEW = "taesd"  # a small decoder for previews, which may lie beside the parts of the index
_SMALL = re.compile(r"[^/]+\.(json|txt|model|jinja)")
_OTHER_INDEX = re.compile(r"\.index\.\w+\.json$|\.(?:fp16|bf16|fp32|non_ema)\.index\.json$")
# The weights of a part, those that are preferred first.
_WEIGHTS = tuple(
    re.compile(rf"(?:diffusion_pytorch_model|model|pytorch_model){ending}")
    for ending in (
        r"(-\d+-of-\d+)?\.safetensors",
        r"(\.fp16(-\d+-of-\d+)?|-\d+-of-\d+\.fp16)\.safetensors",
        r"(-\d+-of-\d+)?\.bin",
    )
)


def parts_of(index: Mapping[str, Any]) -> list[str]:
    """The parts that model_index.json names, without those that draw nothing."""
    return [
        name
        for name, entry in index.items()
        if isinstance(entry, list) and len(entry) == 2 and entry[1] and name not in UNUSED
    ]


def pipeline_files(paths: Sequence[str], index: Mapping[str, Any]) -> list[str]:
    """The files that a pipeline is loaded of, out of the `paths` of its repository.

    index: model_index.json. Of a part's weights the plain safetensors are taken, else those of
    float16, else files of PyTorch.
    """
    chosen = [path for path in paths if path == INDEX]
    for part in (*parts_of(index), PREVIEW):
        names = [p[len(part) + 1 :] for p in paths if p.startswith(f"{part}/")]
        small = [n for n in names if _SMALL.fullmatch(n) and not _OTHER_INDEX.search(n)]
        sets = ([n for n in names if kind.fullmatch(n)] for kind in _WEIGHTS)
        weights: list[str] = next((some for some in sets if some), [])
        chosen += [f"{part}/{name}" for name in (*small, *weights)]
    return chosen


class AtHand:
    """What a source says whose weights need not be streamed."""

    def holds(self, part: str) -> bool:
        """Always; `part` may be any."""
        return True

    def bring(self, part: str) -> Run:
        """Nothing: the weights of `part` are there."""
        yield from ()

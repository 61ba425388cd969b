"""The class that a checkpoint was saved from, where the family serves another of the model_type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.core.basis.errors import LoadError, brief

# The end of the name of an architecture with a head.
_HEADED = re.compile(
    r"(?:For[A-Z]\w*|LMHeadModel|WithLMHeadModel|DoubleHeadsModel|WithProjection)$"
)
# The same for a head that gives the words of a vocabulary, perhaps with another head beside.
_WORDS = re.compile(
    r"(?:ForCausalLM|LMHeadModel|DoubleHeadsModel|ForConditionalGeneration|ForPreTraining|MTModel"
    r"|ForMaskedLM)$"
)
MOST = 8  # names in config.json
HEADLESS = "without_head"  # beside "architectures": the checkpoint's head is another one


class ArchitectureError(LoadError):
    """The architecture that config.json names is not supported; `supported` are."""

    def __init__(self, named: object, supported: tuple[str, ...]) -> None:
        super().__init__(
            f"config.json: architecture {brief(named)} is not supported; supported: "
            f"{', '.join(supported)}"
        )
        self.supported = supported


def base_of(architecture: str, kind: str = "Model") -> str:
    """The architecture below the head of another: LlamaModel for LlamaForCausalLM."""
    return _HEADED.sub(kind, architecture)


def has_words(architecture: str) -> bool:
    """Whether a class has a head that gives the words of a vocabulary."""
    return bool(_WORDS.search(architecture))


def instead(
    config: Mapping[str, Any],
    error: ArchitectureError,
    spare: Callable[[dict[str, Any]], int | None],
) -> dict[str, Any]:
    """config.json with a class that the family serves in place of the one that it names.

    It is a class whose head the checkpoint has too, or else the one below the head, as the model
    below the head is the same for all classes of a model_type. Of several classes it is the first
    that is served. spare: how many tensors of the checkpoint the model of a config.json leaves
    over, None where it lacks some. Raises `error` where no class fits, and for a class of code
    beside the checkpoint (`auto_map`), which may compute anything.
    """
    named = config.get("architectures")
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise error
    if len(names) > MOST:  # each may mean several models to compare with
        raise error
    stems = {base_of(supported).removesuffix("Model") for supported in error.supported}
    unknown = not any(base_of(n).removesuffix("Model") in stems for n in names)
    if config.get("auto_map") and unknown:
        raise error
    if len(names) != 1 or isinstance(named, str):
        for name in names:
            candidate = {**config, "architectures": [name]}
            if spare(candidate) is not None:
                return candidate
    fits = [
        (left, i, candidate)
        for i, candidate in enumerate(_others(config, names, error.supported))
        if (left := spare(candidate)) is not None
    ]
    left, _, best = min(fits, default=(0, 0, None))
    if best is not None and not (unknown and left):
        return best
    for name in error.supported:  # of a class that none of the names tells
        candidate = {**config, "architectures": [name]}
        if spare(candidate) == 0:
            return candidate
    if best is None:
        raise error
    return best


def _others(
    config: Mapping[str, Any], names: list[str], supported: tuple[str, ...]
) -> list[dict[str, Any]]:
    """config.json with each of the classes that may do, the best of equals first."""
    words = any(has_words(name) for name in names)
    # A class without a head has the words of its embedding.
    plain = all(base_of(name) == name for name in names)
    classes: list[str] = []
    # Those of a family with several kinds of names that begin as the given ones.
    stems = tuple(base_of(name).removesuffix("Model") for name in names)
    supported = tuple(
        sorted(supported, key=lambda architecture: not architecture.startswith(stems))
    )
    if words:
        classes += [f"{base_of(name).removesuffix('Model')}ForMaskedLM" for name in names]
    if words or plain:
        classes += [cls for cls in supported if has_words(cls)]
    below = [base_of(cls) for cls in (*names, *supported)]
    below += [cls for cls in supported if has_words(cls)]  # of a class that has no base here
    below += [f"{cls.removesuffix('Model')}Backbone" for cls in below if cls.endswith("Model")]
    return [{**config, "architectures": [cls]} for cls in dict.fromkeys(classes)] + [
        {**config, "architectures": [cls], HEADLESS: not plain} for cls in dict.fromkeys(below)
    ]

"""LoRA that changes the base as training begins, as LoRA of twice the rank on the base as it is.

PiSSA (Meng et al., 2024) begins with the largest singular values of a weight, OLoRA (Buyukakyuz,
2024) with the first columns of its QR decomposition, and takes them out of the base. What was
trained is B A; the same is the base as it is plus B A less the first product.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import LoadError
from rushlight.core.functional.linalg.factorizations import qr, svd
from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.config import LoraConfig
from rushlight.models.adapters.layer import plain
from rushlight.models.adapters.matching import LINEAR
from rushlight.models.layers.mlp import TransposedLinear

log = logging.getLogger("rushlight")


def converted(
    model: nn.Module,
    config: LoraConfig,
    layers: Mapping[str, Mapping[str, Tensor]],
    theirs: Mapping[str, str],
) -> tuple[LoraConfig, dict[str, Mapping[str, Tensor]]]:
    """An adapter of PiSSA or OLoRA, by the paths of its layers, as ordinary LoRA.

    Its ranks double, and its scales stay. The fast decompositions of PiSSA are taken as the exact
    one. LoadError for a layer that is not linear.
    """
    kind, states = str(config.init_lora_weights), dict(layers)
    if kind.startswith("pissa_"):
        log.warning("%s: PEFT's decomposition is drawn at random; the exact one is taken", kind)
    ranks: dict[str, int] = {}
    alphas: dict[str, float] = {}
    for path, state in layers.items():
        if "lora_A.weight" not in state:
            continue
        layer: Any = model.get_submodule(path)
        if not isinstance(layer, LINEAR):
            raise LoadError(f"{kind} of {path} is not supported; supported: linear layers")
        name = theirs[path]
        r, alpha = config.rank_of(name), config.alpha_of(name)
        scale = alpha / (r**0.5 if config.use_rslora else r)
        weight = plain(layer.weight).cpu()
        weight = weight.t() if isinstance(layer, TransposedLinear) else weight
        if kind == "olora":
            q, upper = qr(weight)
            first_a, first_b = upper[:r], q[:, :r]
        else:
            u, s, vh = svd(weight, full_matrices=False)
            root = (s[:r] / scale).sqrt()
            first_a, first_b = root.unsqueeze(1) * vh[:r], u[:, :r] * root
        a, b = state["lora_A.weight"].float().cpu(), state["lora_B.weight"].float().cpu()
        if a.shape != first_a.shape or b.shape != first_b.shape:
            raise LoadError(
                f"the adapter of {path}: lora_A is {a.shape} and lora_B {b.shape}; the rank {r} "
                f"needs {first_a.shape} and {first_b.shape}"
            )
        states[path] = {
            **state,
            "lora_A.weight": cat([a, first_a]),
            "lora_B.weight": cat([b, -first_b], 1),
        }
        escaped = re.escape(name)
        ranks[escaped], alphas[escaped] = (
            2 * r,
            scale * ((2 * r) ** 0.5 if config.use_rslora else 2 * r),
        )
    lora = replace(config, init_lora_weights=True, r=2 * config.r, lora_alpha=2 * config.lora_alpha)
    if config.rank_pattern or config.alpha_pattern or config.use_rslora:
        lora = replace(lora, rank_pattern=ranks, alpha_pattern=alphas)
    return lora, states

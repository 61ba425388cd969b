"""Configurations of these kinds; fields are PEFT's keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.adapters.config import AdapterConfig


def _whole(label: str, value: Any, least: int) -> None:
    if type(value) is not int or not least <= value < 1 << 24:
        raise ValueError(f"{label} is {brief(value)}; it must be a whole number from {least} on")


@dataclass
class AdaLoraConfig(AdapterConfig):
    """LoRA by singular values with a budget (Zhang et al., 2023): alpha / init_r * B diag(E) A.

    rank_pattern: by the names of E, which of the first `init_r` singular values are kept. The other
    keys are of PEFT's training.

    `lora_alpha`, `lora_dropout`, `bias`, `init_lora_weights` and `fan_in_fan_out` are LoraConfig's;
    `target_r`, `tinit`, `tfinal`, `deltaT`, `beta1`, `beta2`, `orth_reg_weight` and `total_step`
    are those of the training. The other fields are AdapterConfig's. Making one raises nothing.
    """

    init_r: int = 12
    target_r: int = 8
    lora_alpha: float = 8
    lora_dropout: float = 0.0
    bias: str = "none"
    init_lora_weights: bool = True
    rank_pattern: Any = None
    tinit: int = 0
    tfinal: int = 0
    deltaT: int = 1  # noqa: N815
    beta1: float = 0.85
    beta2: float = 0.85
    orth_reg_weight: float = 0.5
    total_step: int | None = None
    fan_in_fan_out: bool = False

    peft_type: ClassVar[str] = "ADALORA"

    def rank_of(self, path: str) -> int:
        """The singular values that the module at `path` has; FormatError for a bad pattern."""
        pattern = self.rank_pattern or {}
        for name in (f"{path}.lora_E", f"{path}.lora_E.default"):
            mask = pattern.get(name) if isinstance(pattern, dict) else pattern
            if mask is None:
                continue
            if not isinstance(mask, list) or not all(type(flag) is bool for flag in mask):
                raise FormatError(f"rank_pattern of {name!r:.100} is {brief(mask)}, no booleans")
            return sum(mask)
        return self.init_r


@dataclass
class LoKrConfig(AdapterConfig):
    """Kronecker products (Yeh et al., 2024): alpha / r * kron(w1, w2), which may be products too.

    decompose_both: whether w1 may be a product too. decompose_factor: what a size is divided by;
    -1: near its root.

    `r` is the rank, `alpha` the numerator of the scale; `rank_pattern` and `alpha_pattern`: other
    values for modules whose paths end with a regular expression. `rank_dropout`, `module_dropout`
    and `use_effective_conv2d` are LoHaConfig's; `rank_dropout_scale`: what is left is scaled up.
    `init_weights`: an adapter that is zero at first. The other fields are AdapterConfig's. Raises
    ValueError for a decompose_factor that is no whole number from -1 on.
    """

    r: int = 8
    alpha: float = 8
    rank_dropout: float = 0.0
    module_dropout: float = 0.0
    use_effective_conv2d: bool = False
    decompose_both: bool = False
    decompose_factor: Any = -1
    rank_dropout_scale: bool = False
    init_weights: bool | str = True
    rank_pattern: dict[str, int] = field(default_factory=dict)
    alpha_pattern: dict[str, float] = field(default_factory=dict)

    peft_type: ClassVar[str] = "LOKR"

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole("LoKrConfig: decompose_factor", self.decompose_factor, -1)


@dataclass
class HiraConfig(AdapterConfig):
    """Hadamard products with the weight (Huang et al., 2025): W * (B A), element by element.

    `r` is the rank, by module's path `rank_pattern`. `hira_dropout`: of what A reads, in training.
    `init_weights`: an adapter that is zero at first. `fan_in_fan_out` has no effect. The other
    fields are AdapterConfig's. `add_adapter` raises ValueError for a rank below 1.
    """

    r: int = 32
    hira_dropout: float = 0.0
    init_weights: bool = True
    rank_pattern: dict[str, int] = field(default_factory=dict)
    fan_in_fan_out: bool = False

    peft_type: ClassVar[str] = "HIRA"


@dataclass
class OFTConfig(AdapterConfig):
    """Rotations of blocks of what a layer reads (Qiu et al., 2023; Liu et al., 2023).

    A block is the Cayley transform of a skew matrix: the exact one, or the first terms of its
    series. r: the number of blocks, or oft_block_size: their size. block_share: all blocks are one.

    `use_cayley_neumann`: the series, of `num_cayley_neumann_terms` terms. `coft` and `eps`:
    rotations near the identity alone. `module_dropout`: the share of modules left out in training.
    `bias` is LoraConfig's; `init_weights`: no rotation at first. `fan_in_fan_out` has no effect.
    The other fields are AdapterConfig's. Raises ValueError for an r that is no whole number.
    """

    r: Any = 0
    oft_block_size: int = 32
    module_dropout: float = 0.0
    bias: str = "none"
    init_weights: bool = True
    coft: bool = False
    eps: float = 6e-5
    block_share: bool = False
    use_cayley_neumann: bool = True
    num_cayley_neumann_terms: int = 5
    fan_in_fan_out: bool = False

    peft_type: ClassVar[str] = "OFT"

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole("OFTConfig: r", self.r, 0)


@dataclass
class VeraConfig(AdapterConfig):
    """Vectors between random matrices (Kopiczko et al., 2024): diag(b) B diag(d) A.

    A and B are one pair for all layers, of which a layer takes the first columns and rows. They are
    read from the file: PEFT draws them with torch's generator where `save_projection` is false.

    `r` is the rank, `d_initial` the first value of d, `vera_dropout` of what A reads, in training;
    `projection_prng_key` is the seed of PEFT's draw. `bias` is LoraConfig's; `init_weights`: an
    adapter that is zero at first. `fan_in_fan_out` has no effect. The other fields are
    AdapterConfig's. Making one raises nothing.
    """

    r: int = 256
    projection_prng_key: int = 0
    save_projection: bool = True
    vera_dropout: float = 0.0
    d_initial: float = 0.1
    bias: str = "none"
    init_weights: bool = True
    fan_in_fan_out: bool = False

    peft_type: ClassVar[str] = "VERA"


CONFIGS: dict[str, type[AdapterConfig]] = {
    cls.peft_type: cls for cls in (AdaLoraConfig, HiraConfig, LoKrConfig, OFTConfig, VeraConfig)
}

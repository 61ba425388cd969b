"""Configurations of adapters: dataclasses whose fields are the keys of PEFT's adapter_config.json.

A key that PEFT reads is a field, changes nothing, or is an error that names it; others are ignored.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import checked, parse_object

if TYPE_CHECKING:
    from rushlight.core.basis.patterns import Pattern

FILE = "adapter_config.json"
Names = list[str] | str | None
TokenIndices = list[int] | dict[str, list[int]] | None

# PEFT's keys that change what an adapter computes, with the values at which they do not. Others
# that PEFT reads are fields, or change nothing. What PEFT does not know is ignored, as it does.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "use_qalora": (False, None),
    "alora_invocation_tokens": (None,),
    "arrow_config": (None,),
    "use_bdlora": (None, False),
    "kasa_config": (None,),
    "velora_config": (None, {}),
    "monteclora_config": (None,),
    "layer_replication": (None, []),
    "target_parameters": (None, []),  # of kinds that have no field of it
    "megatron_config": (None, {}),
    "use_effective_conv2d": (False,),
    "ephemeral_gpu_offload": (False, True),
}
# The most that a rank may be: far above any published adapter's.
_LARGEST_RANK = 1 << 16
_MOST_PATTERNS = 4096
_STARTS = ("gaussian", "eva", "orthogonal", "mica", "pissa", "olora")
# Keys whose value, if it is a text, is a regular expression.
_PATTERNS = ("target_modules", "exclude_modules", "feedforward_modules")


@dataclass
class AdapterConfig:
    """What all kinds have: which modules are adapted, and which are trained as a whole.

    target_modules: ends of modules' paths, a regular expression for whole paths, or "all-linear":
    every linear layer but the head. exclude_modules: the same, of modules that are left out.
    modules_to_save: names of modules of which the adapter has copies of its own.
    layers_to_transform: numbers of layers; layers_pattern: the names of the lists they are in.

    `base_model_name_or_path` is kept for the file; `task_type`: "CAUSAL_LM", "SEQ_CLS" and others
    of PEFT. Making one raises nothing; `add_adapter` checks it.
    """

    target_modules: Names = None
    exclude_modules: Names = None
    modules_to_save: list[str] | None = None
    layers_to_transform: list[int] | int | None = None
    layers_pattern: Names = None
    base_model_name_or_path: str | None = None
    task_type: str | None = None

    peft_type: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for setting in dataclasses.fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, tuple | set | frozenset):
                setattr(self, setting.name, sorted(value))

    def rank_of(self, path: str) -> int:
        """The rank of the adapter of the module at `path`."""
        patterns: Mapping[str, int] = getattr(self, "rank_pattern", {})
        rank: int = patterns.get(_pattern(patterns, path), getattr(self, "r", 1))
        if rank < 1:
            raise ValueError(f"{type(self).__name__}: the rank of {path!r} is {rank}; at least 1")
        return rank

    def alpha_of(self, path: str) -> float:
        """The alpha of the adapter of the module at `path`; products are scaled by alpha / rank."""
        patterns: Mapping[str, float] = getattr(self, "alpha_pattern", {})
        name = "lora_alpha" if hasattr(self, "lora_alpha") else "alpha"
        return float(patterns.get(_pattern(patterns, path), getattr(self, name, 1)))

    def to_json(self) -> bytes:
        """adapter_config.json, which PEFT reads."""
        values = {
            "peft_type": self.peft_type,
            "auto_mapping": None,
            "inference_mode": True,
            "revision": None,
            **dataclasses.asdict(self),
        }
        return json.dumps(dict(sorted(values.items())), indent=2).encode()


@dataclass
class LoraConfig(AdapterConfig):
    """Low-rank adapters (Hu et al., 2021): W x + alpha / r * B A x.

    r: the rank. lora_dropout: of what A reads, in training. bias: which biases of the model are
    trained and saved: "none", "all", or "lora_only", those of adapted layers. use_rslora: the scale
    is alpha / sqrt(r) (Kalajdzievski, 2023). use_dora: the rows of W + B A have lengths of their
    own (Liu et al., 2024). lora_bias: B has a bias. init_lora_weights: True, "gaussian", or False
    for an adapter that is not zero at first. rank_pattern, alpha_pattern: other values for the
    modules whose paths end with a regular expression. trainable_token_indices: tokens whose rows of
    the embedding are trained, or of the modules named. target_parameters: ends of the paths of
    weights, such as mlp.experts.gate_up_proj, the experts' of transformers. fan_in_fan_out is
    PEFT's and has no effect: a layer knows how its weight lies.

    `lora_alpha` is alpha. The other fields are AdapterConfig's. Raises ValueError for another bias.
    """

    r: int = 8
    lora_alpha: float = 8
    lora_dropout: float = 0.0
    bias: str = "none"
    use_rslora: bool = False
    use_dora: bool = False
    lora_bias: bool = False
    init_lora_weights: bool | str = True
    rank_pattern: dict[str, int] = field(default_factory=dict)
    alpha_pattern: dict[str, float] = field(default_factory=dict)
    trainable_token_indices: TokenIndices = None
    target_parameters: list[str] | None = None
    fan_in_fan_out: bool = False

    peft_type: ClassVar[str] = "LORA"

    def __post_init__(self) -> None:
        super().__post_init__()
        _choose("LoraConfig: bias", self.bias, ("none", "all", "lora_only"))


@dataclass
class LoHaConfig(AdapterConfig):
    """Hadamard products of two low-rank matrices (Hyeon-Woo et al., 2021): FedPara, or LoHa.

    rank_dropout: the share of rows that are left out, module_dropout: that of modules, in training.
    use_effective_conv2d: convolutions have the decomposition of the paper's third proposition.

    `r` is the rank, `alpha` the numerator of the scale; `rank_pattern` and `alpha_pattern`: other
    values for modules whose paths end with a regular expression. `init_weights`: an adapter that is
    zero at first. The other fields are AdapterConfig's. `add_adapter` raises ValueError for a rank
    below 1.
    """

    r: int = 8
    alpha: float = 8
    rank_dropout: float = 0.0
    module_dropout: float = 0.0
    use_effective_conv2d: bool = False
    init_weights: bool = True
    rank_pattern: dict[str, int] = field(default_factory=dict)
    alpha_pattern: dict[str, float] = field(default_factory=dict)

    peft_type: ClassVar[str] = "LOHA"


@dataclass
class IA3Config(AdapterConfig):
    """Vectors that scale what layers give (Liu et al., 2022): (IA)^3.

    feedforward_modules: the modules of target_modules whose inputs are scaled instead.

    `init_ia3_weights`: vectors of ones at first. `fan_in_fan_out` has no effect. The other fields
    are AdapterConfig's. Raises ValueError for feedforward_modules that are not among
    target_modules.
    """

    feedforward_modules: Names = None
    init_ia3_weights: bool = True
    fan_in_fan_out: bool = False

    peft_type: ClassVar[str] = "IA3"

    def __post_init__(self) -> None:
        super().__post_init__()
        fed, targets = self.feedforward_modules, self.target_modules
        if isinstance(fed, list) and isinstance(targets, list) and not set(fed) <= set(targets):
            raise ValueError(
                f"IA3Config: feedforward_modules {brief(fed)} are not all among target_modules "
                f"{brief(targets)}"
            )

    def feeds_forward(self, path: str) -> bool:
        """Whether the input of the module at `path` is scaled, and not its output."""
        fed = self.feedforward_modules or []
        if isinstance(fed, str):
            return pattern_of(fed, "feedforward_modules").fullmatch(path)
        return path.endswith(tuple(fed))


@dataclass
class TrainableTokensConfig(AdapterConfig):
    """Rows of the embedding that are the adapter's own, for the tokens `token_indices`.

    target_modules: names of the tables; default: that of the words.

    `init_weights`: the rows begin as the model's. The other fields are AdapterConfig's.
    `add_adapter` raises ValueError for tokens that there are not.
    """

    token_indices: list[int] = field(default_factory=list)
    init_weights: bool = True

    peft_type: ClassVar[str] = "TRAINABLE_TOKENS"


KINDS: dict[str, type[AdapterConfig]] = {
    cls.peft_type: cls for cls in (LoraConfig, LoHaConfig, IA3Config, TrainableTokensConfig)
}


def kinds() -> dict[str, type[AdapterConfig]]:
    """The configurations by PEFT's names of their kinds."""
    from rushlight.models.adapters.kinds.configs import CONFIGS

    return KINDS | CONFIGS


def from_json(data: bytes) -> AdapterConfig:
    """The configuration in adapter_config.json.

    Raises FormatError for a kind, a key or a value that is not supported.
    """
    values = parse_object(FILE, data)
    kind, every = values.get("peft_type"), kinds()
    _choose(f"{FILE}: peft_type", kind, tuple(every), FormatError)
    cls = every[str(kind)]
    known: dict[str, Any] = {}
    for setting in dataclasses.fields(cls):
        if setting.name in values:
            label = f"{FILE}: {setting.name}"
            known[setting.name] = _checked(
                label, setting.name, str(setting.type), values[setting.name]
            )
    init = known.get("init_lora_weights")
    if isinstance(init, str) and cls is LoraConfig:
        # Other values train another base than the checkpoint's, which no file tells.
        if not re.fullmatch(r"pissa_niter_\d{1,4}", init):
            _choose(f"{FILE}: init_lora_weights", init.lower(), _STARTS, FormatError)
        known["init_lora_weights"] = (
            init if init.startswith(("gaussian", "pissa", "olora")) else True
        )
    for name, neutral in NEUTRAL.items():
        if name in values and name not in known and values[name] not in neutral:
            raise FormatError(
                f"{FILE}: {name} is {brief(values[name])}, which is not supported; supported: "
                f"{', '.join(map(str, neutral))}"
            )
    try:
        return cls(**known)
    except ValueError as error:
        raise FormatError(f"{FILE}: {error}") from None


def _checked(label: str, name: str, kind: str, value: Any) -> Any:
    """`value` of a field; FormatError for one of another type or out of range."""
    wrong = FormatError(f"{label} is {brief(value)}; it must be of type {kind}")
    if kind == "Any":
        return value
    if kind.startswith("dict"):
        if value is None:
            return {}
        if not isinstance(value, dict) or any(isinstance(v, bool) for v in value.values()):
            raise wrong
        if not all(isinstance(v, int | float) for v in value.values()):
            raise wrong
        if len(value) > _MOST_PATTERNS:
            raise FormatError(f"{label} has {len(value)} patterns; at most {_MOST_PATTERNS}")
        for key, number in value.items():
            ending(label, key)
            checked(label, name, "int" if "int" in kind else "float", number)
    elif kind == "Names" or kind.startswith("list"):
        values = value if isinstance(value, list) else [] if value is None else [value]
        item: Any = int if "int" in kind else str
        alone = kind == "list[str] | None" and isinstance(value, str)
        if alone or not all(type(element) is item for element in values):
            raise wrong
        if isinstance(value, str) and name in _PATTERNS:
            pattern_of(value, label)
        elif name == "layers_pattern":
            for pattern in values:
                pattern_of(pattern, label, r"(?:^|.*?\.)", "")
    elif kind == "TokenIndices":
        lists = (
            list(value.values()) if isinstance(value, dict) else [] if value is None else [value]
        )
        for pattern in lists:
            if not isinstance(pattern, list) or not all(type(n) is int and 0 <= n for n in pattern):
                raise wrong
    elif kind == "bool | str":
        if not isinstance(value, bool | str):
            raise wrong
    else:
        value = checked(label, name, kind, value)
    if name == "r" and not 0 < value <= _LARGEST_RANK:
        raise FormatError(f"{label} is {brief(value)}, out of range")
    return value


def _pattern(patterns: Mapping[str, Any], path: str) -> str:
    """The first of the patterns that `path` ends with; `path` itself if none is."""
    return next((pattern for pattern in patterns if ending("a pattern", pattern).match(path)), path)


def pattern_of(text: str, label: str, before: str = "", after: str = "") -> Pattern:
    """See `basis.patterns.compiled`, which is imported once a configuration has a pattern."""
    from rushlight.core.basis.patterns import compiled

    return compiled(text, label, before, after)


def ending(label: str, pattern: str) -> Pattern:
    """What matches paths that end with a pattern; FormatError, with the label, for a bad one."""
    return pattern_of(pattern, label, r"(.*\.)?", "$")


def _choose(label: str, value: Any, supported: tuple[str, ...], kind: type = ValueError) -> None:
    if value not in supported:
        raise kind(f"{label} {brief(value)} is not supported; supported: {', '.join(supported)}")

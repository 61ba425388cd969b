"""Adapters: small parameters beside a model's weights, in PEFT's format. `rl.adapters`."""

from typing import TYPE_CHECKING, Any

from rushlight.models.adapters.attach import (
    add_adapter,
    delete_adapter,
    disable_adapter,
    set_adapter,
)
from rushlight.models.adapters.config import (
    AdapterConfig,
    IA3Config,
    LoHaConfig,
    LoraConfig,
    TrainableTokensConfig,
)
from rushlight.models.adapters.files import (
    adapter_from,
    adapter_from_gguf,
    load_adapter,
)
from rushlight.models.adapters.merge import merge_adapter, merge_and_unload, unmerge_adapter
from rushlight.models.adapters.record import active_adapters, adapters
from rushlight.models.adapters.shared import is_adapter, with_adapter
from rushlight.models.adapters.written import adapter_state, save_adapter

__all__ = [
    "AdaLoraConfig", "AdapterConfig", "HiraConfig", "IA3Config", "LoKrConfig", "OFTConfig",
    "VeraConfig", "LoHaConfig", "LoraConfig", "TrainableTokensConfig",
    "active_adapters", "adapter_from", "adapter_from_gguf", "adapter_state", "adapters",
    "add_adapter", "delete_adapter", "disable_adapter", "is_adapter", "load_adapter",
    "merge_adapter", "merge_and_unload", "save_adapter", "set_adapter", "unmerge_adapter",
    "with_adapter",
]  # fmt: skip

if TYPE_CHECKING:
    from rushlight.models.adapters.kinds.configs import (
        AdaLoraConfig,
        HiraConfig,
        LoKrConfig,
        OFTConfig,
        VeraConfig,
    )


def __getattr__(name: str) -> Any:
    """The configurations of rarer kinds, which are imported when they are asked for."""
    from rushlight.models.adapters.kinds import configs

    if name in __all__ and hasattr(configs, name):
        return getattr(configs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

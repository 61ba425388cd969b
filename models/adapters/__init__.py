"""Adapters: small parameters beside a model's weights, in PEFT's format. `rl.adapters`."""

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
from rushlight.models.adapters.kinds.configs import (
    AdaLoraConfig,
    HiraConfig,
    LoKrConfig,
    OFTConfig,
    VeraConfig,
)
from rushlight.models.adapters.merge import merge_adapter, merge_and_unload, unmerge_adapter
from rushlight.models.adapters.record import active_adapters, adapters
from rushlight.models.adapters.written import adapter_state, save_adapter

__all__ = [
    "AdaLoraConfig", "AdapterConfig", "HiraConfig", "IA3Config", "LoKrConfig", "OFTConfig",
    "VeraConfig", "LoHaConfig", "LoraConfig", "TrainableTokensConfig",
    "active_adapters", "adapter_from", "adapter_from_gguf", "adapter_state", "adapters",
    "add_adapter", "delete_adapter", "disable_adapter", "load_adapter", "merge_adapter",
    "merge_and_unload", "save_adapter", "set_adapter", "unmerge_adapter",
]  # fmt: skip

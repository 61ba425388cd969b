"""Adapters: small parameters beside a model's weights, in PEFT's format. `rl.adapters`."""

from rushlight.models.adapters.attach import (
    active_adapters,
    adapters,
    add_adapter,
    delete_adapter,
    disable_adapter,
    merge_adapter,
    merge_and_unload,
    set_adapter,
    unmerge_adapter,
)
from rushlight.models.adapters.config import AdapterConfig, IA3Config, LoHaConfig, LoraConfig

__all__ = [
    "AdapterConfig", "IA3Config", "LoHaConfig", "LoraConfig", "active_adapters", "adapters",
    "add_adapter", "delete_adapter", "disable_adapter", "merge_adapter", "merge_and_unload",
    "set_adapter", "unmerge_adapter",
]  # fmt: skip

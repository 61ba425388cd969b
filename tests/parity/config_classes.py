"""transformers' class of a configuration, where several share the class of a model."""

from __future__ import annotations

from typing import Any

from transformers.models.auto.configuration_auto import CONFIG_MAPPING


def config_class(kind: Any, model_type: str) -> Any:
    """That of a model_type which the model class `kind` computes, as LLaMA's computes EXAONE."""
    own = kind.config_class
    known = getattr(own, "model_type", model_type) == model_type or model_type not in CONFIG_MAPPING
    return own if known else CONFIG_MAPPING[model_type]

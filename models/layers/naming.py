"""Placing modules at the dotted paths of a checkpoint's names."""

from __future__ import annotations

from rushlight.core import nn


def put(root: nn.Module, path: str, module: nn.Module) -> None:
    """Make `module` the child of `root` at `path`; plain modules are made for missing parents."""
    *parents, name = path.split(".")
    for part in parents:
        if part not in vars(root):
            setattr(root, part, nn.Module())
        root = getattr(root, part)
    root.register_module(name, module)

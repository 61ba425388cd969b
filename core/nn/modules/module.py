"""Hooks that run for every module, before those of the module itself (torch.nn.modules.module)."""

from __future__ import annotations

from rushlight.core.nn.hooks import Hook, add_hook_of_all
from rushlight.core.nn.module import Module
from rushlight.core.tensor.hooks import RemovableHandle

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call hook(module, args) before every module's forward; it may return other arguments."""
    return add_hook_of_all("pre", hook, with_kwargs=False)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call hook(module, args, output) after every forward; it may return another output.

    with_kwargs: hook(module, args, kwargs, output). always_call: also where forward raises.
    """
    return add_hook_of_all("post", hook, with_kwargs=with_kwargs, always=always_call)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call hook(module, grad_output) before every module's backward; it may return others."""
    return add_hook_of_all("backward_pre", hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call hook(module, grad_input, grad_output); it may return other gradients of inputs."""
    return add_hook_of_all("backward", hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call hook(module, name, parameter) where one is assigned; it may return another."""
    return add_hook_of_all("new_parameter", hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call hook(module, name, tensor) where a buffer is registered; it may return another."""
    return add_hook_of_all("new_buffer", hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call hook(module, name, child) where a child is assigned; it may return another."""
    return add_hook_of_all("new_module", hook)

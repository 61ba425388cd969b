"""The declarations of ops and composites, collected: public functions and Tensor methods.

This module imports every file of core/ops/ and core/functional/, subfolders included. The types of
the declarations are in declared.pyi, which `make format` writes (tools/stubs.py).
"""

from importlib import import_module
from pkgutil import walk_packages

from rushlight.core import functional
from rushlight.core.ops.declare import METHODS, PUBLIC
from rushlight.core.tensor.op import Meta

import_module("rushlight.core.ops")
for _module in walk_packages(functional.__path__, f"{functional.__name__}."):
    import_module(_module.name)


class Declared(Meta):
    """Every declared method, with the tensor as its first argument; `x.exp()` is `exp(x)`."""

    __slots__ = ()


for _name, _method in METHODS.items():
    setattr(Declared, _name, _method)

globals().update(PUBLIC)
__all__ = sorted(PUBLIC)

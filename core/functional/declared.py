"""The declarations of ops and composites, collected: public functions and Tensor methods.

This module imports every file of core/ops/ and core/functional/, subfolders included. The types of
the declarations are in declared.pyi, which `make format` writes (tools/stubs.py).
"""

import sys
from importlib import import_module
from pkgutil import walk_packages

from rushlight.core import functional, ops
from rushlight.core.functional.calling import called
from rushlight.core.ops.declare import FFT, LINALG, METHODS, NETWORK, PUBLIC, SPECIAL
from rushlight.core.tensor.op import Meta

for _module in walk_packages(functional.__path__, f"{functional.__name__}."):
    import_module(_module.name)

# A declared function is the public one from here on, under its module's name too: rl.softmax is
# ops.softmax. Functions of ops/ and functional/ imported each other before, and call directly.
_TABLES = (PUBLIC, METHODS, SPECIAL, LINALG, FFT, NETWORK)
_public = {fn: called(fn) for table in _TABLES for fn in table.values()}
for _table in _TABLES:
    for _name, _fn in _table.items():
        if not _name.startswith("__"):
            _table[_name] = _public[_fn]
            for _place in (sys.modules[_fn.__module__], ops):
                if vars(_place).get(_fn.__name__) is _fn:
                    setattr(_place, _fn.__name__, _public[_fn])


class Declared(Meta):
    """Every declared method, with the tensor as its first argument; `x.exp()` is `exp(x)`."""

    __slots__ = ()


for _name, _method in METHODS.items():
    setattr(Declared, _name, _method)

globals().update(PUBLIC)
__all__ = sorted(PUBLIC)

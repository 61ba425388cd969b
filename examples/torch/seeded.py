"""Numbers that are the same everywhere: initial weights and data of the programs beside this."""

import numpy as np

import rushlight as torch


def numbers(*shape, seed=0):
    """float32 numbers in [-1, 1) by a hash of their place and the seed."""
    place = np.arange(int(np.prod(shape)), dtype=np.float64)
    mixed = np.sin(place * 12.9898 + (seed + 1) * 78.233) * 43758.5453
    return ((mixed - np.floor(mixed)) * 2 - 1).reshape(shape).astype(np.float32)


def integers(high, *shape, seed=0):
    """int64 numbers in [0, high)."""
    return np.minimum((numbers(*shape, seed=seed) + 1) / 2 * high, high - 1).astype(np.int64)


def fill(model, seed=0):
    """Give every parameter of two or more dims such numbers, scaled by its inputs."""
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            if p.ndim > 1:
                scale = float(np.prod(p.shape[1:])) ** -0.5
                p.copy_(torch.from_numpy(numbers(*p.shape, seed=seed + i) * scale))
            elif not bool((p == 1).all()):
                p.zero_()
    return model

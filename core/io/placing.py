"""Where loaded tensors go: `map_location` in all the forms that torch.load takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rushlight.core.backends import Device
from rushlight.core.backends import device as as_device
from rushlight.core.tensor.tensor import Tensor

# Where a storage goes: of its elements in a row, and the name of the device it was saved on.
Place = Callable[[Tensor, str], Device]


def placing(map_location: Any) -> Place:
    """The device for each storage of a file.

    map_location: None (the host), a device or its name, a dict from the names of devices that the
    file was saved on to others, or a function of (storage, name) that returns the storage on the
    device where it is to be, or None. Raises TypeError for anything else, ValueError for a device
    that there is not.
    """
    if map_location is None:
        return lambda storage, saved_on: storage.device
    if isinstance(map_location, str | Device):
        device = as_device(map_location)
        return lambda storage, saved_on: device
    if isinstance(map_location, Mapping):
        devices = {str(old): as_device(new) for old, new in map_location.items()}
        return lambda storage, saved_on: devices.get(saved_on, storage.device)
    if callable(map_location):

        def chosen(storage: Tensor, saved_on: str) -> Device:
            moved = map_location(storage, saved_on)
            if moved is None:
                return storage.device
            device = getattr(moved, "device", None)
            if not isinstance(device, Device):
                raise TypeError(
                    f"load: map_location returned a {type(moved).__name__}; it must return the "
                    "storage on the device where it is to be, or None"
                )
            return device

        return chosen
    raise TypeError(
        f"load: map_location is a {type(map_location).__name__}; it takes a device, the name of "
        "one, a dict of names, a function, or None"
    )


def placed(loaded: Any, place: Place) -> Any:
    """The tensors of a file without names of devices, a dict of them or one, each in its place."""
    if isinstance(loaded, Tensor):
        return loaded.to(place(loaded, "cpu"))
    if not isinstance(loaded, dict):  # NumPy's texts and times
        return loaded
    return {name: placed(item, place) for name, item in loaded.items()}

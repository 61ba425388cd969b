"""Values of a processor's JSON file, checked: what is of another kind is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.image.resize import FILTERS, MOST_SIDE

_STEPS = 256.0
_NAMES = {**{name: name for name in FILTERS}, "nearest-exact": "nearest"}


class Settings:
    """Values by their keys; `name` is that of the file in errors.

    A key that is null is false, or no value, as in transformers: only an absent one has the
    default of its class. FormatError for a value that is needed and null, out of range or of
    another type.
    """

    def __init__(self, values: Mapping[str, Any], name: str) -> None:
        self.values, self.name = values, name

    def bad(self, key: str, value: Any, more: str = "") -> FormatError:
        """The error for a value."""
        return FormatError(f"{self.name}: {key} is {brief(value)}, which is not supported{more}")

    def flag(self, key: str, default: bool) -> bool:
        """A truth value; 0 and 1 are such too."""
        value = self.values.get(key, default)
        if value is None:
            return False
        if not isinstance(value, int) or value not in (0, 1):
            raise self.bad(key, value, "; supported: true, false")
        return bool(value)

    def side(self, key: str, value: Any) -> int:
        """A number of pixels."""
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_SIDE:
            raise self.bad(key, value)
        return value

    def pair(self, key: str, value: Any) -> tuple[int, int]:
        """A height and a width: by name, in a list, or one number for both."""
        if isinstance(value, Mapping):
            return self.side(key, value.get("height")), self.side(key, value.get("width"))
        if isinstance(value, list) and len(value) == 2:
            return self.side(key, value[0]), self.side(key, value[1])
        return (self.side(key, value),) * 2

    def filter(self, default: str) -> str:
        """The filter of `resample`: Pillow's number, or torchvision's name."""
        value = self.values.get("resample", default)
        if isinstance(value, str) and value in (*_NAMES, default):
            return _NAMES.get(value, value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(FILTERS):
            raise self.bad("resample", value)
        return FILTERS[value]

    def number(self, key: str, default: float, least: float, most: float) -> float:
        """A number within bounds."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.bad(key, value)
        if not least <= value <= most:
            raise self.bad(key, value)
        return float(value)

    def whole(self, key: str, default: int) -> int:
        """A number of pixels, or the default."""
        return self.side(key, self.values.get(key, default))

    def three(self, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """A number for each channel, or one for all."""
        value = self.values.get(key, list(default))
        several = value if isinstance(value, list) else [value]
        several = several * 3 if len(several) == 1 else several
        fits = (
            len(several) == 3
            and all(
                isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < _STEPS
                for x in several
            )
            and ("std" not in key or min(several) > 0)
        )
        if not fits:
            raise self.bad(key, value)
        return tuple(map(float, several))

"""What pictures put in the place of tokens, as a dict of tensors that a captured step takes.

rows (batch, length, width): features, where `seen` (batch, length) is true. positions (3, batch,
length): by time, height and width, for models with sections of rotary positions. together (batch,
length): a number that tokens share which see each other, -1 for those that see earlier ones only;
near: the same, where a layer's window bounds what they see; windowed: the same, in no other layers
than those with windows. blank (1, 1): the token whose inputs of layers rows have.
deep (layers, batch, length, width): what is added after each of the first layers, or of those that
the decoder's description names.
"""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.core import ops
from rushlight.core.tensor.tensor import Tensor


def replaced(x: Tensor, pictured: Mapping[str, Tensor]) -> Tensor:
    """Embedded tokens (batch, length, width) with the rows of pictures in their places."""
    if "rows" not in pictured:  # a part of the prompt without pictures
        return x
    rows = pictured["rows"].to(x.dtype)
    out: Tensor = ops.where(pictured["seen"].unsqueeze(2), rows, x)
    return out


def deepened(
    x: Tensor, layer: int, pictured: Mapping[str, Tensor], layers: tuple[int, ...] = ()
) -> Tensor:
    """Hidden states after a layer, with what pictures add to them; layers: DecoderSpec's deep."""
    deep = pictured.get("deep")
    if deep is None or (layers and layer not in layers):
        return x
    number = layers.index(layer) if layers else layer
    return x if number >= deep.shape[0] else x + deep[number].to(x)


_GROUPS = ("together", "near", "windowed")


def sees_together(pictured: Mapping[str, Tensor] | None, window: int | None) -> bool:
    """Whether tokens of a layer with this window see later ones of their groups."""
    return pictured is not None and any(
        name in pictured and (window is not None or name != "windowed") for name in _GROUPS
    )


def seen_together(
    pictured: Mapping[str, Tensor],
    offset: Tensor | int,
    keys: int,
    window: int | None,
    mask: Tensor | None,
) -> Tensor:
    """Which keys each token sees, (batch, 1, length, keys): earlier ones, and those of its group.

    offset: (batch,), the number of keys before the first token. window: the earlier keys that are
    seen. mask: of padding, which nothing sees. `sees_together` must be true.
    """
    name = next(name for name in _GROUPS if name in pictured)
    near, together = name != "together", pictured[name]
    length = together.shape[1]
    before = offset if isinstance(offset, int) else offset.reshape(-1, 1)
    places = ops.arange(keys, device=together.device).unsqueeze(0)
    own = ops.arange(length, device=together.device).unsqueeze(0) + before
    seen = places.unsqueeze(1) <= own.unsqueeze(2)
    inside_window = None
    if window is not None:
        inside_window = places.unsqueeze(1) > own.unsqueeze(2) - window
        seen = seen & inside_window
    inside = (places - before).expand(together.shape[0], keys)  # among the tokens that are read now
    group = together.gather(1, inside.clamp(0, length - 1))
    group = ops.where((inside >= 0) & (inside < length), group, -1)
    same = (together.unsqueeze(2) == group.unsqueeze(1)) & (together >= 0).unsqueeze(2)
    if near and inside_window is not None:
        same = same & inside_window
    either: Tensor = (seen | same).unsqueeze(1)
    return either if mask is None else either & mask

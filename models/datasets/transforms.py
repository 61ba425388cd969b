"""Random changes of images, as torchvision's transforms make them, from rl's random numbers.

An image is a float tensor (channels, height, width) or a batch (n, channels, height, width), of
which every image is changed by itself. `rl.manual_seed` decides what is drawn; in a DataLoader the
numbers depend on the batch alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.embedding import one_hot
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.vision import affine_grid, grid_sample
from rushlight.core.functional.random import randperm
from rushlight.core.ops.random import rand, randint
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

_GREY = (0.2989, 0.587, 0.114)  # torchvision's weights of red, green and blue


class Compose:
    """One change after another."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class _Each:
    """A change of a batch; an image is a batch of one."""

    def __call__(self, image: Tensor) -> Tensor:
        if not isinstance(image, Tensor) or image.ndim not in (3, 4):
            shape = image.shape if isinstance(image, Tensor) else type(image).__name__
            raise ValueError(
                f"{type(self).__name__}: an image is {shape}; it must be (channels, "
                "height, width), or a batch of such"
            )
        changed = self.change(image if image.ndim == 4 else image.unsqueeze(0))
        return changed if image.ndim == 4 else changed.squeeze(0)

    def change(self, images: Tensor) -> Tensor:
        """The changed batch (n, channels, height, width)."""
        raise NotImplementedError(f"{type(self).__name__} has no method change")


def _draw(images: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    """A number for each image, (n, 1, 1, 1)."""
    return rand(len(images), 1, 1, 1, device=images.device) * (high - low) + low


class RandomHorizontalFlip(_Each):
    """Mirror an image with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p is {p}; it must be in [0, 1]")
        self.p = p

    def change(self, images: Tensor) -> Tensor:
        """Along the width."""
        flipped: Tensor = images.where(_draw(images) >= self.p, images.flip(-1))
        return flipped


class RandomVerticalFlip(RandomHorizontalFlip):
    """Turn an image upside down with probability p."""

    def change(self, images: Tensor) -> Tensor:
        """Along the height."""
        flipped: Tensor = images.where(_draw(images) >= self.p, images.flip(-2))
        return flipped


class RandomCrop(_Each):
    """A part of `size` (height and width, or one for both) somewhere in the image.

    padding: pixels around it before, of value `fill`. ValueError for a part larger than that.
    """

    def __init__(self, size: int | Sequence[int], padding: int = 0, fill: float = 0.0) -> None:
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        self.padding, self.fill = padding, fill

    def change(self, images: Tensor) -> Tensor:
        """Each image is cut elsewhere."""
        if self.padding:
            images = pad(images, [self.padding] * 4, value=self.fill)
        (height, width), (h, w) = images.shape[-2:], self.size
        if h > height or w > width:
            raise ValueError(f"RandomCrop: size is {self.size}; the image has {height} by {width}")
        count = len(images)
        tops = randint(0, height - h + 1, (count,)).tolist()
        lefts = randint(0, width - w + 1, (count,)).tolist()
        places = zip(images.unbind(), tops, lefts, strict=True)
        return stack([x[:, top : top + h, left : left + w] for x, top, left in places])


class Normalize(_Each):
    """(image - mean) / std, by channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        if len(mean) != len(std) or not all(std):
            raise ValueError(
                f"Normalize: mean is {mean}, std {std}; they need a number for each "
                "channel, and no std may be zero"
            )
        self.mean, self.std = list(mean), list(std)

    def change(self, images: Tensor) -> Tensor:
        """In the images' dtype."""
        shape = (len(self.mean), 1, 1)
        mean, std = (
            tensor(v, dtype=images.dtype, device=images.device).reshape(shape)
            for v in (self.mean, self.std)
        )
        return (images - mean) / std


class ColorJitter(_Each):
    """Brightness, contrast and saturation times factors in [1 - x, 1 + x], in this order.

    Images are red, green and blue in [0, 1], and stay there.

    `brightness`, `contrast` and `saturation` are these x. Raises ValueError for a negative one.
    """

    def __init__(
        self, brightness: float = 0.0, contrast: float = 0.0, saturation: float = 0.0
    ) -> None:
        strengths = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
        for name, value in strengths.items():
            if value < 0:
                raise ValueError(f"ColorJitter: {name} is {value}; it must not be negative")
        self.brightness, self.contrast, self.saturation = brightness, contrast, saturation

    def _mixed(self, images: Tensor, other: Any, most: float) -> Tensor:
        factor = _draw(images, max(0.0, 1 - most), 1 + most)
        mixed: Tensor = (images * factor + other * (1 - factor)).clamp(0, 1)
        return mixed

    def change(self, images: Tensor) -> Tensor:
        """Each image by factors of its own."""
        if self.brightness:
            images = self._mixed(images, 0.0, self.brightness)
        if self.contrast:
            images = self._mixed(images, _grey(images).mean((1, 2, 3), True), self.contrast)
        if self.saturation:
            images = self._mixed(images, _grey(images), self.saturation)
        return images


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] != 3:
        raise ValueError(
            f"ColorJitter: images have {images.shape[1]} channels; contrast and "
            "saturation need red, green and blue"
        )
    weights = tensor(_GREY, dtype=images.dtype, device=images.device).reshape(1, 3, 1, 1)
    return (images * weights).sum(1, keepdim=True)


class RandomRotation(_Each):
    """Turn an image around its middle by up to `degrees`, or from the first of two to the second.

    Counterclockwise. Corners that come from outside are black.
    """

    def __init__(self, degrees: float | Sequence[float]) -> None:
        plain = isinstance(degrees, int | float)
        self.degrees = (-degrees, degrees) if plain else tuple(degrees)  # type: ignore[operator, arg-type]

    def change(self, images: Tensor) -> Tensor:
        """By bilinear sampling."""
        angle = _draw(images, *self.degrees).reshape(-1) * (math.pi / 180)
        height, width = images.shape[-2:]
        sin, cos, zero = angle.sin(), angle.cos(), angle * 0
        rows = (
            stack([cos, -sin * (height / width), zero], 1),
            stack([sin * (width / height), cos, zero], 1),
        )
        grid = affine_grid(stack(rows, 1), list(images.shape), align_corners=False)
        return grid_sample(images, grid, align_corners=False)


class _Mix:
    """A change of (images, targets) that mixes pairs; targets become shares of num_classes."""

    def __init__(self, num_classes: int, alpha: float = 1.0) -> None:
        if alpha <= 0 or num_classes < 2:
            raise ValueError(
                f"{type(self).__name__}: alpha is {alpha}, num_classes {num_classes}; "
                "they must be above 0 and 1"
            )
        self.num_classes, self.alpha = num_classes, alpha

    def _share(self) -> float:
        from rushlight.core.distributions import Beta

        return float(Beta(tensor(self.alpha), tensor(self.alpha)).sample().item())

    def _mixed(self, targets: Tensor, order: Tensor, share: float) -> Tensor:
        known = one_hot(targets, self.num_classes).float() if targets.ndim == 1 else targets
        return known * share + known[order] * (1 - share)


class MixUp(_Mix):
    """Images and targets are share * one + (1 - share) * another of the batch (Zhang et al., 2017).

    The share is drawn from Beta(alpha, alpha), once a batch. Targets: (n,) classes or (n, classes)
    shares; they become (n, classes) float32, which cross_entropy takes.
    """

    def __call__(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        share, order = self._share(), randperm(len(images), device=images.device)
        return images * share + images[order] * (1 - share), self._mixed(targets, order, share)


class CutMix(_Mix):
    """A rectangle of each image comes from another of the batch (Yun et al., 2019).

    Its area is 1 - share of the image's, with the share of `MixUp`; targets are mixed by the area
    that is left inside the image.
    """

    def __call__(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        share, order = self._share(), randperm(len(images), device=images.device)
        height, width = images.shape[-2:]
        half = 0.5 * math.sqrt(1 - share)
        y, x = int(randint(0, height, ()).item()), int(randint(0, width, ()).item())
        top, bottom = max(0, y - int(half * height)), min(height, y + int(half * height))
        left, right = max(0, x - int(half * width)), min(width, x + int(half * width))
        mixed = images.clone()
        mixed[..., top:bottom, left:right] = images[order][..., top:bottom, left:right]
        kept_share = 1 - (bottom - top) * (right - left) / (height * width)
        return mixed, self._mixed(targets, order, kept_share)


__all__ = [
    "ColorJitter",
    "Compose",
    "CutMix",
    "MixUp",
    "Normalize",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomRotation",
    "RandomVerticalFlip",
]

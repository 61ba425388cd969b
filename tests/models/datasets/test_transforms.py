"""Random changes of images: what they draw from, and their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl

transforms = rl.datasets.transforms

DRAWS = np.random.default_rng(1)
IMAGES = DRAWS.random((6, 3, 8, 10)).astype(np.float32)


def given(device: str) -> rl.Tensor:
    return rl.tensor(IMAGES, device=device)


CHANGES = {
    "flip": transforms.RandomHorizontalFlip(),
    "turn": transforms.RandomVerticalFlip(),
    "crop": transforms.RandomCrop((5, 7), padding=2, fill=0.5),
    "jitter": transforms.ColorJitter(0.4, 0.3, 0.2),
    "rotate": transforms.RandomRotation(30),
    "normalize": transforms.Normalize([0.1, 0.2, 0.3], [0.5, 1, 2]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_seed_decides(name: str, device: str) -> None:
    change: Any = CHANGES[name]
    found = []
    for seed in (1, 1, 2):
        rl.manual_seed(seed)
        found.append(change(given(device)))
    assert found[0].device == given(device).device
    np.testing.assert_array_equal(found[0].numpy(), found[1].numpy())
    if name != "normalize":
        assert not np.array_equal(found[0].numpy(), found[2].numpy())
    rl.manual_seed(1)
    one = change(given(device)[0])
    assert one.ndim == 3 and one.shape == found[0].shape[1:]
    with pytest.raises(ValueError, match=r"an image is \(8,\)"):
        change(rl.ones(8))


def test_flips_and_crops(device: str) -> None:
    x = given(device)
    np.testing.assert_array_equal(
        transforms.RandomHorizontalFlip(1.0)(x).numpy(), IMAGES[..., ::-1]
    )
    np.testing.assert_array_equal(transforms.RandomVerticalFlip(0.0)(x).numpy(), IMAGES)
    np.testing.assert_array_equal(
        transforms.RandomVerticalFlip(1.0)(x).numpy(), IMAGES[..., ::-1, :]
    )
    rl.manual_seed(0)
    both = transforms.RandomHorizontalFlip()(rl.stack([x[0]] * 64))
    mirrored = (both.numpy() == IMAGES[0, ..., ::-1]).all((1, 2, 3))
    assert 16 < mirrored.sum() < 48 and (both.numpy()[~mirrored] == IMAGES[0]).all()
    padded = np.pad(IMAGES, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for image, whole in zip(transforms.RandomCrop(6, padding=1)(x).numpy(), padded, strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(whole, (3, 6, 6))[0]
        assert any(np.array_equal(image, w) for row in windows for w in row)
    with pytest.raises(ValueError, match=r"size is \(9, 9\); the image has 8 by 10"):
        transforms.RandomCrop(9)(x)


def test_colours_follow_their_factors(device: str) -> None:
    # Each image is a mix of itself and of black, of its mean grey, or of its grey.
    grey = np.tensordot(IMAGES, [0.2989, 0.587, 0.114], (1, 0))[:, None]
    others: dict[str, Any] = {
        "brightness": 0 * grey,
        "contrast": grey.mean((1, 2, 3), keepdims=True),
        "saturation": grey,
    }
    for name, other in others.items():
        rl.manual_seed(5)
        found = transforms.ColorJitter(**{name: 0.3})(given(device)).numpy()
        for image, before, end in zip(found, IMAGES, other, strict=True):
            inside = (image > 0) & (image < 1) & (abs(before - end) > 0.05)
            factors = ((image - end) / (before - end))[inside]
            assert np.ptp(factors) < 1e-3 and 0.7 <= factors.mean() <= 1.3, name
    with pytest.raises(ValueError, match="images have 1 channels"):
        transforms.ColorJitter(contrast=0.1)(rl.ones(1, 4, 4))


def test_turns_by_right_angles(device: str) -> None:
    square = rl.tensor(IMAGES[..., :8], device=device)
    for degrees, turns in ((90, 1), (180, 2), (-90, 3)):
        found = transforms.RandomRotation([degrees, degrees])(square)
        wanted = np.rot90(IMAGES[..., :8], turns, (2, 3))
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-4)
    half = transforms.RandomRotation([180, 180])(given(device))  # not square
    np.testing.assert_allclose(half.numpy(), IMAGES[..., ::-1, ::-1], atol=1e-4)


def test_normalize(device: str) -> None:
    found = transforms.Normalize([0.1, 0.2, 0.3], [0.5, 1, 2])(given(device)).numpy()
    mean, std = (np.reshape(v, (3, 1, 1)) for v in ([0.1, 0.2, 0.3], [0.5, 1, 2]))
    np.testing.assert_allclose(found, (IMAGES - mean) / std, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="no std may be zero"):
        transforms.Normalize([0.0], [0.0])


@pytest.mark.parametrize("kind", [transforms.MixUp, transforms.CutMix])
def test_mixtures(kind: Any, device: str) -> None:
    # Image i is i everywhere, so a pixel tells where it comes from.
    x = rl.arange(6, device=device).float().reshape(6, 1, 1, 1) + rl.zeros(
        6, 1, 8, 8, device=device
    )
    y = rl.arange(6, device=device)
    rl.manual_seed(4)
    images, targets = kind(6, alpha=1.0)(x, y)
    assert tuple(targets.shape) == (6, 6)
    np.testing.assert_allclose(targets.sum(1).numpy(), 1, rtol=1e-5)
    # The mean of an image is the mean of the numbers of what it is made of.
    means = images.mean((1, 2, 3)).numpy()
    np.testing.assert_allclose(means, targets.numpy() @ np.arange(6), rtol=1e-4, atol=1e-4)
    again, _ = kind(6)(x, targets)
    assert again.shape == images.shape
    with pytest.raises(ValueError, match="alpha is 0"):
        kind(6, 0)


def test_one_after_another() -> None:
    both = transforms.Compose([transforms.Normalize([0.5], [0.5]), lambda x: x.abs()])
    assert both(rl.zeros(1, 2, 2)).tolist() == [[[1.0, 1.0], [1.0, 1.0]]]

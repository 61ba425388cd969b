"""Silero VAD: audio in parts gives the probabilities of the whole."""

import numpy as np
import pytest

from rushlight import from_numpy
from rushlight.models.families.speech.silero_vad import SileroVAD


def test_parts_are_the_whole() -> None:
    model = SileroVAD()
    samples = np.random.default_rng(0).standard_normal((2, 512 * 5 + 100)).astype(np.float32)
    whole, _ = model(from_numpy(samples))
    first, state = model(from_numpy(samples[:, :1024]))
    rest, _ = model(from_numpy(samples[:, 1024:]), state)
    assert whole.shape == (2, 6)
    np.testing.assert_allclose(
        np.concatenate([first.numpy(), rest.numpy()], 1), whole.numpy(), atol=1e-6
    )
    fresh, _ = model(from_numpy(samples[:, 1024:]))
    assert np.abs(fresh.numpy() - rest.numpy()).max() > 1e-5  # the state matters


def test_samples_of_one_dim_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be \(batch, n\)"):
        SileroVAD()(from_numpy(np.zeros(512, np.float32)))

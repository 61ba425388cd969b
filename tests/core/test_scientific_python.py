"""scikit-learn and matplotlib take tensors, and say what to do with one that requires grad."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import matplotlib
import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.native


def test_scikit_learn_fits_tensors(device: str) -> None:
    from sklearn.linear_model import LinearRegression  # type: ignore[import-untyped]
    from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
    from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

    x = rl.arange(24.0, device=device).reshape(12, 2) ** 0.5
    y = x @ rl.tensor([2.0, -1.0], device=device) + 3
    model = LinearRegression().fit(x, y)
    np.testing.assert_allclose(model.coef_, [2, -1], 1e-3)
    np.testing.assert_allclose(model.predict(x), y.numpy(), 1e-3)
    scaled = StandardScaler().fit_transform(x)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-5)
    parts = train_test_split(x.cpu(), y.cpu(), random_state=0)
    assert [p.shape[0] for p in parts] == [9, 3, 9, 3]
    with pytest.raises(RuntimeError, match=r"the tensor requires grad; use detach\(\)"):
        LinearRegression().fit(x.requires_grad_(), y)


def test_scikit_learn_dispatches_by_the_array_api() -> None:
    program = """
import rushlight as rl, sklearn
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

x = rl.randn(30, 4)
with sklearn.config_context(array_api_dispatch=True):
    for made in (StandardScaler().fit_transform(x), PCA(2, svd_solver="full").fit_transform(x)):
        assert isinstance(made, rl.Tensor) and abs(float(made.mean())) < 1e-5
"""
    env = {**os.environ, "SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, env=env)


def test_matplotlib_plots_tensors(device: str) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    x, y = rl.arange(4.0, device=device), rl.tensor([1, 4, 9, 16], device=device)
    figure = pyplot.figure()
    axes: Any = figure.add_subplot()
    try:
        lines: Any = axes.plot(x, y)
        assert np.asarray(lines[0].get_xydata()).tolist() == [[0, 1], [1, 4], [2, 9], [3, 16]]
        assert np.asarray(axes.plot(y)[0].get_ydata()).tolist() == [1, 4, 9, 16]
        assert np.asarray(axes.imshow(y.reshape(2, 2)).get_array()).tolist() == [[1, 4], [9, 16]]
        assert axes.scatter(x, y).get_offsets().shape == (4, 2)
        assert axes.hist(y, bins=2)[0].tolist() == [2, 2]
        assert [bar.get_height() for bar in axes.bar(x, y)] == [1, 4, 9, 16]
        with pytest.raises(RuntimeError, match=r"the tensor requires grad; use detach\(\)"):
            axes.plot(x.requires_grad_())
    finally:
        pyplot.close(figure)

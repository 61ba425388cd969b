"""Transforms of shapes, of pieces of a value and of matrices: torch's values and Jacobians."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.core.basis.errors import ShapeError

D: Any = rl.distributions
T: Any = D.transforms

ROWS: dict[str, tuple[Any, Any, list[float], Any]] = {
    "rows of correlations": (
        T.CorrCholeskyTransform(),
        [0.3, -0.2, 0.8],
        [1.0, 0.0, 0.0, 0.29131, 0.95663, 0.0, -0.19738, 0.65097, 0.73299],
        -0.72979,
    ),
    "pieces": (
        T.CatTransform([T.ExpTransform(), T.AffineTransform(1.0, 2.0)], 0, [1, 2]),
        [0.3, 0.2, 0.1],
        [1.34986, 1.4, 1.2],
        [0.3, 0.69315, 0.69315],
    ),
    "slices": (
        T.StackTransform([T.ExpTransform(), T.SigmoidTransform()]),
        [0.3, 0.2],
        [1.34986, 0.54983],
        [0.3, -1.39628],
    ),
    "quantiles": (
        T.CumulativeDistributionTransform(D.Normal(0.0, 1.0)),
        [0.3, -1.0],
        [0.61791, 0.15866],
        [-0.96394, -1.41894],
    ),
    "shape": (T.ReshapeTransform((4,), (2, 2)), [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], 0.0),
}


@pytest.mark.parametrize("name", ROWS)
def test_values_and_jacobians_are_those_of_torch(name: str) -> None:
    transform, values, expected, jacobian = ROWS[name]
    x = rl.tensor(values)
    y = transform(x)
    assert y.flatten().tolist() == pytest.approx(expected, abs=1e-5)
    assert transform.log_abs_det_jacobian(x, y).tolist() == pytest.approx(jacobian, abs=1e-5)
    assert transform.inv(y).tolist() == pytest.approx(values, abs=1e-5)
    assert transform.forward_shape((5, *x.shape)) == (5, *y.shape)


def test_positive_definite_matrices() -> None:
    transform = T.PositiveDefiniteTransform()
    y = transform(rl.tensor([[0.3, 0.0], [0.2, -0.5]]))
    assert y.flatten().tolist() == pytest.approx([1.82212, 0.26997, 0.26997, 0.40788], abs=1e-5)
    assert rl.allclose(transform.inv(y), rl.tensor([[0.3, 0.0], [0.2, -0.5]]), atol=1e-5)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ShapeError, match="the same number of elements"):
        T.ReshapeTransform((4,), (3,))
    with pytest.raises(ShapeError, match="does not end in"):
        T.ReshapeTransform((4,), (2, 2))(rl.zeros(3))
    with pytest.raises(ShapeError, match="2 lengths for 1 transforms"):
        T.CatTransform([T.ExpTransform()], 0, [1, 2])
    with pytest.raises(ShapeError, match="the lengths"):
        T.CatTransform([T.ExpTransform()])(rl.zeros(2))
    with pytest.raises(ShapeError, match="there are 1 transforms"):
        T.StackTransform([T.ExpTransform()])(rl.zeros(2))
    with pytest.raises(ShapeError, match="is no d"):
        T.CorrCholeskyTransform()(rl.zeros(2))

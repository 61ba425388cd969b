"""Tables of noise: betas and their products, spacings of timesteps, and spacings of sigmas.

They are float32 as in diffusers, since steps between them are to give its samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rushlight.models.schedulers.base import Array, floats

BETAS: dict[str, Any] = {
    "num_train_timesteps": 1000,
    "beta_start": 0.0001,
    "beta_end": 0.02,
    "beta_schedule": "linear",
    "trained_betas": None,
}
SCHEDULES = ("linear", "scaled_linear", "squaredcos_cap_v2")
SPACINGS = ("linspace", "leading", "trailing")
PREDICTIONS = ("epsilon", "sample", "v_prediction")
THRESHOLDS: dict[str, Any] = {
    "thresholding": False,
    "dynamic_thresholding_ratio": 0.995,
    "sample_max_value": 1.0,
}
SIGMAS: dict[str, Any] = {
    "use_karras_sigmas": False,
    "use_exponential_sigmas": False,
    "use_beta_sigmas": False,
}
_NEARLY_ZERO = np.float32(2.0**-24)  # a signal that float16 can hold


def betas_of(config: Mapping[str, Any]) -> Array:
    """The betas (steps of training,) that a config asks for."""
    count = config["num_train_timesteps"]
    first, last, schedule = config["beta_start"], config["beta_end"], config["beta_schedule"]
    if config["trained_betas"] is not None:
        return floats(config["trained_betas"])
    if schedule == "linear":
        return even(first, last, count)
    if schedule == "scaled_linear":
        return even(first**0.5, last**0.5, count) ** 2
    if schedule == "sigmoid":
        places = even(-6, 6, count)
        rising = np.float32(1) / (np.float32(1) + np.exp(-places))
        return floats(rising * np.float32(last - first) + np.float32(first))
    signal = _SIGNALS[schedule]
    ratios = [signal((i + 1) / count) / signal(i / count) for i in range(count)]
    return floats([min(1 - ratio, 0.999) for ratio in ratios])


def even(first: float, last: float, count: int) -> Array:
    """`count` float32 numbers from `first` to `last`, each counted from the nearer end.

    The step is a float32, and product and sum are rounded once.
    """
    step = np.float64((np.float32(last) - np.float32(first)) / np.float32(max(count - 1, 1)))
    low, high = np.float64(np.float32(first)), np.float64(np.float32(last))
    places = np.arange(count, dtype=np.float64)
    rising, falling = low + step * places, high - step * places[::-1]
    return np.where(np.arange(count) < count // 2, rising, falling).astype(np.float32)


def _laplace(t: float) -> float:
    half = 0.5 - t
    level = -0.5 * math.copysign(1, half) * math.log(1 - 2 * abs(half) + 1e-6)
    ratio = math.exp(level)
    return math.sqrt(ratio / (1 + ratio))


# The share of the signal that is left at a time from 0 to 1.
_SIGNALS: dict[str, Callable[[float], float]] = {
    "squaredcos_cap_v2": lambda t: math.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2,
    "laplace": _laplace,
    "exp": lambda t: math.exp(t * -12.0),
}


def signals_of(config: Mapping[str, Any], nearly_zero: bool = False) -> Array:
    """The products of 1 - beta (steps of training,).

    With rescale_betas_zero_snr the last is 0 (Lin et al., 2023), or nearly_zero, for schedulers
    that divide by it.
    """
    betas = betas_of(config)
    rescaled = config.get("rescale_betas_zero_snr", False)
    betas = zero_terminal(betas) if rescaled else betas
    signals = product(np.float32(1) - betas)
    if rescaled and nearly_zero:
        signals[-1] = _NEARLY_ZERO
    return signals


def product(values: Array) -> Array:
    """Products of float32 numbers from the first on, each rounded once."""
    return np.cumprod(values.astype(np.float64)).astype(np.float32)


def zero_terminal(betas: Array) -> Array:
    """Betas whose last product of 1 - beta is 0, with the first one's signal unchanged."""
    roots = np.sqrt(product(np.float32(1) - betas))
    first, last = roots[0], roots[-1]
    roots = (roots - last) * (first / (first - last))
    signals = roots**2
    return floats(1 - np.concatenate([signals[:1], signals[1:] / signals[:-1]]))


def sigmas_of(signals: Array) -> Array:
    """Noise over signal for each product."""
    return np.sqrt((np.float32(1) - signals) / signals)


def spaced(config: Mapping[str, Any], steps: int, rounded: bool = True) -> Array:
    """The timesteps of a run (Lin et al., 2023), the noisiest first."""
    train, spacing = config["num_train_timesteps"], config["timestep_spacing"]
    if spacing == "linspace":
        kind = np.float64 if rounded else np.float32
        times: Array = np.linspace(0, train - 1, steps, dtype=kind)[::-1]
        return times.round() if rounded else times
    if spacing == "leading":
        leading: Array = np.arange(steps)[::-1] * (train // steps) + float(config["steps_offset"])
        return leading
    trailing: Array = np.arange(train, 0, -train / steps).round() - 1.0
    return trailing


def spaced_inside(config: Mapping[str, Any], steps: int, last: int | None = None) -> Array:
    """The timesteps of a solver, whose last step ends at the picture.

    last: where they begin, the steps of training.
    """
    train, spacing = config["num_train_timesteps"], config["timestep_spacing"]
    last = train if last is None else last
    if spacing == "linspace":
        return np.linspace(0, last - 1, steps + 1).round()[::-1][:-1]
    if spacing == "leading":
        ratio = last // (steps + 1)
        return np.arange(steps + 1)[::-1][:-1] * ratio + float(config["steps_offset"])
    return np.arange(last, 0, -train / steps).round() - 1.0


def interpolated(times: Array, sigmas: Array) -> Array:
    """The sigmas at timesteps between those of training."""
    return np.interp(times, np.arange(len(sigmas)), sigmas)


def respaced(config: Mapping[str, Any], sigmas: Array, steps: int) -> Array | None:
    """The sigmas of a run, the largest first, as the config spaces them; None: as they are."""
    low = config.get("sigma_min")
    high = config.get("sigma_max")
    low = float(sigmas[-1]) if low is None else low
    high = float(sigmas[0]) if high is None else high
    if config.get("use_karras_sigmas"):  # Karras et al., 2022
        ends = high ** (1 / 7.0), low ** (1 / 7.0)
        curve: Array = (ends[0] + np.linspace(0, 1, steps) * (ends[1] - ends[0])) ** 7.0
        return curve
    if config.get("use_exponential_sigmas"):
        return np.exp(np.linspace(math.log(high), math.log(low), steps))
    if config.get("use_beta_sigmas"):  # Lee et al., 2024
        shares = [beta_quantile(p, 0.6, 0.6) for p in 1 - np.linspace(0, 1, steps)]
        return np.array([low + share * (high - low) for share in shares])
    return None


def times_of(sigmas: Array, table: Array) -> Array:
    """The timesteps, with fractions, at which the table of sigmas has these."""
    logs, wanted = np.log(table), np.log(np.maximum(sigmas, 1e-10))
    times = []
    for value in wanted:
        above = np.cumsum(value - logs >= 0)
        low = min(int(above.argmax()), len(logs) - 2)
        share = np.clip((logs[low] - value) / (logs[low] - logs[low + 1]), 0, 1)
        times.append((1 - share) * low + share * (low + 1))
    return np.array(times)


def beta_quantile(share: float, a: float, b: float) -> float:
    """The value below which a share of the beta distribution lies, by bisection."""
    if share <= 0 or share >= 1:
        return float(share >= 1)
    if share > 0.5 and a == b:
        return 1 - beta_quantile(1 - share, a, b)
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _beta_share(middle, a, b) < share else (low, middle)
    return (low + high) / 2


def _beta_share(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (Lentz, 1976)."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(1 - x, b, a)
    if x <= 0:
        return 0.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny, c = 1e-300, 1.0
    d = 1 - (a + b) * x / (a + 1)
    d = 1 / (d if d else tiny)
    value = d
    for m in range(1, 200):
        even_term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd_term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even_term, odd_term):
            d, c = 1 + term * d, 1 + term / c
            d = 1 / (d if d else tiny)
            c = c if c else tiny
            value *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return front * value / a

"""Schedulers: diffusers' samples after 20 steps, noise and velocities of training, refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl

ROWS = json.loads((Path(__file__).parent / "data" / "schedulers.json").read_text())
SHAPE = (2, 2, 3)


def values(number: int, kind: float) -> npt.NDArray[np.float64]:
    """As tests/parity/make_scheduler_goldens.py has them."""
    places = np.arange(math.prod(SHAPE), dtype=np.float64)
    return (1.3 * np.sin(kind * (number + 1) + 0.7 * places)).reshape(SHAPE)


def _name(golden: dict[str, Any]) -> str:
    return f"{golden['class'].removesuffix('Scheduler')}{ROWS.index(golden)}"


@pytest.mark.parametrize("golden", ROWS, ids=_name)
def test_the_sample_after_twenty_steps_is_diffusers(golden: dict[str, Any]) -> None:
    options = dict(golden["options"])
    setting = {"mu": options.pop("mu")} if "mu" in options else {}
    scheduler: Any = getattr(rl.schedulers, golden["class"]).from_config(golden["config"])
    scheduler.set_timesteps(20, **setting)
    np.testing.assert_allclose(
        scheduler.timesteps.numpy()[::3], golden["timesteps"], rtol=1e-6, atol=1e-4
    )
    sample = rl.tensor(values(50, 0.9)) * float(scheduler.init_noise_sigma)
    for number, t in enumerate(scheduler.timesteps):
        scaled = scheduler.scale_model_input(sample, t)
        output = 0.3 * scaled + rl.tensor(values(number, 1.7))
        if golden["config"].get("variance_type") == "learned_range":
            output = rl.cat([output, rl.tensor(values(number, 0.4))], 1)
        if scheduler.step.__kwdefaults__:  # it draws noise
            options["variance_noise"] = rl.tensor(values(number, 2.1))
        sample = scheduler.step(output, t, sample, **options)[0]
    found = sample.double().numpy().reshape(-1)
    scale = max(1.0, float(np.abs(golden["sample"]).max()))
    # Of order 3 diffusers' own float32 coefficients, differences of differences, differ more
    # between processors.
    near = 2e-6 if golden["config"].get("solver_order") == 3 else 1e-6
    np.testing.assert_allclose(found, golden["sample"], rtol=0, atol=near * scale)


@pytest.mark.parametrize("golden", [r for r in ROWS if "noisy" in r], ids=_name)
def test_noise_and_velocities_of_training_are_diffusers(golden: dict[str, Any]) -> None:
    scheduler: Any = getattr(rl.schedulers, golden["class"])(**golden["config"])
    scheduler.set_timesteps(20)
    begin = scheduler.timesteps[rl.tensor([2, 7])]
    clean, drawn = rl.tensor(values(3, 0.5)), rl.tensor(values(4, 0.6))
    noisy = scheduler.add_noise(clean, drawn, begin).numpy().reshape(-1)
    np.testing.assert_allclose(noisy, golden["noisy"], rtol=1e-6, atol=1e-6)
    if "velocity" in golden:
        velocity = scheduler.get_velocity(clean, drawn, begin).numpy().reshape(-1)
        np.testing.assert_allclose(velocity, golden["velocity"], rtol=1e-6, atol=1e-6)


def test_a_scheduler_reads_files_and_other_configs_and_refuses_by_name(tmp_path: Path) -> None:
    written = rl.schedulers.PNDMScheduler(skip_prk_steps=True, steps_offset=1)
    written.save_pretrained(tmp_path / "scheduler")
    again = rl.schedulers.from_pretrained(tmp_path, "scheduler")
    assert type(again) is rl.schedulers.PNDMScheduler and again.config.skip_prk_steps
    other = rl.schedulers.EulerDiscreteScheduler.from_config(written.config, use_karras_sigmas=True)
    assert other.config.steps_offset == 1 and other.config.timestep_spacing == "linspace"
    with pytest.raises(ValueError, match="beta_schedule 'cubic' is not supported; supported: lin"):
        rl.schedulers.DDIMScheduler(beta_schedule="cubic")
    with pytest.raises(TypeError, match="the key 'use_karras' is not supported"):
        rl.schedulers.EulerDiscreteScheduler(use_karras=True)
    with pytest.raises(ValueError, match="num_inference_steps is 100000; it must be 1 to 1000"):
        other.set_timesteps(100_000)
    with pytest.raises(ValueError, match="'ScoreSdeVeScheduler' is not supported; supported: DDIM"):
        rl.schedulers.from_config({"_class_name": "ScoreSdeVeScheduler"})
    with pytest.raises(ValueError, match="use_dynamic_shifting needs mu"):
        rl.schedulers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True).set_timesteps(4)


def test_a_model_learns_with_a_scheduler() -> None:
    rl.manual_seed(0)
    scheduler = rl.schedulers.DDPMScheduler(num_train_timesteps=50, prediction_type="v_prediction")
    layer = rl.nn.Linear(3, 3)
    optimizer = rl.optim.SGD(layer.parameters(), lr=0.1)

    @rl.compile
    def step(clean: rl.Tensor, noise: rl.Tensor, times: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        noisy = scheduler.add_noise(clean, noise, times)
        target = scheduler.get_velocity(clean, noise, times)
        loss = (layer(noisy) - target).square().mean()
        loss.backward()
        optimizer.step()
        told: rl.Tensor = loss.detach()
        return told

    clean = rl.ones(64, 3)
    losses = [step(clean, rl.randn(64, 3), rl.randint(0, 50, (64,))).item() for _ in range(40)]
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])

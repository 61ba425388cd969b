"""Write tests/models/data/schedulers.json: what diffusers' schedulers make of given outputs.

Run with a Python that has torch and diffusers. Samples and outputs are float64, by a formula that
tests/models/test_schedulers.py has too.
"""

import importlib
import json
import math
import sys
import types
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import torch

PLACE = Path(__file__).resolve().parents[1] / "models" / "data" / "schedulers.json"
SHAPE = (2, 2, 3)
STEPS = 20


def values(number: int, kind: float, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """An array of a formula: an output's or a noise's part that no sample decides."""
    places = np.arange(math.prod(shape), dtype=np.float64)
    return (1.3 * np.sin(kind * (number + 1) + 0.7 * places)).reshape(shape)


SCALED = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
ROWS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("DDPMScheduler", {}, {}),
    (
        "DDPMScheduler",
        {"beta_schedule": "squaredcos_cap_v2", "variance_type": "fixed_small_log"},
        {},
    ),
    ("DDPMScheduler", {"variance_type": "fixed_large", "prediction_type": "v_prediction"}, {}),
    (
        "DDPMScheduler",
        {
            "variance_type": "learned_range",
            "timestep_spacing": "trailing",
            "beta_schedule": "sigmoid",
            "clip_sample_range": 2.0,
        },
        {},
    ),
    (
        "DDPMScheduler",
        {"thresholding": True, "sample_max_value": 3.0, "prediction_type": "sample"},
        {},
    ),
    ("DDPMScheduler", {"beta_schedule": "laplace", "timestep_spacing": "linspace"}, {}),
    ("DDIMScheduler", {}, {}),
    (
        "DDIMScheduler",
        {**SCALED, "clip_sample": False, "set_alpha_to_one": False, "steps_offset": 1},
        {},
    ),
    (
        "DDIMScheduler",
        {
            **SCALED,
            "prediction_type": "v_prediction",
            "rescale_betas_zero_snr": True,
            "timestep_spacing": "trailing",
        },
        {"eta": 0.6},
    ),
    ("DDIMScheduler", {"prediction_type": "sample", "timestep_spacing": "linspace"}, {}),
    ("DDIMScheduler", {"thresholding": True}, {"use_clipped_model_output": True}),
    ("PNDMScheduler", {}, {}),
    ("PNDMScheduler", {**SCALED, "skip_prk_steps": True, "steps_offset": 1}, {}),
    (
        "PNDMScheduler",
        {
            "prediction_type": "v_prediction",
            "timestep_spacing": "trailing",
            "set_alpha_to_one": True,
        },
        {},
    ),
    ("EulerDiscreteScheduler", SCALED, {}),
    ("EulerDiscreteScheduler", {**SCALED, "use_karras_sigmas": True, "sigma_min": 0.05}, {}),
    (
        "EulerDiscreteScheduler",
        {
            **SCALED,
            "prediction_type": "v_prediction",
            "rescale_betas_zero_snr": True,
            "timestep_spacing": "trailing",
        },
        {},
    ),
    (
        "EulerDiscreteScheduler",
        {
            "use_exponential_sigmas": True,
            "timestep_spacing": "leading",
            "steps_offset": 1,
            "final_sigmas_type": "sigma_min",
        },
        {},
    ),
    (
        "EulerDiscreteScheduler",
        {"interpolation_type": "log_linear", "prediction_type": "sample"},
        {},
    ),
    ("EulerDiscreteScheduler", {"use_beta_sigmas": True}, {"s_churn": 3.0, "s_noise": 1.1}),
    (
        "EulerDiscreteScheduler",
        {"timestep_type": "continuous", "prediction_type": "v_prediction"},
        {},
    ),
    ("EulerAncestralDiscreteScheduler", SCALED, {}),
    (
        "EulerAncestralDiscreteScheduler",
        {
            **SCALED,
            "prediction_type": "v_prediction",
            "timestep_spacing": "leading",
            "steps_offset": 1,
        },
        {},
    ),
    ("HeunDiscreteScheduler", SCALED, {}),
    ("HeunDiscreteScheduler", {"use_karras_sigmas": True, "prediction_type": "v_prediction"}, {}),
    (
        "HeunDiscreteScheduler",
        {"beta_schedule": "exp", "prediction_type": "sample", "clip_sample": True},
        {},
    ),
    ("DPMSolverMultistepScheduler", SCALED, {}),
    ("DPMSolverMultistepScheduler", {**SCALED, "use_karras_sigmas": True}, {}),
    ("DPMSolverMultistepScheduler", {**SCALED, "algorithm_type": "sde-dpmsolver++"}, {}),
    (
        "DPMSolverMultistepScheduler",
        {**SCALED, "solver_order": 3, "timestep_spacing": "leading", "steps_offset": 1},
        {},
    ),
    (
        "DPMSolverMultistepScheduler",
        {"algorithm_type": "dpmsolver", "final_sigmas_type": "sigma_min", "solver_type": "heun"},
        {},
    ),
    (
        "DPMSolverMultistepScheduler",
        {
            "algorithm_type": "sde-dpmsolver",
            "final_sigmas_type": "sigma_min",
            "prediction_type": "v_prediction",
            "euler_at_final": True,
        },
        {},
    ),
    (
        "DPMSolverMultistepScheduler",
        {
            "algorithm_type": "sde-dpmsolver++",
            "solver_order": 3,
            "use_lu_lambdas": True,
            "prediction_type": "sample",
            "thresholding": True,
        },
        {},
    ),
    (
        "DPMSolverMultistepScheduler",
        {"use_flow_sigmas": True, "flow_shift": 3.0, "prediction_type": "flow_prediction"},
        {},
    ),
    (
        "DPMSolverMultistepScheduler",
        {"beta_schedule": "squaredcos_cap_v2", "lambda_min_clipped": -5.1, "solver_type": "heun"},
        {},
    ),
    ("DPMSolverSDEScheduler", {**SCALED, "use_karras_sigmas": True}, {}),
    (
        "DPMSolverSDEScheduler",
        {"prediction_type": "v_prediction", "timestep_spacing": "trailing"},
        {},
    ),
    ("UniPCMultistepScheduler", SCALED, {}),
    (
        "UniPCMultistepScheduler",
        {
            "solver_order": 3,
            "solver_type": "bh1",
            "prediction_type": "v_prediction",
            "final_sigmas_type": "sigma_min",
        },
        {},
    ),
    (
        "UniPCMultistepScheduler",
        {
            **SCALED,
            "use_karras_sigmas": True,
            "predict_x0": False,
            "disable_corrector": [0, 1],
            "final_sigmas_type": "sigma_min",
        },
        {},
    ),
    (
        "UniPCMultistepScheduler",
        {"use_flow_sigmas": True, "flow_shift": 3.0, "prediction_type": "flow_prediction"},
        {},
    ),
    ("LCMScheduler", {}, {}),
    ("LCMScheduler", {"prediction_type": "v_prediction", "clip_sample": True}, {}),
    ("FlowMatchEulerDiscreteScheduler", {"shift": 3.0}, {}),
    (
        "FlowMatchEulerDiscreteScheduler",
        {"use_dynamic_shifting": True, "shift_terminal": 0.02},
        {"mu": 0.8},
    ),
    (
        "FlowMatchEulerDiscreteScheduler",
        {
            "use_dynamic_shifting": True,
            "time_shift_type": "linear",
            "stochastic_sampling": True,
            "use_beta_sigmas": True,
        },
        {"mu": 2.0},
    ),
    ("FlowMatchHeunDiscreteScheduler", {"shift": 2.0}, {}),
]


def quantile(share: float, a: float, b: float) -> float:
    """scipy's beta.ppf, of which diffusers makes the sigmas that use_beta_sigmas asks for."""
    if share in (0, 1):
        return float(share)
    area = lambda x: mpmath.betainc(a, b, 0, x, regularized=True) - share  # noqa: E731
    return float(mpmath.findroot(area, (1e-12, 1 - 1e-12), solver="anderson", tol=1e-20))


def run(name: str, config: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The row with the timesteps, and the sample after them."""
    module: Any = importlib.import_module(MODULES[name])
    if config.get("use_beta_sigmas"):
        stats = types.SimpleNamespace(beta=types.SimpleNamespace(ppf=quantile))
        module.scipy = types.SimpleNamespace(stats=stats)
        module.is_scipy_available = lambda: True
    scheduler = getattr(module, name)(**config)
    at = {"number": 0}

    def noise(shape: object, **kw: object) -> torch.Tensor:
        return torch.from_numpy(values(at["number"], 2.1)).to(kw.get("dtype", torch.float64))

    module.randn_tensor = noise
    setting = {key: options[key] for key in ("mu",) if key in options}
    scheduler.set_timesteps(STEPS, **setting)
    passed = {key: value for key, value in options.items() if key != "mu"}
    sample = torch.from_numpy(values(50, 0.9)) * float(getattr(scheduler, "init_noise_sigma", 1.0))
    if name == "DPMSolverSDEScheduler":
        scheduler.noise_sampler = lambda a, b: noise(SHAPE)
    for number, t in enumerate(scheduler.timesteps):
        at["number"] = number
        scaled = sample
        if hasattr(scheduler, "scale_model_input"):
            scaled = scheduler.scale_model_input(sample, t)
        output = 0.3 * scaled + torch.from_numpy(values(number, 1.7))
        if config.get("variance_type") == "learned_range":
            output = torch.cat([output, torch.from_numpy(values(number, 0.4))], 1)
        time = t if scheduler.timesteps.is_floating_point() else int(t)
        sample = scheduler.step(output, time, sample, **passed).prev_sample
    row: dict[str, Any] = {"class": name, "config": config, "options": options}
    row["timesteps"] = [round(float(t), 4) for t in scheduler.timesteps[::3]]
    row["sample"] = [float(f"{x:.9g}") for x in sample.flatten().double()]
    if hasattr(scheduler, "add_noise"):
        clean, drawn = torch.from_numpy(values(3, 0.5)), torch.from_numpy(values(4, 0.6))
        begin = scheduler.timesteps[torch.tensor([2, 7])]
        scheduler._begin_index = scheduler._step_index = None
        noisy = scheduler.add_noise(clean, drawn, begin)
        row["noisy"] = [float(f"{x:.9g}") for x in noisy.flatten()]
    if hasattr(scheduler, "get_velocity") and "Sigma" not in name:
        velocity = scheduler.get_velocity(clean, drawn, begin)
        row["velocity"] = [float(f"{x:.9g}") for x in velocity.flatten()]
    return row


MODULES = {
    name: "diffusers.schedulers.scheduling_" + file
    for name, file in {
        "DDPMScheduler": "ddpm",
        "DDIMScheduler": "ddim",
        "PNDMScheduler": "pndm",
        "EulerDiscreteScheduler": "euler_discrete",
        "EulerAncestralDiscreteScheduler": "euler_ancestral_discrete",
        "HeunDiscreteScheduler": "heun_discrete",
        "DPMSolverMultistepScheduler": "dpmsolver_multistep",
        "DPMSolverSDEScheduler": "dpmsolver_sde",
        "UniPCMultistepScheduler": "unipc_multistep",
        "LCMScheduler": "lcm",
        "FlowMatchEulerDiscreteScheduler": "flow_match_euler_discrete",
        "FlowMatchHeunDiscreteScheduler": "flow_match_heun_discrete",
    }.items()
}


def main() -> None:
    """Write the file."""
    importlib.import_module("diffusers")
    sys.modules["torchsde"] = types.ModuleType("torchsde")  # its noise is given here
    rows = []
    for name, config, options in ROWS:
        try:
            rows.append(run(name, config, options))
        except Exception as error:
            raise SystemExit(f"{name} {config}: {error!r}") from error
    lines = ",\n".join(json.dumps(row) for row in rows)
    PLACE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{PLACE}: {len(rows)} rows, {PLACE.stat().st_size} bytes")


if __name__ == "__main__":
    main()

"""GradScaler: losses are scaled, so that gradients in float16 do not vanish."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from rushlight.core.backends import KINDS, Device
from rushlight.core.basis.dtype import float16, float32, int32
from rushlight.core.jit import capture
from rushlight.core.optim.captured import numbers
from rushlight.core.optim.optimizer import Optimizer
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor


class GradScaler:
    """A scale for losses that grows while gradients are finite, and falls where one is not.

    `scale(loss).backward()`, `step(optimizer)`, which skips a step with infinite or NaN gradients,
    then `update()`: it multiplies the scale by backoff_factor after a skipped step, and by
    growth_factor after growth_interval steps without one. `unscale_` before that, to clip.
    The method and the names are torch's (Micikevicius et al., 2017). The scale and what was found
    are on the device. `step` reads the latter; within `rl.jit` it writes the old values back
    instead, and an optimizer's count of steps is corrected before the next call, by a read.
    device: None is where the gradients are; "cuda", which there is not, warns and disables.

    `init_scale` is the first scale; without `enabled` nothing is scaled. Raises ValueError for a
    growth_factor that is not above 1, or a backoff_factor that is not below.
    """

    def __init__(
        self, device: str | None = None, init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        if enabled and device is not None and device.partition(":")[0] not in KINDS:
            warnings.warn(f"GradScaler: {device} is not available; it is disabled. Supported: "
                          f"{', '.join(KINDS)}", stacklevel=2)  # fmt: skip
            enabled = False
        if growth_factor <= 1.0:
            raise ValueError(f"GradScaler: growth_factor is {growth_factor}; it must be above 1")
        if not backoff_factor < 1.0:
            raise ValueError(f"GradScaler: backoff_factor is {backoff_factor}; it must be below 1")
        self._enabled, self._start = enabled, float(init_scale)
        self._growth, self._backoff, self._interval = growth_factor, backoff_factor, growth_interval
        self._scale: Tensor | None = None
        self._tracker: Tensor | None = None
        self._first_tracker = 0
        # By optimizer: on each device whether a gradient is not finite, and what was done.
        self._found: Any = weakref.WeakKeyDictionary()
        self._stage: Any = weakref.WeakKeyDictionary()
        self._recounts: weakref.WeakSet[_Recount] = weakref.WeakSet()

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def _there(self, device: Device) -> tuple[Tensor, Tensor]:
        """The scale and the count of steps since it changed, made on a device."""
        if self._scale is None or self._tracker is None:
            with capture.tracing(None):  # they outlive a captured step
                self._scale = tensor(self._start, dtype=float32, device=device)
                self._tracker = tensor(self._first_tracker, dtype=int32, device=device)
        return self._scale, self._tracker

    def scale(self, outputs: Any) -> Any:
        """A tensor, or several in lists and tuples, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._there(outputs.device)[0].to(outputs.device)
        if not isinstance(outputs, Iterable) or isinstance(outputs, str | Mapping):
            raise ValueError(f"GradScaler: scale takes tensors, not a {type(outputs).__name__}")
        scaled = [self.scale(x) for x in outputs]
        return scaled if isinstance(outputs, list) else tuple(scaled)

    def unscale_(self, optimizer: Any) -> None:
        """Divide the optimizer's gradients by the scale, and note whether all are finite.

        RuntimeError if that was done since the last update, or after step; ValueError for float16
        gradients: parameters are meant to be float32.
        """
        if not self._enabled:
            return
        stage = self._stage.get(optimizer)
        if stage is not None:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
                if stage == "unscaled" else "unscale_() is being called after step()."
            )  # fmt: skip
        self._stage[optimizer] = "unscaled"
        self._unscale(optimizer)

    def _unscale(self, optimizer: Any) -> None:
        grads: dict[Device, list[Tensor]] = {}
        for group in optimizer._groups:
            for p in group["params"]:
                g = p.grad
                if g is None:
                    continue
                if g.dtype is float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                values = g.coalesce().values() if g.is_sparse else g
                if g.is_sparse:
                    p.grad = g.with_values(values)
                grads.setdefault(values.device, []).append(values)
        found_infs = self._found.setdefault(optimizer, {})
        with autograd.no_grad():
            for device, values in grads.items():
                scale = self._there(device)[0].to(device)
                inverse = 1 / scale
                worst = None
                for g in values:
                    g.mul_(inverse.to(g.dtype))
                    bad = g.isfinite().all().logical_not()
                    worst = bad if worst is None else worst | bad
                if device not in found_infs:
                    with capture.tracing(None):
                        found_infs[device] = tensor(0.0, dtype=float32, device=device)
                assert worst is not None
                found_infs[device].copy_(worst.float())

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step(*args, **kwargs), unless a gradient is infinite or NaN; what it returned.

        RuntimeError for a closure, and where step was called since the last update.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage = self._stage.get(optimizer)
        if stage == "stepped":
            raise RuntimeError("step() has already been called since the last update().")
        if stage is None:
            self._unscale(optimizer)
        self._stage[optimizer] = "stepped"
        found_infs = list(self._found.get(optimizer, {}).values())
        if not found_infs:
            raise RuntimeError("No inf checks were recorded for this optimizer: no parameter has a "
                               "gradient")  # fmt: skip
        _settle(self._recounts)
        if capture.active and capture.current() is not None:
            if isinstance(optimizer, Optimizer) and type(optimizer).rates is not Optimizer.rates:
                return self._select(optimizer, found_infs, args, kwargs)
            capture.refuse("GradScaler reads whether to take the step of an optimizer that has no "
                           "method rates")  # fmt: skip
        if sum(f.item() for f in found_infs):
            return None
        return optimizer.step(*args, **kwargs)

    def _select(self, optimizer: Optimizer, infs: list[Tensor], args: Any, kwargs: Any) -> Any:
        """A step in a captured function, whose results count only where all is finite."""
        recount = _Recount(optimizer, infs, self._recounts)
        self._recounts.add(recount)
        recount.run()
        capture.each_run(recount)
        optimizer._skip = self.found_inf(optimizer) > 0
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            optimizer._skip = None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Change the scale after the steps; or set it."""
        if not self._enabled:
            return
        if self._scale is None or self._tracker is None:
            raise RuntimeError("GradScaler: update() without a scaled loss before it")
        with autograd.no_grad():
            if new_scale is not None:
                value = new_scale if isinstance(new_scale, Tensor) else float(new_scale)
                self._scale.copy_(tensor(value, dtype=float32, device=self._scale.device))
            else:
                found_infs = [f.to(self._scale.device) for k in self._stage
                         for f in self._found.get(k, {}).values()]  # fmt: skip
                if not found_infs:
                    raise RuntimeError("No inf checks were recorded prior to update.")
                self._changed(self._scale, self._tracker, found_infs)
        self._stage.clear()

    def _changed(self, scale: Tensor, tracker: Tensor, found_infs: list[Tensor]) -> None:
        worst = found_infs[0]
        for f in found_infs[1:]:
            worst = worst + f
        bad, count = worst > 0, tracker + 1
        due = count == self._interval
        grown = scale * self._growth
        grown = grown.where(due & grown.isfinite(), scale)
        scale.copy_((scale * self._backoff).where(bad, grown))
        tracker.copy_((count * 0).where(bad | due, count))

    def found_inf(self, optimizer: Any) -> Tensor:
        """A 0-d tensor: above 0 where `unscale_` found an infinite or NaN gradient."""
        found_infs: list[Tensor] = list(self._found[optimizer].values())
        worst = found_infs[0]
        for f in found_infs[1:]:
            worst = worst + f.to(worst.device)
        return worst

    def get_scale(self) -> float:
        """The scale; 1 where it is disabled."""
        if not self._enabled:
            return 1.0
        return self._start if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """By which the scale grows."""
        return self._growth

    def set_growth_factor(self, new_factor: float) -> None:
        """Set it."""
        self._growth = new_factor

    def get_backoff_factor(self) -> float:
        """By which the scale falls."""
        return self._backoff

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set it."""
        self._backoff = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps the scale grows."""
        return self._interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set it."""
        self._interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The scale, its factors and the count, as torch's; empty where it is disabled."""
        if not self._enabled:
            return {}
        count = self._first_tracker if self._tracker is None else int(self._tracker.item())
        return {"scale": self.get_scale(), "growth_factor": self._growth,
                "backoff_factor": self._backoff, "growth_interval": self._interval,
                "_growth_tracker": count}  # fmt: skip

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from `state_dict()`. RuntimeError for that of a disabled one."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from "
                               "a disabled instance of GradScaler.")  # fmt: skip
        self._start, self._first_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth, self._backoff = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._interval = state_dict["growth_interval"]
        if self._scale is not None and self._tracker is not None:
            with autograd.no_grad():
                self._scale.fill_(self._start)
                self._tracker.fill_(self._first_tracker)

    def __getstate__(self) -> dict[str, Any]:
        if self._stage:
            raise RuntimeError("A GradScaler instance may only be pickled at the beginning of an "
                               "iteration, or at the end after scaler.update().")  # fmt: skip
        return {"state": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        GradScaler.__init__(self, enabled=bool(state["state"]))
        self.load_state_dict(state["state"])


def _settle(recounts: weakref.WeakSet[_Recount]) -> None:
    for recount in list(recounts):
        recount.settle()


class _Recount:
    """Before each replay takes back an optimizer's count of the last one, if that was skipped."""

    def __init__(
        self, optimizer: Optimizer, found: list[Tensor], all_: weakref.WeakSet[_Recount]
    ) -> None:
        self.optimizer, self.found, self.all = weakref.ref(optimizer), found, all_
        self.before: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def settle(self) -> None:
        before, self.before = self.before, []
        with capture.tracing(None):
            skipped = before and sum(f.item() for f in self.found)
        for state, counted in before if skipped else ():
            state.update(counted)

    def current(self) -> bool:
        return self.optimizer() is not None

    def run(self) -> None:
        _settle(self.all)
        optimizer = self.optimizer()
        assert optimizer is not None
        for group in optimizer._groups:
            for p in group["params"]:
                state = optimizer._state[p]
                first = {k: v for k, v in optimizer.start(p, group).items() if not callable(v)}
                self.before.append((state, {**first, **numbers(state)}))

    def undo(self) -> None:
        self.before = []

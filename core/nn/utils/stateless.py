"""torch.nn.utils.stateless: `functional_call`, the same as `rl.func.functional_call`."""

from rushlight.core.func.modules import functional_call

__all__ = ["functional_call"]

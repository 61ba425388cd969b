"""Stable Diffusion 3 and 3.5 (Esser et al., 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.dtype import float32
from rushlight.core.functional.network.padding import pad
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import DiffusionModel, Request
from rushlight.models.diffusion.pipelines.flow import FlowModel, size_shift
from rushlight.models.diffusion.text.clip import encode_clip
from rushlight.models.diffusion.text.language import rows_of
from rushlight.models.schedulers import Scheduler

LONGEST = 256  # tokens of a prompt that T5 reads


class StableDiffusion3(FlowModel):
    """Two of CLIP's encoders and T5, which may be left out, a transformer and an autoencoder."""

    needs = (
        "scheduler",
        "tokenizer",
        "tokenizer_2",
        "text_encoder",
        "text_encoder_2",
        "transformer",
        "vae",
    )
    multiple = 16
    defaults: Mapping[str, Any] = {"num_inference_steps": 28, "guidance_scale": 7.0}

    def default_size(self) -> tuple[int, int]:
        """(height, width) of a picture whose call says none."""
        return DiffusionModel.default_size(self)

    def latent_shape(self, request: Request) -> tuple[int, ...]:
        """(channels, height, width) of one picture's latents."""
        channels = int(self.parts.config("transformer").get("in_channels", 16))
        return channels, request.height // self.factor, request.width // self.factor

    def set_timesteps(self, scheduler: Scheduler, request: Request) -> None:
        """Begin the run; its shift depends on the size where the scheduler says so."""
        flow: Any = scheduler
        if not scheduler.config.get("use_dynamic_shifting"):
            flow.set_timesteps(request.steps)
            return
        side = self.factor * int(self.parts.config("transformer").get("patch_size", 2))
        tokens = (request.height // side) * (request.width // side)
        flow.set_timesteps(request.steps, mu=size_shift(scheduler, tokens, 1.16))

    def text_conditions(
        self, texts: list[str], request: Request, negative: bool = False
    ) -> dict[str, Tensor]:
        """States of all encoders one after another, and the vectors of both CLIPs.

        `texts`, `request` and `negative` are as in FlowModel; LoadError for a part that is missing.
        """
        skip = None if negative else request.clip_skip
        layer = -2 if skip is None else -(skip + 2)
        states, vectors = [], []
        for number in ("", "_2"):
            each = encode_clip(self, number, texts)
            states.append(each.states[layer].to(dtype=float32))
            vectors.append(each.pooled.to(dtype=float32))
        joined = cat(states, 2)
        by_t5 = self._by_t5(texts, request)
        joined = pad(joined, (0, by_t5.shape[2] - joined.shape[2]))
        return {
            "encoder_hidden_states": cat([joined, by_t5], 1),
            "pooled_projections": cat(vectors, 1),
        }

    def _by_t5(self, texts: list[str], request: Request) -> Tensor:
        """T5's states of texts in float32; zeros where the pipeline has no T5."""
        length = request.max_sequence_length or LONGEST
        if not self.parts.has("text_encoder_3"):
            width = int(self.parts.config("transformer").get("joint_attention_dim", 4096))
            zeros = self.tensor_of([[0.0]])
            return zeros.expand(len(texts), length * width).reshape(len(texts), length, width)
        ids, _ = rows_of(self, "tokenizer_3", texts, length)
        states: Tensor = self.parts.get("text_encoder_3")(ids)
        return states.to(dtype=float32)

    def predict(self, latents: Tensor, timestep: Tensor, conditions: dict[str, Tensor]) -> Tensor:
        """The velocity of latents at `timestep`, of `conditions`. It raises nothing itself."""
        inputs = {name: self.cast(value) for name, value in conditions.items()}
        return self.run(self.cast(latents), self.cast(timestep), **inputs)

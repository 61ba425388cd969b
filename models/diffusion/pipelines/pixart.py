"""PixArt-alpha and PixArt-sigma (Chen et al., 2023 and 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.dtype import float32
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import DiffusionModel, Request
from rushlight.models.diffusion.pipelines.flow import FlowModel
from rushlight.models.diffusion.text.language import rows_of
from rushlight.models.schedulers import Scheduler


class PixArtSigma(FlowModel):
    """T5's states of a prompt, a transformer of noise and its variance, and an autoencoder."""

    needs = ("scheduler", "tokenizer", "text_encoder", "transformer", "vae")
    multiple = 16
    longest = 300  # tokens of a prompt
    defaults: Mapping[str, Any] = {"num_inference_steps": 20, "guidance_scale": 4.5}

    def default_size(self) -> tuple[int, int]:
        """(height, width) of a picture whose call says none."""
        return DiffusionModel.default_size(self)

    def latent_shape(self, request: Request) -> tuple[int, ...]:
        """(channels, height, width) of one picture's latents."""
        channels = int(self.parts.config("transformer").get("in_channels", 4))
        return channels, request.height // self.factor, request.width // self.factor

    def set_timesteps(self, scheduler: Scheduler, request: Request) -> None:
        """Begin the scheduler's run."""
        DiffusionModel.set_timesteps(self, scheduler, request)

    def text_conditions(
        self, texts: list[str], request: Request, negative: bool = False
    ) -> dict[str, Tensor]:
        """T5's states, and which of them are words.

        `texts`, `request` and `negative` are as in FlowModel; LoadError for a part that is missing.
        """
        length = request.max_sequence_length or self.longest
        texts = [text.lower().strip() for text in texts]
        ids, mask = rows_of(self, "tokenizer", texts, length)
        states: Tensor = self.parts.get("text_encoder")(ids, mask)
        inputs = {"encoder_hidden_states": states, "encoder_attention_mask": mask}
        return inputs | self._sizes(request)

    def _sizes(self, request: Request) -> dict[str, Tensor]:
        return {}

    def predict(self, latents: Tensor, timestep: Tensor, conditions: dict[str, Tensor]) -> Tensor:
        """The noise in latents at `timestep`, of `conditions`. It raises nothing itself."""
        inputs = dict(conditions)
        inputs["encoder_hidden_states"] = self.cast(inputs["encoder_hidden_states"])
        out = self.run(self.cast(latents), timestep, **inputs)
        return self.mean(out, latents)

    def mean(self, out: Tensor, latents: Tensor) -> Tensor:
        """The denoiser's output without variances."""
        channels = latents.shape[1]
        return out[:, :channels] if out.shape[1] // 2 == channels else out


class PixArtAlpha(PixArtSigma):
    """PixArt-alpha, which reads shorter prompts and may be told the picture's size."""

    longest = 120

    def _sizes(self, request: Request) -> dict[str, Tensor]:
        if not self.parts.get("transformer").sized:
            return {}
        count, (height, width) = len(request.prompts), (request.height, request.width)
        return {
            "resolution": self.tensor_of([[float(height), float(width)]] * count, float32),
            "aspect_ratio": self.tensor_of([[height / width]] * count, float32),
        }

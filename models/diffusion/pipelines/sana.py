"""Sana and Sana 1.5 (Xie et al., 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import DiffusionModel, Request
from rushlight.models.diffusion.pipelines.pixart import PixArtSigma
from rushlight.models.diffusion.text.language import rows_of
from rushlight.models.schedulers import Scheduler

# What the authors trained the model to read before a prompt.
INSTRUCTION = "\n".join((
    "Given a user prompt, generate an 'Enhanced prompt' that provides detailed visual descriptions "
    "suitable for image generation. Evaluate the level of detail in the user prompt:",
    "- If the prompt is simple, focus on adding specifics about colors, shapes, sizes, textures, "
    "and spatial relationships to create vivid and concrete scenes.",
    "- If the prompt is already detailed, refine and enhance the existing details slightly without "
    "overcomplicating.",
    "Here are examples of how to transform or refine prompts:",
    "- User Prompt: A cat sleeping -> Enhanced: A small, fluffy white cat curled up in a round "
    "shape, sleeping peacefully on a warm sunny windowsill, surrounded by pots of blooming red "
    "flowers.",
    "- User Prompt: A busy city street -> Enhanced: A bustling city street scene at dusk, "
    "featuring glowing street lamps, a diverse crowd of people in colorful clothing, and a "
    "double-decker bus passing by towering glass skyscrapers.",
    "Please generate only the enhanced description for the prompt below and avoid including any "
    "additional commentary or evaluations:",
    "User Prompt: ",
))  # fmt: skip


class Sana(PixArtSigma):
    """Gemma's states of a prompt with an instruction before it, a transformer, an autoencoder."""

    multiple = 32
    defaults: Mapping[str, Any] = {"num_inference_steps": 20, "guidance_scale": 4.5}

    @property
    def factor(self) -> int:
        """By how much latents are smaller than pixels."""
        stages = self.parts.config("vae").get("encoder_block_out_channels", [0] * 6)
        return int(1 << (len(stages) - 1))

    def default_size(self) -> tuple[int, int]:
        """(height, width) of a picture whose call says none."""
        return DiffusionModel.default_size(self)

    def set_timesteps(self, scheduler: Scheduler, request: Request) -> None:
        """Begin the scheduler's run."""
        DiffusionModel.set_timesteps(self, scheduler, request)

    def text_conditions(
        self, texts: list[str], request: Request, negative: bool = False
    ) -> dict[str, Tensor]:
        """Gemma's states: of a prompt's last tokens after the instruction, and of the first.

        `texts`, `request` and `negative` are as in FlowModel; LoadError for a part that is missing.
        """
        before = "" if negative else INSTRUCTION
        length = total = request.max_sequence_length or self.longest
        texts = [before + text.lower().strip() for text in texts]
        if before:
            total += len(self.parts.tokenizer("tokenizer").encode(before)) - 2
        ids, mask = rows_of(self, "tokenizer", texts, total)
        states = self.parts.get("text_encoder")(ids, mask)[0]
        if before:
            first, rest = states[:, :1], states[:, total - length + 1 :]
            states = cat([first, rest], 1)
            mask = cat([mask[:, :1], mask[:, total - length + 1 :]], 1)
        return {"encoder_hidden_states": states, "encoder_attention_mask": mask}

    def predict(self, latents: Tensor, timestep: Tensor, conditions: dict[str, Tensor]) -> Tensor:
        """The velocity of latents at `timestep`, of `conditions`. It raises nothing itself."""
        scale = float(self.parts.config("transformer").get("timestep_scale") or 1.0)
        return super().predict(latents, timestep * scale, conditions)

    def decode(self, latents: Tensor) -> Tensor:
        """Pixels (batch, 3, height, width) from -1 to 1 of latents."""
        return self._unscaled(self.parts.get("vae"), latents)

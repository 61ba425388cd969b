"""ControlNetModel: lines, depths or poses that a UNet follows (Zhang et al., 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.config import known, read_part
from rushlight.models.diffusion.unet.unet_2d_condition import UNetConfig, WayDown
from rushlight.models.layers.mlp import ACTIVATIONS


@dataclass
class ControlNetConfig:
    """The keys of config.json."""

    in_channels: int = 4
    conditioning_channels: int = 3
    flip_sin_to_cos: bool = True
    freq_shift: int = 0
    down_block_types: Any = ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",)
    mid_block_type: str | None = "UNetMidBlock2DCrossAttn"
    block_out_channels: Any = (320, 640, 1280, 1280)
    layers_per_block: Any = 2
    downsample_padding: int = 1
    act_fn: str = "silu"
    norm_num_groups: int = 32
    norm_eps: float = 1e-5
    cross_attention_dim: Any = 1280
    transformer_layers_per_block: Any = 1
    attention_head_dim: Any = 8
    use_linear_projection: bool = False
    addition_embed_type: str | None = None
    addition_time_embed_dim: int | None = None
    projection_class_embeddings_input_dim: int | None = None
    resnet_time_scale_shift: str = "default"
    conditioning_embedding_out_channels: Any = (16, 32, 96, 256)
    controlnet_conditioning_channel_order: str = "rgb"

    time_cond_proj_dim: ClassVar[None] = None
    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {
        **{
            name: UNetConfig.neutral[name]
            for name in (
                "only_cross_attention",
                "mid_block_scale_factor",
                "encoder_hid_dim",
                "encoder_hid_dim_type",
                "num_attention_heads",
                "class_embed_type",
                "num_class_embeds",
                "upcast_attention",
                "addition_embed_type_num_heads",
            )
        },
        "global_pool_conditions": (False,),
    }


class _Condition(nn.Module):
    """A picture of what is to be followed -> a map of the latents' size."""

    def __init__(self, c: ControlNetConfig) -> None:
        widths = list(c.conditioning_embedding_out_channels)
        self.conv_in = nn.Conv2d(c.conditioning_channels, widths[0], 3, padding=1)
        blocks = []
        for before, after in zip(widths, widths[1:], strict=False):
            blocks.append(nn.Conv2d(before, before, 3, padding=1))
            blocks.append(nn.Conv2d(before, after, 3, padding=1, stride=2))
        self.blocks = nn.ModuleList(blocks)
        self.conv_out = nn.Conv2d(widths[-1], c.block_out_channels[0], 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        act = ACTIVATIONS["silu"]
        x = act(self.conv_in(x))
        for block in self.blocks:
            x = act(block(x))
        out: Tensor = self.conv_out(x)
        return out


class ControlNetModel(WayDown):
    """What a UNet's call takes, and a picture -> what is added to each of the UNet's maps."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        c = self.config = read_part(ControlNetConfig, config)
        order = c.controlnet_conditioning_channel_order
        known("controlnet_conditioning_channel_order", order, ("rgb", "bgr"))
        if len(c.conditioning_embedding_out_channels) < 1:
            raise FormatError("config.json: conditioning_embedding_out_channels is empty")
        super().__init__(c)
        self.controlnet_cond_embedding = _Condition(c)
        widths = [c.block_out_channels[0]]
        for block in self.down_blocks:
            width = block.resnets[0].conv1.weight.shape[0]
            widths += [width] * (len(block.resnets) + (not block.last))
        self.controlnet_down_blocks = nn.ModuleList([nn.Conv2d(w, w, 1) for w in widths])
        last = c.block_out_channels[-1]
        self.controlnet_mid_block = nn.Conv2d(last, last, 1)

    def forward(
        self,
        sample: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        control: Tensor,
        text_embeds: Tensor | None = None,
        time_ids: Tensor | None = None,
    ) -> list[Tensor]:
        """What is added to the maps of the way down, in their order, and to the middle's.

        control (batch, 3, height, width): a picture from 0 to 1, in pixels.
        """
        time = self.time(sample, timestep, text_embeds, time_ids, None)
        if self.config.controlnet_conditioning_channel_order == "bgr":
            control = control.flip(1)
        x = self.conv_in(sample) + self.controlnet_cond_embedding(control)
        middle, skips = self.down(x, time, encoder_hidden_states)
        added = [conv(map_) for conv, map_ in zip(self.controlnet_down_blocks, skips, strict=True)]
        return [*added, self.controlnet_mid_block(middle)]

"""D-FINE (Peng et al., 2024): RT-DETR whose layers refine how likely each side of a box is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import hgnet_v2, rt_detr
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.deformable import unsigmoid
from rushlight.models.layers.vision.attention.queries import Layer, QuerySpec
from rushlight.models.layers.vision.convolutional.hgnet import HGNet
from rushlight.models.layers.vision.outputs.detection import Head

ARCHITECTURES = ("DFineForObjectDetection",)
_MOST = 65504.0


@dataclass
class Config(rt_detr.Second):
    """The keys of config.json."""

    neutral = {
        "layer_scale": (),  # of layers that only training has
        "weight_loss_fgl": (),
        "weight_loss_ddf": (),
        "reg_scale": (),  # both are tensors too
        "up": (),
    }

    decoder_n_points: Any = 4
    eval_idx: Any = -1
    max_num_bins: int = 32
    depth_mult: float = 1.0
    top_prob_values: int = 4
    lqe_hidden_dim: int = 64
    lqe_layers: int = 2
    encoder_in_channels: list[int] = field(default_factory=lambda: [512, 1024, 2048])
    model_type: str = "d_fine"


class _Gate(nn.Module):
    """A norm of what two states make, each by its share."""

    def __init__(self, width: int) -> None:
        self.gate, self.norm = nn.Linear(2 * width, 2 * width), nn.LayerNorm(width)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        first, second = self.gate(cat([x, seen], -1)).sigmoid().chunk(2, -1)
        normed: Tensor = self.norm(first * x + second * seen)
        return normed


class DFine(rt_detr.RTDetr):
    """D-FINE in transformers' names."""

    def make_decoder(self, c: Any) -> None:
        """Give the model its decoder's layers, and what moves their boxes."""
        width, bins = c.d_model, c.max_num_bins + 1
        act = c.decoder_activation_function
        spec = QuerySpec(width, c.decoder_attention_heads, c.decoder_ffn_dim, act)
        for i in range(c.decoder_layers):
            layer = Layer(spec)
            put(layer, "encoder_attn", self.reader(c, plain=True))
            put(layer, "gateway", _Gate(width))
            put(self, f"model.decoder.layers.{i}", layer)
            box = Head(width, 4 * bins)
            box.layers = nn.ModuleList(
                [nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 4 * bins)]
            )
            put(self, f"model.decoder.bbox_embed.{i}", box)
            sure = Head(c.lqe_hidden_dim, 1, c.lqe_layers)
            sure.layers[0] = nn.Linear(
                4 * (c.top_prob_values + 1), c.lqe_hidden_dim if c.lqe_layers > 1 else 1
            )
            put(self, f"model.decoder.lqe_layers.{i}.reg_conf", sure)
        put(self, "model.decoder.pre_bbox_head", Head(width, 4))
        decoder: Any = self.get_submodule("model.decoder")
        decoder.reg_scale, decoder.up = parameter(1), parameter(1)

    def decode(
        self, x: Tensor, boxes: Tensor, memory: Tensor, grids: list[tuple[int, int]]
    ) -> tuple[Tensor, Tensor]:
        """Logits and boxes of queries x (batch, queries, width) that begin with `boxes`.

        memory: what they look at, of maps with sides `grids`, one after another. It raises nothing.
        """
        net: Any = self.get_submodule("model.decoder")
        steps, scale = self._steps(net), net.reg_scale.abs()
        corners: Any = 0
        before: Any = 0
        first = boxes
        last = self.config.decoder_layers - 1
        for i, layer in enumerate(net.layers.children()):
            places = self.placed(boxes).clamp(min=-10, max=10)
            x = layer.self_attn_layer_norm(x + layer.self_attn(x, places=places))
            x = layer.gateway(x, layer.encoder_attn(x + places, memory, boxes, grids))
            x = layer.fed(x)
            if i == 0:
                first = (net.pre_bbox_head(x) + unsigmoid(boxes)).sigmoid()
            corners = net.bbox_embed.get_submodule(str(i))(x + before) + corners
            before, shares = x, corners.unflatten(-1, (4, -1)).softmax(-1)
            boxes = _moved(first, (shares * steps).sum(-1), scale)
        best = shares.topk(self.config.top_prob_values, -1)[0]
        sure = cat([best, best.mean(-1, keepdim=True)], -1).flatten(-2)
        logits = net.class_embed.get_submodule(str(last))(x)
        return logits + net.lqe_layers.get_submodule(f"{last}.reg_conf")(sure), boxes

    def _steps(self, net: Any) -> Tensor:
        """How far a side is moved in each bin, in both directions ever farther."""
        bins, most = self.config.max_num_bins, net.up.abs() * net.reg_scale.abs()
        step = (most + 1) ** (2 / (bins - 2))
        far = [step**i - 1 for i in range(1, bins // 2)]
        return cat([-2 * most, *(-d for d in reversed(far)), most * 0, *far, 2 * most], 0)


def _moved(boxes: Tensor, steps: Tensor, scale: Tensor) -> Tensor:
    """Boxes (..., 4) whose sides are moved by steps: left, top, right and bottom."""
    size = boxes[..., 2:] / scale
    start = boxes[..., :2] - (0.5 * scale + steps[..., :2]) * size
    end = boxes[..., :2] + (0.5 * scale + steps[..., 2:]) * size
    return cat([(start + end) / 2, end - start], -1)


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> DFine:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c: Any = read_config(Config, config, ARCHITECTURES)
    choose("eval_idx", c.eval_idx, (-1, None, c.decoder_layers - 1))
    at_least_one(c, "decoder_layers")
    if not 0.01 <= c.depth_mult <= 64:
        raise FormatError(f"config.json: depth_mult {c.depth_mult} is out of range")
    told = c.backbone_config
    choose("backbone_config.model_type", told.get("model_type"), ("hgnet_v2",))
    seen = hgnet_v2.checked(read_config(hgnet_v2.Config, told | {"architectures": None}))
    taken = rt_detr.checked(c, seen, len(names))
    choose("num_feature_levels", c.num_feature_levels, (len(taken),))
    return DFine(c, HGNet(seen), seen.stage_out_channels, taken, labels_of(config))


FAMILY = Family(
    model_types=("d_fine",),
    tasks=("object-detection",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    refused=tuple(key for key in rt_detr.FAMILY.refused if key != "num_attention_heads"),
    rename_tensors=rt_detr.rename_tensors,
)

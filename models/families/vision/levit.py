"""LeViT (Graham et al., 2021): attention with biases of places after four convolutions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.checkpoints.classes import ArchitectureError
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.transformer import put_parameter

_LISTS = ("hidden_sizes", "num_attention_heads", "depths", "key_dim", "mlp_ratio",
          "attention_ratio")  # fmt: skip
_TEACHER = "LevitForImageClassificationWithTeacher"
_ARCHITECTURES = ("LevitForImageClassification", _TEACHER, "LevitModel")


def _numbers(*numbers: int) -> Any:
    return field(default_factory=lambda: list(numbers))


@dataclass
class Config:
    """The keys of config.json."""

    image_size: int = 224
    num_channels: int = 3
    kernel_size: int = 3
    stride: int = 2
    padding: int = 1
    patch_size: int = 16
    hidden_sizes: list[int] = _numbers(128, 256, 384)
    num_attention_heads: list[int] = _numbers(4, 8, 12)
    depths: list[int] = _numbers(4, 4, 4)
    key_dim: list[int] = _numbers(16, 16, 16)
    drop_path_rate: float = 0  # of training
    mlp_ratio: list[int] = _numbers(2, 2, 2)
    attention_ratio: list[int] = _numbers(2, 2, 2)
    down_ops: Any = None  # what the class makes of the others
    model_type: str = "levit"


class _Product(nn.Module):
    """A product without bias, and a batch norm."""

    def __init__(self, inside: int, out: int) -> None:
        self.linear, self.batch_norm = nn.Linear(inside, out, bias=False), nn.BatchNorm1d(out)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        out: Tensor = self.batch_norm(y.flatten(0, 1)).reshape(*y.shape)
        return out


class _Attention(nn.Module):
    """(batch, side * side, given) -> (batch, side' * side', out); step: every so many places ask.

    widths: of keys and of values in a head.
    """

    def __init__(
        self, inside: int, out: int, heads: int, widths: tuple[int, int], side: int, step: int
    ) -> None:
        self.heads, self.widths, self.side, self.step = heads, widths, side, step
        key, value = widths
        if step == 1:
            put(self, "queries_keys_values", _Product(inside, (2 * key + value) * heads))
        else:
            put(self, "keys_values", _Product(inside, (key + value) * heads))
            put(self, "queries", _Product(inside, key * heads))
        put(self, "projection", _Product(value * heads, out))
        places = np.indices((side, side)).reshape(2, -1).T
        asking = places[(places % step == 0).all(1)]
        apart = np.abs(asking[:, None] - places[None])
        # Distances are numbered as they first come.
        number: dict[tuple[int, int], int] = {}
        flat = [number.setdefault((a, b), len(number)) for a, b in apart.reshape(-1, 2).tolist()]
        self.index = np.array(flat, np.int64)
        self.shape = len(asking), len(places)
        put_parameter(self, "attention_biases", heads, len(number))

    def forward(self, x: Tensor) -> Tensor:
        part: Any = self
        key, value = self.widths
        if self.step == 1:
            q, k, v = self._heads(part.queries_keys_values(x)).split([key, key, value], 3)
        else:
            grid = x.reshape(len(x), self.side, self.side, -1)[:, :: self.step, :: self.step]
            q = self._heads(part.queries(grid.reshape(len(x), -1, x.shape[2])))
            k, v = self._heads(part.keys_values(x)).split([key, value], 3)
        index = from_numpy(self.index).to(x.device)
        bias = part.attention_biases.index_select(1, index).reshape(self.heads, *self.shape)
        scores = q @ k.transpose(2, 3) * key**-0.5 + bias
        seen = (scores.softmax(3) @ v).transpose(1, 2).flatten(2)
        out: Tensor = part.projection(ACTIVATIONS["hardswish"](seen))
        return out

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


class _Mlp(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        self.linear_up, self.linear_down = _Product(width, inner), _Product(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear_down(ACTIVATIONS["hardswish"](self.linear_up(x)))
        return out


class _Added(nn.Module):
    """x + module(x)."""

    def __init__(self, module: nn.Module) -> None:
        put(self, "module", module)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.get_submodule("module")(x)
        return out


def _between(c: Config) -> list[tuple[str, int, int, int, int, int]]:
    """What is between stages: its name, a head's keys, heads, values per key, of the MLP, a step.

    Heads are as many as keys of the first stage fit the width.
    """
    key = c.key_dim[0]
    return [("Subsample", key, width // key, 4, 2, 2) for width in c.hidden_sizes[:2]]


def _stage(c: Config, i: int, side: int) -> tuple[list[nn.Module], int]:
    """The layers of a stage whose map has this side, and the side after it."""
    width, key = c.hidden_sizes[i], c.key_dim[i]
    layers: list[nn.Module] = []
    for _ in range(c.depths[i]):
        heads, widths = c.num_attention_heads[i], (key, c.attention_ratio[i] * key)
        layers.append(_Added(_Attention(width, width, heads, widths, side, 1)))
        if c.mlp_ratio[i]:
            layers.append(_Added(_Mlp(width, width * c.mlp_ratio[i])))
    if i < 2:
        after, (_, key, heads, ratio, inner, step) = c.hidden_sizes[i + 1], _between(c)[i]
        layers.append(_Attention(width, after, heads, (key, ratio * key), side, step))
        layers.append(_Added(_Mlp(after, after * inner)))
        side = (side - 1) // step + 1
    return layers, side


class Levit(ImageModel):
    """LeViT in transformers' names. teacher: whether the mean of two heads classifies."""

    def __init__(self, c: Config, labels: tuple[str, ...], teacher: bool) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["Levit"]
        self.image_size, self.teacher = (c.image_size, c.image_size), teacher
        before, first = c.num_channels, c.hidden_sizes[0]
        for i in range(4):
            path, width = f"levit.patch_embeddings.embedding_layer_{i + 1}", first >> (3 - i)
            conv = nn.Conv2d(before, width, c.kernel_size, c.stride, c.padding, bias=False)
            put(self, f"{path}.convolution", conv)
            put(self, f"{path}.batch_norm", nn.BatchNorm2d(width))
            before = width
        side = c.image_size // c.patch_size
        for i in range(len(c.depths)):
            layers, side = _stage(c, i, side)
            put(self, f"levit.encoder.stages.{i}.layers", nn.ModuleList(layers))
        for name in ("classifier", *(["classifier_distill"] if teacher else [])) if labels else ():
            put(self, f"{name}.batch_norm", nn.BatchNorm1d(c.hidden_sizes[-1]))
            put(self, f"{name}.linear", nn.Linear(c.hidden_sizes[-1], len(labels)))

    def hidden(self, pixels: Tensor) -> Tensor:
        net: Any = self.get_submodule("levit")
        x = self.checked(pixels, self.config.num_channels)
        for i, layer in enumerate(net.patch_embeddings.children()):
            x = layer.batch_norm(layer.convolution(x))
            x = ACTIVATIONS["hardswish"](x) if i < 3 else x
        x = x.flatten(2).transpose(1, 2)
        for stage in net.encoder.stages.children():
            for layer in stage.layers:
                x = layer(x)
        return x

    def encode_image(self, pixels: Tensor) -> Tensor:
        mean: Tensor = self.hidden(pixels).mean(1)
        return mean

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels (batch, channels, side, side) -> logits (batch, classes), or the hidden state.

        ValueError for pixels of another size.
        """
        if not self.labels:
            return self.hidden(pixels)
        x, heads = self.encode_image(pixels), ["classifier"]
        heads += ["classifier_distill"] if self.teacher else []
        parts: list[Any] = [self.get_submodule(name) for name in heads]
        each: list[Tensor] = [head.linear(head.batch_norm(x)) for head in parts]
        return each[0] if len(each) == 1 else (each[0] + each[1]) / 2


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Levit:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    count = len(c.depths)
    if count != 3:
        raise FormatError(f"config.json: depths is {brief(c.depths)}; LeViT has three stages")
    for key in _LISTS:
        sizes = getattr(c, key)
        least = 0 if key == "mlp_ratio" else 1
        fits = len(sizes) == count and all(type(n) is int and least <= n <= 4096 for n in sizes)
        if not fits or sum(c.depths) > 1024:
            raise FormatError(
                f"config.json: {key} is {brief(sizes)}; it must be a size for each of the "
                f"{count} stages of depths"
            )
    if c.down_ops is not None:
        usual = [list(row) for row in _between(c)]
        if c.down_ops not in (usual, [*usual, [""]]):
            raise FormatError(
                f"config.json: down_ops is {brief(c.down_ops)}; supported: what follows of key_dim "
                f"and hidden_sizes, {usual}"
            )
    side = c.image_size // max(c.patch_size, 1)
    through = c.image_size
    for _ in range(4):
        through = (through + 2 * c.padding - c.kernel_size) // max(c.stride, 1) + 1
    if not 1 <= side == through <= 64 or c.hidden_sizes[0] < 8:
        raise FormatError(
            f"config.json: image_size {c.image_size} makes a map of {through}, not of "
            f"{side} by patch_size {c.patch_size}"
        )
    named = config.get("architectures") or [_ARCHITECTURES[0]]
    if named not in [[name] for name in _ARCHITECTURES]:
        raise ArchitectureError(named, _ARCHITECTURES)
    labels = () if named == ["LevitModel"] else labels_of(config)
    return Levit(c, labels, named == [_TEACHER])


FAMILY = Family(
    model_types=("levit",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="levit.",
    config=Config,
    build=build,
)

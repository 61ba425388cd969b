"""The networks of vision.py as modules of PyTorch with random weights, under published names."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

SIDES: Any = import_module("vision").SIDES  # of this folder


def _conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> Any:
    block = nn.Module()
    block.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    block.bn, block.act = nn.BatchNorm2d(outputs, 1e-3), nn.SiLU(inplace=True)
    block.forward = lambda x: block.act(block.bn(block.conv(x)))
    return block


class _C2f(nn.Module):  # type: ignore[misc]
    def __init__(self, inputs: int, outputs: int, depth: int, adds: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.cv1, self.cv2 = _conv(inputs, outputs), _conv((2 + depth) * half, outputs)
        self.m, self.adds = nn.ModuleList(), adds
        for _ in range(depth):
            bottleneck = nn.Module()
            bottleneck.cv1, bottleneck.cv2 = _conv(half, half, 3), _conv(half, half, 3)
            self.m.append(bottleneck)

    def forward(self, x: Any) -> Any:
        parts = list(self.cv1(x).chunk(2, 1))
        for bottleneck in self.m:
            y = bottleneck.cv2(bottleneck.cv1(parts[-1]))
            parts.append(parts[-1] + y if self.adds else y)
        return self.cv2(torch.cat(parts, 1))


class _Sppf(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.cv1, self.cv2 = _conv(width, width // 2), _conv(2 * width, width)

    def forward(self, x: Any) -> Any:
        parts = [self.cv1(x)]
        for _ in range(3):
            parts.append(functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.cv2(torch.cat(parts, 1))


class _Detect(nn.Module):  # type: ignore[misc]
    """Logits of 80 classes, and boxes as shares of the picture: center, width, height."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.cv2, self.cv3 = (
            nn.ModuleList(
                nn.Sequential(_conv(n, wide, 3), _conv(wide, wide, 3), nn.Conv2d(wide, last, 1))
                for n in widths
            )
            for wide, last in ((64, 64), (80, 80))
        )
        self.dfl = nn.Module()
        self.dfl.conv = nn.Conv2d(16, 1, 1, bias=False)
        self.dfl.conv.weight.data[:] = torch.arange(16.0).reshape(1, 16, 1, 1)

    def forward(self, maps: list[Any]) -> Any:
        places, steps = [], []
        for x, step in zip(maps, (8, 16, 32), strict=True):
            rows, columns = (torch.arange(n) + 0.5 for n in x.shape[2:])
            down, across = torch.meshgrid(rows, columns, indexing="ij")
            places.append(torch.stack([across.reshape(-1), down.reshape(-1)]))
            steps.append(torch.full((1, down.numel()), float(step)))
        centers, step = torch.cat(places, 1), torch.cat(steps, 1)
        sides = torch.cat([f(x).flatten(2) for f, x in zip(self.cv2, maps, strict=True)], 2)
        logits = torch.cat([f(x).flatten(2) for f, x in zip(self.cv3, maps, strict=True)], 2)
        batch, _, count = sides.shape
        shares = sides.view(batch, 4, 16, count).transpose(1, 2).softmax(1)
        apart = self.dfl.conv(shares).view(batch, 4, count)
        low, high = centers - apart[:, :2], centers + apart[:, 2:]
        boxes = torch.cat([(low + high) / 2, high - low], 1) * step / (8 * maps[0].shape[2])
        return logits.transpose(1, 2), boxes.transpose(1, 2)


class Yolo(nn.Module):  # type: ignore[misc]
    """YOLOv8n (Jocher et al., 2023), for square pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.ModuleList([
            _conv(3, 16, 3, 2), _conv(16, 32, 3, 2), _C2f(32, 32, 1, True), _conv(32, 64, 3, 2),
            _C2f(64, 64, 2, True), _conv(64, 128, 3, 2), _C2f(128, 128, 2, True),
            _conv(128, 256, 3, 2), _C2f(256, 256, 1, True), _Sppf(256), nn.Upsample(scale_factor=2),
            nn.Identity(), _C2f(384, 128, 1, False), nn.Upsample(scale_factor=2), nn.Identity(),
            _C2f(192, 64, 1, False), _conv(64, 64, 3, 2), nn.Identity(), _C2f(192, 128, 1, False),
            _conv(128, 128, 3, 2), nn.Identity(), _C2f(384, 256, 1, False), _Detect((64, 128, 256)),
        ])  # fmt: skip

    def forward(self, pixels: Any) -> Any:
        maps: list[Any] = []
        x = pixels
        joined = {11: 6, 14: 4, 17: 12, 20: 9}
        for i, layer in enumerate(self.model):
            if i == 22:
                return layer([maps[15], maps[18], maps[21]])
            x = torch.cat([x, maps[joined[i]]], 1) if i in joined else layer(x)
            maps.append(x)


class _Sam(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        from transformers import SamConfig, SamModel

        side = SIDES["sam_encoder"]
        config = SamConfig(
            vision_config={"image_size": side}, prompt_encoder_config={"image_size": side}
        )
        self.net = SamModel(config)

    def forward(self, pixels: Any) -> Any:
        return self.net.vision_encoder(pixels)[0]


def build(kind: str) -> Any:
    """A network in evaluation, with random weights and statistics."""
    torch.manual_seed(0)
    if kind == "yolov8n":
        net: Any = Yolo()
    elif kind == "sam_encoder":
        net = _Sam()
    else:
        import torchvision

        net = getattr(torchvision.models, "vit_b_16" if kind == "vit_b" else kind)()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.normal_(module.bias, std=0.1)
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    if kind == "vit_b":
        nn.init.normal_(net.heads.head.weight, std=0.02)
    return net.eval()


def write(kind: str, folder: str, pixels: Any) -> None:
    """Write model.safetensors and model.onnx."""
    from safetensors.torch import save_file

    net, place = build(kind), Path(folder)
    encoder = net
    if kind == "sam_encoder":
        encoder = net.net
        (place / "config.json").write_text(
            json.dumps({**encoder.config.to_dict(), "architectures": ["SamModel"]}, default=str)
        )
    state = {n: t.clone().contiguous() for n, t in encoder.state_dict().items()}
    save_file(state, place / "model.safetensors")
    torch.onnx.export(
        net,
        (pixels,),
        str(place / "model.onnx"),
        input_names=["pixels"],
        dynamo=False,
        opset_version=17,
    )

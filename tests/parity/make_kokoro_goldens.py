"""Make the goldens of Kokoro, whose code is on the hub: its arithmetic in float64, written here.

    python tests/parity/make_kokoro_goldens.py

Needs torch, transformers (of PL-BERT alone) and safetensors. Written from StyleTTS 2's paper,
iSTFTNet's and the published configuration, with the parameters of tests/models/voices.py under
their published names. Writes tests/models/data/voices/kokoro.safetensors.
"""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.nn import functional as F
from transformers import AlbertConfig, AlbertModel

MODELS = Path(__file__).parents[1] / "models"
_spec = importlib.util.spec_from_file_location("voices", MODELS / "voices.py")
assert _spec is not None and _spec.loader is not None
TABLE = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(TABLE)
C: dict[str, Any] = TABLE.KOKORO
G: dict[str, Any] = C["istftnet"]
NAMES: dict[str, list[int]] = {}
WIDTH, STYLE = C["hidden_dim"], C["style_dim"]
IDS = [0, 7, 30, 41, 1, 12, 55, 20, 3, 0]
VOICES = ("af_heart", "bm_other")


def value(name: str, *shape: int) -> torch.Tensor:
    NAMES[name] = list(shape)
    return torch.from_numpy(TABLE.values_of(name, shape)).double()


def normed(name: str, *shape: int) -> torch.Tensor:
    """A weight by its direction and its length."""
    v, g = value(f"{name}.weight_v", *shape), value(f"{name}.weight_g", shape[0], 1, 1)
    return g * v / (v * v).sum((1, 2), keepdim=True).sqrt()


def linear(x: torch.Tensor, name: str, out: int) -> torch.Tensor:
    return x @ value(f"{name}.weight", out, x.shape[-1]).T + value(f"{name}.bias", out)


def conv(x: torch.Tensor, name: str, out: int, taps: int, **how: Any) -> torch.Tensor:
    """A convolution whose weight has a norm."""
    bias = value(f"{name}.bias", out) if how.pop("biased", True) else None
    return F.conv1d(x, normed(name, out, x.shape[1], taps), bias, **how)


def lstm(x: torch.Tensor, name: str, width: int) -> torch.Tensor:
    """(n, inside) -> (n, width), half of it read from the start and half from the end."""
    half, sides = width // 2, []
    for end in ("", "_reverse"):
        into = value(f"{name}.weight_ih_l0{end}", 4 * half, x.shape[1])
        again = value(f"{name}.weight_hh_l0{end}", 4 * half, half)
        bias = value(f"{name}.bias_ih_l0{end}", 4 * half)
        bias = bias + value(f"{name}.bias_hh_l0{end}", 4 * half)
        h, c, rows = torch.zeros(half).double(), torch.zeros(half).double(), []
        for row in x.flip(0) if end else x:
            i, f, g, o = (into @ row + again @ h + bias).chunk(4)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            rows.append(h)
        side = torch.stack(rows)
        sides.append(side.flip(0) if end else side)
    return torch.cat(sides, 1)


def styled(x: torch.Tensor, name: str, style: torch.Tensor) -> torch.Tensor:
    """Each channel of (1, channels, n) by its mean and variance over time, as the style has it."""
    gamma, beta = linear(style, f"{name}.fc", 2 * x.shape[1]).chunk(2)
    mean, var = x.mean(2, keepdim=True), x.var(2, unbiased=False, keepdim=True)
    return (1 + gamma)[:, None] * (x - mean) / (var + 1e-5).sqrt() + beta[:, None]


def block(x: torch.Tensor, name: str, out: int, style: torch.Tensor, doubled: bool = False) -> Any:
    inside = x.shape[1]
    y = F.leaky_relu(styled(x, f"{name}.norm1", style), 0.2)
    if doubled:
        how: Any = {"stride": 2, "padding": 1, "output_padding": 1, "groups": inside}
        w, b = normed(f"{name}.pool", inside, 1, 3), value(f"{name}.pool.bias", inside)
        y = F.conv_transpose1d(y, w, b, **how)
    y = conv(y, f"{name}.conv1", out, 3, padding=1)
    y = conv(
        F.leaky_relu(styled(y, f"{name}.norm2", style), 0.2), f"{name}.conv2", out, 3, padding=1
    )
    x = x.repeat_interleave(2, 2) if doubled else x
    x = conv(x, f"{name}.conv1x1", out, 1, biased=False) if inside != out else x
    return (y + x) / math.sqrt(2)


def snakes(x: torch.Tensor, name: str, taps: int, dilations: list[int], style: Any) -> Any:
    channels = x.shape[1]
    for i, dilation in enumerate(dilations):
        y = x
        for side, step in (("1", dilation), ("2", 1)):
            y = styled(y, f"{name}.adain{side}.{i}", style)
            a = value(f"{name}.alpha{side}.{i}", 1, channels, 1)
            y = y + torch.sin(a * y) ** 2 / a
            pads = step * (taps - 1) // 2
            y = conv(y, f"{name}.convs{side}.{i}", channels, taps, dilation=step, padding=pads)
        x = x + y
    return x


def source(pitch: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """The spectrogram of harmonics: magnitudes, then phases."""
    scale = math.prod(G["upsample_rates"]) * G["gen_istft_hop_size"]
    tones = pitch[:, None] * torch.arange(1, 10).double() / 24000 % 1
    turns = torch.cumsum(tones, 0).T[None] * scale
    phase = F.interpolate(turns, scale_factor=float(scale), mode="linear")[0].T * 2 * math.pi
    voiced = (pitch > 10).repeat_interleave(scale)[:, None].double()
    waves = 0.1 * torch.sin(phase) * voiced
    waves = waves + (voiced * 0.003 + (1 - voiced) * 0.1 / 3) * noise
    sound = torch.tanh(linear(waves, "decoder.generator.m_source.l_linear", 1))[:, 0]
    size = G["gen_istft_n_fft"]
    window = torch.hann_window(size, periodic=True, dtype=torch.float64)
    spectrum = torch.stft(sound, size, G["gen_istft_hop_size"], window=window, return_complex=True)
    # Of the first frame, its own mirror, rounding would say whether a phase is pi or -pi.
    still = spectrum.imag.abs() <= 1e-12 * spectrum.abs()
    spectrum = torch.complex(spectrum.real, spectrum.imag.masked_fill(still, 0.0))
    return torch.cat([spectrum.abs(), spectrum.angle()])[None]


def samples(x: torch.Tensor) -> torch.Tensor:
    size, step = G["gen_istft_n_fft"], G["gen_istft_hop_size"]
    bins = size // 2 + 1
    spectrum = torch.polar(x[:, :bins].exp(), x[:, bins:].sin())
    window = torch.hann_window(size, periodic=True, dtype=torch.float64)
    return torch.istft(spectrum, size, step, window=window)


def generator(x: torch.Tensor, style: torch.Tensor, har: torch.Tensor) -> torch.Tensor:
    base, width, rates = "decoder.generator", G["upsample_initial_channel"], G["upsample_rates"]
    bins = G["gen_istft_n_fft"] + 2
    kinds = list(zip(G["resblock_kernel_sizes"], G["resblock_dilation_sizes"], strict=True))
    for i, (rate, taps) in enumerate(zip(rates, G["upsample_kernel_sizes"], strict=True)):
        last, half, step = i == len(rates) - 1, width // 2, math.prod(rates[i + 1 :])
        w = value(f"{base}.noise_convs.{i}.weight", half, bins, 1 if last else 2 * step)
        b = value(f"{base}.noise_convs.{i}.bias", half)
        told = F.conv1d(har, w, b, stride=step, padding=0 if last else (step + 1) // 2)
        told = snakes(told, f"{base}.noise_res.{i}", 11 if last else 7, [1, 3, 5], style)
        w, b = normed(f"{base}.ups.{i}", width, half, taps), value(f"{base}.ups.{i}.bias", half)
        x = F.leaky_relu(x, 0.1)
        x = F.conv_transpose1d(x, w, b, stride=rate, padding=(taps - rate) // 2)
        x = F.pad(x, (1, 0), "reflect") if last else x
        x = x + told
        parts = [
            snakes(x, f"{base}.resblocks.{i * len(kinds) + j}", k, d, style)
            for j, (k, d) in enumerate(kinds)
        ]
        x, width = sum(parts) / len(parts), half
    return conv(F.leaky_relu(x), f"{base}.conv_post", bins, 7, padding=3)


def main() -> None:
    told = {**C["plbert"], "vocab_size": C["n_token"]}
    bert: Any = AlbertModel(AlbertConfig(**told), add_pooling_layer=False).eval().double()
    for name, t in bert.state_dict().items():
        if t.dtype.is_floating_point:
            t.copy_(value(f"bert.{name}", *t.shape))
    ids, n = torch.tensor([IDS]), len(IDS)
    packs = [value(f"voices.{v}", C["plbert"]["max_position_embeddings"] - 2, 1, 2 * STYLE)
             for v in VOICES]  # fmt: skip
    look, sound = packs[0][n - 3, 0].split(STYLE)[::-1]
    with torch.no_grad():
        x = linear(bert(ids).last_hidden_state[0], "bert_encoder", WIDTH)
        beside = look.expand(n, STYLE)
        x = torch.cat([x, beside], 1)
        for i in range(C["n_layer"]):
            x = lstm(x, f"predictor.text_encoder.lstms.{2 * i}", WIDTH)
            gamma, beta = linear(look, f"predictor.text_encoder.lstms.{2 * i + 1}.fc",
                                 2 * WIDTH).chunk(2)  # fmt: skip
            x = (1 + gamma) * F.layer_norm(x, (WIDTH,)) + beta
            x = torch.cat([x, beside], 1)
        lasting = linear(lstm(x, "predictor.lstm", WIDTH), "predictor.duration_proj.linear_layer",
                         C["max_dur"]).sigmoid().sum(1)  # fmt: skip
        frames = lasting.round().clamp(min=1).long()
        shared = lstm(x.repeat_interleave(frames, 0), "predictor.shared", WIDTH).T[None]
        curves = []
        for name in ("F0", "N"):
            y = block(shared, f"predictor.{name}.0", WIDTH, look)
            y = block(y, f"predictor.{name}.1", WIDTH // 2, look, True)
            y = block(y, f"predictor.{name}.2", WIDTH // 2, look)
            w = value(f"predictor.{name}_proj.weight", 1, WIDTH // 2, 1)
            curves.append(F.conv1d(y, w, value(f"predictor.{name}_proj.bias", 1)))
        text = value("text_encoder.embedding.weight", C["n_token"], WIDTH)[ids[0]].T[None]
        taps = C["text_encoder_kernel_size"]
        for i in range(C["n_layer"]):
            text = conv(text, f"text_encoder.cnn.{i}.0", WIDTH, taps, padding=taps // 2)
            gamma, beta = (value(f"text_encoder.cnn.{i}.1.{k}", WIDTH) for k in ("gamma", "beta"))
            text = F.layer_norm(text.transpose(1, 2), (WIDTH,), gamma, beta).transpose(1, 2)
            text = F.leaky_relu(text, 0.2)
        text = lstm(text[0].T, "text_encoder.lstm", WIDTH)
        read = text.repeat_interleave(frames, 0).T[None]
        low = [conv(curve, f"decoder.{name}_conv", 1, 3, stride=2, padding=1)
               for curve, name in zip(curves, ("F0", "N"), strict=True)]  # fmt: skip
        wide = C["decoder_width"]
        y = block(torch.cat([read, *low], 1), "decoder.encode", wide, sound)
        kept = conv(read, "decoder.asr_res.0", C["decoder_beside"], 1)
        for i in range(4):
            out = G["upsample_initial_channel"] if i == 3 else wide
            y = block(torch.cat([y, kept, *low], 1), f"decoder.decode.{i}", out, sound, i == 3)
        pitch = curves[0].reshape(-1)
        scale = math.prod(G["upsample_rates"]) * G["gen_istft_hop_size"]
        noise = torch.from_numpy(TABLE.noise_of((len(pitch) * scale, 9))).double()
        result = samples(generator(y, sound, source(pitch, noise)))
    print("frames", frames.tolist(), "Hz", pitch.min().item(), pitch.max().item(), result.shape,
          result.abs().max().item())  # fmt: skip
    config = {"model_type": "kokoro", **C}
    metadata = {"config": json.dumps(config), "names": json.dumps(NAMES, separators=(",", ":"))}
    place = MODELS / "data" / "voices" / "kokoro.safetensors"
    save_file({"out": result.float(), "frames": frames.float()}, place, metadata=metadata)
    print(place.stat().st_size, "bytes")


if __name__ == "__main__":
    main()

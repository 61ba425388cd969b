"""Piper's voices: the ONNX file of a VITS and the JSON file beside it, as a checkpoint of VITS.

The graph has the weights of the original code of VITS: some by name, others, whose norm was taken
in when the file was written, as inputs of nodes whose other inputs have names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.tensor.tensor import Tensor, from_numpy

Array = npt.NDArray[Any]
Node = Any  # of core/onnx/proto.py
SUFFIX = ".onnx.json"
# Names of the original code and ours, in order; what begins with another is not of speaking.
_RENAMED = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"enc_p\.emb\.", "text_encoder.embed_tokens."),
        (r"enc_p\.proj\.", "text_encoder.project."),
        (
            r"enc_p\.encoder\.attn_layers\.(\d+)\.emb_rel",
            r"text_encoder.encoder.layers.\1.attention.emb_rel",
        ),
        (
            r"enc_p\.encoder\.attn_layers\.(\d+)\.conv_o\.",
            r"text_encoder.encoder.layers.\1.attention.out_proj.",
        ),
        (
            r"enc_p\.encoder\.attn_layers\.(\d+)\.conv_([qkv])\.",
            r"text_encoder.encoder.layers.\1.attention.\2_proj.",
        ),
        (r"enc_p\.encoder\.norm_layers_1\.(\d+)\.", r"text_encoder.encoder.layers.\1.layer_norm."),
        (
            r"enc_p\.encoder\.norm_layers_2\.(\d+)\.",
            r"text_encoder.encoder.layers.\1.final_layer_norm.",
        ),
        (r"enc_p\.encoder\.ffn_layers\.(\d+)\.", r"text_encoder.encoder.layers.\1.feed_forward."),
        (r"dec\.ups\.", "decoder.upsampler."),
        (r"dec\.", "decoder."),
        (r"emb_g\.", "embed_speaker."),
        (r"dp\.flows\.0\.m$", "duration_predictor.flows.0.translate"),
        (r"dp\.flows\.0\.logs$", "duration_predictor.flows.0.log_scale"),
    )
)
_FLOW = re.compile(r"(flow|dp)\.flows\.(\d+)\.")
_PARTS = {
    "pre.": "conv_pre.",
    "post.": "conv_post.",
    "proj.": "conv_proj.",
    "enc.": "wavenet.",
    "convs.": "conv_dds.",
    "cond.": "cond.",
}
_ENDS = (
    ("convs_sep.", "convs_dilated."),
    ("convs_1x1.", "convs_pointwise."),
    (".gamma", ".weight"),
    (".beta", ".bias"),
)
_NORMED = re.compile(r"(.*\.(?:in_layers\.\d+|res_skip_layers\.\d+|cond_layer))\.weight(_g|_v)?$")


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with older names of weights that have a norm made new.

    A vocoder's weights that have one are made plain.
    """
    renamed: dict[str, Tensor] = {}
    for name, t in tensors.items():
        match = _NORMED.match(name)
        if match and match[2]:
            which = 0 if match[2] == "_g" else 1
            renamed[f"{match[1]}.parametrizations.weight.original{which}"] = t
        elif name.startswith("decoder.") and name.endswith((".weight_v", ".original1")):
            base = name.removesuffix(".weight_v").removesuffix(".parametrizations.weight.original1")
            length = tensors.get(f"{base}.weight_g")
            if length is None:
                length = tensors.get(f"{base}.parametrizations.weight.original0")
            if length is not None:
                v = t.float()
                scale = length.float() / (v * v).sum((1, 2), keepdim=True).sqrt()
                renamed[f"{base}.weight"] = (v * scale).to(t.dtype)
        elif not (name.startswith("decoder.") and name.endswith((".weight_g", ".original0"))):
            renamed[name] = t
    return renamed


def voice_at(place: Path) -> Path | None:
    """The ONNX file of a voice: `place`, or the only one in that folder; None for another place."""
    if place.is_dir() and not (place / "config.json").is_file():
        files = [path for path in place.glob("*.onnx") if Path(f"{path}.json").is_file()]
        return files[0] if len(files) == 1 else None
    is_voice = place.suffix == ".onnx" and Path(f"{place}.json").is_file()
    return place if is_voice else None


def open_parts(place: Path | str) -> tuple[dict[str, bytes], dict[str, Tensor]] | None:
    """config.json and the tensors of a voice's file, or of a folder with one; None of another.

    Its JSON file, of the same name and `.json`, lies beside it. FormatError for a graph that is not
    one of Piper's, or whose parts are not known here.
    """
    path = None if isinstance(place, str) else voice_at(place)
    if path is None:
        return None
    voice_json = parse_json(Path(f"{path}.json").read_bytes(), f"{path.name}.json", depth=8)
    config, arrays = read_voice(path.read_bytes(), voice_json, path.name)
    tensors = {name: from_numpy(array) for name, array in arrays.items()}
    return {"config.json": json.dumps(config).encode()}, tensors


def read_voice(data: bytes, voice_json: Any, what: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """config.json and the tensors of the bytes of a voice's ONNX file.

    voice_json: what the JSON beside it says. FormatError, which names `what`, for other bytes or
    another JSON.
    """
    from rushlight.core.io.protobuf import read
    from rushlight.core.io.weights.source import BytesSource
    from rushlight.core.onnx.proto import TensorRecord, parse_model
    from rushlight.core.onnx.weights import array_of, check_sizes

    source = BytesSource(data, what)
    graph = read(parse_model(source), source).graph
    records = {n: r for n, r in graph.initializers.items() if isinstance(r, TensorRecord)}
    check_sizes(list(records.values()), source)
    values = {name: read(array_of(r, source), source) for name, r in records.items()}
    constants = {
        node.outputs[0]: read(array_of(attribute.value, source), source)
        for node in graph.nodes
        if node.op == "Constant"
        for attribute in node.attributes.values()
        if isinstance(attribute.value, TensorRecord)
    }
    nodes = list(graph.nodes)
    named = dict(_named(nodes, values, constants))
    tensors: dict[str, Array] = {}
    for name, array in named.items():
        ours = _our_name(name)
        array = np.ascontiguousarray(array, np.float32)
        if re.search(r"_proj\.weight$", ours) and ".attention." in ours:
            array = array[:, :, 0]
        if match := _NORMED.match(ours):
            base = f"{match[1]}.parametrizations.weight.original"
            wide = array.astype(np.float64)
            length = np.sqrt((wide * wide).sum((1, 2), keepdims=True))
            tensors[f"{base}0"], array = length.astype(np.float32), array
            ours = f"{base}1"
        tensors[ours] = array
    return _config(nodes, named, tensors, voice_json, what), tensors


def _named(
    nodes: list[Node], values: Mapping[str, Array], constants: Mapping[str, Array]
) -> Iterator[tuple[str, Array]]:
    """The weights under the names of the original code."""
    known = re.compile(r"(enc_p|dec|flow|dp|emb_g)\.")
    for name, array in values.items():
        if known.match(name):
            yield name, array
    everything = {**constants, **values}
    after: dict[str, str] = {}
    for node in nodes:
        inputs = list(node.inputs)
        if node.op == "Conv" and len(inputs) == 3 and not known.match(inputs[1]):
            bias = inputs[2]
            if known.match(bias) and bias.endswith(".bias") and inputs[1] in values:
                yield f"{bias.removesuffix('bias')}weight", values[inputs[1]]
        elif node.op == "Gather" and inputs[0] in values and inputs[1] in ("input", "sid"):
            name = "enc_p.emb.weight" if inputs[1] == "input" else "emb_g.weight"
            if name not in values:
                yield name, values[inputs[0]]
        elif node.op == "Sub" and "dp.flows.0.m" in inputs:
            after[node.outputs[0]] = "dp.flows.0.logs"
        elif node.op == "Mul" and (used := set(inputs) & after.keys()):
            [scale] = set(inputs) - used or {""}
            if scale in everything and "dp.flows.0.logs" not in values:
                # In float64, so that every machine makes the same bytes.
                yield "dp.flows.0.logs", -np.log(everything[scale].astype(np.float64))


def _our_name(name: str) -> str:
    """A name of the original code as transformers has it."""
    for old, new in _ENDS:
        name = name.replace(old, new)
    for pattern, new in _RENAMED:
        if pattern.match(name):
            return pattern.sub(new, name, count=1)
    base = "duration_predictor." if name.startswith("dp.") else "flow."
    if match := _FLOW.match(name):
        number = int(match[2])
        # Flips of the channels count in the original.
        place = number // 2 if match[1] == "flow" else (number + 1) // 2
        base, name = f"{base}flows.{place}.", name[match.end() :]
    else:
        name = name.partition(".")[2]
    for old, new in _PARTS.items():
        if name.startswith(old):
            return base + new + name.removeprefix(old)
    return base + name


def _config(
    nodes: list[Node],
    named: Mapping[str, Array],
    tensors: Mapping[str, Array],
    voice_json: Any,
    what: str,
) -> dict[str, Any]:
    """config.json by the shapes of weights, attributes of nodes, and the JSON beside the file."""
    audio = voice_json.get("audio") if isinstance(voice_json, dict) else None
    ids = voice_json.get("phoneme_id_map") if isinstance(voice_json, dict) else None
    if not isinstance(audio, dict) or not isinstance(ids, dict):
        raise FormatError(f"{what}.json has no audio and phoneme_id_map, as Piper's voices have")
    try:
        words, width = named["enc_p.emb.weight"].shape
        keys = named["enc_p.encoder.attn_layers.0.emb_rel_k"]
        first = named["enc_p.encoder.ffn_layers.0.conv_1.weight"]
        frames = named["dec.conv_pre.weight"]
        gates = named["flow.flows.0.enc.in_layers.0.weight"]
        flow_bins = named["dp.flows.3.proj.weight"].shape[0]
        dilated = named["dp.convs.convs_sep.0.weight"]
    except KeyError as error:
        raise FormatError(f"{what} is no voice of Piper: it has no {error.args[0]}") from None
    by_weight = {name: array.shape for name, array in named.items()}
    attributes = {_weight_name(node): node.attributes for node in nodes if node.op in _CONVS}

    def count(pattern: str) -> int:
        numbers = [int(m[1]) for name in named if (m := re.match(pattern, name))]
        return max(numbers, default=-1) + 1

    def attribute(name: str, what_of: str) -> int:
        value = attributes.get(name, {}).get(what_of)
        return int(value.value[0]) if value is not None else 1

    ups = count(r"dec\.ups\.(\d+)\.")
    kinds = count(r"dec\.resblocks\.(\d+)\.") // max(ups, 1)
    pairs = "dec.resblocks.0.convs1.0.weight" in named
    convs = "convs1" if pairs else "convs"
    blocks = [f"dec.resblocks.{i}.{convs}" for i in range(kinds)]
    dilations = [
        [
            attribute(f"{block}.{i}.bias", "dilations")
            for i in range(count(re.escape(block) + r"\.(\d+)\."))
        ]
        for block in blocks
    ]
    speakers = by_weight.get("emb_g.weight", (1, 0))
    inference = voice_json.get("inference", {})
    length = float(inference.get("length_scale", 1) or 1)
    return {
        "model_type": "vits",
        "architectures": ["VitsModel"],
        "vocab_size": words,
        "hidden_size": width,
        "num_hidden_layers": count(r"enc_p\.encoder\.attn_layers\.(\d+)\."),
        "num_attention_heads": width // keys.shape[2],
        "window_size": keys.shape[1] // 2,
        "ffn_dim": first.shape[0],
        "ffn_kernel_size": first.shape[2],
        "flow_size": frames.shape[1],
        "num_speakers": speakers[0],
        "speaker_embedding_size": speakers[1],
        "upsample_initial_channel": frames.shape[0],
        "upsample_rates": [attribute(f"dec.ups.{i}.bias", "strides") for i in range(ups)],
        "upsample_kernel_sizes": [by_weight[f"dec.ups.{i}.weight"][2] for i in range(ups)],
        "resblock_kernel_sizes": [by_weight[f"{block}.0.weight"][2] for block in blocks],
        "resblock_dilation_sizes": dilations,
        "resblock_pairs": pairs,
        "depth_separable_num_layers": count(r"dp\.convs\.convs_sep\.(\d+)\."),
        "duration_predictor_flow_bins": (flow_bins + 1) // 3,
        "duration_predictor_kernel_size": dilated.shape[2],
        "duration_predictor_num_flows": count(r"dp\.flows\.(\d+)\.") // 2,
        "prior_encoder_num_flows": (count(r"flow\.flows\.(\d+)\.") + 1) // 2,
        "prior_encoder_num_wavenet_layers": count(r"flow\.flows\.0\.enc\.in_layers\.(\d+)\."),
        "wavenet_kernel_size": gates.shape[2],
        "wavenet_dilation_rate": attribute("flow.flows.0.enc.in_layers.1.bias", "dilations"),
        "speaking_rate": 1 / length if math.isfinite(length) and length > 0 else 1.0,
        "noise_scale": float(inference.get("noise_scale", 0.667)),
        "noise_scale_duration": float(inference.get("noise_w", 0.8)),
        "sampling_rate": audio.get("sample_rate", 22050),
        "voice": {
            "phoneme_type": voice_json.get("phoneme_type", "espeak"),
            "espeak": voice_json.get("espeak", {}).get("voice", "en-us"),
            "language": voice_json.get("language", {}).get("code", ""),
            "phoneme_id_map": ids,
            "speaker_id_map": voice_json.get("speaker_id_map", {}),
        },
    }


_CONVS = ("Conv", "ConvTranspose")


def _weight_name(node: Node) -> str:
    """The name of a convolution's bias, which has its original name, or of its weight."""
    return str(node.inputs[2] if len(node.inputs) > 2 else node.inputs[1])

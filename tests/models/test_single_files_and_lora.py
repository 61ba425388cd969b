"""Single files of Stable Diffusion, and LoRA of diffusers and kohya: counted, changed, removed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.models.diffusion.single_file.names import unet_names, vae_names
from rushlight.models.diffusion.streamed import single_pipeline
from rushlight.models.diffusion.unet.unet_2d_condition import UNet2DConditionModel
from rushlight.models.diffusion.vae.autoencoder_kl import AutoencoderKL

from . import tiny_pipelines as tiny
from .test_drawing import folder_of

Arrays = dict[str, npt.NDArray[Any]]
DRAWN: dict[str, Any] = {"seed": 5, "steps": 2, "size": "32", "guidance": 3.0}


def _weights(folder: Path, part: str) -> Arrays:
    [file] = (folder / part).glob("*.safetensors")
    return {name: t.numpy() for name, t in rl.load(file).items()}


def _in_one_file(folder: Path, name: str, xl: bool) -> Path:
    """The weights of a folder in the authors' names, with the vocabularies beside."""
    row = tiny.PIPELINES[name]
    tensors: Arrays = {}
    unet, vae = _weights(folder, "unet"), _weights(folder, "vae")
    for ours, theirs in unet_names(unet, row["unet"]).items():
        tensors[f"model.diffusion_model.{theirs}"] = unet[ours]
    for ours, theirs in vae_names(vae, tiny.VAE).items():
        value = vae[ours]
        flat = ".attn_1." in theirs and value.ndim == 2
        tensors[f"first_stage_model.{theirs}"] = value[:, :, None, None] if flat else value
    first = "conditioner.embedders.0.transformer." if xl else "cond_stage_model.transformer."
    tensors |= {first + n: v for n, v in _weights(folder, "text_encoder").items()}
    if xl:
        tensors |= _open_clip(_weights(folder, "text_encoder_2"), "conditioner.embedders.1.model.")
    file = folder.parent / f"{name}.safetensors"
    tiny.write_safetensors(file, tensors)
    tiny.write_tokenizer(folder.parent / "tokenizer")
    return file


def _open_clip(tensors: Arrays, base: str) -> Arrays:
    renamed: Arrays = {}
    layers = "text_model.encoder.layers."
    for name, value in tensors.items():
        if name == "text_projection.weight":
            renamed["text_projection"] = np.ascontiguousarray(value.T)
        elif not name.startswith(layers):
            short = name.removeprefix("text_model.").removeprefix("embeddings.")
            short = short.replace("position_embedding.weight", "positional_embedding")
            renamed[short.replace("final_layer_norm", "ln_final")] = value
        else:
            number, _, rest = name.removeprefix(layers).partition(".")
            if rest.startswith("self_attn.q_proj"):
                kind = rest.rpartition(".")[2]
                thirds = [f"{layers}{number}.self_attn.{c}_proj.{kind}" for c in "qkv"]
                joined = np.concatenate([tensors[third] for third in thirds])
                renamed[f"transformer.resblocks.{number}.attn.in_proj_{kind}"] = joined
                continue
            if rest.startswith(("self_attn.k_proj", "self_attn.v_proj")):
                continue
            for ours, theirs in (
                ("layer_norm", "ln_"),
                ("self_attn.out_proj", "attn.out_proj"),
                ("mlp.fc1", "mlp.c_fc"),
                ("mlp.fc2", "mlp.c_proj"),
            ):
                rest = rest.replace(ours, theirs)
            renamed[f"transformer.resblocks.{number}.{rest}"] = value
    return {base + name: value for name, value in renamed.items()}


@pytest.mark.parametrize("name", ["sd15", "sdxl"])
def test_a_single_file_draws_what_the_folder_draws(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = tiny.PIPELINES[name]
    # As files without configs have: one head of widths below 64, norms of 32 groups.
    one_head = {"num_attention_heads": 1}
    wide = {"block_out_channels": [32, 64], "norm_num_groups": 32}
    monkeypatch.setitem(tiny.VAE, "block_out_channels", [32] * 4)
    monkeypatch.setitem(tiny.VAE, "norm_num_groups", 32)
    changed = {
        **row,
        "unet": {**row["unet"], **wide, "attention_head_dim": 8 if name == "sd15" else [1, 1]},
        "text_encoder": {**row["text_encoder"], **one_head},
    }
    if name == "sdxl":
        changed["text_encoder_2"] = {**row["text_encoder_2"], **one_head}
        changed["scheduler"] = {**row["scheduler"], "timestep_spacing": "leading"}
        monkeypatch.setitem(tiny.VAE, "scaling_factor", 0.13025)
    monkeypatch.setitem(tiny.PIPELINES, name, changed)
    folder = folder_of(tmp_path / name, name)
    if name == "sdxl":  # diffusers' folders of it have zeros for no negative prompt
        assert rl.models.load(folder).config.model_type == "StableDiffusionXLPipeline"
    file = _in_one_file(folder, name, name == "sdxl")
    made = [
        rl.pipeline("text-to-image", place)("a bad cat", negative_prompt="a dim cat", **DRAWN)
        for place in (folder, file)
    ]
    assert np.array_equal(made[0]["image"], made[1]["image"])
    words = {f"tokenizer/{p.name}": p.read_bytes() for p in (tmp_path / "tokenizer").iterdir()}
    builder = SimpleNamespace(parts=lambda: (words, rl.load(file), None), device=rl.device("cpu"))
    paged = rl.pipeline("text-to-image", single_pipeline(builder))  # as a page reads them
    again = paged("a bad cat", negative_prompt="a dim cat", **DRAWN)
    assert np.array_equal(again["image"], made[1]["image"])
    words.clear()
    with pytest.raises(rl.LoadError, match="the vocabulary of its text encoder is missing"):
        single_pipeline(builder)
    (tmp_path / "tokenizer" / "vocab.json").unlink()
    (tmp_path / "tokenizer").rename(tmp_path / "words")
    with pytest.raises(rl.LoadError, match="the vocabulary of its text encoder is missing"):
        rl.models.load(file)


def _pairs(names: list[str], weights: Arrays, rank: int) -> dict[str, tuple[Any, Any]]:
    pairs = {}
    for name in names:
        shape = weights[name].shape
        inner = int(np.prod(shape[1:]))
        down = tiny.values(f"{name} down", (rank, inner), 0.3)
        up = tiny.values(f"{name} up", (shape[0], rank), 0.3)
        if len(shape) == 4:
            down, up = down.reshape(rank, *shape[1:]), up.reshape(shape[0], rank, 1, 1)
        pairs[name] = up, down
    return pairs


def test_lora_of_diffusers_and_kohya_is_merged_counted_and_removed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "sd15", "sd15")
    unet, text = _weights(folder, "unet"), _weights(folder, "text_encoder")
    block = "down_blocks.0.attentions.0.transformer_blocks.0."
    names = [
        f"{block}attn1.to_q.weight",
        f"{block}attn2.to_out.0.weight",
        "mid_block.resnets.0.conv1.weight",
    ]
    words = ["text_model.encoder.layers.1.self_attn.q_proj.weight"]
    unet_pairs, text_pairs = _pairs(names, unet, 4), _pairs(words, text, 4)
    of_diffusers: Arrays = {}
    of_kohya: Arrays = {}
    theirs = unet_names(unet, tiny.PIPELINES["sd15"]["unet"])
    for prefix, flat, pairs in (
        ("unet.", "lora_unet_", unet_pairs),
        ("text_encoder.", "lora_te_", text_pairs),
    ):
        for name, (up, down) in pairs.items():
            path = name.removesuffix(".weight")
            of_diffusers[f"{prefix}{path}.lora_A.weight"] = down
            of_diffusers[f"{prefix}{path}.lora_B.weight"] = up
            spelled = theirs[name].removesuffix(".weight") if prefix == "unet." else path
            base = flat + spelled.replace(".", "_")
            of_kohya |= {f"{base}.lora_down.weight": down, f"{base}.lora_up.weight": up}
            of_kohya[f"{base}.alpha"] = np.array([2.0], np.float32)
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    tiny.write_safetensors(first, of_diffusers)
    tiny.write_safetensors(second, of_kohya)
    model = rl.models.load(folder)
    plain = {n: t.numpy().copy() for n, t in model.parts.get("unet").state_dict().items()}
    report = model.load_lora(first, 0.5)
    assert (report.matched, report.unmatched) == (8, [])
    assert str(model.load_lora(second)) == "12 of 12 keys matched"
    changed = model.parts.get("unet").state_dict()
    for name, (up, down) in unet_pairs.items():
        product = (up.reshape(len(up), -1) @ down.reshape(4, -1)).reshape(unet[name].shape)
        np.testing.assert_allclose(changed[name].numpy(), plain[name] + product, atol=1e-5)
    fresh = rl.models.load(folder)
    fresh.load_lora(first, 0.25)
    model.remove_lora("second")
    model.set_lora("first", 0.25)
    again = fresh.parts.get("unet").state_dict()
    for name, value in model.parts.get("unet").state_dict().items():
        assert np.array_equal(value.numpy(), again[name].numpy())
    model.remove_lora()
    for name, value in model.parts.get("unet").state_dict().items():
        assert np.array_equal(value.numpy(), plain[name])
    tiny.write_safetensors(
        first, {**of_diffusers, "unet.no_such.lora_A.weight": np.zeros((4, 4), np.float32)}
    )
    with pytest.raises(rl.LoadError, match=r"1 of 9 keys match no weight .*unet.no_such"):
        model.load_lora(first)
    assert model.load_lora(first, strict=False).unmatched == ["unet.no_such.lora_A.weight"]


def test_quantized_matrices_stay_quantized_and_draw_nearly_the_same(tmp_path: Path) -> None:
    row = tiny.PIPELINES["sd15"]
    wide = {**row["unet"], "block_out_channels": [32, 64], "cross_attention_dim": 32}
    config = {**row["text_encoder"], "hidden_size": 32, "intermediate_size": 64}
    tiny.PIPELINES["wide"] = {**row, "unet": wide, "text_encoder": config}
    try:
        folder = folder_of(tmp_path / "wide", "wide")
    finally:
        del tiny.PIPELINES["wide"]
    assert UNet2DConditionModel(wide) and AutoencoderKL(tiny.VAE)
    plain = rl.pipeline("text-to-image", folder)("a bad cat", **DRAWN)["image"].astype(int)
    for dtype, far in (("q8_0", 6), ("q4_0", 90)):
        pipe = rl.pipeline("text-to-image", folder, dtype=dtype)
        image = pipe("a bad cat", **DRAWN)["image"].astype(int)
        weights = pipe.model.parts.get("unet").state_dict()
        kinds = {n: t.dtype.name for n, t in weights.items() if n.endswith("to_q.weight")}
        assert set(kinds.values()) == {dtype}
        assert 0 < np.abs(image - plain).mean() < far

"""Make the goldens of image families with the published implementation, from their table.

    python tests/parity/make_vision_goldens.py [ROW ...]

Needs torch, transformers, timm, torchvision, open_clip_torch, ultralytics
and safetensors. Writes
tests/models/data/vision/ROW.safetensors for each row of tests/models/vision.py: "out", logits or
the last hidden state of its pixels; "features", the pooled vector, where the model has one; tensors
of integers under "given:NAME"; as metadata config.json and the checkpoint's names and shapes,
compressed where they are many.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import json
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
LONG = 20_000  # characters of names that are written compressed


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = _module(MODELS / "vision.py")


def _values(state: Any, table: Any) -> tuple[dict[str, Any], dict[str, list[int]], dict[str, Any]]:
    """The table's values for a state dict, their shapes, and its tensors of integers."""
    values, names, given = {}, {}, {}
    for name, t in state.items():
        computed = name.endswith(("relative_coords_table", "points_scale"))
        if not computed and (t.is_floating_point() or name.endswith("num_batches_tracked")):
            if t.is_floating_point():  # what only counts is left out, as older files do
                names[name] = list(t.shape)
            values[name] = torch.from_numpy(table.values_of(name, tuple(t.shape)))
        else:
            values[name] = given[f"given:{name}"] = t.clone().contiguous()
    return values, names, given


def _of_transformers(kind: str, settings: dict[str, Any], table: Any) -> Any:
    """The model with the values of what it saves, whose names need not be its own."""
    import transformers

    cls = getattr(transformers, kind)
    config = cls.config_class(**settings, architectures=[kind])
    with tempfile.TemporaryDirectory() as folder:
        cls(config).save_pretrained(folder)
        file = Path(folder) / "model.safetensors"
        values, names, given = _values(load_file(file), table)
        save_file(values, file, metadata={"format": "pt"})
        model, report = cls.from_pretrained(
            folder,
            # Its masks of booleans are added by the plain attention, not obeyed.
            attn_implementation=None if kind.startswith("GroundingDino") else "eager",
            output_loading_info=True,
        )
        assert not any(report.values()), report
        stored = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    if getattr(
        model.config, "learn_initial_query", False
    ):  # asks the module for a method of tensors
        queries = model.model.weight_embedding
        queries.tile = queries.weight.tile
    return model.eval(), stored, names, given


def _tiny_encoder(neck: Any) -> Any:
    """timm's TinyViT, whose last stage keeps the size, and the neck of transformers' SamModel."""
    import timm

    encoder = torch.nn.Module()
    encoder.body, encoder.neck = timm.create_model("tiny_vit_5m_224", num_classes=0), neck
    encoder.body.stages[3].downsample.conv2.conv.stride = (1, 1)
    encoder.forward = lambda pixels, **_: (
        neck(encoder.body.forward_features(pixels).permute(0, 2, 3, 1)),
    )
    return encoder


def _of_mobile_sam(settings: dict[str, Any], table: Any) -> Any:
    """SamModel with MobileSAM's encoder, and the values of its names."""
    import transformers

    authors = _module(MODELS / "authors.py")
    model = transformers.SamModel(transformers.SamConfig(**settings))
    model.vision_encoder.neck.conv1 = torch.nn.Conv2d(
        320, settings["vision_config"]["output_channels"], 1, bias=False
    )
    model.vision_encoder = _tiny_encoder(model.vision_encoder.neck)
    state = {}
    for name, t in model.state_dict().items():
        unread = name.startswith(("vision_encoder.body.head.", "prompt_encoder.shared_embedding."))
        if not unread and not name.endswith("num_batches_tracked"):
            state[name] = t
    names, values = {}, {}
    for name, t in state.items():
        begin = "vision_encoder.body."
        rules = authors.TINY if name.startswith(begin) else authors.SAM
        plain = {
            n.removeprefix(begin): n
            for n in state
            if n.startswith(begin) == (rules is authors.TINY)
        }
        (own,) = authors.renamed({name.removeprefix(begin): 0}, rules, plain)
        names[own] = list(t.shape)
        values[name] = torch.from_numpy(table.values_of(own, tuple(t.shape)))
    names["image_encoder.norm_head.weight"] = [320]  # the published file has what is not used
    missing = model.load_state_dict(values, strict=False)
    assert not missing.unexpected_keys, missing
    model.prompt_encoder.shared_embedding = model.shared_image_embedding
    config = {"model_type": "mobile_sam", "architectures": ["SamModel"], **settings}
    return model.eval(), config, names, {}


def _of_timm(kind: str, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    import timm

    if kind.startswith("convmixer_"):  # whose functions take no sizes
        from timm.models.convmixer import ConvMixer

        act = torch.nn.ReLU if "_768_" in kind else torch.nn.GELU
        model = ConvMixer(**settings, act_layer=act).eval()
        cfg = {}
    else:
        model = timm.create_model(kind, **settings).eval()
        cfg = {
            k: v for k, v in model.pretrained_cfg.items() if isinstance(v, str | int | float | list)
        }
    config = {
        "architecture": kind,
        "num_classes": model.num_classes,
        "num_features": model.num_features,
    }
    config |= {"pretrained_cfg": cfg} if cfg else {}
    if getattr(model, "global_pool", None) and isinstance(model.global_pool, str):
        config["global_pool"] = model.global_pool
    arguments = {k: v for k, v in settings.items() if k != "num_classes"}
    return model, config | ({"model_args": arguments} if arguments else {})


def _of_open_clip(kind: str, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from open_clip import model

    return getattr(model, kind)(**settings).eval(), {"model_cfg": settings}


def _of_ultralytics(kind: str, settings: dict[str, Any]) -> Any:
    """A YOLO of a YAML file's name, with the depth and the width of `scale`."""
    from ultralytics.nn import tasks
    from ultralytics.utils import YAML
    from ultralytics.utils.checks import check_yaml

    classes = {"pose": "PoseModel", "seg": "SegmentationModel", "cls": "ClassificationModel"}
    plan = YAML.load(check_yaml(f"{kind}.yaml"))
    plan |= {"scales": {"n": settings["scale"]}, "scale": "n"}
    if "kpt_shape" in settings:
        plan["kpt_shape"] = settings["kpt_shape"]
    make = getattr(tasks, classes.get(kind.partition("-")[2], "DetectionModel"))
    return make(plan, nc=settings["classes"], verbose=False).eval()


def _vgg(layers: list[Any], num_classes: int, hidden: int, batch_norm: bool = False) -> Any:
    """torchvision's VGG with other layers, and a classifier of fewer features."""
    from torchvision.models import vgg

    net = vgg.VGG(vgg.make_layers(layers, batch_norm), num_classes, init_weights=False)
    width = [n for n in layers if n != "M"][-1]
    old, sizes = list(net.classifier), (width * 49, hidden, hidden, num_classes)
    for place, (inputs, outputs) in zip(
        (0, 3, 6), zip(sizes, sizes[1:], strict=False), strict=True
    ):
        old[place] = torch.nn.Linear(inputs, outputs)
    net.classifier = torch.nn.Sequential(*old)
    return net.eval()


def _swin(second: bool = False, **settings: Any) -> Any:
    """torchvision's Swin Transformer, of version 2 where `second`."""
    from torchvision.models import swin_transformer as swin

    if second:
        settings |= {"block": swin.SwinTransformerBlockV2, "downsample_layer": swin.PatchMergingV2}
    return swin.SwinTransformer(**settings)


def _of_yolo(model: Any, pixels: Any) -> dict[str, Any]:
    """Scores, boxes in pixels, and key points or weights, of the head's joint result."""
    found = model(pixels)
    if type(model).__name__ == "ClassificationModel":  # probabilities, and logits
        return {"out": found[1]}
    found = found[0] if isinstance(found, tuple | list) else found
    protos = None
    if isinstance(found, tuple | list):
        found, protos = found
    count = model.model[-1].nc
    made = {"boxes": found[:, :4].transpose(1, 2), "out": found[:, 4 : 4 + count].transpose(1, 2)}
    if found.shape[1] > 4 + count:
        made["more"] = found[:, 4 + count :].transpose(1, 2)
    return made if protos is None else made | {"protos": protos}


def _masks(model: Any, pixels: Any) -> dict[str, Any]:
    """The map of the first picture, and the masks of its prompts, whose first is apart."""
    given = {n: torch.from_numpy(v) for n, v in TABLE.prompts_of().items()}
    seen = model.get_image_embeddings(pixels[:1])
    points = {"input_points": given["points"][None], "input_labels": given["labels"][None]}
    boxes = {"input_boxes": given["boxes"][None]}
    whole = model.get_image_embeddings(pixels)
    made = {"out": whole[-1] if isinstance(whole, list) else whole}
    for name, prompt in (("points", points), ("boxes", boxes), ("both", points | boxes)):
        found = [
            model(image_embeddings=seen, multimask_output=many, **prompt) for many in (False, True)
        ]
        made[f"masks:{name}"] = torch.cat([f.pred_masks[0] for f in found], 1)
        made[f"scores:{name}"] = torch.cat([f.iou_scores[0] for f in found], 1)
    one = model(
        image_embeddings=seen,
        input_points=points["input_points"][:, :1],
        input_labels=points["input_labels"][:, :1],
        input_masks=given["masks"][:1],
        multimask_output=False,
    )
    made["masks:before"] = one.pred_masks[0]
    return made


def _segments(found: Any, kind: str) -> dict[str, Any]:
    """What the published processor makes of queries, at TABLE.SEGMENTS' size and options."""
    import transformers

    said, sizes = getattr(transformers, f"{kind}ImageProcessor")(), [TABLE.SEGMENTS["size"]] * 2
    panoptic, instance = TABLE.SEGMENTS["panoptic"], TABLE.SEGMENTS["instance"]
    made = {"semantic": torch.stack(said.post_process_semantic_segmentation(found, sizes)).byte()}
    for i, one in enumerate(
        said.post_process_panoptic_segmentation(
            found,
            panoptic["threshold"],
            panoptic["mask_threshold"],
            panoptic["mask_overlap"],
            {0},
            sizes,
        )
    ):
        made[f"panoptic:{i}"] = one["segmentation"].char()
        made[f"panoptic:{i}:told"] = _told(one)
    for i, one in enumerate(
        said.post_process_instance_segmentation(
            found, instance["threshold"], target_sizes=sizes, return_binary_maps=True
        )
    ):
        made[f"instance:{i}"] = one["segmentation"].byte()
        made[f"instance:{i}:told"] = _told(one)
    return made


def _told(one: Any) -> Any:
    """Ids, labels and scores (n, 3) of segments."""
    rows = [[s["id"], s["label_id"], s["score"]] for s in one["segments_info"]]
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 3)


def _of_its_own(model: Any, pixels: Any, ids: Any) -> dict[str, Any] | None:
    """The results of a model that takes its inputs in its own way; None of another."""
    if type(model).__name__.startswith("GroundingDino"):
        ids = torch.from_numpy(TABLE.phrases_of())
        found = model(input_ids=ids.expand(len(pixels), -1), pixel_values=pixels)
        return {"out": found.logits[..., : ids.shape[1]], "boxes": found.pred_boxes}
    if type(model).__name__.startswith("CLIPSeg"):  # a picture has one text
        masks = [model(input_ids=i.expand(len(pixels), -1), pixel_values=pixels) for i in ids]
        return {"out": torch.stack([found.logits for found in masks], 1)}
    if type(model).__name__ == "Siglip2Model":
        patch = model.config.vision_config.patch_size
        tall, wide = (n // patch for n in pixels.shape[2:])
        cut = pixels.reshape(len(pixels), -1, tall, patch, wide, patch).permute(0, 2, 4, 3, 5, 1)
        seen = {
            "pixel_values": cut.reshape(len(pixels), tall * wide, -1),
            "pixel_attention_mask": torch.ones(len(pixels), tall * wide, dtype=torch.int64),
            "spatial_shapes": torch.tensor([[tall, wide]] * len(pixels)),
        }
        texts, images = model.get_text_features(ids), model.get_image_features(**seen)
        out = model(input_ids=ids, **seen).logits_per_image
        return {"out": out, "texts": texts.pooler_output, "features": images.pooler_output}
    if type(model).__name__.startswith("ViTMAE"):  # which sees every patch, in order
        model = getattr(model, "vit", model)
        model.config.mask_ratio = 0.0
        places = torch.arange(model.embeddings.position_embeddings.shape[1] - 1) * 1.0
        return {"out": model(pixels, noise=places.expand(len(pixels), -1)).last_hidden_state}
    if type(model).__name__.startswith("SuperPoint"):
        found = [model(p[None]) for p in pixels]
        size = torch.tensor([pixels.shape[3], pixels.shape[2]])
        made: dict[str, Any] = {}
        for i, one in enumerate(found):
            made |= {f"points:{i}": one.keypoints[0] * size, f"scores:{i}": one.scores[0]}
            made[f"vectors:{i}"] = one.descriptors[0]
        seen = model.encoder(model.extract_one_channel_pixel_values(pixels))[0]
        return made | {"out": model.keypoint_decoder._get_pixel_scores(seen)}
    if type(model).__name__.startswith("VitPose"):  # expert 0
        first = torch.zeros(len(pixels), dtype=torch.int64)
        return {"out": model(pixels, dataset_index=first).heatmaps}
    return None


def _run(source: str, model: Any, pixels: Any, ids: Any) -> dict[str, Any]:
    if (made := _of_its_own(model, pixels, ids)) is not None:
        return made
    if type(model).__name__ in ("SamModel", "Sam2Model"):
        return _masks(model, pixels)
    if hasattr(model, "owlvit") or hasattr(model, "owlv2"):  # every picture has its own texts
        found = model(input_ids=torch.cat([ids] * len(pixels)), pixel_values=pixels)
        made = {"out": found.logits, "boxes": found.pred_boxes}
        said = getattr(found, "objectness_logits", None)
        return made if said is None else made | {"objectness": said}
    if source == "ultralytics":
        return _of_yolo(model, pixels)
    if source == "open_clip":
        with torch.no_grad():
            seen, texts = model.encode_image(pixels), model.encode_text(ids)
            return {"out": model.get_logits(pixels, ids)[0], "texts": texts, "features": seen}
    if hasattr(model, "logit_scale"):
        texts = model.get_text_features(ids).pooler_output
        seen = model.get_image_features(pixels).pooler_output
        out = model(input_ids=ids, pixel_values=pixels).logits_per_image
        return {"out": out, "texts": texts, "features": seen}
    if type(model).__name__ == "CLIPTextModelWithProjection":
        return {"out": model(ids).text_embeds}
    if source == "transformers":
        found = model(pixels)
        if "reconstruction" in found:
            return {"out": found.reconstruction}
        pooled = getattr(found, "pooler_output", None)
        if "feature_maps" in found:  # the last map's mean is what a head would read
            maps = {
                f"map:{i}": t
                for i, t in enumerate(found.feature_maps)
                if hasattr(model, "hidden_states_norms")
            }
            return {"features": found.feature_maps[-1].mean((2, 3)), **maps}
        if "image_embeds" in found:
            return {"out": found.image_embeds}
        if "predicted_depth" in found:
            made = {"out": found.predicted_depth}
            if type(model).__name__ == "PromptDepthAnythingForDepthEstimation":
                coarse = torch.from_numpy(TABLE.depths_of(pixels.numpy()))
                made["prompted"] = model(pixels, prompt_depth=coarse).predicted_depth
            return made
        if "masks_queries_logits" in found:
            return {
                "out": found.class_queries_logits,
                "masks": found.masks_queries_logits,
                **_segments(found, type(model).__name__.rpartition("For")[0]),
            }
        if "pred_boxes" in found:
            made = {"out": found.logits, "boxes": found.pred_boxes}
            return made | ({"masks": found.pred_masks} if "pred_masks" in found else {})
        out = found.logits if "logits" in found else found.last_hidden_state
        if type(model).__name__ == "SiglipVisionModel":
            return {"out": pooled}
        made = {"out": out}
        return made if pooled is None else made | {"features": pooled.flatten(1)}
    made = {"out": model(pixels)}
    if source == "timm":
        seen = model.forward_features(pixels)
        if not model.num_classes:
            made["out"] = seen
        made["features"] = model.forward_head(seen, pre_logits=True)
    return made


def main(rows: list[str]) -> None:
    table = TABLE
    torch.set_num_threads(1)
    for row in rows or list(table.ROWS):
        source, kind, settings, size = table.ROWS[row]
        if source == "transformers":
            model, config, names, given = _of_transformers(kind, settings, table)
        elif source == "mobile_sam":
            model, config, names, given = _of_mobile_sam(settings, table)
        else:
            if source == "torchvision":
                models = importlib.import_module("torchvision.models")
                own: dict[str, Any] = {"vgg": _vgg, "SwinTransformer": _swin}
                make = own.get(kind) or getattr(models, kind)
                model, config = make(**settings).eval(), {}
            elif source == "ultralytics":
                model, config = _of_ultralytics(kind, settings), {}
            elif source == "open_clip":
                model, config = _of_open_clip(kind, settings)
            else:
                model, config = _of_timm(kind, settings)
            values, names, given = _values(model.state_dict(), table)
            model.load_state_dict(values)
        seen = config.get("vision_config", config)
        pixels = torch.from_numpy(table.pixels_of(size, seen.get("num_channels", 3)))
        if frames := config.get("num_frames", config.get("frames_per_clip")):
            pixels = torch.from_numpy(table.frames_of(size, frames))
        with torch.no_grad():
            made = _run(source, model, pixels, torch.from_numpy(table.ids_of()))
        place = MODELS / "data" / "vision" / f"{row}.safetensors"
        place.parent.mkdir(exist_ok=True)
        tensors = {n: t.contiguous() for n, t in (made | given).items()}
        told = json.dumps(names, separators=(",", ":"))
        if len(told) > LONG:
            told = base64.b85encode(zlib.compress(told.encode(), 9)).decode()
        metadata = {"config": json.dumps(config), "names": told}
        save_file(tensors, place, metadata=metadata)
        seen = made["out" if "out" in made else "features"]
        print(row, place.stat().st_size, "bytes", float(seen.std()))


if __name__ == "__main__":
    main(sys.argv[1:])

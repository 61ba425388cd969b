"""The table of image families: tiny configurations, and parameters by a seed.

A row's goldens lie in data/vision/ROW.safetensors; tests/parity/make_vision_goldens.py makes them
with the published implementation. A row: the library, the name of its model, the settings, and the
height and width of the pixels. Settings of transformers are config.json, those of timm are
arguments of create_model, those of torchvision arguments of its class or function.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import json
import math
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

Row = tuple[str, str, dict[str, Any], tuple[int, int]]
_LABELS: dict[str, Any] = {"num_labels": 5}
_VIT: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "image_size": 24,
    "patch_size": 8,
}
_DINO: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "mlp_ratio": 2,
    "image_size": 24,
    "patch_size": 6,
}
_CONVNEXT: dict[str, Any] = {"hidden_sizes": [8, 12, 20], "depths": [1, 2, 1], "num_stages": 3}
_TEXT: dict[str, Any] = {
    "vocab_size": 31,
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 9,
}
_BERT: dict[str, Any] = {
    "vocab_size": 31,
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 9,
}
_OPEN: dict[str, Any] = {
    "context_length": 6,
    "vocab_size": 31,
    "width": 24,
    "heads": 4,
    "layers": 2,
}
_SEEN: dict[str, Any] = {
    "hidden_size": 24,
    "intermediate_size": 28,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "image_size": 16,
    "patch_size": 4,
}
_DEPTH: dict[str, Any] = {
    "backbone_config": _DINO
    | {
        "model_type": "dinov2",
        "out_features": ["stem", "stage1", "stage2"],
        "reshape_hidden_states": False,
    },
    "patch_size": 6,
    "reassemble_hidden_size": 24,
    "reassemble_factors": [3, 1, 0.5],
    "neck_hidden_sizes": [5, 6, 7],
    "fusion_hidden_size": 10,
    "head_hidden_size": 4,
}
_DPT: dict[str, Any] = _VIT | {
    "num_hidden_layers": 4,
    "backbone_out_indices": [0, 2, 3],
    "reassemble_factors": [2, 1, 0.5],
    "neck_hidden_sizes": [5, 6, 7],
    "fusion_hidden_size": 10,
}
_HYBRID: dict[str, Any] = {
    "is_hybrid": True,
    "image_size": 64,
    "patch_size": 16,
    "backbone_out_indices": [0, 1, 2, 3],
    "reassemble_factors": [1, 1, 1, 0.5],
    "neck_hidden_sizes": [8, 16, 6, 7],
    "backbone_featmap_shape": [1, 24, 4, 4],
    "backbone_config": {
        "model_type": "bit",
        "global_padding": "same",
        "layer_type": "bottleneck",
        "depths": [1, 2, 1],
        "hidden_sizes": [8, 16, 24],
        "embedding_size": 8,
        "num_groups": 2,
        "out_features": ["stage1", "stage2", "stage3"],
        "embedding_dynamic_padding": True,
    },
}
_EFFICIENT: dict[str, Any] = {
    "width_coefficient": 0.3,
    "depth_coefficient": 1.2,
    "num_block_repeats": [1, 2, 1],
    "in_channels": [32, 16, 24],
    "out_channels": [16, 24, 40],
    "kernel_sizes": [3, 5, 3],
    "strides": [1, 2, 2],
    "expand_ratios": [1, 6, 3],
    "hidden_dim": 384,
}
_SWIN: dict[str, Any] = {
    "embed_dim": 8,
    "depths": [2, 3],
    "num_heads": [2, 4],
    "image_size": 32,
    "patch_size": 4,
    "window_size": 3,
}
_DETR: dict[str, Any] = {
    "backbone_config": {
        "model_type": "resnet",
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 1],
        "layer_type": "basic",
        "out_features": ["stage2"],
    },
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 24,
    "num_queries": 5,
}
_MASKS: dict[str, Any] = {
    "backbone_config": {
        "model_type": "swin",
        "embed_dim": 8,
        "depths": [2, 1, 1, 1],
        "num_heads": [2, 4, 2, 2],
        "image_size": 32,
        "patch_size": 4,
        "window_size": 3,
    },
    "decoder_config": {k: v for k, v in _DETR.items() if k != "backbone_config"}
    | {"model_type": "detr"},
    "fpn_feature_size": 32,
    "mask_feature_size": 12,
}
_MASKS2: dict[str, Any] = {
    "backbone_config": _MASKS["backbone_config"]
    | {"out_features": ["stage1", "stage2", "stage3", "stage4"]},
    "feature_size": 32,
    "mask_feature_size": 12,
    "hidden_dim": 16,
    "encoder_layers": 1,
    "decoder_layers": 4,
    "num_attention_heads": 4,
    "encoder_feedforward_dim": 20,
    "dim_feedforward": 24,
    "num_queries": 5,
}
_RT_DETR: dict[str, Any] = {
    "backbone_config": {
        "model_type": "rt_detr_resnet",
        "embedding_size": 8,
        "hidden_sizes": [8, 16, 24, 24],
        "depths": [1, 1, 2, 1],
        "layer_type": "basic",
        "out_features": ["stage2", "stage3", "stage4"],
    },
    "d_model": 16,
    "encoder_hidden_dim": 16,
    "decoder_in_channels": [16, 16, 16],
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 24,
    "num_queries": 5,
}
_SAM: dict[str, Any] = {
    "vision_config": {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 8,
        "output_channels": 16,
        "global_attn_indexes": [1],
        "window_size": 3,
        "mlp_dim": 20,
        "num_pos_feats": 8,
    },
    "prompt_encoder_config": {
        "hidden_size": 16,
        "image_size": 32,
        "patch_size": 8,
        "image_embedding_size": 4,
    },
    "mask_decoder_config": {
        "hidden_size": 16,
        "num_attention_heads": 2,
        "mlp_dim": 20,
        "iou_head_hidden_dim": 16,
    },
}
_SAM2: dict[str, Any] = {
    "vision_config": {
        "backbone_config": {
            "model_type": "sam2_hiera_det_model",
            "hidden_size": 8,
            "image_size": [64, 64],
            "blocks_per_stage": [1, 2, 2, 1],
            "embed_dim_per_stage": [8, 12, 16, 24],
            "num_attention_heads_per_stage": [1, 2, 4, 3],
            "window_size_per_stage": [8, 4, 3, 2],
            "global_attention_blocks": [4],
        },
        "backbone_channel_list": [24, 16, 12, 8],
        "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
        "fpn_hidden_size": 16,
    },
    "prompt_encoder_config": {"hidden_size": 16, "image_size": 64, "patch_size": 16},
    "mask_decoder_config": {
        "hidden_size": 16,
        "num_attention_heads": 2,
        "mlp_dim": 20,
        "iou_head_hidden_dim": 12,
        "dynamic_multimask_stability_thresh": 0.025,  # between those of the prompts
    },
}
_SEGFORMER: dict[str, Any] = {
    "num_encoder_blocks": 3,
    "depths": [1, 2, 1],
    "sr_ratios": [4, 2, 1],
    "hidden_sizes": [8, 12, 16],
    "patch_sizes": [7, 3, 3],
    "strides": [4, 2, 1],
    "num_attention_heads": [1, 2, 4],
    "mlp_ratios": [2, 3, 2],
    "decoder_hidden_size": 10,
}
_HIERA: dict[str, Any] = {
    "embed_dim": 8,
    "depths": [1, 2, 1],
    "num_heads": [1, 2, 4],
    "image_size": [64, 32],
    "num_query_pool": 2,
    "masked_unit_size": [4, 4],
    "masked_unit_attention": [True, True, False],
}
_RESNET: dict[str, Any] = {"embedding_size": 10, "hidden_sizes": [16, 24], "depths": [2, 1]}

# How queries' masks become segments in the goldens; random models are sure of little.
SEGMENTS: dict[str, Any] = {
    "size": (31, 23),
    "panoptic": {"threshold": 0.2, "mask_threshold": 0.1, "mask_overlap": 0.3},
    "instance": {"threshold": 0.1},
}

# Odd sizes, so that nothing agrees by accident.
ROWS: dict[str, Row] = {
    "resnet": ("transformers", "ResNetForImageClassification", _RESNET | _LABELS, (45, 38)),
    "resnet-basic": (
        "transformers", "ResNetModel", _RESNET | {
            "layer_type": "basic", "downsample_in_first_stage": True, "hidden_act": "gelu",
        }, (33, 50),
    ),
    "resnet-early": (
        "transformers", "ResNetForImageClassification",
        _RESNET | _LABELS | {"downsample_in_bottleneck": True}, (32, 32),
    ),
    "resnet-timm": ("timm", "resnet18", {"num_classes": 7}, (64, 50)),
    "resnet-d-timm": ("timm", "resnet26d", {"num_classes": 3}, (64, 50)),
    "resnext-timm": ("timm", "resnext50_32x4d", {
        "num_classes": 3, "layers": [1, 1, 1, 1]}, (50, 64)),
    "resnet-squeezed-timm": ("timm", "seresnetaa50d", {
        "num_classes": 3, "layers": [1, 1, 1, 1]}, (64, 96)),
    "resnet-rs-timm": ("timm", "resnetrs50", {
        "num_classes": 3, "layers": [1, 1, 1, 1]}, (50, 64)),
    "resnet-near-timm": ("timm", "ecaresnet26t", {
        "num_classes": 3, "layers": [1, 1, 1, 1]}, (50, 64)),
    "resnet-blur-timm": ("timm", "resnetblur18", {
        "num_classes": 3, "layers": [1, 1, 1, 1]}, (64, 50)),
    "resnetv2-bit-timm": ("timm", "resnetv2_50x1_bit", {
        "num_classes": 3, "channels": [128, 256, 128, 256]}, (50, 64)),
    "resnetv2-basic-timm": ("timm", "resnetv2_18", {
        "num_classes": 0, "layers": [1, 2, 1, 1], "channels": [64, 48, 40, 56]}, (64, 50)),
    "resnetv2-deep-timm": ("timm", "resnetv2_50t", {
        "num_classes": 3, "layers": [1, 1, 2, 1], "channels": [64, 48, 40, 56]}, (45, 38)),
    "resnetv2-evo-timm": ("timm", "resnetv2_50d_evos", {
        "num_classes": 3, "layers": [2, 1, 1, 1], "channels": [128, 256, 128, 256]}, (50, 64)),
    "wide-resnet-torchvision": ("torchvision", "wide_resnet50_2", {"num_classes": 3}, (40, 33)),
    "resnet-torchvision": ("torchvision", "resnet50", {"num_classes": 6}, (50, 64)),
    "convnext": ("transformers", "ConvNextForImageClassification", _CONVNEXT | _LABELS, (45, 38)),
    "convnext-plain": ("transformers", "ConvNextModel", _CONVNEXT | {
        "layer_scale_init_value": 0.0, "hidden_act": "relu", "patch_size": 3, "num_channels": 2,
        "layer_norm_eps": 1e-3}, (33, 40)),
    "convnext-backbone": ("transformers", "ConvNextBackbone", _CONVNEXT | {
        "out_features": ["stage1", "stage3"]}, (45, 38)),
    "convnextv2": ("transformers", "ConvNextV2ForImageClassification", _CONVNEXT | _LABELS,
                   (45, 38)),
    "convnext-timm": ("timm", "convnext_atto", {
        "num_classes": 3, "depths": [1, 2, 1, 1], "dims": [8, 16, 8, 12]}, (64, 50)),
    "convnextv2-timm": ("timm", "convnextv2_atto", {
        "num_classes": 3, "depths": [1, 2, 1, 1], "dims": [8, 16, 8, 12]}, (64, 50)),
    "convnext-tiered-timm": ("timm", "convnext_atto_ols", {
        "num_classes": 3, "depths": [1, 2, 1, 1], "dims": [8, 16, 8, 12]}, (64, 50)),
    "convnext-rms-timm": ("timm", "convnext_atto_rms", {
        "num_classes": 3, "depths": [1, 1, 1, 1], "dims": [8, 16, 8, 12]}, (64, 50)),
    "convnext-simple-timm": ("timm", "convnext_zepto_rms_ols", {
        "num_classes": 3, "depths": [1, 1, 1, 1], "dims": [8, 16, 8, 12]}, (64, 50)),
    "convnext-first-timm": ("timm", "convnext_tiny_hnf", {
        "num_classes": 3, "depths": [1, 1, 1, 1], "dims": [8, 16, 8, 12]}, (64, 50)),
    "convnext-inner-timm": ("timm", "convnext_large_mlp", {
        "num_classes": 3, "depths": [1, 1, 1, 1], "dims": [8, 16, 8, 12],
        "head_hidden_size": 10}, (64, 50)),
    "convnext-torchvision": ("torchvision", "convnext_tiny", {"num_classes": 4}, (64, 40)),
    "vgg-torchvision": ("torchvision", "vgg", {
        "num_classes": 4, "layers": [6, "M", 8, 10, "M"], "hidden": 20}, (40, 33)),
    "vgg-norms-torchvision": ("torchvision", "vgg", {
        "num_classes": 3, "layers": [6, 5, "M", 8, "M"], "hidden": 12, "batch_norm": True},
        (37, 52)),
    "densenet-torchvision": ("torchvision", "DenseNet", {
        "num_classes": 4, "growth_rate": 8, "block_config": (2, 1), "num_init_features": 12,
    }, (40, 33)),
    "densenet-timm": ("timm", "densenet121", {"num_classes": 4}, (40, 33)),
    "squeezenet1_0-torchvision": ("torchvision", "squeezenet1_0", {"num_classes": 4}, (64, 50)),
    "squeezenet1_1-torchvision": ("torchvision", "squeezenet1_1", {"num_classes": 4}, (50, 64)),
    "efficientnet": ("transformers", "EfficientNetForImageClassification", _LABELS | _EFFICIENT,
                     (45, 38)),
    "efficientnet-odd": ("transformers", "EfficientNetModel", _EFFICIENT | {
        "width_coefficient": 0.5, "depth_coefficient": 1.0, "depthwise_padding": [1],
        "squeeze_expansion_ratio": 0.1, "hidden_act": "relu", "batch_norm_eps": 1e-5,
        "hidden_dim": 640}, (17, 20)),
    "efficientnet-timm": ("timm", "efficientnet_b0", {"num_classes": 3}, (47, 33)),
    "efficientnet-lite": ("timm", "tf_efficientnet_lite0", {
        "num_classes": 3}, (47, 33)),
    "efficientnet-edge-timm": ("timm", "efficientnet_es", {"num_classes": 3}, (47, 33)),
    "efficientnet-pruned-timm": ("timm", "efficientnet_b1_pruned", {"num_classes": 3}, (47, 33)),
    "efficientnet-v2": ("timm", "tf_efficientnetv2_b0", {
        "num_classes": 3}, (47, 33)),
    "efficientnet-torchvision": ("torchvision", "efficientnet_b0", {"num_classes": 4}, (40, 33)),
    "efficientnet-v2-torchvision": ("torchvision", "efficientnet_v2_s", {"num_classes": 4},
                                    (40, 33)),
    "mnasnet-timm": ("timm", "semnasnet_050", {"num_classes": 3}, (47, 33)),
    "mobilenet_v2-deep-timm": ("timm", "mobilenetv2_110d", {"num_classes": 3}, (47, 33)),
    "mobilenet_v2": ("transformers", "MobileNetV2ForImageClassification", _LABELS | {
        "depth_multiplier": 0.35, "hidden_act": "relu"}, (45, 38)),
    "mobilenet_v2-dilated": ("transformers", "MobileNetV2Model", {
        "depth_multiplier": 0.25, "output_stride": 8, "first_layer_is_expansion": False,
        "finegrained_output": False, "expand_ratio": 3.0, "depth_divisible_by": 4,
        "tf_padding": False}, (24, 17)),
    "mobilenet_v2-torchvision": ("torchvision", "mobilenet_v2", {
        "num_classes": 6, "width_mult": 0.4}, (50, 64)),
    "mobilenet_v2-timm": ("timm", "mobilenetv2_035", {"num_classes": 7}, (64, 50)),
    "clip": ("transformers", "CLIPModel", {
        "text_config": _TEXT | {"eos_token_id": 30}, "vision_config": _SEEN, "projection_dim": 10,
    }, (16, 16)),
    "clip-old": ("transformers", "CLIPModel", {
        "text_config": _TEXT | {"eos_token_id": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-3},
        "vision_config": _SEEN | {"hidden_act": "relu", "num_channels": 2}, "projection_dim": 7,
    }, (16, 16)),
    "clip-vision": ("transformers", "CLIPVisionModelWithProjection",
                    _SEEN | {"projection_dim": 6}, (16, 16)),
    "clip-text": ("transformers", "CLIPTextModelWithProjection",
                  _TEXT | {"projection_dim": 6, "eos_token_id": 30}, (16, 16)),
    "siglip": ("transformers", "SiglipModel", {
        "text_config": _TEXT | {"max_position_embeddings": 6, "hidden_size": 20},
        "vision_config": _SEEN | {"hidden_size": 20, "num_attention_heads": 4}}, (16, 16)),
    "siglip-vision": ("transformers", "SiglipVisionModel", _SEEN | {"layer_norm_eps": 1e-4},
                      (16, 16)),
    "yolos": ("transformers", "YolosForObjectDetection", _VIT | _LABELS | {
        "image_size": [24, 40], "num_detection_tokens": 5}, (32, 48)),
    "yolos-small": ("transformers", "YolosForObjectDetection", _VIT | _LABELS | {
        "image_size": [24, 16], "num_detection_tokens": 3, "use_mid_position_embeddings": False,
        "qkv_bias": False}, (24, 16)),
    "depth_anything": ("transformers", "DepthAnythingForDepthEstimation", _DEPTH, (30, 18)),
    "depth_anything-metric": ("transformers", "DepthAnythingForDepthEstimation", _DEPTH | {
        "depth_estimation_type": "metric", "max_depth": 20, "reassemble_factors": [2, 1],
        "neck_hidden_sizes": [5, 6], "head_in_index": 0, "backbone_config": _DINO | {
            "model_type": "dinov2", "out_indices": [0, 2], "apply_layernorm": False,
            "reshape_hidden_states": False}}, (24, 24)),
    "vit": ("transformers", "ViTForImageClassification", _VIT | _LABELS, (24, 24)),
    "vit-pooler": ("transformers", "ViTModel", _VIT | {
        "image_size": [18, 30], "patch_size": [6, 10], "qkv_bias": False, "hidden_act": "relu",
        "num_channels": 2, "pooler_output_size": 10, "pooler_act": "gelu",
    }, (18, 30)),
    "vit-timm": ("timm", "vit_tiny_patch16_224", {
        "num_classes": 4, "img_size": 32, "embed_dim": 48, "depth": 2, "num_heads": 4,
    }, (32, 32)),
    "vit-mean-timm": ("timm", "vit_little_patch16_reg4_gap_256", {
        "num_classes": 4, "img_size": [32, 64], "embed_dim": 48, "depth": 2, "num_heads": 4,
        "reg_tokens": 3}, (32, 64)),
    "vit-normed-mean-timm": ("timm", "vit_so400m_patch16_siglip_gap_256", {
        "num_classes": 3, "img_size": 32, "embed_dim": 48, "depth": 2, "num_heads": 4}, (32, 32)),
    "vit-clip-timm": ("timm", "vit_base_patch16_clip_quickgelu_224", {
        "num_classes": 4, "img_size": 32, "embed_dim": 48, "depth": 2, "num_heads": 4}, (32, 32)),
    "vit-attended-timm": ("timm", "vit_base_patch32_siglip_256", {
        "num_classes": 0, "img_size": 64, "embed_dim": 48, "depth": 2, "num_heads": 4}, (64, 64)),
    "vit-registers-timm": ("timm", "vit_so150m_patch16_reg4_gap_256", {
        "num_classes": 0, "img_size": 48, "embed_dim": 48, "depth": 2, "num_heads": 4,
        "reg_tokens": 3}, (48, 48)),
    "vit-relpos-timm": ("timm", "vit_relpos_small_patch16_224", {
        "num_classes": 4, "img_size": [48, 32], "embed_dim": 48, "depth": 2, "num_heads": 4},
        (48, 32)),
    "vit-relpos-class-timm": ("timm", "vit_relpos_medium_patch16_cls_224", {
        "num_classes": 3, "img_size": 48, "embed_dim": 48, "depth": 2, "num_heads": 4,
        "rel_pos_dim": 20}, (48, 48)),
    "vit-relpos-after-timm": ("timm", "vit_relpos_base_patch32_plus_rpn_256", {
        "num_classes": 0, "img_size": [64, 96], "embed_dim": 48, "depth": 2, "num_heads": 4},
        (64, 96)),
    "vit-relpos-shared-timm": ("timm", "vit_srelpos_small_patch16_224", {
        "num_classes": 3, "img_size": 48, "embed_dim": 48, "depth": 2, "num_heads": 4}, (48, 48)),
    "vit-relpos-tables-timm": ("timm", "vit_relpos_base_patch16_clsgap_224", {
        "num_classes": 3, "img_size": [32, 64], "embed_dim": 48, "depth": 2, "num_heads": 4,
        "rel_pos_type": "bias"}, (32, 64)),
    "vit-relpos-table-timm": ("timm", "vit_srelpos_medium_patch16_224", {
        "num_classes": 3, "img_size": [32, 64], "embed_dim": 48, "depth": 2, "num_heads": 4,
        "rel_pos_type": "bias", "rel_pos_dim": None}, (32, 64)),
    "eva2-after-timm": ("timm", "eva02_enormous_patch14_clip_224", {
        "num_classes": 3, "img_size": 42, "embed_dim": 48, "depth": 2, "num_heads": 4}, (42, 42)),
    "vit-rope-timm": ("timm", "vit_small_patch16_rope_224", {
        "num_classes": 4, "img_size": [48, 32], "embed_dim": 48, "depth": 2, "num_heads": 4},
        (48, 32)),
    "vit-rope-placed-timm": ("timm", "vit_base_patch16_rope_ape_224", {
        "num_classes": 0, "img_size": 48, "embed_dim": 48, "depth": 2, "num_heads": 4}, (48, 48)),
    "vit-rope-mixed-timm": ("timm", "vit_small_patch16_rope_mixed_ape_224", {
        "num_classes": 3, "img_size": 48, "embed_dim": 48, "depth": 2, "num_heads": 4}, (48, 48)),
    "vit-rope-mixed-wide-timm": ("timm", "vit_large_patch16_rope_mixed_224", {
        "num_classes": 3, "img_size": [32, 48], "embed_dim": 48, "depth": 3, "num_heads": 3},
        (32, 48)),
    "vit-rope-registers-timm": ("timm", "vit_betwixt_patch16_rope_reg4_gap_256", {
        "num_classes": 3, "img_size": [32, 48], "embed_dim": 48, "depth": 2, "num_heads": 4,
        "num_reg_tokens": 3}, (32, 48)),
    "deit3-timm": ("timm", "deit3_small_patch16_224", {
        "num_classes": 4, "img_size": 48, "embed_dim": 48, "depth": 2, "num_heads": 4}, (48, 48)),
    "vit-torchvision": ("torchvision", "VisionTransformer", {
        "image_size": 24, "patch_size": 8, "num_layers": 2, "num_heads": 1, "hidden_dim": 64,
        "mlp_dim": 50, "num_classes": 6,
    }, (24, 24)),
    "vit-huge-torchvision": ("torchvision", "VisionTransformer", {
        "image_size": 16, "patch_size": 8, "num_layers": 1, "num_heads": 16, "hidden_dim": 1280,
        "mlp_dim": 8, "num_classes": 3}, (16, 16)),
    "deit": ("transformers", "DeiTForImageClassificationWithTeacher", _VIT | _LABELS, (24, 24)),
    "deit-plain": ("transformers", "DeiTForImageClassification", _VIT | _LABELS | {
        "qkv_bias": False, "layer_norm_eps": 1e-3}, (24, 24)),
    "deit-timm": ("timm", "deit_tiny_distilled_patch16_224", {
        "num_classes": 4, "img_size": 32, "embed_dim": 48, "depth": 2, "num_heads": 4,
    }, (32, 32)),
    "dinov2": ("transformers", "Dinov2Model", _DINO, (30, 18)),
    "dinov2-gated": ("transformers", "Dinov2ForImageClassification", _DINO | _LABELS | {
        "use_swiglu_ffn": True, "qkv_bias": False, "use_mask_token": False}, (24, 24)),
    "dinov2-registers": ("transformers", "Dinov2WithRegistersForImageClassification",
                         _DINO | _LABELS | {"num_register_tokens": 3}, (30, 18)),
    "dinov2-timm": ("timm", "vit_small_patch14_dinov2", {
        "img_size": 28, "embed_dim": 48, "depth": 2, "num_heads": 4}, (28, 28)),
    "dinov2-registers-timm": ("timm", "vit_small_patch14_reg4_dinov2", {
        "img_size": 28, "embed_dim": 48, "depth": 2, "num_heads": 4, "num_classes": 3}, (28, 28)),
    "dinov2-gated-timm": ("timm", "vit_giant_patch14_dinov2", {
        "img_size": 28, "embed_dim": 48, "depth": 2, "num_heads": 4}, (28, 28)),
    "swin": ("transformers", "SwinForImageClassification", _SWIN | _LABELS, (45, 38)),
    "swin-plain": ("transformers", "SwinModel", _SWIN | {
        "image_size": [24, 40], "qkv_bias": False, "use_absolute_embeddings": True,
        "mlp_ratio": 1.5, "hidden_act": "relu", "num_channels": 2, "layer_norm_eps": 1e-3,
        "patch_size": 2, "window_size": 4}, (24, 40)),
    "swin-backbone": ("transformers", "SwinBackbone", _SWIN | {
        "out_features": ["stem", "stage1", "stage2"], "use_absolute_embeddings": True,
        "layer_norm_eps": 1e-3}, (32, 32)),
    "swin-backbone-early": ("transformers", "SwinBackbone", _SWIN | {
        "out_indices": [1], "window_size": 5, "qkv_bias": False}, (14, 37)),
    "swin-timm": ("timm", "swin_tiny_patch4_window7_224", {
        "num_classes": 3, "img_size": 44, "embed_dim": 12, "depths": [2, 2], "num_heads": [2, 3],
        "window_size": 4}, (44, 44)),
    "swin-torchvision": ("torchvision", "SwinTransformer", {
        "num_classes": 3, "patch_size": [4, 4], "embed_dim": 12, "depths": [2, 2],
        "num_heads": [2, 3], "window_size": [3, 3]}, (45, 22)),
    "swinv2-torchvision": ("torchvision", "SwinTransformer", {
        "num_classes": 3, "patch_size": [4, 4], "embed_dim": 12, "depths": [2, 2],
        "num_heads": [2, 3], "window_size": [3, 3], "second": True}, (45, 22)),
    "swinv2": ("transformers", "Swinv2ForImageClassification", _SWIN | _LABELS, (32, 32)),
    "swinv2-trained": ("transformers", "Swinv2Model", _SWIN | {
        "pretrained_window_sizes": [5, 2], "qkv_bias": False, "window_size": 4,
        "image_size": 48}, (48, 48)),
    "swinv2-timm": ("timm", "swinv2_tiny_window8_256", {
        "num_classes": 3, "img_size": 56, "embed_dim": 12, "depths": [2, 2], "num_heads": [2, 3],
        "window_size": 4, "pretrained_window_sizes": [6, 3]}, (56, 56)),
    "beit": ("transformers", "BeitForImageClassification", _VIT | _LABELS | {
        "use_relative_position_bias": True, "use_mask_token": True}, (24, 24)),
    "beit-wide": ("transformers", "BeitForImageClassification", _VIT | _LABELS | {
        "use_relative_position_bias": True, "layer_scale_init_value": 0.0}, (32, 40)),
    "beit-shared": ("transformers", "BeitModel", _VIT | {
        "use_shared_relative_position_bias": True, "use_mean_pooling": False,
        "use_absolute_position_embeddings": True, "hidden_act": "relu"}, (24, 24)),
    "beit-timm": ("timm", "beit_base_patch16_224", {
        "num_classes": 4, "img_size": 48, "embed_dim": 48, "depth": 2, "num_heads": 4}, (48, 48)),
    "dinov3": ("transformers", "DINOv3ViTModel", _VIT | {
        "num_register_tokens": 3, "num_attention_heads": 2}, (24, 40)),
    "dinov3-gated": ("transformers", "DINOv3ViTModel", _VIT | {
        "use_gated_mlp": True, "num_attention_heads": 3, "num_register_tokens": 1,
        "hidden_act": "silu", "key_bias": True,
        "proj_bias": False, "mlp_bias": False, "rope_theta": 50.0}, (24, 16)),
    "dinov3-convnext": ("transformers", "DINOv3ConvNextModel", {
        "hidden_sizes": [8, 12, 20], "depths": [1, 2, 1]}, (45, 38)),
    "dinov3-timm": ("timm", "vit_small_patch16_dinov3", {
        "num_classes": 4, "embed_dim": 48, "depth": 2, "num_heads": 4}, (48, 32)),
    "dinov3-plus-timm": ("timm", "vit_small_plus_patch16_dinov3_qkvb", {
        "num_classes": 0, "embed_dim": 48, "depth": 2, "num_heads": 4, "global_pool": "token"},
        (48, 32)),
    "eva2-timm": ("timm", "eva02_tiny_patch14_224", {
        "num_classes": 4, "img_size": 42, "embed_dim": 48, "depth": 2, "num_heads": 4}, (42, 42)),
    "eva2-base-timm": ("timm", "eva02_base_patch14_448", {
        "num_classes": 4, "img_size": 42, "embed_dim": 48, "depth": 2, "num_heads": 4}, (42, 42)),
    "eva2-clip-timm": ("timm", "eva02_base_patch16_clip_224", {
        "num_classes": 0, "img_size": 48, "embed_dim": 48, "depth": 2, "num_heads": 4}, (48, 48)),
    "eva-timm": ("timm", "eva_large_patch14_196", {
        "num_classes": 4, "img_size": 42, "embed_dim": 48, "depth": 2, "num_heads": 4}, (42, 42)),
    "regnet": ("transformers", "RegNetForImageClassification", _LABELS | {
        "embedding_size": 8, "hidden_sizes": [16, 24], "depths": [2, 1], "groups_width": 8},
        (45, 38)),
    "regnet-x": ("transformers", "RegNetModel", {
        "embedding_size": 8, "hidden_sizes": [12, 24], "depths": [1, 2], "groups_width": 4,
        "layer_type": "x", "downsample_in_first_stage": False, "hidden_act": "gelu"}, (33, 30)),
    "regnet-timm": ("timm", "regnety_002", {"num_classes": 4}, (64, 50)),
    "regnet-z-timm": ("timm", "regnetz_005", {"num_classes": 4}, (64, 50)),
    "regnet-z-plain-timm": ("timm", "regnetz_040", {
        "num_classes": 0, "wa": 40.0, "depth": 12}, (40, 33)),
    "regnet-z-evo-timm": ("timm", "regnetz_d8_evos", {"num_classes": 3}, (40, 64)),
    "regnet-z-other-timm": ("timm", "regnetz_b16", {"num_classes": 3}, (64, 50)),
    "regnet-torchvision": ("torchvision", "regnet_x_400mf", {"num_classes": 4}, (50, 64)),
    "mobilenet_v1": ("transformers", "MobileNetV1ForImageClassification", _LABELS | {
        "depth_multiplier": 0.25}, (45, 38)),
    "mobilenet_v1-plain": ("transformers", "MobileNetV1Model", {
        "depth_multiplier": 0.3, "tf_padding": False, "hidden_act": "relu", "min_depth": 12,
        "layer_norm_eps": 1e-5}, (33, 40)),
    "mobilenet_v1-timm": ("timm", "mobilenetv1_100", {"num_classes": 4}, (40, 33)),
    "mobilevit": ("transformers", "MobileViTForImageClassification", _LABELS | {
        "hidden_sizes": [8, 12, 16], "neck_hidden_sizes": [4, 8, 8, 12, 12, 16, 24]}, (50, 70)),
    "mobilevit-dilated": ("transformers", "MobileViTModel", {
        "hidden_sizes": [8, 12, 16], "neck_hidden_sizes": [4, 8, 8, 12, 12, 16, 24],
        "output_stride": 8, "qkv_bias": False, "expand_ratio": 3.0, "mlp_ratio": 1.5,
        "num_attention_heads": 2, "hidden_act": "relu"}, (32, 40)),
    "mobilevit-timm": ("timm", "mobilevit_xxs", {"num_classes": 4}, (64, 64)),
    "repvgg-timm": ("timm", "repvgg_a0", {"num_classes": 4}, (64, 50)),
    "repvgg-groups-timm": ("timm", "repvgg_b1g4", {"num_classes": 4}, (40, 33)),
    "mobileone-timm": ("timm", "mobileone_s0", {"num_classes": 4}, (64, 50)),
    "mobileone-squeezed-timm": ("timm", "mobileone_s4", {"num_classes": 4}, (40, 33)),
    "convmixer-timm": ("timm", "convmixer_768_32", {
        "num_classes": 4, "dim": 16, "depth": 3}, (50, 64)),
    "convmixer-gelu-timm": ("timm", "convmixer_1024_20_ks9_p14", {
        "num_classes": 4, "dim": 16, "depth": 2, "kernel_size": 8}, (50, 64)),
    "efficientvit-timm": ("timm", "efficientvit_m0", {"num_classes": 4}, (224, 224)),
    "efficientvit-m1-timm": ("timm", "efficientvit_m1", {
        "num_classes": 3, "img_size": 128}, (128, 128)),
    "efficientvit-m2-timm": ("timm", "efficientvit_m2", {
        "num_classes": 4, "img_size": 160}, (160, 160)),
    "fastvit-timm": ("timm", "fastvit_t8", {"num_classes": 4}, (64, 50)),
    "fastvit-attention-timm": ("timm", "fastvit_sa12", {
        "num_classes": 4, "embed_dims": [16, 32, 32, 64]}, (64, 96)),
    "fastvit-clip-timm": ("timm", "fastvit_mci0", {
        "num_classes": 4, "embed_dims": [16, 32, 32, 64]}, (64, 64)),
    "mobilenet_v3-timm": ("timm", "mobilenetv3_small_050", {"num_classes": 4}, (64, 50)),
    "mobilenet_v3-early-timm": ("timm", "mobilenetv3_rw", {"num_classes": 3}, (45, 50)),
    "mobilenet_v3-tf-timm": ("timm", "tf_mobilenetv3_large_075", {"num_classes": 4}, (45, 50)),
    "mobilenet_v3-minimal-timm": ("timm", "tf_mobilenetv3_small_minimal_100", {
        "num_classes": 4}, (45, 50)),
    "mobilenet_v3-torchvision": ("torchvision", "mobilenet_v3_small", {"num_classes": 4},
                                 (50, 64)),
    "mobilenet_v3-large-torchvision": ("torchvision", "mobilenet_v3_large", {"num_classes": 4},
                                       (50, 33)),
    "mobilenet_v4-timm": ("timm", "mobilenetv4_conv_small_035", {"num_classes": 4}, (64, 50)),
    "mobilenet_v4-medium-timm": ("timm", "mobilenetv4_conv_medium", {"num_classes": 4}, (40, 33)),
    "mobilenet_v4-hybrid-timm": ("timm", "mobilenetv4_hybrid_medium_075", {"num_classes": 4},
                                 (96, 64)),
    "detr": ("transformers", "DetrForObjectDetection", _DETR | {"num_labels": 4}, (70, 45)),
    "detr-learned": ("transformers", "DetrForObjectDetection", _DETR | {
        "num_labels": 2, "position_embedding_type": "learned", "activation_function": "gelu",
        "auxiliary_loss": True}, (45, 64)),
    "detr-masks": ("transformers", "DetrForSegmentation", _DETR | {
        "num_labels": 4, "d_model": 32, "encoder_attention_heads": 8, "num_queries": 18,
        "backbone_config": _DETR["backbone_config"] | {
            "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1],
            "out_features": ["stage1", "stage2", "stage3", "stage4"]}}, (45, 40)),
    "owlvit": ("transformers", "OwlViTForObjectDetection", {
        "text_config": _TEXT, "vision_config": _SEEN, "projection_dim": 24}, (16, 16)),
    "owlvit-odd": ("transformers", "OwlViTForObjectDetection", {
        "text_config": _TEXT | {"hidden_size": 16, "hidden_act": "gelu"},
        "vision_config": _SEEN | {"patch_size": 8, "layer_norm_eps": 1e-3},
        "projection_dim": 16}, (16, 16)),
    "owlv2": ("transformers", "Owlv2ForObjectDetection", {
        "text_config": _TEXT, "vision_config": _SEEN, "projection_dim": 24}, (16, 16)),
    "owlv2-odd": ("transformers", "Owlv2ForObjectDetection", {
        "text_config": _TEXT | {"hidden_size": 20, "hidden_act": "relu"},
        "vision_config": _SEEN | {"image_size": 24, "patch_size": 8, "num_attention_heads": 2},
        "projection_dim": 20}, (24, 24)),
    "rt_detr": ("transformers", "RTDetrForObjectDetection", _RT_DETR | {"num_labels": 4},
                (64, 96)),
    "rt_detr-learned": ("transformers", "RTDetrForObjectDetection", _RT_DETR | {
        "num_labels": 2, "learn_initial_query": True}, (64, 64)),
    "rt_detr-deep": ("transformers", "RTDetrForObjectDetection", _RT_DETR | {
        "num_labels": 3, "normalize_before": True, "hidden_expansion": 0.5,
        "num_feature_levels": 4, "decoder_n_points": 2,
        "num_denoising": 0, "encode_proj_layers": [1, 2], "backbone_config": {
            "model_type": "rt_detr_resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 32, 32],
            "depths": [2, 1, 1, 1], "out_features": ["stage2", "stage3", "stage4"]}}, (96, 64)),
    "chinese_clip": ("transformers", "ChineseCLIPModel", {
        "text_config": _BERT, "vision_config": _SEEN, "projection_dim": 10}, (16, 16)),
    "chinese_clip-odd": ("transformers", "ChineseCLIPModel", {
        "text_config": _BERT | {"hidden_act": "relu", "type_vocab_size": 1},
        "vision_config": _SEEN | {"patch_size": 8, "num_channels": 2},
        "projection_dim": 6}, (16, 16)),
    "clip-open": ("open_clip", "CLIP", {
        "embed_dim": 10, "text_cfg": _OPEN, "vision_cfg": {
            "image_size": 16, "layers": 2, "width": 128, "patch_size": 8}}, (16, 16)),
    "clip-open-quick": ("open_clip", "CLIP", {
        "embed_dim": 6, "text_cfg": _OPEN | {"heads": 2}, "quick_gelu": True, "vision_cfg": {
            "image_size": 24, "layers": 1, "width": 48, "patch_size": 8, "head_width": 16,
            "mlp_ratio": 3.0}}, (24, 24)),
    "mobileclip": ("open_clip", "CustomTextCLIP", {
        "embed_dim": 8, "text_cfg": _OPEN | {"no_causal_mask": True}, "vision_cfg": {
            "timm_model_name": "fastvit_mci0", "timm_model_pretrained": False,
            "timm_pool": "avg", "timm_proj": None, "image_size": 64}}, (64, 64)),
    "segformer": ("transformers", "SegformerForSemanticSegmentation", _SEGFORMER | _LABELS,
                  (70, 45)),
    "segformer-classes": ("transformers", "SegformerForImageClassification", _SEGFORMER | {
        "num_labels": 3, "hidden_act": "relu", "num_channels": 2}, (45, 64)),
    "segformer-model": ("transformers", "SegformerModel", _SEGFORMER, (40, 33)),
    "sam": ("transformers", "SamModel", _SAM, (32, 32)),
    "sam-odd": ("transformers", "SamModel", _SAM | {
        "vision_config": _SAM["vision_config"] | {
            "use_abs_pos": False, "window_size": 2, "mlp_ratio": 1.5, "qkv_bias": False,
            "global_attn_indexes": [0], "num_attention_heads": 4},
        "mask_decoder_config": _SAM["mask_decoder_config"] | {
            "attention_downsample_rate": 1, "num_multimask_outputs": 2, "iou_head_depth": 4}},
        (32, 32)),
    "maskformer": ("transformers", "MaskFormerForInstanceSegmentation", _MASKS | {
        "num_labels": 4}, (45, 70)),
    "maskformer-resnet": ("transformers", "MaskFormerForInstanceSegmentation", _MASKS | {
        "num_labels": 2, "mask_feature_size": 20, "backbone_config": _DETR["backbone_config"] | {
            "hidden_sizes": [8, 16, 16], "depths": [1, 2, 1],
            "out_features": ["stage1", "stage2", "stage3"]},
        "decoder_config": _MASKS["decoder_config"] | {
            "activation_function": "gelu", "auxiliary_loss": True, "num_queries": 3}}, (64, 33)),
    "mask2former": ("transformers", "Mask2FormerForUniversalSegmentation", _MASKS2 | {
        "num_labels": 4}, (45, 70)),
    "mask2former-resnet": ("transformers", "Mask2FormerForUniversalSegmentation", _MASKS2 | {
        "num_labels": 2, "hidden_dim": 32, "num_queries": 3, "decoder_layers": 5,
        "activation_function": "gelu", "feature_strides": [4, 8, 16], "common_stride": 2,
        "backbone_config": _DETR["backbone_config"] | {
            "hidden_sizes": [8, 16, 16], "depths": [1, 2, 1],
            "out_features": ["stem", "stage1", "stage2", "stage3"]}}, (64, 33)),
    "dpt": ("transformers", "DPTForDepthEstimation", _DPT | {"hidden_act": "relu"}, (32, 32)),
    "dpt-classes": ("transformers", "DPTForSemanticSegmentation", _DPT | _LABELS | {
        "readout_type": "add", "use_batch_norm_in_fusion_residual": True, "qkv_bias": False,
        "use_bias_in_fusion_residual": True, "layer_norm_eps": 1e-3, "head_in_index": 1,
        "reassemble_factors": [4, 0.5, 0.3], "num_channels": 2}, (24, 24)),
    "dpt-dinov2": ("transformers", "DPTForDepthEstimation", _DPT | {
        "use_batch_norm_in_fusion_residual": True, "add_projection": True,
        "fusion_hidden_size": 256, "neck_hidden_sizes": [2, 3], "reassemble_factors": [1, 0.5],
        "backbone_config": _DEPTH["backbone_config"] | {"out_features": ["stage1", "stage2"]},
        }, (18, 30)),
    "dpt-beit": ("transformers", "DPTForDepthEstimation", _DPT | {
        "readout_type": "ignore", "backbone_config": _VIT | {
            "model_type": "beit", "use_relative_position_bias": True,
            "out_features": ["stem", "stage1", "stage2"], "reshape_hidden_states": False}},
        (32, 24)),
    "dpt-hybrid": ("transformers", "DPTForDepthEstimation", _DPT | _HYBRID, (64, 64)),
    "dpt-hybrid-odd": ("transformers", "DPTForSemanticSegmentation", _DPT | _HYBRID | {
        "num_labels": 3, "head_in_index": 2, "backbone_config": _HYBRID["backbone_config"] | {
            "global_padding": None, "embedding_dynamic_padding": False, "num_groups": 4},
        "image_size": 62, "patch_size": 15}, (62, 62)),
    "dpt-swinv2": ("transformers", "DPTForDepthEstimation", _DPT | {
        "neck_hidden_sizes": [8, 16], "backbone_config": _SWIN | {
            "model_type": "swinv2", "out_features": ["stage1", "stage2"]}}, (32, 32)),
    "hiera": ("transformers", "HieraForImageClassification", _HIERA | _LABELS, (64, 32)),
    "hiera-odd": ("transformers", "HieraModel", _HIERA | {
        "depths": [2, 2, 1], "num_heads": [2, 3, 3], "embed_dim": 12, "image_size": [48, 72],
        "embed_dim_multiplier": 1.5, "num_query_pool": 1, "query_stride": [2, 3],
        "masked_unit_size": [4, 9], "masked_unit_attention": [False, True, False],
        "patch_size": [3, 5], "patch_stride": [3, 2], "patch_padding": [0, 2],
        "mlp_ratio": 1.5, "hidden_act": "relu", "layer_norm_eps": 1e-3, "num_channels": 2},
        (48, 72)),
    "hiera-backbone": ("transformers", "HieraBackbone", _HIERA | {
        "out_features": ["stem", "stage1", "stage3"]}, (64, 32)),
    "hiera-backbone-odd": ("transformers", "HieraBackbone", _HIERA | {
        "out_features": ["stage2"], "depths": [2, 1, 1], "num_query_pool": 1,
        "image_size": [48, 72], "query_stride": [2, 3], "masked_unit_size": [4, 9],
        "patch_stride": [3, 2], "layer_norm_eps": 1e-3}, (48, 72)),
    "hiera-timm": ("timm", "hiera_tiny_224", {
        "num_classes": 4, "img_size": 64, "embed_dim": 8, "stages": [1, 2, 1], "q_pool": 2,
        "mask_unit_size": [4, 4], "mask_unit_attn": [True, True, False], "num_heads": 2},
        (64, 64)),
    "hiera-abswin-timm": ("timm", "hiera_small_abswin_256", {
        "num_classes": 3, "img_size": 64, "embed_dim": 8, "stages": [1, 1, 2, 1],
        "global_pos_size": [20, 18], "mask_unit_attn": [False, True, True, False], "num_heads": 1},
        (64, 64)),
    "mobile_sam": ("mobile_sam", "SamModel", _SAM | {
        "vision_config": {"image_size": 64, "patch_size": 16, "output_channels": 16,
                          "num_pos_feats": 8},
        "prompt_encoder_config": _SAM["prompt_encoder_config"] | {
            "image_size": 64, "patch_size": 16}}, (64, 64)),
    "sam2": ("transformers", "Sam2Model", _SAM2, (64, 64)),
    "sam2-odd": ("transformers", "Sam2Model", {
        "vision_config": _SAM2["vision_config"] | {
            "fpn_top_down_levels": [0, 1], "fpn_kernel_size": 3, "fpn_padding": 1,
            "backbone_channel_list": [20, 16, 8],
            "backbone_config": _SAM2["vision_config"]["backbone_config"] | {
                "blocks_per_stage": [2, 1, 2], "embed_dim_per_stage": [8, 16, 20],
                "num_attention_heads_per_stage": [2, 2, 5], "window_size_per_stage": [4, 6, 3],
                "global_attention_blocks": [0, 4], "num_query_pool_stages": 2,
                "patch_kernel_size": 5, "patch_padding": 2, "mlp_ratio": 1.5,
                "hidden_act": "relu", "layer_norm_eps": 1e-3,
                "window_positional_embedding_background_size": [5, 6]}},
        "prompt_encoder_config": _SAM2["prompt_encoder_config"] | {
            "num_point_embeddings": 5, "mask_input_channels": 8, "hidden_act": "relu"},
        "mask_decoder_config": _SAM2["mask_decoder_config"] | {
            "num_hidden_layers": 3, "attention_downsample_rate": 1, "num_multimask_outputs": 2,
            "iou_head_depth": 4, "dynamic_multimask_via_stability": False}}, (64, 64)),
    "yolov8": ("ultralytics", "yolov8", {"classes": 4, "scale": [0.33, 0.0625, 1024]}, (64, 96)),
    "yolov8-pose": ("ultralytics", "yolov8-pose", {
        "classes": 1, "scale": [0.34, 0.0625, 512], "kpt_shape": [5, 3]}, (64, 32)),
    "yolov8-seg": ("ultralytics", "yolov8-seg", {
        "classes": 3, "scale": [0.33, 0.0625, 1024]}, (32, 32)),
    "yolov8-cls": ("ultralytics", "yolov8-cls", {
        "classes": 6, "scale": [0.33, 0.0625, 1024]}, (64, 64)),
    "yolo11": ("ultralytics", "yolo11", {"classes": 4, "scale": [0.5, 0.125, 1024]}, (64, 32)),
    "yolo11-pose": ("ultralytics", "yolo11-pose", {
        "classes": 1, "scale": [0.5, 0.125, 512], "kpt_shape": [4, 2]}, (32, 64)),
}  # fmt: skip
_spec = importlib.util.spec_from_file_location(
    "vision_rows", Path(__file__).with_name("vision_rows.py")
)
assert _spec is not None and _spec.loader is not None
_more = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_more)
ROWS |= _more.rows(
    SimpleNamespace(**{k: v for k, v in globals().items() if k.strip("_").isupper()})
)


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The parameter `name` of a row: variances are positive, products keep their size."""
    return _drawn(name, tuple(shape)).copy()


@functools.lru_cache(1024)
def _drawn(name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    kind = name.rpartition(".")[2]
    if kind == "num_batches_tracked":
        return np.zeros(shape, np.int64)
    if kind == "running_var":
        return draw.uniform(0.5, 1.5, shape).astype(np.float32)
    values = draw.standard_normal(shape).astype(np.float32)
    if len(shape) < 2:
        offset = 0.0 if kind in ("running_mean", "bias") or not shape else 1.0
        return np.asarray(values * 0.1 + offset, np.float32)
    return values * np.float32(1.2 / math.sqrt(math.prod(shape[1:])))


def names_of(told: str) -> dict[str, list[int]]:
    """The names and shapes of a checkpoint in a row's metadata, where many are compressed."""
    text = told if told[0] == "{" else zlib.decompress(base64.b85decode(told)).decode()
    found: dict[str, list[int]] = json.loads(text)
    return found


def ids_of() -> npt.NDArray[np.int64]:
    """Ids (3, 6) of texts: the largest id ends each, and what follows is padding."""
    found = np.random.default_rng(5).integers(3, 29, (3, 6))
    for row, end in enumerate((5, 2, 4)):
        found[row, end] = 30
        found[row, end + 1 :] = 1
    return found


def phrases_of() -> npt.NDArray[np.int64]:
    """Ids (1, 10) of a text of three phrases in BERT's numbers of marks."""
    return np.array([[101, 7, 8, 1012, 9, 1012, 11, 12, 1012, 102]])


def depths_of(pixels: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Coarse depths (batch, 1, rows, columns) for pixels."""
    return np.asarray(np.abs(pixels[:, :1, ::5, ::3]) + 1, np.float32)


def prompts_of() -> dict[str, npt.NDArray[Any]]:
    """Prompts for pictures of 32 pixels: two of three points each, and two boxes."""
    draw = np.random.default_rng(9)
    boxes = np.sort(draw.uniform(0, 32, (2, 2, 2)), 1).reshape(2, 4)
    return {
        "points": draw.uniform(0, 32, (2, 3, 2)).astype(np.float32),
        "labels": np.array([[1, 0, 1], [0, 1, -1]]),
        "boxes": boxes.astype(np.float32),
        "masks": draw.standard_normal((2, 1, 16, 16)).astype(np.float32),
    }


def frames_of(size: tuple[int, int], frames: int, channels: int = 3) -> npt.NDArray[np.float32]:
    """Normalized pixels (2, frames, channels, height, width)."""
    found = np.random.default_rng(7).standard_normal((2, frames, channels, *size))
    return found.astype(np.float32)


def pixels_of(size: tuple[int, int], channels: int = 3) -> npt.NDArray[np.float32]:
    """Normalized pixels (2, channels, height, width)."""
    found = np.random.default_rng(7).standard_normal((2, channels, *size))
    return found.astype(np.float32)

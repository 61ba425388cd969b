"""More rows of the table of image families, in vision.py's form: transformers' families."""

from __future__ import annotations

from typing import Any

Row = tuple[str, str, dict[str, Any], tuple[int, int]]


def rows(t: Any) -> dict[str, Row]:
    """The rows by their names; `t` has the small settings of vision.py."""
    _DEFORMABLE = t._DETR | {
        "d_model": 32,
        "backbone_config": t._DETR["backbone_config"]
        | {"hidden_sizes": [8, 16, 24], "depths": [1, 1, 1], "out_features": ["stage2", "stage3"]},
    }
    _HGNET = {
        "stem_channels": [3, 8, 8],
        "stage_in_channels": [8, 12, 16, 20],
        "stage_mid_channels": [4, 6, 8, 8],
        "stage_out_channels": [12, 16, 20, 24],
        "stage_num_blocks": [1, 1, 2, 1],
        "stage_numb_of_layers": [2, 1, 2, 1],
        "hidden_sizes": [12, 16, 20, 24],
        "embedding_size": 8,
        "use_learnable_affine_block": True,
    }
    _FINE = t._RT_DETR | {
        "backbone_config": _HGNET | {"model_type": "hgnet_v2", "out_indices": [2, 3, 4]},
        "encoder_in_channels": [16, 20, 24],
    }
    _GLPN = t._SEGFORMER | {"strides": [4, 2, 2]}
    _CLIPSEG = {
        "text_config": t._TEXT,
        "vision_config": t._SEEN,
        "projection_dim": 24,
        "extract_layers": [0, 1],
        "reduce_dim": 8,
        "decoder_intermediate_size": 12,
    }
    _SR = {
        "embed_dim": 8,
        "depths": [2, 1],
        "num_heads": [2, 4],
        "image_size": 16,
        "window_size": 4,
    }
    _POINTS = {
        "encoder_hidden_sizes": [4, 4, 8, 8],
        "decoder_hidden_size": 12,
        "descriptor_decoder_dim": 10,
    }
    _BODY = {
        "model_type": "vitpose_backbone",
        "image_size": [32, 24],
        "patch_size": [8, 8],
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "mlp_ratio": 2,
        "out_indices": [2],
    }
    _VIDEO = t._VIT | {"num_frames": 4, "image_size": [16, 24]}
    _TUBES = {k: v for k, v in _VIDEO.items() if k != "patch_size"} | {"tubelet_size": [2, 8, 8]}
    _JEPA = {
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "crop_size": 24,
        "patch_size": 8,
        "frames_per_clip": 4,
        "num_pooler_layers": 1,
        "pred_hidden_size": 24,
        "pred_num_attention_heads": 2,
        "pred_num_hidden_layers": 1,
    }
    _GROUND = t._DETR | {
        "d_model": 32,
        "encoder_attention_heads": 4,
        "backbone_config": t._MASKS["backbone_config"] | {"out_indices": [2, 3, 4]},
        "text_config": t._BERT
        | {"model_type": "bert", "vocab_size": 1040, "max_position_embeddings": 20},
    }
    _FLEX = {k: v for k, v in t._SEEN.items() if k != "image_size"} | {"num_patches": 16}
    _PVT = {
        "num_encoder_blocks": 2,
        "depths": [1, 2],
        "hidden_sizes": [8, 16],
        "patch_sizes": [4, 2],
        "strides": [4, 2],
        "num_attention_heads": [1, 2],
        "mlp_ratios": [2, 3],
        "image_size": 32,
    }
    _POOL = {k: v for k, v in _PVT.items() if k in ("num_encoder_blocks", "depths", "strides")}
    _POOL |= {"hidden_sizes": [8, 16], "patch_sizes": [7, 3], "padding": [2, 1]}
    _BIT = {"embedding_size": 8, "hidden_sizes": [32, 64], "depths": [2, 1], "num_groups": 4}
    _CVT = {"embed_dim": [8, 12], "num_heads": [1, 3], "depth": [1, 2], "cls_token": [False, True],
            "patch_sizes": [7, 3], "patch_stride": [4, 2], "patch_padding": [2, 1],
            "mlp_ratio": [2.0, 3.0], "attention_drop_rate": [0.0] * 2, "drop_rate": [0.0] * 2,
            "drop_path_rate": [0.0] * 2, "qkv_bias": [True] * 2, "kernel_qkv": [3, 3],
            "qkv_projection_method": ["dw_bn"] * 2, "padding_kv": [1, 1], "stride_kv": [2, 2],
            "padding_q": [1, 1], "stride_q": [1, 1]}  # fmt: skip
    _FOCAL = {"image_size": 32, "embed_dim": 8, "depths": [1, 2], "focal_levels": [2, 1],
              "focal_windows": [3, 5], "hidden_sizes": [8, 16]}  # fmt: skip
    _LEVIT = {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 1, 2],
              "depths": [1, 1, 1], "key_dim": [4, 8, 4]}  # fmt: skip
    _SWIFT = {"depths": [2, 2], "embed_dims": [8, 16], "downsamples": [True, True]}
    _ZOE = {
        "backbone_config": t._VIT
        | {
            "model_type": "beit",
            "num_hidden_layers": 4,
            "use_relative_position_bias": True,
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
            "reshape_hidden_states": False,
        },
        "reassemble_factors": [4, 2, 1, 0.5],
        "neck_hidden_sizes": [5, 6, 7, 8],
        "fusion_hidden_size": 10,
        "bottleneck_features": 10,
        "num_relative_features": 6,
        "bin_embedding_dim": 8,
        "num_attractors": [4, 3, 2, 1],
        "bin_configurations": [{"n_bins": 9, "min_depth": 0.001, "max_depth": 10.0}],
    }
    found = {
        "ijepa": ("IJepaForImageClassification", t._VIT | t._LABELS, (24, 24)),
        "ijepa-model": ("IJepaModel", t._VIT | {
            "qkv_bias": False, "hidden_act": "relu", "num_channels": 2, "layer_norm_eps": 1e-3},
            (24, 24)),
        "vit_msn": ("ViTMSNForImageClassification", t._VIT | t._LABELS, (24, 24)),
        "vit_mae": ("ViTMAEForPreTraining", t._VIT | {
            "decoder_hidden_size": 12, "decoder_num_attention_heads": 2,
            "decoder_num_hidden_layers": 1, "decoder_intermediate_size": 16}, (24, 24)),
        "data2vec-vision": ("Data2VecVisionForImageClassification", t._VIT | t._LABELS | {
            "use_relative_position_bias": True}, (24, 24)),
        "data2vec-vision-model": ("Data2VecVisionModel", t._VIT | {
            "use_absolute_position_embeddings": True, "layer_scale_init_value": 0.0,
            "use_mean_pooling": False}, (24, 24)),
        "table-transformer": ("TableTransformerForObjectDetection", t._DETR | {"num_labels": 4},
                              (70, 45)),
        "table-transformer-learned": ("TableTransformerForObjectDetection", t._DETR | {
            "num_labels": 2, "position_embedding_type": "learned", "activation_function": "gelu",
            "auxiliary_loss": True}, (45, 64)),
        "conditional_detr": ("ConditionalDetrForObjectDetection", t._DETR | {"num_labels": 4},
                             (70, 45)),
        "conditional_detr-learned": ("ConditionalDetrForObjectDetection", t._DETR | {
            "num_labels": 2, "position_embedding_type": "learned", "activation_function": "gelu",
            "auxiliary_loss": True}, (45, 64)),
        "dab-detr": ("DabDetrForObjectDetection", t._DETR | {
            "num_labels": 4, "hidden_size": 16}, (70, 45)),
        "dab-detr-odd": ("DabDetrForObjectDetection", t._DETR | {
            "num_labels": 2, "hidden_size": 16, "activation_function": "relu", "num_patterns": 2,
            "temperature_height": 30, "temperature_width": 15, "keep_query_pos": True,
            "normalize_before": True, "sine_position_embedding_scale": 5.0}, (45, 64)),
        "deformable_detr": ("DeformableDetrForObjectDetection", _DEFORMABLE | {"num_labels": 4},
                            (70, 45)),
        "deformable_detr-two": ("DeformableDetrForObjectDetection", _DEFORMABLE | {
            "num_labels": 3, "two_stage": True, "with_box_refine": True, "decoder_n_points": 3,
            "two_stage_num_proposals": 7, "encoder_n_points": 2, "num_feature_levels": 3,
            "activation_function": "gelu"}, (64, 96)),
        "rt_detr_v2": ("RTDetrV2ForObjectDetection", t._RT_DETR | {
            "num_labels": 4, "decoder_offset_scale": 0.3}, (64, 96)),
        "rt_detr_v2-discrete": ("RTDetrV2ForObjectDetection", t._RT_DETR | {
            "num_labels": 2, "decoder_method": "discrete", "learn_initial_query": True,
            "num_denoising": 0, "decoder_n_points": 3}, (64, 64)),
        "hgnet_v2": ("HGNetV2ForImageClassification", _HGNET | t._LABELS, (50, 64)),
        "hgnet_v2-backbone": ("HGNetV2Backbone", _HGNET | {
            "out_features": ["stage2"], "use_learnable_affine_block": False,
            "hidden_act": "gelu"}, (45, 64)),
        "d_fine": ("DFineForObjectDetection", _FINE | {"num_labels": 4}, (64, 96)),
        "d_fine-odd": ("DFineForObjectDetection", _FINE | {
            "num_labels": 2, "decoder_n_points": [3, 4, 2], "eval_idx": 1, "max_num_bins": 8,
            "depth_mult": 0.34, "top_prob_values": 3, "lqe_hidden_dim": 6, "lqe_layers": 3,
            "reg_scale": 8.0, "up": 0.4, "hidden_expansion": 0.5, "learn_initial_query": True,
            "decoder_in_channels": [16, 16, 16], "num_denoising": 0,
            "decoder_offset_scale": 0.4}, (64, 64)),
        "glpn": ("GLPNForDepthEstimation", _GLPN, (32, 48)),
        "glpn-odd": ("GLPNForDepthEstimation", _GLPN | {
            "decoder_hidden_size": 12, "max_depth": 3, "head_in_index": 1, "hidden_act": "relu",
            "num_channels": 2}, (64, 64)),
        "clipseg": ("CLIPSegForImageSegmentation", _CLIPSEG, (16, 16)),
        "clipseg-odd": ("CLIPSegForImageSegmentation", _CLIPSEG | {
            "use_complex_transposed_convolution": True, "conditional_layer": 1,
            "vision_config": t._SEEN | {"num_hidden_layers": 3},
            "extract_layers": [0, 2, 1]}, (24, 24)),
        "altclip": ("AltCLIPModel", {
            "text_config": t._BERT | {"project_dim": 20, "max_position_embeddings": 12},
            "vision_config": t._SEEN, "projection_dim": 10}, (16, 16)),
        "altclip-odd": ("AltCLIPModel", {
            "text_config": t._BERT | {
                "project_dim": 14, "max_position_embeddings": 9, "hidden_act": "relu",
                "layer_norm_eps": 1e-3, "type_vocab_size": 2},
            "vision_config": t._SEEN | {"patch_size": 8}, "projection_dim": 6}, (16, 16)),
        "swin2sr": ("Swin2SRForImageSuperResolution", _SR, (16, 12)),
        "swin2sr-aux": ("Swin2SRForImageSuperResolution", _SR | {
            "upsampler": "pixelshuffle_aux", "upscale": 4, "img_range": 2.0,
            "resi_connection": "3conv", "qkv_bias": False, "hidden_act": "relu"}, (8, 8)),
        "swin2sr-near": ("Swin2SRForImageSuperResolution", _SR | {
            "upsampler": "nearest+conv", "upscale": 4, "num_channels": 1, "image_size": 4,
            "mlp_ratio": 1.5, "layer_norm_eps": 1e-3}, (8, 4)),
        "superpoint": ("SuperPointForKeypointDetection", _POINTS, (48, 64)),
        "superpoint-odd": ("SuperPointForKeypointDetection", _POINTS | {
            "max_keypoints": 7, "nms_radius": 2, "border_removal_distance": 9,
            "keypoint_threshold": 0.02}, (64, 48)),
        "vitpose": ("VitPoseForPoseEstimation", {"num_labels": 5, "backbone_config": _BODY},
                    (32, 24)),
        "vitpose-plus": ("VitPoseForPoseEstimation", {
            "num_labels": 3, "use_simple_decoder": False, "backbone_config": _BODY | {
                "num_experts": 3, "part_features": 4, "out_indices": [1], "qkv_bias": False,
                "hidden_act": "relu", "layer_norm_eps": 1e-3, "mlp_ratio": 3}}, (32, 24)),
        "videomae": ("VideoMAEForVideoClassification", _VIDEO | t._LABELS, (16, 24)),
        "videomae-model": ("VideoMAEModel", _VIDEO | {
            "use_mean_pooling": False, "qv_bias": False, "hidden_act": "relu", "tubelet_size": 1,
            "layer_norm_eps": 1e-3}, (16, 24)),
        "vivit": ("VivitForVideoClassification", _TUBES | t._LABELS, (16, 24)),
        "vivit-model": ("VivitModel", _TUBES | {
            "qkv_bias": False, "pooler_output_size": 10, "pooler_act": "relu",
            "tubelet_size": [4, 8, 4], "hidden_act": "gelu"}, (16, 24)),
        "timesformer": ("TimesformerForVideoClassification", _VIDEO | t._LABELS | {
            "image_size": 16}, (16, 16)),
        "timesformer-joint": ("TimesformerModel", _VIDEO | {
            "attention_type": "joint_space_time", "qkv_bias": False, "image_size": 16,
            "hidden_act": "relu"}, (16, 16)),
        "vjepa2": ("VJEPA2ForVideoClassification", _JEPA | t._LABELS, (24, 24)),
        "vjepa2-model": ("VJEPA2Model", _JEPA | {
            "qkv_bias": False, "hidden_act": "relu", "mlp_ratio": 2.0, "num_attention_heads": 3,
            "tubelet_size": 1, "layer_norm_eps": 1e-3}, (24, 24)),
        "grounding-dino": ("GroundingDinoForObjectDetection", _GROUND, (64, 96)),
        "grounding-dino-odd": ("GroundingDinoForObjectDetection", _GROUND | {
            "decoder_bbox_embed_share": False,
            "num_feature_levels": 3, "encoder_n_points": 2, "decoder_n_points": 3,
            "positional_embedding_temperature": 30, "layer_norm_eps": 1e-3,
            "activation_function": "gelu"}, (64, 64)),
        "siglip2": ("Siglip2Model", {"text_config": t._TEXT, "vision_config": _FLEX}, (12, 20)),
        "siglip2-odd": ("Siglip2Model", {
            "text_config": t._TEXT | {"projection_size": 24, "hidden_act": "relu"},
            "vision_config": _FLEX | {"patch_size": 2, "num_patches": 25, "num_channels": 2,
                                      "layer_norm_eps": 1e-3}}, (10, 10)),
        "upernet": ("UperNetForSemanticSegmentation", {
            "backbone_config": t._CONVNEXT | {
                "model_type": "convnext", "out_features": ["stage1", "stage2", "stage3"]},
            "hidden_size": 12, "auxiliary_channels": 6, "num_labels": 4}, (33, 40)),
        "upernet-swin": ("UperNetForSemanticSegmentation", {
            "backbone_config": t._SWIN | {
                "model_type": "swin", "out_features": ["stage1", "stage2"]},
            "hidden_size": 10, "use_auxiliary_head": False, "num_labels": 3,
            "pool_scales": [1, 3]}, (32, 40)),
        "pvt": ("PvtForImageClassification", _PVT | t._LABELS | {
            "sequence_reduction_ratios": [2, 1]}, (32, 32)),
        "pvt_v2": ("PvtV2ForImageClassification", _PVT | t._LABELS | {
            "sr_ratios": [2, 1]}, (45, 38)),
        "pvt_v2-linear": ("PvtV2Model", _PVT | {
            "linear_attention": True, "qkv_bias": False, "hidden_act": "relu",
            "layer_norm_eps": 1e-3, "patch_sizes": [7, 3]}, (64, 64)),
        "poolformer": ("PoolFormerForImageClassification", _POOL | t._LABELS, (45, 38)),
        "poolformer-model": ("PoolFormerModel", _POOL | {
            "use_layer_scale": False, "pool_size": 5, "mlp_ratio": 2.0, "hidden_act": "relu",
            "num_channels": 2}, (33, 40)),
        "bit": ("BitForImageClassification", _BIT | t._LABELS, (45, 38)),
        "bit-after": ("BitModel", _BIT | {
            "layer_type": "bottleneck", "global_padding": "SAME", "num_groups": 2,
            "embedding_dynamic_padding": True}, (33, 40)),
        "levit": ("LevitForImageClassificationWithTeacher", _LEVIT | t._LABELS, (64, 64)),
        "levit-model": ("LevitModel", _LEVIT | {"mlp_ratio": [1, 0, 2]}, (64, 64)),
        "cvt": ("CvtForImageClassification", _CVT | t._LABELS, (45, 38)),
        "cvt-model": ("CvtModel", _CVT | {
            "cls_token": [False, False], "qkv_bias": [False, True], "stride_kv": [2, 1],
            "num_channels": 2}, (32, 48)),
        "focalnet": ("FocalNetForImageClassification", _FOCAL | t._LABELS, (45, 38)),
        "focalnet-model": ("FocalNetModel", _FOCAL | {
            "use_conv_embed": True, "use_layerscale": True, "use_post_layernorm": True,
            "use_post_layernorm_in_modulation": True, "normalize_modulator": True,
            "hidden_act": "relu", "layer_norm_eps": 1e-3}, (32, 48)),
        "prompt_depth_anything": (
            "PromptDepthAnythingForDepthEstimation", t._DEPTH, (30, 18)),
        "swiftformer": ("SwiftFormerForImageClassification", _SWIFT | t._LABELS, (45, 38)),
        "swiftformer-model": ("SwiftFormerModel", _SWIFT | {
            "use_layer_scale": False, "mlp_ratio": 2, "down_patch_size": 2, "down_pad": 0,
            "batch_norm_eps": 1e-3, "hidden_act": "relu"}, (32, 64)),
        "zoedepth": ("ZoeDepthForDepthEstimation", _ZOE, (32, 24)),
        "zoedepth-two": ("ZoeDepthForDepthEstimation", _ZOE | {
            "bin_configurations": [
                {"n_bins": 6, "min_depth": 0.001, "max_depth": 10.0, "name": "nyu"},
                {"n_bins": 7, "min_depth": 0.001, "max_depth": 80.0, "name": "kitti"}],
            "num_patch_transformer_layers": 4, "patch_transformer_hidden_size": 128,
            "patch_transformer_intermediate_size": 12, "attractor_kind": "sum",
            "patch_transformer_num_attention_heads": 4, "min_temp": 0.1, "max_temp": 20.0,
            "use_batch_norm_in_fusion_residual": True, "hidden_act": "relu"}, (24, 24)),
    }  # fmt: skip
    return {name: ("transformers", *row) for name, row in found.items()}

"""Make small folders of ONNX files in the layout of transformers.js.

    python tests/parity/make_onnx_folders.py [NAME ...]

Needs torch, transformers, optimum-onnx and onnxruntime. Writes tests/models/data/onnx/NAME.tar.xz:
a folder of a random model as optimum exports it. Weights are multiples of 1/64, so that the files
are small when packed. onnx_answers.mjs writes what transformers.js makes of the folders.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import transformers
from onnx import helper, numpy_helper
from optimum.exporters.onnx import main_export
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

OUT = Path(__file__).parents[1] / "models" / "data" / "onnx"
MOST = 50_000
WORDS = "the candle lamp is light of rush fat and gives dark night who what where in box on wick"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz?.,", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz")]
VOCAB = [*SPECIAL, *LETTERS, *WORDS.split()]
SIZE = 96  # rows of embeddings


def tokenizer(ends: bool = True) -> transformers.PreTrainedTokenizerFast:
    """A WordPiece tokenizer of a few words; ends: texts begin with [CLS] and end with [SEP]."""
    made = Tokenizer(models.WordPiece({w: i for i, w in enumerate(VOCAB)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if ends:
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=48,
    )


def _bert(**more: Any) -> dict[str, Any]:
    return dict(vocab_size=SIZE, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                intermediate_size=24, max_position_embeddings=48, **more)  # fmt: skip


LABELS = {0: "dark", 1: "light", 2: "night"}
TAGS = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC"}
NAMED = dict(id2label=LABELS, label2id={v: k for k, v in LABELS.items()})
_CHAIN = dict(vocab_size=SIZE, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, intermediate_size=24, max_position_embeddings=256,
              bos_token_id=2, eos_token_id=3, pad_token_id=0)  # fmt: skip
_BART = dict(vocab_size=SIZE, d_model=16, encoder_layers=1, decoder_layers=2,
             encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24,
             decoder_ffn_dim=24, max_position_embeddings=64, bos_token_id=2, eos_token_id=3,
             pad_token_id=0, decoder_start_token_id=3, forced_eos_token_id=3)  # fmt: skip
_SEEN = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
             image_size=16, patch_size=8)  # fmt: skip
T = transformers
# name: (class, configuration, task of optimum, what else the folder has)
CASES: dict[str, tuple[Any, Any, str, str]] = {
    "sentences": (T.BertModel, T.BertConfig(**_bert()), "feature-extraction", "pooling"),
    "classes": (
        T.DistilBertForSequenceClassification,
        T.DistilBertConfig(
            vocab_size=SIZE, dim=16, n_layers=1, n_heads=2, hidden_dim=24,
            max_position_embeddings=48, **NAMED,
        ),
        "text-classification",
        "",
    ),
    "tags": (
        T.BertForTokenClassification,
        T.BertConfig(**_bert(id2label=TAGS, label2id={v: k for k, v in TAGS.items()})),
        "token-classification",
        "",
    ),
    "answers": (T.BertForQuestionAnswering, T.BertConfig(**_bert()), "question-answering", ""),
    "masks": (T.BertForMaskedLM, T.BertConfig(**_bert()), "fill-mask", ""),
    "llama": (
        T.LlamaForCausalLM, T.LlamaConfig(**_CHAIN), "text-generation-with-past", "plain",
    ),
    "outliers": (
        T.LlamaForCausalLM, T.LlamaConfig(**_CHAIN), "text-generation-with-past", "plain",
    ),
    "opt": (
        T.OPTForCausalLM,
        T.OPTConfig(vocab_size=SIZE, hidden_size=16, word_embed_proj_dim=16, num_hidden_layers=2,
                    num_attention_heads=2, ffn_dim=24, max_position_embeddings=64,
                    bos_token_id=2, eos_token_id=3, pad_token_id=0),
        "text-generation-with-past",
        "plain",
    ),
    "bart": (
        T.BartForConditionalGeneration, T.BartConfig(**_BART), "text2text-generation-with-past", "",
    ),
    "t5": (
        T.T5ForConditionalGeneration,
        T.T5Config(vocab_size=SIZE, d_model=16, d_kv=8, d_ff=24, num_layers=1,
                   num_decoder_layers=2, num_heads=2, decoder_start_token_id=0, pad_token_id=0,
                   eos_token_id=3),
        "text2text-generation-with-past",
        "",
    ),
    "whisper": (
        T.WhisperForConditionalGeneration,
        T.WhisperConfig(vocab_size=SIZE, d_model=8, encoder_layers=1, decoder_layers=2,
                        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24,
                        decoder_ffn_dim=24, num_mel_bins=8, max_source_positions=1500,
                        max_target_positions=32, pad_token_id=0, bos_token_id=2, eos_token_id=3,
                        decoder_start_token_id=2, suppress_tokens=None,
                        begin_suppress_tokens=None),
        "automatic-speech-recognition-with-past",
        "mels",
    ),
    "vit": (
        T.ViTForImageClassification, T.ViTConfig(**_SEEN, **NAMED), "image-classification", "image",
    ),
    "clip": (
        T.CLIPModel,
        T.CLIPConfig(
            text_config=dict(vocab_size=SIZE, hidden_size=16, num_hidden_layers=1,
                             num_attention_heads=2, intermediate_size=24,
                             max_position_embeddings=24, eos_token_id=3, bos_token_id=2,
                             pad_token_id=0),
            vision_config=_SEEN,
            projection_dim=8,
        ),
        "zero-shot-image-classification",
        "image",
    ),
    "yolos": (
        T.YolosForObjectDetection,
        T.YolosConfig(**{**_SEEN, "image_size": [16, 16]}, num_detection_tokens=4, **NAMED),
        "object-detection",
        "image",
    ),
    "segformer": (
        T.SegformerForSemanticSegmentation,
        T.SegformerConfig(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1],
                          hidden_sizes=[8, 16], patch_sizes=[3, 3], strides=[2, 2],
                          num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16,
                          **NAMED),
        "semantic-segmentation",
        "image",
    ),
    "sam": (
        T.SamModel,
        T.SamConfig(
            vision_config=dict(hidden_size=16, output_channels=16, num_hidden_layers=2,
                               num_attention_heads=2, image_size=32, patch_size=8, mlp_dim=24,
                               window_size=2, global_attn_indexes=[1], num_pos_feats=8),
            prompt_encoder_config=dict(hidden_size=16, image_size=32, patch_size=8,
                                       image_embedding_size=4, mask_input_channels=4),
            mask_decoder_config=dict(hidden_size=16, mlp_dim=24, num_hidden_layers=1,
                                     num_attention_heads=2, iou_head_hidden_dim=16,
                                     iou_head_depth=2),
        ),
        "feature-extraction",
        "sam",
    ),
    "ctc": (
        T.Wav2Vec2ForCTC,
        T.Wav2Vec2Config(vocab_size=32, hidden_size=16, num_hidden_layers=1,
                         num_attention_heads=2, intermediate_size=24, conv_dim=(8, 8),
                         conv_stride=(5, 4), conv_kernel=(10, 8), num_conv_pos_embeddings=8,
                         num_conv_pos_embedding_groups=2, pad_token_id=0),
        "automatic-speech-recognition",
        "letters",
    ),
    "sounds": (
        T.Wav2Vec2ForSequenceClassification,
        T.Wav2Vec2Config(hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                         intermediate_size=24, conv_dim=(8, 8), conv_stride=(5, 4),
                         conv_kernel=(10, 8), num_conv_pos_embeddings=8,
                         num_conv_pos_embedding_groups=2, classifier_proj_size=8, **NAMED),
        "audio-classification",
        "samples",
    ),
    "depth": (
        T.DPTForDepthEstimation,
        T.DPTConfig(**{**_SEEN, "num_hidden_layers": 4}, neck_hidden_sizes=[8, 8, 8, 8],
                    fusion_hidden_size=8, backbone_out_indices=[0, 1, 2, 3], is_hybrid=False,
                    readout_type="project", reassemble_factors=[4, 2, 1, 0.5]),
        "depth-estimation",
        "image",
    ),
}  # fmt: skip


def coarse(model: torch.nn.Module) -> None:
    """Round the weights to multiples of 1/64, after spreading them."""
    seed = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name.lower() and name.endswith("weight"):
                continue
            noise = torch.randn(p.shape, generator=seed) * 0.15
            p.copy_((noise * 64).round() / 64)


def plant(model: torch.nn.Module, feature: int = 5) -> None:
    """Let one feature of a llama's residuals be 60000, and 100960 after the first layer."""
    base = model.model
    with torch.no_grad():
        base.embed_tokens.weight[:, feature] = 60000.0
        for i, layer in enumerate(base.layers):
            for norm in (layer.input_layernorm, layer.post_attention_layernorm):
                norm.weight.fill_(16384.0)
                norm.weight[feature] = 0.0
            if i == 0:
                for part, value in ((layer.mlp.gate_proj, 4.0), (layer.mlp.up_proj, 4.0)):
                    part.weight[0] = 0.0
                    part.weight[0, feature] = value
                layer.post_attention_layernorm.weight[feature] = 1.0
                layer.mlp.down_proj.weight[:, 0] = layer.mlp.down_proj.weight[feature] = 0.0
                layer.mlp.down_proj.weight[feature, 0] = 160.0
        base.norm.weight.fill_(16384.0)
        base.norm.weight[feature] = 0.0
        model.lm_head.weight.copy_(base.embed_tokens.weight)
        model.lm_head.weight[:, feature] = 0.0


def variants(folder: Path, names: tuple[str, ...]) -> None:
    """Write model_fp16.onnx, model_quantized.onnx, model_q4.onnx and model_q4f16.onnx."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    from onnxruntime.transformers.float16 import convert_float_to_float16

    plain = folder / "model.onnx"
    if "q8" in names:
        # Of 7 bits: without VNNI onnxruntime saturates sums of products of 8.
        whole = folder / "model_quantized.onnx"
        quantize_dynamic(plain, whole, weight_type=QuantType.QInt8, reduce_range=True)
    if "fp16" in names:
        onnx.save(convert_float_to_float16(onnx.load(plain)), folder / "model_fp16.onnx")
    if "q4" in names:
        made = MatMulNBitsQuantizer(onnx.load(plain), block_size=16, is_symmetric=False)
        made.process()
        onnx.save(made.model.model, folder / "model_q4.onnx")
        half = convert_float_to_float16(onnx.load(folder / "model_q4.onnx"))
        onnx.save(half, folder / "model_q4f16.onnx")


def processor_of(kind: str, config: Any) -> Any:
    """The processor whose files the folder has; None for texts."""
    if kind == "mels":
        return T.WhisperFeatureExtractor(feature_size=8)
    if kind in ("letters", "samples"):
        return T.Wav2Vec2FeatureExtractor(return_attention_mask=False)
    if kind == "image":
        side = 16
        name = {
            "clip": "CLIPImageProcessor", "yolos": "YolosImageProcessor",
            "segformer": "SegformerImageProcessor", "dpt": "DPTImageProcessor",
        }.get(config.model_type, "ViTImageProcessor")  # fmt: skip
        if name == "YolosImageProcessor":
            return T.YolosImageProcessor(size={"height": side, "width": side}, do_pad=False)
        if name == "CLIPImageProcessor":
            return T.CLIPImageProcessor(
                size={"shortest_edge": side}, crop_size={"height": side, "width": side}
            )
        return getattr(T, name)(size={"height": side, "width": side})
    if kind == "sam":
        return T.SamImageProcessor(size={"longest_edge": 32}, pad_size={"height": 32, "width": 32})
    return None


def grouped(folder: Path) -> None:
    """Write a decoder of one layer with GroupQueryAttention, as onnxruntime's tools make them."""
    random = np.random.default_rng(3)
    heads, kv, size, width = 2, 1, 16, 32

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        values = (random.normal(size=shape) * 0.3 * 64).round() / 64
        return numpy_helper.from_array(values.astype(np.float32), name)

    angles = np.outer(np.arange(64), 1e4 ** (-np.arange(size // 2) / (size // 2)))
    tensors = [
        weights("table", SIZE, width),
        *(weights(n, width, m * size) for n, m in (("q", heads), ("k", kv), ("v", kv))),
        weights("o", heads * size, width),
        weights("head", width, SIZE),
        *(numpy_helper.from_array(np.ones(width, np.float32), f"norm{i}") for i in range(2)),
        numpy_helper.from_array(np.cos(angles).astype(np.float32), "cos"),
        numpy_helper.from_array(np.sin(angles).astype(np.float32), "sin"),
        *(numpy_helper.from_array(np.array(n, np.int64), f"n{n}") for n in (0, 1)),
        numpy_helper.from_array(np.array([1], np.int64), "dims"),
    ]
    node, past = helper.make_node, "past_key_values.0"
    nodes = [
        node("ReduceSum", ["attention_mask", "dims"], ["sum"], keepdims=1),
        node("Sub", ["sum", "n1"], ["less"]),
        node("Cast", ["less"], ["seqlens"], to=6),
        node("Shape", ["attention_mask"], ["shape"]),
        node("Gather", ["shape", "n1"], ["long"]),
        node("Cast", ["long"], ["total"], to=6),
        node("Gather", ["table", "input_ids"], ["x"]),
        node("LayerNormalization", ["x", "norm0"], ["y"]),
        *(node("MatMul", ["y", n], [f"{n}y"]) for n in "qkv"),
        node(
            "GroupQueryAttention",
            ["qy", "ky", "vy", f"{past}.key", f"{past}.value", "seqlens", "total", "cos", "sin"],
            ["z", "present.0.key", "present.0.value"],
            domain="com.microsoft", num_heads=heads, kv_num_heads=kv, do_rotary=1,
        ),
        node("MatMul", ["z", "o"], ["oz"]),
        node("Add", ["x", "oz"], ["sums"]),
        node("LayerNormalization", ["sums", "norm1"], ["last"]),
        node("MatMul", ["last", "head"], ["logits"]),
    ]  # fmt: skip

    def told(name: str, kind: int, *shape: Any) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        nodes,
        "grouped",
        [
            told("input_ids", 7, "batch_size", "sequence_length"),
            told("attention_mask", 7, "batch_size", "total_sequence_length"),
            *(
                told(f"{past}.{k}", 1, "batch_size", kv, "past_sequence_length", size)
                for k in ("key", "value")
            ),
        ],
        [
            told("logits", 1, "batch_size", "sequence_length", SIZE),
            *(
                told(f"present.0.{k}", 1, "batch_size", kv, "total_sequence_length", size)
                for k in ("key", "value")
            ),
        ],
        tensors,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    (folder / "onnx").mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8),
              folder / "onnx" / "model.onnx")  # fmt: skip
    sizes = {"hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": heads}
    sizes |= {"num_key_value_heads": kv, "max_position_embeddings": 64}
    config = T.LlamaConfig(**{**_CHAIN, **sizes})
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)
    tokenizer(False).save_pretrained(folder)


def build(name: str, folder: Path) -> None:
    """Write the folder of a case."""
    if name == "grouped":
        grouped(folder)
        return
    kind, config, task, extra = CASES[name]
    torch.manual_seed(0)
    model = kind(config).eval()
    coarse(model)
    if name == "outliers":
        plant(model)
    stored = folder.parent / "torch"
    model.save_pretrained(stored)
    if extra not in ("samples", "sam", "letters") and config.model_type not in (
        "vit", "yolos", "segformer", "dpt",
    ):  # fmt: skip
        words = tokenizer(extra not in ("plain", "mels"))
        if extra == "mels":
            names = ["endoftext", "startoftranscript", "notimestamps"]
            times = [f"<|{i / 50:.2f}|>" for i in range(13)]
            words.add_special_tokens(
                {"additional_special_tokens": [*(f"<|{n}|>" for n in names), *times]}
            )
        words.save_pretrained(stored)
    if extra == "letters":
        words = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVKXJQZ'"]
        (stored / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}))
        T.Wav2Vec2CTCTokenizer(str(stored / "vocab.json")).save_pretrained(stored)
    processor = processor_of(extra, config)
    if processor is not None:
        processor.save_pretrained(stored)
    exported = folder.parent / "exported"
    main_export(str(stored), exported, task=task, do_validation=False, device="cpu", opset=17)
    (folder / "onnx").mkdir(parents=True)
    for path in sorted(exported.iterdir()):
        if path.suffix == ".onnx":
            shutil.copy(path, folder / "onnx" / path.name)
        elif path.suffix in (".json", ".txt"):
            shutil.copy(path, folder / path.name)
    for path in stored.iterdir():
        if path.suffix in (".json", ".txt") and not (folder / path.name).exists():
            shutil.copy(path, folder / path.name)
    if (folder / "onnx" / "decoder_model_merged.onnx").exists():
        for extra_file in ("decoder_model.onnx", "decoder_with_past_model.onnx"):
            (folder / "onnx" / extra_file).unlink(missing_ok=True)
    if extra == "pooling":
        modules = [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling",
             "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize",
             "type": "sentence_transformers.models.Normalize"},
        ]  # fmt: skip
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(
            json.dumps({"word_embedding_dimension": 16, "pooling_mode_cls_token": True,
                        "pooling_mode_mean_tokens": False})
        )  # fmt: skip
    wanted = {"llama": ("fp16", "q8", "q4"), "outliers": ("fp16",)}.get(name, ())
    variants(folder / "onnx", wanted)
    for path in (folder / "onnx").iterdir():
        bare = onnx.load(path)
        for node in bare.graph.node:
            node.doc_string = ""
        onnx.save(bare, path)


def main(names: list[str]) -> None:
    """Make the named cases, or all."""
    OUT.mkdir(parents=True, exist_ok=True)
    for name in names or (*CASES, "grouped"):
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work) / name
            build(name, folder)
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w:xz", preset=9) as archive:
                for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                    entry = tarfile.TarInfo(str(path.relative_to(folder)))
                    entry.size = path.stat().st_size
                    archive.addfile(entry, io.BytesIO(path.read_bytes()))
            size = len(packed.getvalue())
            files = {p.name: p.stat().st_size for p in (folder / "onnx").iterdir()}
            print(name, size, files, flush=True)
            if size > MOST:
                print(f"  {name} is over {MOST} bytes")
            (OUT / f"{name}.tar.xz").write_bytes(packed.getvalue())


if __name__ == "__main__":
    main(sys.argv[1:])

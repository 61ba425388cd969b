"""Florence-2 (Xiao et al., 2023): captions, boxes, polygons and texts; DaViT and BART."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.ops import cat
from rushlight.core.ops.creation import arange
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.seq2seq import bart
from rushlight.models.generation.search.memory import Memory
from rushlight.models.image.files import Pixels
from rushlight.models.image.preprocessor_config import IMAGENET, KINDS
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.captions import Captioner, PictureSource
from rushlight.models.layers.seeing.davit import Davit, DavitSpec
from rushlight.models.layers.seeing.regions import answer, prompt_of, task_of
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec
from rushlight.models.layers.seq2seq.stacks import StackContext
from rushlight.models.layers.vision.transformer import put_parameter
from rushlight.models.small_files import small_json

ARCHITECTURES = ("Florence2ForConditionalGeneration",)
_PROJECTOR = "model.multi_modal_projector"
_TOWER = "model.vision_tower"
_USUAL = replace(KINDS["CLIP"], size=(768, 768), shortest=None, crop=None, mean=IMAGENET[0],
                 std=IMAGENET[1])  # fmt: skip


@dataclass
class Vision:
    """The keys of vision_config."""

    in_channels: int = 3
    depths: Any = (1, 1, 9, 1)
    patch_size: Any = (7, 3, 3, 3)
    patch_stride: Any = (4, 2, 2, 2)
    patch_padding: Any = (3, 1, 1, 1)
    patch_prenorm: Any = (False, True, True, True)
    embed_dim: Any = (128, 256, 512, 1024)
    num_heads: Any = (4, 8, 16, 32)
    num_groups: Any = (4, 8, 16, 32)
    window_size: int = 12
    mlp_ratio: float = 4.0
    qkv_bias: bool = True
    activation_function: str = "gelu"
    projection_dim: int = 1024
    max_temporal_embeddings: int = 100
    max_position_embeddings: int = 50
    model_type: str = "florence_vision"
    neutral = {"drop_path_rate": ()}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int = 51289
    tie_word_embeddings: bool = True
    model_type: str = "florence2"
    neutral = {"is_encoder_decoder": (True,)}


class Florence2(Captioner, Seq2Seq):
    """Pictures and prompts to text."""

    reads_text = True

    def __init__(self, config: Config, spec: Seq2SeqSpec, vision: Vision, tower: DavitSpec) -> None:
        super().__init__(config, spec)
        self.processor, self.tower = _USUAL, tower
        self.rules: dict[str, Any] = {}
        width = tower.widths[-1]
        put(self, _TOWER, Davit(tower))
        put(self, f"{_PROJECTOR}.image_projection", nn.Linear(width, spec.width, bias=False))
        put(self, f"{_PROJECTOR}.image_proj_norm", nn.LayerNorm(spec.width))
        places = vision.max_position_embeddings
        for name, size in (("row", width // 2), ("column", width - width // 2)):
            path = f"{_PROJECTOR}.image_position_embed.{name}_embeddings"
            put(self, path, nn.Embedding(places, size))
        put_parameter(
            self, f"{_PROJECTOR}.visual_temporal_embed.pos_idx_to_embed",
            vision.max_temporal_embeddings, width,
        )  # fmt: skip

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, the processor, and the rules that answers are parsed by."""
        super().configure(files)
        rules = small_json(files, "processor_config.json").get("post_processor_config")
        self.rules = rules if isinstance(rules, dict) else {}

    def prepared(self, pixels: Pixels, text: str) -> PictureSource:
        """The source of pixels, and of a prompt, which may be the token of a task with words."""
        source = super().prepared(pixels, "")
        tall, wide = self.tower.grid(*source.inputs["pixels"].shape[2:])
        ids = self.text_ids(f"<s>{prompt_of(text)}</s>")
        source.extend([self.config.image_token_id] * (1 + tall * wide) + ids)
        return source

    def answer(self, ids: Any, text: str, size: tuple[int, int]) -> dict[str, Any]:
        """What the tokens `ids` of an answer to the prompt `text` say, by the token of its task.

        size: (height, width) of the picture's file, in whose pixels boxes and polygons are. It
        raises nothing itself.
        """
        task = task_of(text)
        if not task or self.tokenizer is None:
            return {}
        written = self.tokenizer.decode(ids, skip_special_tokens=False)
        return {task: answer(written, task, size, self.rules)}

    def picture_rows(self, pixels: Tensor) -> Tensor:
        """The rows (batch, 1 + places, width) that stand before a prompt."""
        projector: Any = self.get_submodule(_PROJECTOR)
        x = self.get_submodule(_TOWER)(self.as_weights(pixels)).permute(0, 2, 3, 1)
        tall, wide = x.shape[1:3]
        tables, places = projector.image_position_embed, arange(max(tall, wide), device=x.device)
        rows = tables.row_embeddings(places[:tall]).unsqueeze(1).expand(tall, wide, -1)
        columns = tables.column_embeddings(places[:wide]).unsqueeze(0).expand(tall, wide, -1)
        x = (x + cat([columns, rows], -1)).flatten(1, 2)
        x = x + projector.visual_temporal_embed.pos_idx_to_embed[0]
        x = cat([x.mean(1, keepdim=True), x], 1)
        out: Tensor = projector.image_proj_norm(projector.image_projection(x))
        return out

    def encode(  # type: ignore[override]
        self, ids: Tensor, text: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        """The encoder's hidden states of pixels `ids` (batch, 3, height, width) and prompts.

        `text` are the ids of prompts, `attention_mask` their mask. ValueError for a bad shape.
        """
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        context = StackContext({"mask": mask}, rows=self.picture_rows(ids))
        return self._run(self.spec.encoder, text, 0, context)

    def memory_of(self, *inputs: Tensor) -> Memory:
        """The memory of what `place_sources` gave."""
        return self.remember(self.encode(*inputs), inputs[2])


def _tower(v: Vision) -> DavitSpec:
    choose("vision_config.activation_function", v.activation_function, tuple(ACTIVATIONS))
    keys = ("embed_dim", "depths", "num_heads", "num_groups", "patch_size", "patch_stride")
    lists = [list(numbers_of(key, list(getattr(v, key)))) for key in (*keys, "patch_padding")]
    count, before = len(lists[0]), list(v.patch_prenorm)
    bad = [width for i in (2, 3) for width, n in zip(lists[0], lists[i], strict=False) if width % n]
    if bad or any(len(numbers) != count for numbers in (*lists, before)):
        raise FormatError(
            f"config.json: vision_config: {', '.join(keys)}, patch_padding and patch_prenorm are "
            "lists of one length, with widths that heads and groups divide"
        )
    widths, layers, heads, groups, sides, strides, paddings = lists
    kernels = tuple(zip(sides, strides, paddings, map(bool, before), strict=True))
    return DavitSpec(
        widths, layers, heads, groups, kernels, v.window_size, v.in_channels, v.mlp_ratio,
        v.qkv_bias, v.activation_function,
    )  # fmt: skip


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Florence2:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    given = c.vision_config or {}
    text = c.text_config or {}
    for name, part in (("vision_config", given), ("text_config", text)):
        if not isinstance(part, Mapping):
            raise FormatError(f"config.json: {name} is {brief(part)}; it must be an object")
    choose("text_config.model_type", text.get("model_type", "bart"), ("bart",))
    vision = read_config(Vision, {**given, "model_type": Vision.model_type, "architectures": None})
    told = {**text, "model_type": "bart", "architectures": None}
    tied = {"tie_word_embeddings": c.tie_word_embeddings}
    like: Any = bart.FAMILY.build(told | tied, [])
    spec: Seq2SeqSpec = like.spec
    base = "model.language_model"

    def placed(stack: Any) -> Any:
        path = stack.names.base.replace("model", base, 1)
        return replace(stack, names=replace(stack.names, base=path, embedding=f"{base}.shared"))

    encoder, decoder = placed(spec.encoder), placed(spec.decoder)
    if vision.projection_dim != spec.width:
        raise FormatError(
            f"config.json: vision_config.projection_dim is {vision.projection_dim}; it must be "
            f"d_model of text_config, {spec.width}"
        )
    return Florence2(c, replace(spec, encoder=encoder, decoder=decoder), vision, _tower(vision))


FAMILY = Family(
    model_types=("florence2",),
    tasks=("image-to-text",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)

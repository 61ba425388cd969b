"""The encoder skeleton: a bidirectional encoder by a description of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.blocks import disentangled
from rushlight.models.layers.mlp import MLPNames, MLPSpec, put_mlp, run_mlp
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.positions.distances import RelativeBias, RelativeSpec, alibi_bias
from rushlight.models.layers.positions.rotary import Angles, Rotary, RotarySpec
from rushlight.models.sentence import SentenceEncoder

# MPNet's distances from here on share the last bucket.
_FARTHEST = 128


@dataclass(frozen=True)
class EncoderNames:
    """The checkpoint's names, as paths: of the model, and from `q` to `mlp_norm` of a layer.

    projection: from the embeddings' width to the layers'. relative: the bias by distance. qkv: q, k
    and v as one matrix. gate: of a gated MLP; gate_up: one matrix with the rows of gate, then up;
    up_gate: with those of up first.
    """

    words: str = "embeddings.word_embeddings"
    positions: str = "embeddings.position_embeddings"
    types: str = "embeddings.token_type_embeddings"
    embedding_norm: str = "embeddings.LayerNorm"
    projection: str = "embeddings_project"
    relative: str = "encoder.relative_attention_bias"
    layers: str = "encoder.layer"
    q: str = "attention.self.query"
    k: str = "attention.self.key"
    v: str = "attention.self.value"
    qkv: str = ""
    out: str = "attention.output.dense"
    attention_norm: str = "attention.output.LayerNorm"
    gate: str = ""
    gate_up: str = ""
    up_gate: str = ""
    up: str = "intermediate.dense"
    down: str = "output.dense"
    mlp_norm: str = "output.LayerNorm"
    norm: str = "encoder.norm"
    pooler: str = "pooler"


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder `width` features wide, for `context` tokens with `types` token types (0: none).

    embedding: the embeddings' width, if it differs; project: they pass a projection even if it does
    not; project_first: without a bias, before their norm. plain_pooler: the pooler's projection has
    its name. place: "after" normalises the sum of each residual, "before" the input of each part,
    with a final norm; first_norm: whether the first layer has one before its attention. absolute:
    position embeddings; they begin at `first`, and count only tokens other than `pad` if that is
    given. buckets: of a bias by distance. rotary and windows: of each layer; a window w sees less
    than w tokens on each side. order: the names of the layers under names.layers, as they run; a
    name that occurs twice is a shared layer. gated: the MLP is down(act(gate(x)) * up(x)). biases:
    of q, k and v, of the attention's output, of up, of down. scale: of scores, 1/sqrt(head) by
    default. conv: the size, groups and activation of a convolution beside the first layer. dropout:
    of each part's output, in training.
    """

    vocab: int
    width: int
    context: int
    layers: int
    heads: int
    inner: int
    activation: str = "gelu"
    norm: NormSpec = NormSpec("layer", 1e-12)
    place: Literal["before", "after"] = "after"
    first_norm: bool = True
    types: int = 2
    pooler: bool = True
    plain_pooler: bool = False
    embedding: int = 0
    project: bool = False
    project_first: bool = False
    absolute: bool = True
    first: int = 0
    pad: int | None = None
    buckets: int = 0
    alibi: bool = False
    disentangled: disentangled.DisentangledSpec | None = None
    scale: float | None = None
    conv: tuple[int, int, str] | None = None
    rotary: tuple[RotarySpec, ...] = ()
    windows: tuple[int | None, ...] = ()
    order: tuple[str, ...] = ()
    gated: bool = False
    biases: tuple[bool, bool, bool, bool] = (True, True, True, True)
    dropout: float = 0.0
    names: EncoderNames = EncoderNames()

    def __post_init__(self) -> None:
        if self.heads < 1 or self.width % self.heads:
            raise FormatError(
                f"config.json: hidden_size {self.width} is not a multiple of "
                f"num_attention_heads {self.heads}"
            )

    @property
    def paths(self) -> list[str]:
        """The path of each layer, in the order in which they run."""
        order = self.order or tuple(map(str, range(self.layers)))
        return [f"{self.names.layers}.{name}" for name in order]


@dataclass(frozen=True)
class EncoderContext:
    """What layers share: the padding mask (batch, 1, 1, length), a bias of scores, angles, and the
    table of disentangled positions.
    """

    mask: Tensor | None
    bias: Tensor | None
    angles: Angles
    table: tuple[Tensor, Tensor] | None = None


class EncoderLayer(nn.Module):
    """Self-attention of all positions, and a feed-forward part."""

    def __init__(self, spec: EncoderSpec, first: bool = False) -> None:
        self.spec, names, width = spec, spec.names, spec.width
        qkv, out, up, down = spec.biases
        if names.qkv:
            put(self, names.qkv, nn.Linear(width, 3 * width, bias=qkv))
        else:
            for name in (names.q, names.k, names.v):
                put(self, name, nn.Linear(width, width, bias=qkv))
        if spec.disentangled is not None:
            disentangled.put_projections(self, width, spec.disentangled)
        put(self, names.out, nn.Linear(width, width, bias=out))
        self.attention_norm = "" if first and not spec.first_norm else names.attention_norm
        if self.attention_norm:
            put(self, names.attention_norm, make_norm(width, spec.norm))
        self.mlp_spec = MLPSpec(
            spec.inner,
            spec.activation,
            spec.gated,
            up,
            down_bias=down,
            names=MLPNames(names.gate, names.up, names.down, names.gate_up, names.up_gate),
        )
        put_mlp(self, width, self.mlp_spec)
        put(self, names.mlp_norm, make_norm(width, spec.norm))
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """(batch, length, width) -> the same; `layer` chooses the window and the angles."""
        names, before = self.spec.names, self.spec.place == "before"
        if before:
            y = self._called(self.attention_norm, x) if self.attention_norm else x
            x = x + self.dropout(self._attention(y, context, layer))
            out: Tensor = x + self.dropout(
                run_mlp(self, self.mlp_spec, self._called(names.mlp_norm, x))
            )
            return out
        y = self.dropout(self._attention(x, context, layer))
        x = self._called(self.attention_norm, y + x)
        return self._called(names.mlp_norm, self.dropout(run_mlp(self, self.mlp_spec, x)) + x)

    def _attention(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        spec, names, (batch, length, width) = self.spec, self.spec.names, x.shape
        if names.qkv:
            parts = self._called(names.qkv, x).chunk(3, -1)
        else:
            parts = tuple(self._called(name, x) for name in (names.q, names.k, names.v))
        # (batch, length, width) -> (batch, heads, length, head)
        q, k, v = (y.reshape(batch, length, spec.heads, -1).transpose(1, 2) for y in parts)
        if spec.rotary:
            cos, sin = context.angles[spec.rotary[layer]]
            q, k = ops.rope(q, cos, sin), ops.rope(k, cos, sin)
        window = spec.windows[layer] if spec.windows else None
        bias = context.bias
        if spec.disentangled is not None and context.table is not None:
            content = {"c2p": (names.k, q), "p2c": (names.q, k)}
            bias = disentangled.position_scores(self, spec.disentangled, content, context.table)
            bias = bias if bias is None or spec.scale is None else bias * spec.scale
        y = ops.attention(q, k, v, mask=context.mask, bias=bias, window=window, scale=spec.scale)
        return self._called(names.out, y.transpose(1, 2).reshape(batch, length, width))

    def _called(self, name: str, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(name)(x)
        return out


class Pooler(nn.Module):
    """tanh of a projection of the first position: the text's summary in BERT's training."""

    def __init__(self, width: int) -> None:
        self.dense = nn.Linear(width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, length, width) -> (batch, width)."""
        out: Tensor = self.dense(hidden[:, 0]).tanh()
        return out


class Encoder(SentenceEncoder):
    """An encoder by `spec`: token ids to hidden states."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: EncoderSpec) -> None:
        self.config, self.spec, names, width = config, spec, spec.names, spec.width
        self.context_length, self.width = spec.context, width
        inside = spec.embedding or width
        put(self, names.words, nn.Embedding(spec.vocab, inside))
        if spec.absolute:
            put(self, names.positions, nn.Embedding(spec.first + spec.context, inside))
        if spec.types:
            put(self, names.types, nn.Embedding(spec.types, inside))
        self.projects = spec.project or inside != width
        if self.projects:
            put(self, names.projection, nn.Linear(inside, width, bias=not spec.project_first))
        normed = width if spec.project_first else inside
        put(self, names.embedding_norm, make_norm(normed, spec.norm))
        if spec.buckets:
            relative = RelativeSpec(spec.buckets, _FARTHEST)
            put(self, names.relative, RelativeBias(relative, spec.heads, both_ways=True))
        if spec.disentangled is not None:
            disentangled.put_table(self, width, spec.disentangled, spec.norm.eps)
        if spec.conv is not None:
            put(self, disentangled.CONV, disentangled.ConvLayer(width, *spec.conv, spec.norm.eps))
        self.rotary = Rotary(dict.fromkeys(spec.rotary))
        for i, path in enumerate(dict.fromkeys(spec.paths)):
            put(self, path, EncoderLayer(spec, first=i == 0))
        if spec.place == "before":
            put(self, names.norm, make_norm(width, spec.norm))
        if spec.pooler:
            plain = nn.Linear(width, width)
            put(self, names.pooler, plain if spec.plain_pooler else Pooler(width))
        self.dropout = nn.Dropout(spec.dropout)

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Hidden states (batch, length, width) of token ids (batch, length).

        attention_mask (batch, length): false or zero for padding. Raises ValueError for a text
        longer than the context.

        `token_type_ids` (batch, length): the segment of each token, 0 unless set.
        """
        limit, spec = self.context_length, self.spec
        if ids.ndim != 2 or ids.shape[1] > limit:
            kind = self.config.model_type
            raise ValueError(f"{kind}: ids are {ids.shape}; they must be (batch, up to {limit})")
        seen = None if attention_mask is None else attention_mask != 0
        mask = None if seen is None else seen[:, None, None, :]
        x = self._embedded(ids, token_type_ids)
        bias, rows, length = None, None, ids.shape[1]
        if spec.alibi:
            bias = alibi_bias(spec.heads, length, ids.device)
        elif spec.buckets:
            table: Any = self.get_submodule(spec.names.relative)
            bias = table.bias(length, length, 0)
        elif spec.disentangled is not None:
            rows = disentangled.table_of(self, spec.disentangled, length)
        positions = ops.arange(length, device=ids.device).unsqueeze(0)
        context = EncoderContext(mask, bias, self.rotary.angles(positions), rows)
        real = None if seen is None else seen.unsqueeze(-1).to(x.dtype)
        before = x if real is None or spec.conv is None else x * real
        for i, path in enumerate(spec.paths):
            x = self.get_submodule(path)(x, context, i)
            if i == 0 and spec.conv is not None:
                x = self.get_submodule(disentangled.CONV)(before, x, real)
        if spec.place == "before":
            x = self.get_submodule(spec.names.norm)(x)
        return x

    def _embedded(self, ids: Tensor, types: Tensor | None) -> Tensor:
        """The sum of word, type and position embeddings, normalised: (batch, length, width)."""
        names, spec = self.spec.names, self.spec
        x: Tensor = self.get_submodule(names.words)(ids)
        if spec.types:
            kinds: Any = self.get_submodule(names.types)
            x = x + (kinds.weight[0] if types is None else kinds(types))
        if spec.absolute:
            positions: Any = self.get_submodule(names.positions)
            if spec.pad is None:
                x = x + positions.weight[spec.first : spec.first + ids.shape[1]]
            else:
                real = (ids != spec.pad).to(ids.dtype)
                x = x + positions(real.cumsum(1) * real + (spec.first - 1))
        steps = [names.embedding_norm, names.projection][: 1 + self.projects]
        for name in reversed(steps) if spec.project_first else steps:
            x = self.get_submodule(name)(x)
        out: Tensor = self.dropout(x)
        return out

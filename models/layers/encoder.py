"""The encoder skeleton: a bidirectional encoder by a description of its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.blocks import disentangled
from rushlight.models.layers.mlp import MLPNames, MLPSpec, put_mlp, run_mlp
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.positions.distances import RelativeBias, RelativeSpec, alibi_bias
from rushlight.models.layers.positions.rotary import Angles, Rotary, RotarySpec
from rushlight.models.placing.parts import Paths
from rushlight.models.sentence import SentenceEncoder

# MPNet's distances from here on share the last bucket.
_FARTHEST = 128


@dataclass(frozen=True)
class EncoderNames:
    """The checkpoint's names, as paths: of the model, and from `q` to `mlp_norm` of a layer.

    input: of a block in place of the embeddings. embedding_norm: "" for none. projection: from the
    embeddings' width to the layers'. relative: the bias by distance. angles: a table with the sine
    and cosine of each position's angles, which turn pairs that lie side by side; frequencies: of
    such angles, which turn halves of a head. qkv: q, k and v as one matrix; q_bias and v_bias: what
    is added to two of them. gate: of a gated MLP; gate_up: one matrix with the rows of gate, then
    up; up_gate: with those of up first.
    """

    input: str = "embeddings"
    words: str = "embeddings.word_embeddings"
    positions: str = "embeddings.position_embeddings"
    types: str = "embeddings.token_type_embeddings"
    embedding_norm: str = "embeddings.LayerNorm"
    projection: str = "embeddings_project"
    relative: str = "encoder.relative_attention_bias"
    angles: str = ""
    frequencies: str = ""
    layers: str = "encoder.layer"
    q: str = "attention.self.query"
    k: str = "attention.self.key"
    v: str = "attention.self.value"
    qkv: str = ""
    q_bias: str = ""
    v_bias: str = ""
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


class Body(Protocol):
    """What stands in place of the embeddings and the layers, such as layers of several lengths."""

    def put(self, model: nn.Module, spec: EncoderSpec) -> None:
        """Make the modules, on the model itself."""

    def run(
        self, model: Any, ids: Tensor, types: Tensor | None, seen: Tensor | None, **more: Tensor
    ) -> Tensor:
        """(batch, length) -> (batch, length, width); seen (batch, length): false for padding."""

    def texts(
        self, model: Any, ids: Tensor, types: Tensor | None, seen: Tensor | None, **more: Tensor
    ) -> Tensor:
        """The states (batch, places, width) whose first place the head of a text's classes reads.

        model, ids, types and seen are as in `run`; more: as there.
        """


class BlockOf:
    """A class of blocks with its further arguments, which descriptions hold; models are pickled.

    Called with the description, and a layer's number where there is one, it makes the block.
    """

    def __init__(self, kind: Callable[..., nn.Module], *arguments: Any) -> None:
        self.kind, self.arguments = kind, arguments

    def __call__(self, spec: EncoderSpec, *number: int) -> nn.Module:
        """The block of a description."""
        return self.kind(spec, *self.arguments)


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder `width` features wide, for `context` tokens with `types` token types (0: none).

    embedding: the embeddings' width, if it differs; project: they pass a projection even if it does
    not; project_first: without a bias, before their norm. tables: paths and sizes of further tables
    whose first row every token's embedding gets. words_scale: of the words' embeddings. limit: of a
    text's tokens, where it is below the table of positions. plain_pooler: the pooler's projection
    has its name. place: "after" normalises the sum of each residual, "before" the input of each
    part, with a final norm; first_norm: whether the first layer has one before attention. absolute:
    position embeddings; they begin at `first`, and count only tokens other than `pad` if that is
    given. buckets: of a bias by distance. rotary and windows: of each layer; a window w sees less
    than w tokens on each side. order: the names of the layers under names.layers, as they run; a
    name that occurs twice is a shared layer. gated: the MLP is down(act(gate(x)) * up(x)). biases:
    of q, k and v, of the attention's output, of up, of down. scale: of scores, 1/sqrt(head) by
    default. kv_heads and head: of k and v, and a head's features, where they are not `heads` and
    width / heads. by_head: qkv has the rows of a head's q, k and v, then those of the next.
    turn_values: positions turn v, too. conv: the size, groups and activation of a convolution
    beside the first layer. dropout: of each part's output, in training. input, layer: a block in
    place of the embeddings, and of each layer (with its number). widen: ids -> the tokens that see
    all others whatever the window is, (batch, length). body: in place of both; `layers` is 0 then.
    by_length: numbers are made of the length itself, so that an ONNX file has one length.
    type_columns: the kinds of types that each token has, 0 for one.
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
    tables: tuple[tuple[str, int], ...] = ()
    words_scale: float = 1.0
    limit: int | None = None
    absolute: bool = True
    first: int = 0
    pad: int | None = None
    buckets: int = 0
    alibi: bool = False
    disentangled: disentangled.DisentangledSpec | None = None
    scale: float | None = None
    conv: tuple[int, int, str] | None = None
    kv_heads: int = 0
    head: int = 0
    by_head: bool = False
    rotary: tuple[RotarySpec, ...] = ()
    turn_values: bool = False
    windows: tuple[int | None, ...] = ()
    order: tuple[str, ...] = ()
    gated: bool = False
    biases: tuple[bool, bool, bool, bool] = (True, True, True, True)
    dropout: float = 0.0
    names: EncoderNames = EncoderNames()
    input: Callable[[EncoderSpec], nn.Module] | None = None
    layer: Callable[[EncoderSpec, int], nn.Module] | None = None
    widen: Callable[[Tensor], Tensor | None] | None = None
    body: Body | None = None
    by_length: bool = False
    type_columns: int = 0

    def __post_init__(self) -> None:
        if self.heads < 1 or (self.width % self.heads and not self.head):
            raise FormatError(
                f"config.json: hidden_size {self.width} is not a multiple of "
                f"num_attention_heads {self.heads}"
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise FormatError(
                f"config.json: num_attention_heads {self.heads} is not a multiple of "
                f"num_key_value_heads {self.kv_heads}"
            )

    @property
    def head_dim(self) -> int:
        """Features of a head."""
        return self.head or self.width // self.heads

    @property
    def paths(self) -> list[str]:
        """The path of each layer, in the order in which they run."""
        order = self.order or tuple(map(str, range(self.layers)))
        return [f"{self.names.layers}.{name}" for name in order]


@dataclass(frozen=True)
class EncoderContext:
    """What layers share: the padding mask (batch, 1, 1, length), a bias of scores, angles, the
    table of disentangled positions, cosines and sines (1, 1, length, head / 2) of stored angles,
    and which tokens (batch, length) see all others whatever the window is; the segments.
    """

    mask: Tensor | None
    bias: Tensor | None
    angles: Angles
    table: tuple[Tensor, Tensor] | None = None
    turns: tuple[Tensor, Tensor] | None = None
    wide: Tensor | None = None
    types: Tensor | None = None


class EncoderLayer(nn.Module):
    """Self-attention of all positions, and a feed-forward part."""

    def __init__(self, spec: EncoderSpec, first: bool = False) -> None:
        self.spec, names, width = spec, spec.names, spec.width
        qkv, out, up, down = spec.biases
        inside, keys = spec.heads * spec.head_dim, (spec.kv_heads or spec.heads) * spec.head_dim
        if names.qkv:
            put(self, names.qkv, nn.Linear(width, inside + 2 * keys, bias=qkv))
        else:
            for name, features in ((names.q, inside), (names.k, keys), (names.v, keys)):
                put(self, name, nn.Linear(width, features, bias=qkv))
        for name, features in ((names.q_bias, inside), (names.v_bias, keys)):
            if name:
                path, _, last = name.rpartition(".")
                setattr(self.get_submodule(path), last, parameter(features))
        if spec.disentangled is not None:
            disentangled.put_projections(self, width, spec.disentangled)
        put(self, names.out, nn.Linear(inside, width, bias=out))
        self.norm_name = "" if first and not spec.first_norm else names.attention_norm
        if self.norm_name:
            put(self, names.attention_norm, make_norm(width, spec.norm))
        self.mlp_spec = MLPSpec(
            spec.inner,
            spec.activation,
            spec.gated,
            up,
            down_bias=down,
            names=MLPNames(names.gate, names.up, names.down, names.gate_up, names.up_gate),
        )
        self.put_fed(width)
        put(self, names.mlp_norm, make_norm(width, spec.norm))
        self.dropout = nn.Dropout(spec.dropout)

    def put_fed(self, width: int) -> None:
        """Make the feed-forward part."""
        put_mlp(self, width, self.mlp_spec)

    def fed(self, x: Tensor) -> Tensor:
        """What the feed-forward part makes of (batch, length, width): the same."""
        return run_mlp(self, self.mlp_spec, x)

    def forward(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """(batch, length, width) -> the same; `layer` chooses the window and the angles."""
        names, before = self.spec.names, self.spec.place == "before"
        if before:
            y = self._called(self.norm_name, x) if self.norm_name else x
            x = x + self.dropout(self._attention(y, context, layer))
            out: Tensor = x + self.dropout(self.fed(self._called(names.mlp_norm, x)))
            return out
        y = self.dropout(self._attention(x, context, layer))
        x = self._called(self.norm_name, y + x)
        return self._called(names.mlp_norm, self.dropout(self.fed(x)) + x)

    def _attention(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        spec, (batch, length, _) = self.spec, x.shape
        q, k, v = self._parts(x)
        turns = context.angles[spec.rotary[layer]] if spec.rotary else context.turns
        if turns is not None:
            aside = spec.rotary[layer].interleaved if spec.rotary else bool(spec.names.angles)
            q, k = (ops.rope(y, *turns, interleaved=aside) for y in (q, k))
            v = ops.rope(v, *turns, interleaved=aside) if spec.turn_values else v
        y = self.mixed(q, k, v, context, layer)
        return self._called(spec.names.out, y.transpose(1, 2).reshape(batch, length, -1))

    def _parts(self, x: Tensor) -> list[Tensor]:
        """q, k and v: (batch, length, width) -> (batch, heads, length, head)."""
        spec, names, (batch, length, _) = self.spec, self.spec.names, x.shape
        if names.qkv and spec.by_head:
            both = self._called(names.qkv, x).reshape(batch, length, spec.heads, -1)
            parts = both.chunk(3, -1)
        elif names.qkv:
            parts = self._called(names.qkv, x).chunk(3, -1)
        else:
            parts = tuple(self._called(name, x) for name in (names.q, names.k, names.v))
        biased = []
        for y, name in zip(parts, (names.q_bias, "", names.v_bias), strict=True):
            heads = y.reshape(batch, length, -1, spec.head_dim)
            if name:
                path, _, last = name.rpartition(".")
                added: Tensor = getattr(self.get_submodule(path), last)
                heads = heads + added.reshape(-1, spec.head_dim)
            biased.append(heads.transpose(1, 2))
        return biased

    def mixed(self, q: Tensor, k: Tensor, v: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """What attention makes of (batch, heads, length, head): the same shape as q.

        q, k and v are turned by their positions; `context` has the mask, `layer` the window.
        """
        spec, names, bias = self.spec, self.spec.names, context.bias
        window = spec.windows[layer] if spec.windows else None
        if spec.disentangled is not None and context.table is not None:
            content = {"c2p": (names.k, q), "p2c": (names.q, k)}
            bias = disentangled.position_scores(self, spec.disentangled, content, context.table)
            bias = bias if bias is None or spec.scale is None else bias * spec.scale
        return ops.attention(q, k, v, mask=context.mask, bias=bias, window=window, scale=spec.scale)

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
        self.context_length, self.width = min(spec.limit or spec.context, spec.context), width
        inside = spec.embedding or width
        self.projects = spec.input is None and (spec.project or inside != width)
        if spec.body is not None:
            spec.body.put(self, spec)
        elif spec.input is not None:
            put(self, names.input, spec.input(spec))
        else:
            self._put_embeddings(inside)
        if names.angles:
            put(self, names.angles, nn.Embedding(spec.context, spec.head_dim))
        if names.frequencies:
            path, _, last = names.frequencies.rpartition(".")
            put(self, path, nn.Module())
            setattr(self.get_submodule(path), last, parameter(spec.head_dim // 2))
        if spec.buckets:
            relative = RelativeSpec(spec.buckets, _FARTHEST)
            put(self, names.relative, RelativeBias(relative, spec.heads, both_ways=True))
        if spec.disentangled is not None:
            disentangled.put_table(self, width, spec.disentangled, spec.norm.eps)
        if spec.conv is not None:
            put(self, disentangled.CONV, disentangled.ConvLayer(width, *spec.conv, spec.norm.eps))
        self.rotary = Rotary(dict.fromkeys(spec.rotary))
        for i, path in enumerate(dict.fromkeys(spec.paths)):
            made = EncoderLayer(spec, first=i == 0) if spec.layer is None else spec.layer(spec, i)
            put(self, path, made)
        if spec.place == "before" and names.norm:
            put(self, names.norm, make_norm(width, spec.norm))
        if spec.pooler:
            plain = nn.Linear(width, width)
            put(self, names.pooler, plain if spec.plain_pooler else Pooler(width))
        self.dropout = nn.Dropout(spec.dropout)

    def _put_embeddings(self, inside: int) -> None:
        spec, names, width = self.spec, self.spec.names, self.width
        put(self, names.words, nn.Embedding(spec.vocab, inside))
        if spec.absolute:
            put(self, names.positions, nn.Embedding(spec.first + spec.context, inside))
        if spec.types:
            put(self, names.types, nn.Embedding(spec.types, inside))
        for path, rows in spec.tables:
            put(self, path, nn.Embedding(rows, inside))
        if self.projects:
            put(self, names.projection, nn.Linear(inside, width, bias=not spec.project_first))
        if names.embedding_norm:
            normed = width if spec.project_first else inside
            put(self, names.embedding_norm, make_norm(normed, spec.norm))

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **more: Tensor,
    ) -> Tensor:
        """Hidden states (batch, length, width) of token ids (batch, length).

        attention_mask (batch, length): false or zero for padding. Raises ValueError for a text
        longer than the context.

        `token_type_ids` (batch, length): the segment of each token, 0 unless set. more: what the
        family's embeddings take beside, such as `bbox`; TypeError for a name that they do not take.
        """
        limit, spec = self.context_length, self.spec
        if ids.ndim != 2 or ids.shape[1] > limit:
            kind = self.config.model_type
            raise ValueError(f"{kind}: ids are {ids.shape}; they must be (batch, up to {limit})")
        wide = None if spec.widen is None else more.pop("global_attention_mask", None)
        wide = spec.widen(ids) if wide is None and spec.widen is not None else wide
        seen = None if attention_mask is None else attention_mask != 0
        if spec.body is not None:
            return spec.body.run(self, ids, token_type_ids, seen, **more)
        mask = None if seen is None else seen[:, None, None, :]
        if spec.input is not None:
            x: Tensor = self.get_submodule(spec.names.input)(ids, token_type_ids, seen, **more)
        elif more:
            kind = self.config.model_type
            raise TypeError(f"{kind}: {', '.join(more)} is not an input of its embeddings")
        else:
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
        angles, turns = self.rotary.angles(positions), self._turns(positions)
        context = EncoderContext(mask, bias, angles, rows, turns, wide, token_type_ids)
        real = None if seen is None else seen.unsqueeze(-1).to(x.dtype)
        before = x if real is None or spec.conv is None else x * real
        for i, path in enumerate(spec.paths):
            x = self.get_submodule(path)(x, context, i)
            if i == 0 and spec.conv is not None:
                x = x.to(device=before.device)
                x = self.get_submodule(disentangled.CONV)(before, x, real)
        if self.placement is not None:
            x = x.to(device=self.placement.main)
        if spec.place == "before" and spec.names.norm:
            x = self.get_submodule(spec.names.norm)(x)
        return x

    def parts_in_order(self) -> Paths | None:
        """The layers; all else lies where the embedding is."""
        return Paths((), tuple(dict.fromkeys(self.spec.paths)), (), self.spec.width)

    def _turns(self, positions: Tensor) -> tuple[Tensor, Tensor] | None:
        """Cosines and sines of the angles that the checkpoint stores, if it does."""
        names, length = self.spec.names, positions.shape[1]
        if names.angles:
            table: Any = self.get_submodule(names.angles)
            sin, cos = table.weight[:length].reshape(1, 1, length, -1).chunk(2, -1)
            return cos, sin
        if names.frequencies:
            path, _, last = names.frequencies.rpartition(".")
            stored: Tensor = getattr(self.get_submodule(path), last)
            angles = positions.reshape(1, 1, length, 1).float() * stored.float()
            return angles.cos(), angles.sin()
        return None

    def _embedded(self, ids: Tensor, types: Tensor | None) -> Tensor:
        """The sum of word, type and position embeddings, normalised: (batch, length, width)."""
        names, spec = self.spec.names, self.spec
        x: Tensor = self.get_submodule(names.words)(ids)
        x = x if spec.words_scale == 1 else x * spec.words_scale
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
        for path, _ in spec.tables:
            table: Any = self.get_submodule(path)
            x = x + table.weight[0]
        steps = [names.embedding_norm, names.projection][: 1 + self.projects]
        for name in reversed(steps) if spec.project_first else steps:
            x = self.get_submodule(name)(x) if name else x
        out: Tensor = self.dropout(x)
        return out

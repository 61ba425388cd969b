"""Multi-head attention and the encoder-decoder of Vaswani et al. (2017), as torch has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from rushlight.core.basis.dtype import bool_
from rushlight.core.functional.network.attention import multi_head_attention_forward
from rushlight.core.nn import init
from rushlight.core.nn.containers import ModuleList
from rushlight.core.nn.layers.basic import Dropout
from rushlight.core.nn.linear import Linear
from rushlight.core.nn.module import Kind, Module, Place
from rushlight.core.nn.norm import LayerNorm
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.creation import full
from rushlight.core.ops.unary import gelu, relu
from rushlight.core.tensor.grad_mode import mode, needs_gradient
from rushlight.core.tensor.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]


class NonDynamicallyQuantizableLinear(Linear):
    """The last projection of attention: a Linear whose bias begins with zeros."""

    def reset_parameters(self) -> None:
        """A Linear's uniform weights; a bias of zeros."""
        super().reset_parameters()
        if self.bias is not None:
            init.zeros_(self.bias)


class MultiheadAttention(Module):
    """Attention with projections of queries, keys and values to `num_heads` heads.

    Masks: bool (True is hidden, as in torch) or added numbers. Inputs (length, n, features), with
    batch_first (n, length, features), or (length, features).

    `embed_dim` features of queries and outputs; `kdim` and `vdim` those of keys and values, the
    same unless set. `dropout` of weights in training. `bias` of the projections; `add_bias_kv`
    appends a learned key and value, `add_zero_attn` a zero one (Vaswani et al., 2017). `device`
    and `dtype` are those of the parameters. Raises ValueError for heads that do not divide
    embed_dim.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: {num_heads} heads do not divide embed_dim {embed_dim}"
            )
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
        self.head_dim = embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        same = self.kdim == self.vdim == embed_dim
        self.in_proj_weight = parameter(3 * embed_dim, embed_dim) if same else None
        self.q_proj_weight = None if same else parameter(embed_dim, embed_dim)
        self.k_proj_weight = None if same else parameter(embed_dim, self.kdim)
        self.v_proj_weight = None if same else parameter(embed_dim, self.vdim)
        self.in_proj_bias = parameter(3 * embed_dim) if bias else None
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        self.bias_k = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter(1, 1, embed_dim) if add_bias_kv else None
        self._fill(device, dtype)

    def reset_parameters(self) -> None:
        """Glorot's uniform numbers; biases zero, the added keys and values normal."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    _reset_parameters = reset_parameters  # torch's name

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(output, weights): (n, queries, keys), per head unless averaged, or None.

        `query`, `key` and `value` are as above. `key_padding_mask` (n, keys) hides keys,
        `attn_mask` (queries, keys) or (n * heads, queries, keys) pairs; `is_causal` says
        that it hides what comes later. `need_weights`: whether they are returned;
        `average_attn_weights`: as the mean of the heads. Raises ValueError for shapes that
        do not fit.
        """
        lead = self.batch_first and query.ndim == 3
        q, k, v = (x.transpose(0, 1) if lead else x for x in (query, key, value))
        out, seen = multi_head_attention_forward(
            q,
            k,
            v,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            self.in_proj_weight is None,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return out.transpose(0, 1) if lead else out, seen


def _activation(name: str, given: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu"):
        raise ValueError(
            f'{name}: activation is {given!r}; it must be "relu", "gelu" or a function'
        )
    return relu if given == "relu" else gelu


class _Layer(Module):
    """What an encoder's and a decoder's layer share: the feed-forward part, and where norms are."""

    def _build(
        self,
        d_model: int,
        dim_feedforward: int,
        p: float,
        activation: Activation,
        eps: float,
        norm_first: bool,
        bias: bool,
        norms: int,
        device: Place,
        dtype: Kind,
    ) -> None:
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(p)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        for i in range(1, norms + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, eps, True, bias, device, dtype))
        for i in range(1, norms + 1):
            setattr(self, f"dropout{i}", Dropout(p))
        self.activation = _activation(type(self).__name__, activation)

    def _around(self, number: int, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        norm, drop = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        out: Tensor
        out = x + drop(part(norm(x))) if self.norm_first else norm(x + drop(part(x)))
        return out

    def _forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return out


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward part, each with a residual and a norm.

    `d_model` features, `nhead` heads, `dim_feedforward` features between. `dropout` in
    training. `activation`: "relu", "gelu" or a function. `layer_norm_eps` of the norms.
    `batch_first`: (n, length, d_model). `norm_first`: norms before the parts. `bias`: whether
    layers have one (Vaswani et al., 2017). `device` and `dtype` are those of the parameters.
    Raises ValueError for heads that do not divide d_model, and for another activation.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self._build(
            d_model,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            norm_first,
            bias,
            2,
            device,
            dtype,
        )

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """(length, n, d_model) -> the same; batch_first (n, length, d_model).

        `src` is the sequence; `src_mask` (length, length) and `src_key_padding_mask` (n,
        length) hide positions; `is_causal` says that src_mask hides what comes later.
        Raises ValueError for masks that do not fit.
        """

        def attend(x: Tensor) -> Tensor:
            out: Tensor = self.self_attn(
                x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal
            )[0]
            return out

        return self._around(2, self._around(1, src, attend), self._forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward part.

    `d_model` features, `nhead` heads, `dim_feedforward` features between. `dropout` in
    training. `activation`: "relu", "gelu" or a function. `layer_norm_eps` of the norms.
    `batch_first`: (n, length, d_model). `norm_first`: norms before the parts. `bias`: whether
    layers have one (Vaswani et al., 2017). `device` and `dtype` are those of the parameters.
    Raises ValueError for heads that do not divide d_model, and for another activation.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self._build(
            d_model,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            norm_first,
            bias,
            3,
            device,
            dtype,
        )

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(length, n, d_model) and the encoder's output -> (length, n, d_model).

        `tgt` is the sequence, `memory` the encoder's output. `tgt_mask` and
        `tgt_key_padding_mask` hide positions of the one, `memory_mask` and
        `memory_key_padding_mask` of the other; `tgt_is_causal` and `memory_is_causal` say
        that the masks hide what comes later. Raises ValueError for masks that do not fit.
        """

        def attend(x: Tensor) -> Tensor:
            out: Tensor = self.self_attn(
                x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal
            )[0]
            return out

        def look(x: Tensor) -> Tensor:
            out: Tensor = self.multihead_attn(
                x,
                memory,
                memory,
                memory_key_padding_mask,
                False,
                memory_mask,
                is_causal=memory_is_causal,
            )[0]
            return out

        return self._around(3, self._around(2, self._around(1, tgt, attend), look), self._forward)


class _Stack(Module):
    def __init__(self, layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self.layers = ModuleList([deepcopy(layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def _through(self, x: Tensor, *given: Any, hidden: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, *given)
        if hidden is not None:
            x = x.masked_fill(hidden[..., None], 0.0)
        return x if self.norm is None else self.norm(x)


def _packs(layer: Module) -> bool:
    """Whether torch's fast path serves a layer."""
    if not isinstance(layer, TransformerEncoderLayer) or layer.norm_first:
        return False
    attn, act = layer.self_attn, layer.activation
    return bool(
        attn.batch_first
        and attn.in_proj_weight is not None
        and attn.in_proj_bias is not None
        and getattr(act, "__name__", type(act).__name__) in ("relu", "gelu", "ReLU", "GELU")
        and len({getattr(layer, name).eps for name in ("norm1", "norm2")}) == 1
        and attn.num_heads % 2 == 0
    )


class TransformerEncoder(_Stack):
    """Copies of an encoder layer, one after another.

    `encoder_layer` is copied `num_layers` times, `norm` comes last. A call raises ValueError for
    masks that do not fit. Where torch packs sequences without their padding, the last layer gives
    zeros at the padding: in evaluation, for src_key_padding_mask alone, of layers that torch's fast
    path serves and that take no gradient. enable_nested_tensor=False keeps what the layers give
    there. mask_check: whether that is so only for padding at the ends.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = enable_nested_tensor and _packs(encoder_layer)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """(length, n, d_model) -> the same.

        `src` is the sequence; `mask` (length, length) and `src_key_padding_mask` (n,
        length) hide positions; `is_causal` says that the mask hides what comes later.
        Raises ValueError for masks that do not fit.
        """
        hidden = src_key_padding_mask
        if hidden is not None and mask is None and self._packed(src):
            hidden = hidden if hidden.dtype is bool_ else hidden == -math.inf
            if self.mask_check:
                hidden = hidden & ~(hidden[:, :-1] & ~hidden[:, 1:]).any()
        else:
            hidden = None
        return self._through(src, mask, src_key_padding_mask, bool(is_causal), hidden=hidden)

    def _packed(self, src: Tensor) -> bool:
        """Whether torch would leave the padding out."""
        first = self.layers[0]
        if not self.use_nested_tensor or first.training or src.ndim != 3 or mode.dtypes:
            return False
        return not needs_gradient(src, *first.parameters())


class TransformerDecoder(_Stack):
    """Copies of a decoder layer, one after another.

    `decoder_layer` is copied `num_layers` times, `norm` comes last. A call raises ValueError
    for masks that do not fit.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(length, n, d_model) and the encoder's output -> (length, n, d_model).

        `tgt` is the sequence, `memory` the encoder's output. `tgt_mask` and
        `tgt_key_padding_mask` hide positions of the one, `memory_mask` and
        `memory_key_padding_mask` of the other; `tgt_is_causal` and `memory_is_causal` say
        that the masks hide what comes later. Raises ValueError for masks that do not fit.
        """
        return self._through(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            bool(tgt_is_causal),
            memory_is_causal,
        )


class Transformer(Module):
    """An encoder and a decoder of equal layers.

    `d_model` features, `nhead` heads, `num_encoder_layers` and `num_decoder_layers` layers,
    `dim_feedforward` features between. `dropout` in training. `activation`: "relu", "gelu" or a
    function. `custom_encoder` and `custom_decoder` take the places of these. `layer_norm_eps`
    of the norms. `batch_first`: (n, length, d_model). `norm_first`: norms before the parts.
    `bias`: whether layers have one (Vaswani et al., 2017). `device` and `dtype` are those of
    the parameters. Raises ValueError for heads that do not divide d_model, and for another
    activation.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        rest = (dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
                device, dtype)  # fmt: skip
        self.encoder: Any = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(d_model, nhead, *rest),
            num_encoder_layers,
            LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype),
        )
        self.decoder: Any = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(d_model, nhead, *rest),
            num_decoder_layers,
            LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype),
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._settle()

    def _settle(self) -> None:
        """Glorot's uniform numbers for every matrix, whose layers have set their vectors."""
        for p in self.parameters():
            if p.ndim > 1 and p.device.type != "meta":
                init.xavier_uniform_(p)

    _reset_parameters = _settle  # torch's name

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Source and target (length, n, d_model) -> the decoder's output.

        `src` and `tgt` are the sequences. `src_mask`, `tgt_mask` and `memory_mask` hide
        pairs of positions, `src_key_padding_mask`, `tgt_key_padding_mask` and
        `memory_key_padding_mask` positions; `src_is_causal`, `tgt_is_causal` and
        `memory_is_causal` say that the masks hide what comes later. Raises ValueError for
        masks that do not fit.
        """
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        out: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )
        return out

    @staticmethod
    def generate_square_subsequent_mask(sz: int, **options: Any) -> Tensor:
        """(sz, sz) numbers: -inf above the diagonal, 0 elsewhere."""
        return full((sz, sz), -math.inf, **options).triu(1)

"""The modules of a sentence-transformers folder that follow the encoder, by its modules.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.functional.reductions import normalize
from rushlight.core.io import load
from rushlight.core.io.weights.source import BytesSource
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import DEEPEST, check_keys, choose, parse_object

# The poolings by the keys of older files, in the order of joined ones, and newer names of some.
POOLINGS = (
    "cls_token",
    "max_tokens",
    "mean_tokens",
    "mean_sqrt_len_tokens",
    "weightedmean_tokens",
    "lasttoken",
)
NEWER = {
    "mean": "mean_tokens",
    "cls": "cls_token",
    "max": "max_tokens",
    "weightedmean": "weightedmean_tokens",
}
FIRST = ("Transformer", "MLMTransformer", "StaticEmbedding")
SUPPORTED = (
    *FIRST,
    "Pooling",
    "SpladePooling",
    "Dense",
    "LayerNorm",
    "Normalize",
    "Dropout",
    "MultiVectorMask",
)
TOKENS = "token_embeddings"
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Identity": lambda x: x,
    "Tanh": ops.tanh,
    "ReLU": ops.relu,
    "GELU": ops.gelu,
    "SiLU": ops.silu,
    "Sigmoid": ops.sigmoid,
}
_LARGEST = 1 << 20


class Dense(nn.Module):
    """act(linear(x)), plus x, or a projection of it, if `residual`."""

    @nn.layers_on("meta")
    def __init__(self, inside: int, outside: int, bias: bool, act: str, residual: bool) -> None:
        self.linear = nn.Linear(inside, outside, bias=bias)
        self.act, self.adds = ACTIVATIONS[act], residual
        if residual and inside != outside:
            self.residual = nn.Linear(inside, outside, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        out = self.act(self.linear(x))
        if not self.adds:
            return out
        return out + (self.residual(x) if hasattr(self, "residual") else x)


class LayerNorm(nn.Module):
    """A layer norm of the vectors."""

    @nn.layers_on("meta")
    def __init__(self, dim: int) -> None:
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> the same."""
        out: Tensor = self.norm(x)
        return out


class Normalize(nn.Module):
    """Vectors scaled to length one."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> the same."""
        return normalize(x, dim=-1)


class Steps(nn.Module):
    """Modules in turn, by their folders' names; saved into those folders."""

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}  # of modules with weights, by their names

    def add(self, module: nn.Module, folder: str) -> None:
        """Append a module."""
        name = f"step{len(self.listed())}"
        self.register_module(name, module)
        if any(True for _ in module.parameters()):
            self.folders[name] = folder

    def listed(self) -> list[nn.Module]:
        """The modules in order."""
        return [v for v in vars(self).values() if isinstance(v, nn.Module)]

    def forward(self, x: Tensor) -> Tensor:
        """The vectors that the last module gives."""
        for step in self.listed():
            x = step(x)
        return x


class Modules:
    """What modules.json says: the poolings, the steps of tokens' vectors and of texts' vectors.

    poolings: () if there is no pooling: texts have a vector for each token. splade: of the masked
    words' scores, (strategy, number of logarithms). normalize: whether the last step of texts does,
    which is left to the caller. width: of the vectors. files: the modules' small files.
    """

    def __init__(self, files: Mapping[str, bytes], width: int) -> None:
        self.poolings: tuple[str, ...] = ()
        self.include_prompt, self.normalize, self.normalize_tokens = True, False, False
        self.splade: tuple[str, int] | None = None
        self.tokens, self.texts, self.width = Steps(), Steps(), width
        self.files: dict[str, bytes] = {}
        listed = read_list(files)
        for i, module in enumerate(listed):
            kind = str(module.get("type", "")).rpartition(".")[2]
            if kind not in SUPPORTED or (kind in FIRST) != (i == 0):
                raise FormatError(
                    f"modules.json: module {i}, {kind!r}, is not supported there; supported: "
                    f"{', '.join(FIRST)} first, then {', '.join(SUPPORTED[len(FIRST) :])}"
                )
            if kind == "StaticEmbedding":
                self.poolings = ("mean_tokens",)
            if i:
                self._read(kind, str(module.get("path") or ""), files, i == len(listed) - 1)
        if not (self.poolings or self.splade or self.normalize_tokens or self.tokens.listed()):
            self.poolings = ("mean_tokens",)

    def _read(self, kind: str, path: str, files: Mapping[str, bytes], last: bool) -> None:
        name = f"{path}/config.json"
        c: dict[str, Any] = {}
        if name in files:
            self.files[name] = files[name]
            c = parse_object(name, files[name])
        tokens = c.get("module_input_name") == TOKENS
        if c.get("module_output_name") not in (None, c.get("module_input_name")):
            raise FormatError(
                f"{name}: module_output_name {brief(c['module_output_name'])} differs"
            )
        steps = self.tokens if tokens else self.texts
        if kind == "Pooling":
            self.poolings = poolings_of(c)
            self.include_prompt = c.get("include_prompt", True) is not False
            self.width *= len(self.poolings)
        elif kind == "SpladePooling":
            choose("pooling_strategy", c.get("pooling_strategy", "max"), ("max", "sum"))
            act = c.get("activation_function", "relu")
            choose("activation_function", act, ("relu", "log1p_relu"))
            self.splade = (c.get("pooling_strategy", "max"), 1 + (act == "log1p_relu"))
        elif kind == "Normalize":
            if last and not tokens:
                self.normalize = True
            else:
                steps.add(Normalize(), path)
        elif kind == "MultiVectorMask":
            self.normalize_tokens = True
        elif kind in ("Dense", "LayerNorm"):
            # PyLate's vectors are of tokens, and its files do not say so.
            steps = self.tokens if not (self.poolings or self.splade) else steps
            steps.add(self._weighted(kind, c, path, files), path)

    @property
    def weights(self) -> dict[str, nn.Module]:
        """The modules with weights by their folders."""
        return {
            folder: steps.get_submodule(name)
            for steps in (self.tokens, self.texts)
            for name, folder in steps.folders.items()
        }

    def _weighted(
        self, kind: str, c: dict[str, Any], path: str, files: Mapping[str, bytes]
    ) -> nn.Module:
        name = f"{path}/config.json"
        keys = ("in_features", "out_features") if kind == "Dense" else ("dimension",) * 2
        inside, outside = (c.get(key) for key in keys)
        if inside != self.width or not isinstance(outside, int) or not 0 < outside <= _LARGEST:
            raise FormatError(
                f"{name}: {keys[0]} {brief(inside)} and {keys[1]} {brief(outside)} do not fit "
                f"vectors of {self.width}"
            )
        self.width = outside
        module: nn.Module
        if kind == "Dense":
            check_keys(
                name,
                c,
                {
                    "in_features": ("int", ()),
                    "out_features": ("int", ()),
                    "bias": ("bool", ()),
                    "activation_function": ("str", ()),
                    "use_residual": ("bool", ()),
                    "module_input_name": ("str", ()),
                    "module_output_name": ("str", ()),
                },
            )
            act = str(c.get("activation_function", "torch.nn.modules.activation.Tanh"))
            act = act.rpartition(".")[2]
            choose("activation_function", act, tuple(ACTIVATIONS))
            module = Dense(
                inside,
                outside,
                c.get("bias", True) is not False,
                act,
                c.get("use_residual") is True,
            )
        else:
            module = LayerNorm(outside)
        for stored in ("model.safetensors", "pytorch_model.bin"):
            if (place := f"{path}/{stored}") in files:
                source = BytesSource(bytearray(files[place]), place)
                module.load_state_dict(load(source), assign=True)
                return module
        raise FormatError(f"{path} has neither model.safetensors nor pytorch_model.bin")


def read_list(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """The modules of modules.json."""
    listed = parse_json(files["modules.json"], "modules.json", depth=DEEPEST)
    if not isinstance(listed, list) or not all(isinstance(m, dict) for m in listed):
        raise FormatError("modules.json is not a list of objects")
    return listed


def poolings_of(c: dict[str, Any]) -> tuple[str, ...]:
    """The poolings of a config.json; without any it is the mean."""
    mode = c.get("pooling_mode")
    named = mode if isinstance(mode, list) else [mode] if mode is not None else []
    poolings = [NEWER.get(str(name), str(name)) for name in named]
    if mode is None:
        on = [
            n.removeprefix("pooling_mode_")
            for n, v in c.items()
            if n.startswith("pooling_mode_") and v
        ]
        poolings = [p for p in POOLINGS if p in on] + [p for p in on if p not in POOLINGS]
    for pooling in poolings:
        choose("pooling_mode", pooling, POOLINGS)
    return tuple(poolings) or ("mean_tokens",)


def pooled(hidden: Tensor, mask: Tensor, poolings: tuple[str, ...], skip: int) -> Tensor:
    """(batch, length, width) -> (batch, width * poolings), over the places of the mask without the
    first `skip`.
    """
    seen = mask
    places = ops.arange(mask.shape[1], device=mask.device)
    if skip:
        seen = mask & (places >= skip)
    weight = seen.to(hidden.dtype)
    # One more than the place of each token; sums of them are exact in float32.
    ordinals = (places + 1).to(hidden.dtype)
    vectors = []
    for pooling in poolings:
        if pooling == "cls_token" and not skip:
            vectors.append(hidden[:, 0])
            continue
        if pooling == "max_tokens":
            vectors.append(
                hidden.masked_fill(seen.logical_not().unsqueeze(-1), -float("inf")).amax(1)
            )
            continue
        shares = weight
        if pooling == "weightedmean_tokens":
            shares = weight * ordinals
        elif pooling in ("lasttoken", "cls_token"):
            edge = (weight * ordinals).amax(1, True) if pooling == "lasttoken" else float(skip + 1)
            shares = (ordinals == edge).to(hidden.dtype) * weight
        total = shares.sum(1, keepdim=True).clamp(min=1e-9)
        root = pooling == "mean_sqrt_len_tokens"
        vectors.append((hidden * shares.unsqueeze(-1)).sum(1) / (total.sqrt() if root else total))
    return vectors[0] if len(vectors) == 1 else ops.cat(vectors, -1)


def expanded(scores: Tensor, mask: Tensor, splade: tuple[str, int]) -> Tensor:
    """SPLADE's weights of words (Formal et al., 2021): log(1 + relu(scores)), pooled.

    (batch, length, vocab) -> (batch, vocab).
    """
    strategy, logs = splade
    # The largest score is that of the largest logarithm.
    hidden = scores.masked_fill(mask.logical_not().unsqueeze(-1), 0.0).relu()
    if strategy == "max":
        hidden = hidden.amax(1)
    for _ in range(logs):
        hidden = hidden.log1p()
    return hidden.sum(1) if strategy == "sum" else hidden

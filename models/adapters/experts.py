"""Adapters of experts: PEFT's of single experts or of stacked parameters, as a stack's own.

PEFT has an adapter for each expert's layer, or with `target_parameters` one for a parameter of
three dimensions, in whose factors the experts' ranks lie side by side. Here each matrix of all
experts is a layer (`ExpertStack`). The stacks of gate and up, which PEFT may have as one parameter,
share A.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import LoadError
from rushlight.core.functional.joining import stack
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.config import LoraConfig
from rushlight.models.adapters.record import PREFIX, Added
from rushlight.models.families import families, family_of
from rushlight.models.layers.mlp import Experts, ExpertStack, FlatStack
from rushlight.models.parts import Split

# A factor of an adapter on parameters: PEFT nests the adapters of one module in `base_layer`.
_ON_PARAMETER = re.compile(
    r"(?P<path>.+?\.(?:experts|block_sparse_moe|mlp|feed_forward))(?P<inner>(?:\.base_layer)*)\."
    r"(?P<factor>lora_[AB])(?:\.default)?\.weight"
)
_ON_EXPERT = re.compile(
    r"(?P<before>.+\.)(?P<number>\d{1,6})\.(?P<name>\w+)\."
    r"(?P<factor>lora_[AB])(?:\.default)?\.weight"
)
_ORDER = ("down_proj", "up_proj", "gate_up_proj")  # from the outermost of PEFT's adapters
_LAYER = re.compile(r"(?:.*\.)?\d+\.")


def _experts(model: nn.Module) -> Iterator[tuple[str, Experts]]:
    for path, module in model.named_modules():
        if isinstance(module, Experts):
            yield path, module


def _in_experts(owner: str, path: str, module: Experts) -> bool:
    """Whether a path of the reference, or its end, is that of the experts of a module here.

    The module that holds them may have another name: the reference has `mlp` where checkpoints have
    `block_sparse_moe`.
    """
    inside = module.spec.names.experts or "experts"
    layer, _, _ = path.rpartition(".")
    ends = {f"{path}.{inside}", f"{layer}.mlp.experts", f"{path}.experts", path}
    return any(end == owner or end.endswith(f".{owner}") for end in ends)


def _stacks(path: str, module: Experts, name: str) -> list[str]:
    """The stacks of gate and up, of one that is both, or of down, by the reference's name."""
    names = module.spec.names
    stack_names = {
        "gate_up_proj": [names.gate_up] if names.gate_up else [names.gate, names.up],
        "up_proj": [names.up],
        "down_proj": [names.down],
    }.get(name, [])
    inside = [module._path(stack_name) for stack_name in stack_names if stack_name]
    return [f"{path}.{p}" for p in inside if is_stack(_module_at(module, p))]


def _module_at(module: nn.Module, path: str) -> Any:
    try:
        return module.get_submodule(path)
    except AttributeError:
        return None


def parameter_paths(model: nn.Module, config: Any) -> dict[str, str]:
    """The stacks and layers that `target_parameters` means, each with the parameter's path.

    ValueError for a name of none.
    """
    paths: dict[str, str] = {}
    for target in getattr(config, "target_parameters", None) or ():
        owner, _, name = target.rpartition(".")
        meant: dict[str, str] = {}
        for path, module in model.named_modules():
            if isinstance(module, nn.Linear) and name == "weight":
                theirs = _with_mlp(model, path)
                if any(f".{p}".endswith(f".{owner}") for p in (path, theirs)):
                    meant[path] = theirs
            elif isinstance(module, Experts) and _in_experts(owner, path, module):
                layer = path.rpartition(".")[0]
                there = f"{layer}.mlp.experts" if owner.endswith("mlp.experts") else ""
                there = there or f"{path}.{module.spec.names.experts or 'experts'}"
                meant |= dict.fromkeys(_stacks(path, module, name), f"{there}.{name}")
        if not meant:
            raise ValueError(
                f"LoraConfig: target_parameters has {target!r}, which {type(model).__name__} does "
                "not have; name the weight of a linear layer, or experts as transformers has them, "
                "such as mlp.experts.gate_up_proj"
            )
        paths |= meant
    return paths


def as_stacks(
    model: nn.Module, config: LoraConfig, tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """An adapter's tensors with those of experts as stacks have them; and PEFT's path of each.

    Raises LoadError where a tensor does not fit the experts, or one is missing.
    """
    by_name: dict[str, Tensor] = {}
    single: dict[str, dict[int, dict[str, Tensor]]] = {}
    nested: dict[str, dict[int, dict[str, Tensor]]] = {}
    for stored, t in tensors.items():
        key = stored.removeprefix(PREFIX)
        expert, stacked = _ON_EXPERT.fullmatch(key), _ON_PARAMETER.fullmatch(key)
        path = _stack_at(model, expert["before"] + expert["name"]) if expert else ""
        if expert and path:
            numbers = single.setdefault(path, {})
            numbers.setdefault(int(expert["number"]), {})[expert["factor"]] = t
        elif stacked and _owner(model, stacked["path"]):
            depth = stacked["inner"].count(".base_layer")
            nested.setdefault(stacked["path"], {}).setdefault(depth, {})[stacked["factor"]] = t
        else:
            by_name[_in_checkpoint(model, stored)] = t
    theirs: dict[str, str] = {}
    for path, of_experts in single.items():
        theirs[path] = f"{path.rpartition('.')[0]}.0.{path.rpartition('.')[2]}"
        layer: Any = model.get_submodule(path)
        count = layer.weight.shape[0]
        for factor in ("lora_A", "lora_B"):
            rows = [of_experts.get(e, {}).get(factor) for e in range(count)]
            if any(t is None for t in rows) or len({t.shape for t in rows if t is not None}) != 1:
                raise LoadError(
                    f"the adapter's {factor} of {path} must be there for each of {count} experts, "
                    "all of one rank"
                )
            by_name[f"{PREFIX}{path}.{factor}.weight"] = stack([t for t in rows if t is not None])
    for owner, depths in nested.items():
        for stack_path, (parameter, a, b) in _unnested(model, config, owner, depths).items():
            theirs[stack_path] = f"{owner}.{parameter}"
            by_name[f"{PREFIX}{stack_path}.lora_A.weight"] = a
            by_name[f"{PREFIX}{stack_path}.lora_B.weight"] = b
    return by_name, theirs


def _with_mlp(model: nn.Module, path: str) -> str:
    """The path of a module inside of experts as transformers has it, which calls them `mlp`."""
    experts, _, inside = path.rpartition(".")
    layer = experts.rpartition(".")[0]
    return f"{layer}.mlp.{inside}" if isinstance(_module_at(model, experts), Experts) else path


def _in_checkpoint(model: nn.Module, stored: str) -> str:
    """The name of a factor of an adapter, with the name that the model has in place of `mlp`."""
    before, middle, rest = stored.partition(".mlp.")
    layer = before.removeprefix(PREFIX)
    if not middle or _module_at(model, f"{layer}.mlp") is not None:
        return stored
    inside = [p for p, _ in _experts(model) if p.rpartition(".")[0] == layer]
    return f"{PREFIX}{inside[0]}.{rest}" if len(inside) == 1 else stored


def _stack_at(model: nn.Module, path: str) -> str:
    """The path of a stack in the model: as it is, or with the base's prefix; "" for none."""
    for candidate in (path, f"model.{path}", path.removeprefix("model.")):
        if is_stack(_module_at(model, candidate)):
            return candidate
    return ""


def _owner(model: nn.Module, path: str) -> tuple[str, Experts] | None:
    """The module of experts that a path of the reference stands for."""
    layer = _LAYER.match(path)
    fits = [
        (p, m)
        for p, m in _experts(model)
        if _in_experts(path, p, m)
        or (layer and p.startswith(layer[0]) and path.endswith("experts"))
    ]
    return fits[0] if len(fits) == 1 else None


def _unnested(
    model: nn.Module, config: LoraConfig, owner: str, depths: Mapping[int, Mapping[str, Tensor]]
) -> dict[str, tuple[str, Tensor, Tensor]]:
    """(parameter, A, B) of each stack of the experts at `owner`, of which PEFT nests parameters.

    The outermost adapter is of the module's last parameter.
    """
    path_and_module = _owner(model, owner)
    assert path_and_module is not None
    path, module = path_and_module
    targets = [
        name
        for name in _ORDER
        if any(f".{owner}.{name}".endswith(f".{t}") for t in config.target_parameters or ())
        and _stacks(path, module, name)
    ]
    if sorted(depths) != list(range(len(targets))):
        raise LoadError(
            f"the adapter has {len(depths)} parameters of {owner}; its target_parameters name "
            f"{', '.join(targets) or 'none'}"
        )
    layers: dict[str, tuple[str, Tensor, Tensor]] = {}
    for depth, factors in depths.items():
        parameter = targets[depth]
        paths = _stacks(path, module, parameter)
        stacks: list[Any] = [model.get_submodule(p) for p in paths]
        count, rows, inside = stacks[0].weight.shape
        rows *= len(stacks)
        if {"lora_A", "lora_B"} - factors.keys():
            raise LoadError(f"the adapter of {owner}.{parameter} has no lora_A or no lora_B")
        a, b = factors["lora_A"], factors["lora_B"]
        rank = a.shape[0] // count if a.ndim == 2 else 0
        if not rank or a.shape[0] != rank * count or b.ndim != 2 or b.shape[1] != a.shape[0]:
            raise LoadError(
                f"the adapter of {owner}.{parameter}: lora_A {a.shape} and lora_B {b.shape} are "
                f"not of {count} experts"
            )
        # PEFT: A of one expert after the other, B of one rank after the other.
        first = a.reshape(count, rank, a.shape[1])
        second = b.reshape(b.shape[0], rank, count).permute(2, 0, 1)
        if (b.shape[0], a.shape[1]) == (inside, rows) and rows != inside:
            first, second = second.transpose(1, 2), first.transpose(1, 2)
        if (second.shape[1], first.shape[2]) != (rows, inside):
            raise LoadError(
                f"the adapter of {owner}.{parameter}: lora_A {a.shape} and lora_B {b.shape} do not "
                f"fit experts of ({rows}, {inside})"
            )
        first, second = first.contiguous(), second.contiguous()
        each = _split_rows(model, parameter, second, len(stacks))
        for stack_path, part in zip(paths, each, strict=True):
            layers[stack_path] = parameter, first, part
    return layers


def _split_rows(model: Any, parameter: str, b: Tensor, count: int) -> list[Tensor]:
    """B (experts, rows, rank) of gate and up as the family has them: in turn, or in halves."""
    if count == 1:
        return [b]
    inner = b.shape[1] // count
    for lain in (b, b.transpose(1, 2).contiguous()):
        parts = _kind(model, parameter)
        if parts is None:
            break
        pieces = [take(lain) for take in parts.parts.values()]
        if all(piece.shape == (b.shape[0], inner, b.shape[2]) for piece in pieces):
            return [piece.contiguous() for piece in pieces]
    return [b[:, :inner].contiguous(), b[:, inner:].contiguous()]


def _join_rows(model: Any, parameter: str, pieces: list[Tensor]) -> Tensor:
    """Undo `_split_rows`."""
    if len(pieces) == 1:
        return pieces[0]
    kind = _kind(model, parameter)
    rows = ops.cat(pieces, 1) if kind is None else kind.join(*pieces)
    joined: Tensor = rows if rows.shape[1] == 2 * pieces[0].shape[1] else rows.transpose(1, 2)
    return joined


def _kind(model: Any, parameter: str) -> Split | None:
    kind = getattr(getattr(model, "config", None), "model_type", None)
    if not isinstance(kind, str) or kind not in families():
        return None
    parts = family_of(kind, "model_type").parts
    return next((s for end, s in parts.items() if end.endswith(f"experts.{parameter}")), None)


def share_parameters(
    model: nn.Module, added: Added, name: str, parameters: Mapping[str, str]
) -> None:
    """Let the stacks of one parameter have one A, as PEFT has it.

    parameters: the reference's, by the paths of layers of the adapter `name`.
    """
    added.parameters = dict(parameters)
    first: dict[str, Any] = {}
    for path, parameter in added.parameters.items():
        layer: Any = model.get_submodule(path)
        if not is_stack(layer):
            continue
        adapter = layer.attached.named()[name]
        lender = first.setdefault(parameter, adapter)
        if lender is not adapter:
            adapter.lora_A = lender.lora_A


def as_peft(
    model: nn.Module, added: Added, name: str, published: Callable[[Any, str], str]
) -> dict[str, Tensor]:
    """The factors of the experts of an adapter, by PEFT's names.

    published: the path of a module as checkpoints have it.
    """
    state: dict[str, Tensor] = {}
    by_parameter: dict[str, list[Any]] = {}
    for path in added.paths:
        layer: Any = model.get_submodule(path)
        if not is_stack(layer):
            continue
        adapter = layer.attached.named()[name]
        if path in added.parameters:
            by_parameter.setdefault(added.parameters[path], []).append(adapter)
            continue
        before, _, last = published(model, path).rpartition(".")
        for factor in ("lora_A", "lora_B"):
            weight = getattr(adapter, factor).weight.detach()
            for e in range(weight.shape[0]):
                state[f"{PREFIX}{before}.{e}.{last}.{factor}.weight"] = weight[e].contiguous()
    depths: dict[str, int] = {}
    for parameter in sorted(by_parameter, key=lambda p: _ORDER.index(p.rpartition(".")[2])):
        (owner, _, kind), adapters = parameter.rpartition("."), by_parameter[parameter]
        depth = depths[owner] = depths.get(owner, -1) + 1
        a = adapters[0].lora_A.weight.detach()
        b = _join_rows(model, kind, [x.lora_B.weight.detach() for x in adapters])
        b = b.permute(1, 2, 0)
        at = PREFIX + owner + ".base_layer" * depth
        state[f"{at}.lora_A.weight"] = a.reshape(-1, a.shape[2])
        state[f"{at}.lora_B.weight"] = b.reshape(b.shape[0], -1)
    return state


def is_stack(layer: Any) -> bool:
    """Whether a layer holds the matrices of all experts, one for each."""
    return isinstance(layer, ExpertStack) and not isinstance(layer, FlatStack)

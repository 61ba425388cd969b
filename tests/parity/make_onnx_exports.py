"""Tiny networks as PyTorch's two exporters and skl2onnx write them, with their results.

    python tests/parity/make_onnx_exports.py

Needs torch, onnxscript, scikit-learn and skl2onnx. Writes tests/core/onnx/data/exports: a .onnx
file for each network and exporter, and inputs and results of two sizes in one .npz per network.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).parents[1] / "core" / "onnx" / "data" / "exports"


def networks(torch: Any) -> dict[str, tuple[Any, Callable[[int, int], tuple[Any, ...]]]]:
    """Each network, and its inputs for a batch and a length."""
    nn: Any = torch.nn

    class Words(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(31, 12)
            layer = nn.TransformerEncoderLayer(12, 3, 8, batch_first=True, activation="gelu")
            self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
            self.head = nn.Linear(12, 4)

        def forward(self, ids: Any, mask: Any) -> Any:
            hidden = self.body(self.table(ids), src_key_padding_mask=mask == 0)
            weights = mask.unsqueeze(-1).to(hidden.dtype)
            return self.head((hidden * weights).sum(1) / weights.sum(1))

    class Causal(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.joint = nn.Embedding(31, 12), nn.Linear(12, 36)

        def forward(self, ids: Any) -> Any:
            x = self.table(ids)
            q, k, v = self.joint(x).view(*ids.shape, 3, 3, 4).permute(2, 0, 3, 1, 4).unbind(0)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return y.transpose(1, 2).flatten(2) @ self.table.weight.t()

    class Recurrent(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(5, 7, 2, batch_first=True, bidirectional=True)
            self.gru = nn.GRU(14, 6, batch_first=True)

        def forward(self, x: Any) -> Any:
            y, (h, _) = self.lstm(x)
            return self.gru(y)[0], h

    class Image(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Sequential(
                nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.Hardswish(),
                nn.Conv2d(6, 6, 3, 1, 1, groups=6, bias=False), nn.BatchNorm2d(6), nn.SiLU(),
            )  # fmt: skip
            self.up = nn.ConvTranspose2d(6, 4, 2, 2)
            self.norm = nn.GroupNorm(2, 4)

        def forward(self, x: Any) -> Any:
            y = nn.functional.interpolate(self.a(x), scale_factor=2.0, mode="bilinear")
            z = self.norm(self.up(self.a(x)))
            pooled = nn.functional.adaptive_avg_pool2d(y, 1).flatten(1)
            return nn.functional.max_pool2d(z, 3, 2, 1), pooled.softmax(-1)

    class Indexing(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, at: Any) -> Any:
            top, places = x.topk(3, -1)
            rows = x.gather(1, at.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
            turned = torch.cat([x[:, 1:], x[:, :1]], 1).flip(1)
            return top.cumsum(1), places, rows, torch.where(turned > 0, turned, -x)

    class Statistics(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.gain = nn.LayerNorm(6), nn.Parameter(torch.randn(6))

        def forward(self, x: Any) -> Any:
            rms = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.gain
            return (
                self.norm(x) + rms,
                x.amax((1, 2)),
                x.std(1),
                torch.einsum("bij,bkj->bik", x, rms),
            )

    def ids(n: int, length: int) -> Any:
        return torch.randint(0, 31, (n, length))

    def numbers(*shape: int) -> Any:
        return torch.randn(*shape)

    return {
        "words": (Words(), lambda n, t: (ids(n, t), (torch.arange(t) < t - 1).long().expand(n, t))),
        "causal": (Causal(), lambda n, t: (ids(n, t),)),
        "recurrent": (Recurrent(), lambda n, t: (numbers(n, t, 5),)),
        "image": (Image(), lambda n, t: (numbers(n, 3, 8, 4 * t),)),
        "indexing": (Indexing(), lambda n, t: (numbers(n, t, 6), torch.randint(0, t, (n, 2)))),
        "statistics": (Statistics(), lambda n, t: (numbers(n, t, 6),)),
    }


def write_torch() -> None:
    """The networks of PyTorch by both exporters."""
    torch = import_module("torch")
    torch.manual_seed(0)
    for name, (net, inputs) in networks(torch).items():
        net.eval()
        examples = [inputs(2, 5), inputs(3, 7)]
        names = [f"in{i}" for i in range(len(examples[0]))]
        arrays: dict[str, Any] = {}
        for number, example in enumerate(examples):
            with torch.no_grad():
                outs = net(*example)
            outs = outs if isinstance(outs, tuple) else (outs,)
            arrays |= {f"{number}.{n}": x.numpy() for n, x in zip(names, example, strict=True)}
            arrays |= {f"{number}.out{i}": x.numpy() for i, x in enumerate(outs)}
        outputs = [f"out{i}" for i in range(len(outs))]
        last = 3 if name == "image" else 1
        for kind in ("script", "dynamo"):
            path = OUT / f"{name}-{kind}.onnx"
            free: dict[str, Any] = {}
            if kind == "script":
                free = {"dynamic_axes": {n: {0: "n", last: "t"} for n in names}}
                if name == "indexing":
                    free["dynamic_axes"]["in1"] = {0: "n"}
            else:
                n, t = torch.export.Dim("n", min=2, max=9), torch.export.Dim("t", min=4, max=64)
                size = torch.export.Dim("w", min=2, max=32) * 4 if name == "image" else t
                shapes = tuple(
                    {0: n} if (name, i) == ("indexing", 1) else {0: n, last: size}
                    for i in range(len(names))
                )
                free = {"dynamic_shapes": shapes}
            try:
                torch.onnx.export(
                    net, examples[0], str(path), input_names=names, output_names=outputs,
                    dynamo=kind == "dynamo", opset_version=17 if kind == "script" else 20,
                    external_data=False, **free,
                )  # fmt: skip
            except TypeError:  # the older exporter has no external_data
                torch.onnx.export(
                    net, examples[0], str(path), input_names=names, output_names=outputs,
                    dynamo=False, opset_version=17, **free,
                )  # fmt: skip
            strip(path)
        np.savez_compressed(OUT / f"{name}.npz", **arrays)


def strip(path: Path) -> None:
    """Drop what the exporter notes of its own calls, with the paths of this machine."""
    onnx: Any = import_module("onnx")
    model = onnx.load(str(path))
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    graphs = [model.graph, *model.functions]
    while graphs:
        graph = graphs.pop()
        for held in (*getattr(graph, "value_info", ()), *getattr(graph, "initializer", ())):
            del held.metadata_props[:]
        for end in (*graph.input, *graph.output):
            if hasattr(end, "metadata_props"):
                del end.metadata_props[:]
        for node in graph.node:
            del node.metadata_props[:]
            node.doc_string = ""
            graphs += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    path.write_bytes(model.SerializeToString())


def write_sklearn() -> None:
    """Pipelines of scikit-learn by skl2onnx, whose results are onnxruntime's."""
    compose, ensemble = import_module("sklearn.compose"), import_module("sklearn.ensemble")
    linear, pre = import_module("sklearn.linear_model"), import_module("sklearn.preprocessing")
    pipeline, svm = import_module("sklearn.pipeline"), import_module("sklearn.svm")
    skl2onnx = import_module("skl2onnx")
    types = import_module("skl2onnx.common.data_types")
    generator = np.random.default_rng(0)
    x = generator.standard_normal((60, 4)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] ** 2 > 0.5).astype(np.int64) + (x[:, 2] > 1)
    nets = {
        "forest": ensemble.RandomForestClassifier(5, max_depth=4, random_state=0),
        "boosting": ensemble.GradientBoostingRegressor(n_estimators=6, random_state=0),
        "logistic": pipeline.make_pipeline(
            pre.StandardScaler(), pre.PolynomialFeatures(2), linear.LogisticRegression(max_iter=500)
        ),
        "columns": pipeline.make_pipeline(
            compose.ColumnTransformer(
                [("a", pre.MinMaxScaler(), [0, 1]), ("b", pre.Normalizer(), [2, 3])]
            ),
            svm.SVR(),
        ),
    }
    runtime = import_module("onnxruntime")
    for name, net in nets.items():
        net.fit(x, y)
        options = {id(net): {"zipmap": False}} if hasattr(net, "predict_proba") else None
        kinds = [("in0", types.FloatTensorType([None, 4]))]
        made = skl2onnx.to_onnx(net, initial_types=kinds, options=options, target_opset=18)
        content = made.SerializeToString()
        (OUT / f"{name}-sklearn.onnx").write_bytes(content)
        session = runtime.InferenceSession(content)
        arrays: dict[str, Any] = {}
        for number, rows in enumerate((x[:3], x[10:21])):
            arrays[f"{number}.in0"] = rows
            for i, out in enumerate(session.run(None, {"in0": rows})):
                arrays[f"{number}.out{i}"] = out
        np.savez_compressed(OUT / f"{name}.npz", **arrays)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    OUT.mkdir(parents=True, exist_ok=True)
    for wanted, write in (("torch", write_torch), ("sklearn", write_sklearn)):
        if not sys.argv[1:] or wanted in sys.argv[1:]:
            write()

"""Write what torch gives within autocast: dtypes and values by function, a scaler's course.

``python tests/parity/make_amp_goldens.py`` where torch is installed; tests/core/test_amp.py reads
tests/core/data/amp.json. h is bfloat16 or float16, f is float32, d is float64, i holds classes.
"""

import json
from pathlib import Path
from typing import Any

import torch

OUT = Path(__file__).resolve().parents[1] / "core" / "data" / "amp.json"
CASES = """f @ f.T; h @ f.T; d @ d.T; t.mm(f, f.T); t.bmm(f[None], h.T[None]); F.linear(h, f)
F.linear(f, h, f[:, 0]); F.linear(d, d)
t.addmm(f[0, :3], f, h.T); t.baddbmm(f[None, :, :3], f[None], h.T[None])
F.conv1d(f[None], f[:, :, None].transpose(0, 1)[:, :3]); F.conv2d(h[None, None], f[None, None])
F.scaled_dot_product_attention(f[None], h[None], f[None]); F.prelu(f, f[0, :1])
t.einsum("ab,cb->ac", f, h); t.tensordot(f, f.T, 1); t.chain_matmul(f, f.T, f)
F.mse_loss(h, f); F.mse_loss(h, h); F.l1_loss(h, f); F.cross_entropy(h, i); F.nll_loss(h, i)
F.smooth_l1_loss(h, h); F.huber_loss(h, h); F.kl_div(h, h.abs() + 1)
F.binary_cross_entropy_with_logits(h, h.sigmoid()); F.binary_cross_entropy(h.sigmoid(), h.sigmoid())
F.poisson_nll_loss(h, h); F.soft_margin_loss(h, h.sign()); F.hinge_embedding_loss(h, h.sign())
F.cosine_embedding_loss(h, -h, i * 0 + 1); F.margin_ranking_loss(h, h, h); F.multi_margin_loss(h, i)
F.triplet_margin_loss(h, h, h * 2); t.cdist(h, h); t.prod(h); t.trace(h); t.quantile(h, 0.5)
t.cat([h, f]); t.stack([h, f]); t.cat([h, h]); h.softmax(1); F.log_softmax(h, 1); h.exp()
h.log1p(); h.sum(); h.mean(); h.var(); h + f; h * 2; h + d; F.layer_norm(h, (4,)); F.gelu(h)
F.silu(h); F.softplus(h); h.pow(2); 2 ** h; 1 / h; h.norm(); h.cumsum(0); t.logsumexp(h, 1)
h.tanh(); h.rsqrt(); h.softmax(1, dtype=t.float64); i.sum(); i.exp(); F.relu(h); F.dropout(h, 0.0)
h.max(); h.sqrt(); F.group_norm(h[None], 1); F.batch_norm(h, None, None, None, None, True)
t.cosine_similarity(h, h, 1); F.normalize(h); t.linalg.inv(h.T @ h + t.eye(4))
F.embedding(i, f); h.abs() ** 0.5; h.clamp(0); t.where(h > 0, h, f); h.masked_fill(h > 0, 0)"""


def expressions() -> list[str]:
    """The cases."""
    return [c.strip() for c in CASES.replace("\n", ";").split(";") if c.strip()]


def values() -> dict[str, Any]:
    """The operands' numbers."""
    f = [[(7 * r + 3 * c) % 11 / 4 - 1.1 for c in range(4)] for r in range(3)]
    return {"f": f, "i": [1, 0, 2]}


def _functions(name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    base = values()
    f = torch.tensor(base["f"])
    given = {"f": f, "h": f.to(getattr(torch, name)), "d": f.double(), "i": torch.tensor(base["i"])}
    for case in expressions():
        with torch.autocast("cpu", getattr(torch, name)):
            try:
                out = eval(case, {"t": torch, "F": torch.nn.functional, **given})
            except (RuntimeError, NotImplementedError) as error:
                print(name, case, "left out:", str(error)[:80])
                continue
        numbers = [float(f"{v:.7g}") for v in out.double().flatten()]
        found[case] = [str(out.dtype).removeprefix("torch."), numbers]
    return found


def _course() -> list[list[float]]:
    """Scale, a weight and the loss over steps of Adam, with infinite gradients at two of them."""
    weight = torch.nn.Parameter(torch.tensor(values()["f"]))
    optimizer = torch.optim.Adam([weight], lr=0.05)
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=64.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=2
    )
    course = []
    for step in range(9):
        optimizer.zero_grad()
        x = torch.linspace(-1, 1, 8).reshape(2, 4) * (1 + step)
        with torch.autocast("cpu", torch.bfloat16):
            loss = torch.nn.functional.mse_loss(x @ weight.T, torch.ones(2, 3))
        scaler.scale(loss * (float("inf") if step in (3, 4) else 1)).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_([weight], 0.5)
        scaler.step(optimizer)
        scaler.update()
        course.append([scaler.get_scale(), float(loss), *weight.detach().flatten().tolist()])
    return course


if __name__ == "__main__":
    found = {name: _functions(name) for name in ("bfloat16", "float16")}
    OUT.write_text(
        json.dumps(
            {"torch": torch.__version__, **values(), "functions": found, "course": _course()}
        )
        + "\n"
    )

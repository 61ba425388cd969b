"""What test_mpi.py starts with mpirun: a check of every kind; the first process prints JSON.

mpirun -n 2 python program.py CHECK [ARGUMENT...]
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import rushlight as rl
from rushlight import nn

dist: Any = rl.distributed


def collectives(device: str) -> Any:
    """Every collective once: what rank 1 has afterwards."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def own(*values: float, dtype: str = "float32") -> rl.Tensor:
        tensor: rl.Tensor = rl.tensor(values, dtype=getattr(rl, dtype), device=device) + rank
        return tensor

    found: dict[str, Any] = {"rank": rank, "size": size, "backend": dist.get_backend()}
    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"):
        x = own(1.0, 5.0)
        dist.all_reduce(x, getattr(dist.ReduceOp, name))
        found[name] = x.tolist()
    half, whole = own(0.5, dtype="bfloat16"), own(1, dtype="int64")
    dist.all_reduce(half)
    work = dist.all_reduce(whole, async_op=True)
    work.wait()
    found["dtypes"] = [half.dtype.name, half.tolist(), whole.dtype.name, whole.tolist()]
    x = own(3.0)
    dist.broadcast(x, src=1)
    found["broadcast"] = x.tolist()
    x = own(3.0)
    dist.reduce(x, dst=1)
    found["reduce"] = x.tolist()
    rows: Any = [rl.zeros(2, device=device) for _ in range(size)]
    dist.all_gather(rows, own(7.0, 8.0))
    found["all_gather"] = [row.tolist() for row in rows]
    flat = rl.zeros(2 * size, device=device)
    dist.all_gather_into_tensor(flat, own(7.0, 8.0))
    found["all_gather_into_tensor"] = flat.tolist()
    rows = [rl.zeros(1, device=device) for _ in range(size)] if rank == 1 else None
    dist.gather(own(2.0), rows, dst=1)
    found["gather"] = None if rows is None else [row.tolist() for row in rows]
    x = rl.zeros(1, device=device)
    dist.scatter(x, [own(20.0), own(30.0)] if rank == 0 else None, src=0)
    found["scatter"] = x.tolist()
    x = rl.zeros(1, device=device)
    dist.reduce_scatter(x, [own(1.0), own(10.0)])
    found["reduce_scatter"] = x.tolist()
    x = rl.zeros(1, device=device)
    dist.reduce_scatter_tensor(x, own(1.0, 10.0))
    found["reduce_scatter_tensor"] = x.tolist()
    rows = [rl.zeros(1, device=device) for _ in range(size)]
    dist.all_to_all(rows, [own(1.0), own(10.0)])
    found["all_to_all"] = [row.tolist() for row in rows]
    x = rl.zeros(2, device=device)
    dist.all_to_all_single(x, own(1.0, 10.0))
    found["all_to_all_single"] = x.tolist()
    x = own(4.0)
    dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
    found["recv"] = x.tolist()
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    found["all_gather_object"] = objects
    objects = [f"of {rank}", rank]
    dist.broadcast_object_list(objects, 1)
    found["broadcast_object_list"] = objects
    objects = [None]
    dist.scatter_object_list(objects, ["a", "b"] if rank == 0 else None, 0)
    found["scatter_object_list"] = objects
    alone = dist.new_group([1])
    x = own(9.0)
    if rank == 1:
        dist.all_reduce(x, group=alone)
        found["alone"] = [dist.get_world_size(alone), dist.get_rank(alone), x.tolist()]
    else:
        assert alone == dist.GroupMember.NON_GROUP_MEMBER
    dist.barrier()
    errors = []
    calls: tuple[Any, ...] = (
        lambda: dist.broadcast(x, src=9),
        lambda: dist.all_reduce(x, dist.ReduceOp.PREMUL_SUM),
        lambda: dist.init_process_group(),
        lambda: dist.all_gather([x], x),
    )
    for call in calls:
        try:
            call()
        except ValueError as error:
            errors.append(str(error))
    found["errors"] = errors
    return dist_from(found, 1)


def dist_from(value: Any, rank: int) -> Any:
    """The value of a rank, in every process."""
    kept = [value]
    dist.broadcast_object_list(kept, rank)
    return kept[0]


class Branches(nn.Module):
    """Of two layers one is used."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x: rl.Tensor, second: bool = False) -> rl.Tensor:
        """The result of a branch."""
        result: rl.Tensor = self.second(x) if second else self.first(x)
        return result


def data(count: int) -> rl.utils.data.TensorDataset:
    """Samples with three classes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((count, 6)).astype(np.float32)
    return rl.utils.data.TensorDataset(rl.from_numpy(x), rl.from_numpy(x[:, :3].argmax(1)))


def wrapped() -> Any:
    """DistributedDataParallel: the gradients of a step, in small buckets, beside those of one."""
    rank, size = dist.get_rank(), dist.get_world_size()
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    rl.manual_seed(7 + rank)
    for p in model.parameters():
        p.data = rl.randn(*p.shape)
    parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1e-4)
    x, y = (t[:8] for t in data(8).tensors)
    loss = nn.functional.cross_entropy
    with parallel.no_sync():
        loss(parallel(x[rank::size]), y[rank::size]).backward()
    loss(parallel(x[rank::size]), y[rank::size]).backward()
    grads = [p.grad.tolist() for p in model.parameters() if p.grad is not None]
    whole: Any = rl.autograd.grad(2 * loss(model(x), y), list(model.parameters()))
    exact = [grad.tolist() for grad in whole]
    branches: Any = Branches()
    unused = nn.parallel.DistributedDataParallel(branches, find_unused_parameters=True)
    unused(x[rank::size], second=False).sum().backward()
    zero = float(branches.second.weight.grad.abs().max())
    strict = nn.parallel.DistributedDataParallel(Branches())
    strict(x).sum().backward()
    try:
        strict(x)
        refused = ""
    except RuntimeError as error:
        refused = str(error)
    return {"grads": grads, "exact": exact, "unused": zero, "refused": refused}


def trained(path: str, batch: str, epochs: str, resume: str) -> Any:
    """Trainer over all processes: the weights, and the loss that is reported."""
    rl.manual_seed(dist.get_rank() if dist.is_initialized() else 0)  # rank 0's values are taken
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.01)
    strategy = "ddp" if dist.is_initialized() else "auto"
    trainer = rl.Trainer(
        model, optimizer, nn.functional.cross_entropy, progress=False, strategy=strategy,
        clip_norm=0.5,
    )  # fmt: skip
    loader = rl.utils.data.DataLoader(data(48), batch_size=int(batch))
    values = trainer.fit(loader, epochs=int(epochs), resume=resume or None)
    if path:
        trainer.save_checkpoint(path)
    return {"weights": [p.tolist() for p in model.parameters()], "loss": values["loss"]}


def failing() -> Any:
    """A loss of one process is no number."""
    model = nn.Linear(2, 1)
    rows = [(rl.ones(4, 2) * (np.nan if i == 1 else 1), rl.ones(4, 1)) for i in range(4)]
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    trainer = rl.Trainer(model, optimizer, nn.functional.mse_loss, progress=False, strategy="ddp")
    trainer.fit(rows, epochs=1)
    return None


CHECKS: dict[str, Any] = {
    "collectives": collectives,
    "wrapped": wrapped,
    "trained": trained,
    "failing": failing,
}

if __name__ == "__main__":
    check, *arguments = sys.argv[1:]
    if "alone" not in arguments:
        dist.init_process_group("mpi")
    result = CHECKS[check](*(a for a in arguments if a != "alone"))
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(json.dumps(result))

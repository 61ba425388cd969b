"""A program for many processes and a compiler, run by one: gradients scaled, clipped, averaged."""

from contextlib import nullcontext

from seeded import fill, numbers

import rushlight as torch
import rushlight.distributed as dist
import rushlight.nn as nn
from rushlight.cuda.amp import GradScaler, autocast
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.optim.lr_scheduler import _LRScheduler
from rushlight.utils.data.dataloader import DataLoader
from rushlight.utils.data.dataset import TensorDataset
from rushlight.utils.data.distributed import DistributedSampler


class Warmup(_LRScheduler):
    def __init__(self, optimizer, steps, last_epoch=-1):
        self.steps = steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [rate * min(1, (self.last_epoch + 1) / self.steps) for rate in self.base_lrs]


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.value = (
            nn.Linear(width, width),
            nn.utils.weight_norm(nn.Linear(width, width)),
        )
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        mixed = self.gate(x).sigmoid() * self.value(x)
        if mixed.abs().max() > 10:  # a branch that a compiler leaves to Python
            mixed = mixed.clamp(-10, 10)
        return self.head(mixed)


def train(device="cpu", steps=6):
    new = not dist.is_initialized()
    if new:
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29517", rank=0, world_size=1)
    x = torch.from_numpy(numbers(48, 6, seed=3))
    data = TensorDataset(x, x.square().sum(1, keepdim=True))
    sampler = DistributedSampler(data, shuffle=False, drop_last=True)
    loader = DataLoader(data, batch_size=12, sampler=sampler, pin_memory=torch.cuda.is_available())
    model = DistributedDataParallel(torch.compile(fill(Gated(6)).to(device), backend="eager"))
    optimizer = torch.optim.SGD([{"params": model.parameters(), "name": "all"}], lr=0.2)
    schedule, scaler = Warmup(optimizer, 3), GradScaler(enabled=torch.cuda.is_available())
    losses = []
    while len(losses) < steps:
        sampler.set_epoch(len(losses))
        for inputs, targets in loader:
            context = autocast() if torch.cuda.is_available() else nullcontext()
            with context:
                predicted = model(inputs.to(device, non_blocking=True))
                loss = nn.functional.smooth_l1_loss(predicted, targets.to(device))
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean, op=dist.ReduceOp.SUM)
            losses.append((mean / dist.get_world_size()).item())
    if new:
        dist.destroy_process_group()
    return losses[:steps]


if __name__ == "__main__":
    print(train())

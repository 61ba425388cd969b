"""A denoising diffusion model (Ho et al., 2020) of two moons in the plane.

python examples/classic/diffusion.py
Reached 0.101 from a sample to the nearest point of the data, 0.031 the other way.
"""

import math

import rushlight as torch
import rushlight.nn as nn

LEVELS, BATCH, STEPS = 100, 512, 3000


def moons(count):
    angle = math.pi * torch.rand(count)
    upper = torch.rand(count) < 0.5
    x = torch.where(upper, angle.cos(), 1 - angle.cos()) - 0.5
    y = torch.where(upper, angle.sin(), 0.5 - angle.sin()) - 0.25
    return torch.stack([x, y], 1) + 0.05 * torch.randn(count, 2)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.level = nn.Embedding(LEVELS, 32)
        self.net = nn.Sequential(
            nn.Linear(34, 128),
            nn.SiLU(),
            nn.Linear(128, 128),
            nn.SiLU(),
            nn.Linear(128, 128),
            nn.SiLU(),
            nn.Linear(128, 2),
        )

    def forward(self, x, t):
        return self.net(torch.cat([x, self.level(t)], 1))


def main():
    torch.manual_seed(0)
    beta = torch.linspace(1e-3, 0.1, LEVELS)
    signal = (1 - beta).cumprod(0)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    @torch.compile
    def step(x, t, noise):
        optimizer.zero_grad()
        share = signal[t].unsqueeze(1)
        loss = nn.functional.mse_loss(
            model(share.sqrt() * x + (1 - share).sqrt() * noise, t), noise
        )
        loss.backward()
        optimizer.step()
        return loss.detach()

    for number in range(1, STEPS + 1):
        loss = step(moons(BATCH), torch.randint(0, LEVELS, (BATCH,)), torch.randn(BATCH, 2))
        schedule.step()
        if number % 500 == 0:
            print(f"step {number}: loss {loss.item():.3f}", flush=True)
    with torch.no_grad():
        x = torch.randn(1000, 2)
        for t in reversed(range(LEVELS)):
            noise = model(x, torch.full((1000,), t, dtype=torch.int64))
            x = (x - beta[t] / (1 - signal[t]).sqrt() * noise) / (1 - beta[t]).sqrt()
            if t:
                x = x + beta[t].sqrt() * torch.randn(1000, 2)
        data = moons(1000)
        far = torch.cdist(x, data).min(1)[0].mean().item()
        missed = torch.cdist(data, x).min(1)[0].mean().item()
    print(f"reached {far:.3f} from a sample to the data, {missed:.3f} from the data to a sample")


if __name__ == "__main__":
    main()

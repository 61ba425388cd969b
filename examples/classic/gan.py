"""A generative adversarial network (Goodfellow et al., 2014) of eight Gaussians on a circle.

python examples/classic/gan.py
Reached all 8 modes, with 84.8 % of the samples close to one.
"""

import math

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

SPREAD, BATCH, STEPS = 0.05, 256, 3000
ANGLES = torch.arange(8) * (2 * math.pi / 8)
CENTRES = torch.stack([ANGLES.cos(), ANGLES.sin()], 1)


def real(count):
    return CENTRES[torch.randint(0, 8, (count,))] + SPREAD * torch.randn(count, 2)


def network(inputs, outputs):
    return nn.Sequential(
        nn.Linear(inputs, 128),
        nn.LeakyReLU(0.2),
        nn.Linear(128, 128),
        nn.LeakyReLU(0.2),
        nn.Linear(128, outputs),
    )


def main():
    torch.manual_seed(0)
    generator, critic = network(8, 2), network(2, 1)
    of_g = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.5, 0.9))
    of_d = torch.optim.Adam(critic.parameters(), lr=5e-4, betas=(0.5, 0.9))

    @torch.compile
    def step(x, z):
        of_d.zero_grad()
        x = x.requires_grad_(False)
        loss_d = F.softplus(-critic(x)).mean() + F.softplus(critic(generator(z).detach())).mean()
        loss_d.backward()
        of_d.step()
        of_g.zero_grad()
        loss_g = F.softplus(-critic(generator(z))).mean()
        loss_g.backward()
        of_g.step()
        return loss_d.detach(), loss_g.detach()

    for number in range(1, STEPS + 1):
        # Noise on what the critic sees keeps it from being sure (Arjovsky and Bottou, 2017).
        noise = 0.1 * max(0.0, 1 - number / 2000)
        x = real(BATCH) + noise * torch.randn(BATCH, 2)
        losses = step(x, torch.randn(BATCH, 8))
        if number % 500 == 0:
            print(
                f"step {number}: critic {losses[0].item():.3f}, generator {losses[1].item():.3f}",
                flush=True,
            )
    with torch.no_grad():
        samples = generator(torch.randn(2000, 8))
        distance, nearest = torch.cdist(samples, CENTRES).min(1)
        good = distance < 4 * SPREAD
        reached = len(nearest[good].unique())
    print(f"reached {reached} of 8 modes, {good.float().mean().item():.1%} of samples close to one")


if __name__ == "__main__":
    main()

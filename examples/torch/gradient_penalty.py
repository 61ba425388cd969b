"""A Wasserstein GAN whose critic is held by a gradient penalty (Gulrajani et al., 2017)."""

from seeded import fill, numbers

import rushlight as torch
from rushlight import autograd, nn, optim


def mlp(inside, outside, activation):
    return nn.Sequential(
        nn.Linear(inside, 24), activation(), nn.Linear(24, 24), activation(), nn.Linear(24, outside)
    )


def compute_gradient_penalty(D, real_samples, fake_samples, alpha):
    interpolates = (alpha * real_samples + ((1 - alpha) * fake_samples)).requires_grad_(True)
    d_interpolates = D(interpolates)
    gradients = autograd.grad(
        outputs=d_interpolates,
        inputs=interpolates,
        grad_outputs=torch.ones_like(d_interpolates),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def train(device="cpu", steps=4):
    generator = fill(mlp(4, 2, nn.ReLU), 1).to(device)
    critic = fill(mlp(2, 1, nn.Tanh), 2).to(device)
    optimizer_G = optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9), eps=1e-5)
    optimizer_D = optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9), eps=1e-5)
    losses = []
    for step in range(steps):
        real = torch.from_numpy(numbers(16, 2, seed=step)).to(device) * 2 + 1
        z = torch.from_numpy(numbers(16, 4, seed=20 + step)).to(device)
        alpha = torch.from_numpy(numbers(16, 1, seed=60 + step)).to(device).abs()
        optimizer_D.zero_grad()
        fake = generator(z).detach()
        penalty = compute_gradient_penalty(critic, real.data, fake.data, alpha)
        d_loss = -torch.mean(critic(real)) + torch.mean(critic(fake)) + 10 * penalty
        d_loss.backward()
        optimizer_D.step()

        optimizer_G.zero_grad()
        g_loss = -torch.mean(critic(generator(z)))
        g_loss.backward()
        optimizer_G.step()
        losses += [d_loss.item(), g_loss.item()]
    return losses


if __name__ == "__main__":
    print(train())

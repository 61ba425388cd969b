"""A variational autoencoder (Kingma and Welling, 2014)."""

from seeded import fill, numbers

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc21 = nn.Linear(32, 4)
        self.fc22 = nn.Linear(32, 4)
        self.fc3 = nn.Linear(4, 32)
        self.fc4 = nn.Linear(32, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar, eps)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def train(device="cpu", steps=5):
    model = fill(VAE()).to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-3, eps=1e-5)
    images = (torch.from_numpy(numbers(24, 1, 8, 8, seed=30)) > 0.2).float()
    losses = []
    model.train()
    for step in range(steps):
        data = images.roll(step, 0)[:16].to(device)
        eps = torch.as_tensor(numbers(16, 4, seed=step)).to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data, eps)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / len(data))
    return losses


if __name__ == "__main__":
    print(train())

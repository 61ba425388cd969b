"""A variational autoencoder (Kingma and Welling, 2014) of Fashion-MNIST.

python examples/classic/vae.py [FOLDER]
Reached a bound of 249.0 nats a test image after 3 epochs.
"""

import sys

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

FOLDER = "/usr/share/datasets/fashion-mnist"  # of Debian's dataset-fashion-mnist


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(784, 256), nn.Linear(256, 40)
        self.fc3, self.fc4 = nn.Linear(20, 256), nn.Linear(256, 784)

    def forward(self, x):
        mu, logvar = self.fc2(F.relu(self.fc1(x))).chunk(2, 1)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.fc4(F.relu(self.fc3(z))), mu, logvar


def bound(logits, x, mu, logvar):
    # Reconstruction, and the divergence from the prior, in nats an image
    bce = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    return (bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())) / len(x)


def main():
    torch.manual_seed(0)
    folder = sys.argv[1] if len(sys.argv) > 1 else FOLDER
    train, test = (
        torch.datasets.FashionMNIST(folder, train=is_train).data.float().flatten(1) / 255
        for is_train in (True, False)
    )
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        loss = bound(*(lambda out: (out[0], x, out[1], out[2]))(model(x)))
        loss.backward()
        optimizer.step()
        return loss

    for epoch in range(1, 4):
        order = torch.randperm(len(train))
        for i in range(0, len(train) - 127, 128):
            loss = step(train[order[i : i + 128]])
        print(f"epoch {epoch}: {loss.item():.1f}", flush=True)
    model.eval()
    with torch.no_grad():
        logits, mu, logvar = model(test)
        reached = bound(logits, test, mu, logvar).item()
    print(f"reached a bound of {reached:.1f} nats a test image")


if __name__ == "__main__":
    main()

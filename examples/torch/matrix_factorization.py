"""Ratings as products of vectors of users and items, with biases (Koren et al., 2009)."""

from seeded import fill, integers, numbers

import rushlight as torch
import rushlight.nn as nn
from rushlight.utils.data import DataLoader, Dataset


class Ratings(Dataset):
    def __init__(self, users, items, ratings):
        self.users, self.items, self.ratings = users, items, ratings

    def __len__(self):
        return len(self.ratings)

    def __getitem__(self, idx):
        return self.users[idx], self.items[idx], self.ratings[idx]


class MF(nn.Module):
    def __init__(self, num_users, num_items, emb_dim=8):
        super().__init__()
        self.user_emb = nn.Embedding(num_users, emb_dim)
        self.item_emb = nn.Embedding(num_items, emb_dim)
        self.user_bias = nn.Embedding(num_users, 1)
        self.item_bias = nn.Embedding(num_items, 1)
        self.mean = nn.Parameter(torch.tensor([0.0]), False)
        nn.init.uniform_(self.user_emb.weight, 0, 0.05)
        nn.init.uniform_(self.item_emb.weight.data, a=0, b=0.05)

    def forward(self, u, v):
        U, V = self.user_emb(u), self.item_emb(v)
        b_u, b_v = self.user_bias(u).squeeze(), self.item_bias(v).squeeze()
        return (U * V).sum(1) + b_u + b_v + self.mean


def train(device="cpu", steps=6):
    model = fill(MF(20, 15)).to(device)
    data = Ratings(integers(20, 48, seed=3), integers(15, 48, seed=4), numbers(48, seed=5) * 2 + 3)
    loader = DataLoader(data, batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=1e-5)
    losses = []
    while len(losses) < steps:
        for users, items, ratings in loader:
            users, items, ratings = users.to(device), items.to(device), ratings.to(device)
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(users, items), ratings)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().cpu().numpy().item())
    return losses[:steps]


if __name__ == "__main__":
    print(train())

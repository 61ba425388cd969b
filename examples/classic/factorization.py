"""Matrix factorization of ratings (Koren et al., 2009), with row-sparse gradients.

python examples/classic/factorization.py
Reached an error of 0.123 on held-out ratings, whose noise is 0.1 (spread: 1.005).
"""

import rushlight as torch
import rushlight.nn as nn

USERS, ITEMS, RANK, NOISE = 2000, 1000, 4, 0.1


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = (nn.Embedding(n, RANK, sparse=True) for n in (USERS, ITEMS))
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.3)

    def forward(self, user, item):
        return (self.user(user) * self.item(item)).sum(1)


def main():
    torch.manual_seed(0)
    user, item = torch.randint(0, USERS, (100_000,)), torch.randint(0, ITEMS, (100_000,))
    truth = torch.randn(USERS, RANK)[user] * torch.randn(ITEMS, RANK)[item]
    rating = truth.sum(1) / 2 + NOISE * torch.randn(100_000)
    train, test = slice(0, 90_000), slice(90_000, None)
    model = Factors()
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.05)
    for epoch in range(1, 13):
        for rows in torch.randperm(90_000).split(1000):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(user[rows], item[rows]), rating[rows])
            loss.backward()  # of the rows that occur: model.user.weight.grad.is_sparse
            optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.75
        print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    with torch.no_grad():
        error = nn.functional.mse_loss(model(user[test], item[test]), rating[test]).sqrt().item()
    spread = rating[train].std().item()
    print(
        f"reached an error of {error:.3f} on held-out ratings, whose spread is {spread:.3f} and "
        f"whose noise is {NOISE}"
    )


if __name__ == "__main__":
    main()

"""An LSTM learns the adding problem (Hochreiter and Schmidhuber, 1997) over 50 steps.

python examples/classic/adding.py
Reached a mean square error of 0.0010 (always saying 1 has 0.1667).
"""

import rushlight as torch
import rushlight.nn as nn

LENGTH, BATCH, STEPS = 50, 64, 1500


class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 64, batch_first=True)
        self.head = nn.Linear(64, 1)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1]).squeeze(1)


def batch(count):
    """Numbers, marks of two of them, and the sum of those."""
    values, marks = torch.rand(count, LENGTH), torch.zeros(count, LENGTH)
    rows = torch.arange(count)
    marks[rows, torch.randint(0, LENGTH // 2, (count,))] = 1
    marks[rows, torch.randint(LENGTH // 2, LENGTH, (count,))] = 1
    return torch.stack([values, marks], 2), (values * marks).sum(1)


def main():
    torch.manual_seed(0)
    model, loss_of = Adder(), nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)

    @torch.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    for number in range(1, STEPS + 1):
        loss = step(*batch(BATCH))
        if number % 250 == 0:
            print(f"step {number}: loss {loss.item():.4f}", flush=True)
    with torch.no_grad():
        x, y = batch(2000)
        error = loss_of(model(x), y).item()
    print(f"reached a mean square error of {error:.4f}; always saying 1 has 0.1667")


if __name__ == "__main__":
    main()

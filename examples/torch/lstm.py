"""An LSTM that predicts the next value of a wave, its state carried from part to part."""

import numpy as np
from seeded import fill

import rushlight as torch
from rushlight import nn, optim


class Forecaster(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.hidden = hidden
        self.lstm = nn.LSTM(input_size=1, hidden_size=hidden, num_layers=2, batch_first=True)
        self.fc = nn.Linear(hidden, 1)

    def init_state(self, batch, device):
        weight = next(self.parameters())
        return (
            weight.new_zeros(2, batch, self.hidden).to(device),
            torch.zeros(2, batch, self.hidden, device=device),
        )

    def forward(self, x, state):
        out, state = self.lstm(x, state)
        return self.fc(out).squeeze(-1), state


def train(device="cpu", steps=5):
    model = fill(Forecaster()).to(device)
    optimizer = optim.Adam(model.parameters(), lr=0.01, eps=1e-5)
    loss_fn = nn.MSELoss()
    t = np.linspace(0, 12, 101, dtype=np.float64)
    waves = np.stack([np.sin(t + phase) for phase in (0.0, 1.0, 2.0)]).astype(np.float32)
    data = torch.from_numpy(waves).unsqueeze(-1)
    state = model.init_state(3, device)
    losses = []
    for step in range(steps):
        piece = data[:, step * 20 : step * 20 + 21].to(device)
        state = tuple(s.detach() for s in state)
        optimizer.zero_grad()
        predicted, state = model(piece[:, :-1], state)
        loss = loss_fn(predicted, piece[:, 1:, 0])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
        optimizer.step()
        losses.append(float(loss))
    return losses


if __name__ == "__main__":
    print(train())

"""A transformer of encoder and decoder (Vaswani et al., 2017) learns to sort digits.

python examples/classic/sorting.py
Reached 100.0 % of 500 new rows sorted without a mistake.
"""

import rushlight as torch
import rushlight.nn as nn

LENGTH, START, BATCH, STEPS = 8, 10, 128, 1200


class Sorter(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.token, self.place = nn.Embedding(11, width), nn.Embedding(LENGTH, width)
        self.transformer = nn.Transformer(width, 4, 2, 2, 128, 0.0, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, source, target):
        places = self.place(torch.arange(LENGTH))
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        out = self.transformer(
            self.token(source) + places,
            self.token(target) + places[: target.shape[1]],
            tgt_mask=mask,
        )
        return self.head(out)


def main():
    torch.manual_seed(0)
    model = Sorter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=STEPS)

    @torch.compile
    def step(source, target):
        optimizer.zero_grad()
        begun = torch.cat([target[:, :1] * 0 + START, target[:, :-1]], 1)
        logits = model(source, begun)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    for number in range(1, STEPS + 1):
        source = torch.randint(0, 10, (BATCH, LENGTH))
        loss = step(source, source.sort(1)[0])
        schedule.step()
        if number % 200 == 0:
            print(f"step {number}: loss {loss.item():.4f}", flush=True)
    model.eval()
    source = torch.randint(0, 10, (500, LENGTH))
    with torch.no_grad():
        written = torch.full((500, 1), START, dtype=torch.int64)
        for _ in range(LENGTH):
            written = torch.cat([written, model(source, written)[:, -1].argmax(1, keepdim=True)], 1)
    right = (written[:, 1:] == source.sort(1)[0]).all(1).float().mean().item()
    print(f"reached {right:.1%} of 500 new rows sorted without a mistake")


if __name__ == "__main__":
    main()

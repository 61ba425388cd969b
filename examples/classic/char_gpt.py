"""A GPT over characters, which learns to write the text of Python's standard library.

python examples/classic/char_gpt.py
Reached 2.63 bits a character of held-out text in 1500 steps.
"""

import math
import sysconfig
from pathlib import Path

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

LENGTH, WIDTH, HEADS, LAYERS, BATCH, STEPS = 48, 96, 4, 2, 24, 1500


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            projected.view(b, t, HEADS, c // HEADS).transpose(1, 2)
            for projected in self.qkv(self.ln1(x)).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.token, self.place = nn.Embedding(letters, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters)

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def text():
    folder = Path(sysconfig.get_path("stdlib"))
    names = "argparse ast asyncio/tasks calendar cmd configparser csv datetime doctest enum shutil"
    return "".join((folder / f"{name}.py").read_text("utf-8") for name in names.split())


def main():
    torch.manual_seed(0)
    source = "".join(c for c in text() if c.isascii())
    letters = sorted(set(source))
    known = {c: i for i, c in enumerate(letters)}
    ids = torch.tensor([known[c] for c in source])
    train, held_out = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]
    model = GPT(len(letters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=STEPS)

    def batch(data):
        start = torch.randint(0, len(data) - LENGTH - 1, (BATCH, 1))
        rows = data[start + torch.arange(LENGTH + 1)]
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def loss_of(x, y):
        return F.cross_entropy(model(x).view(-1, len(letters)), y.view(-1))

    @torch.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss

    for number in range(1, STEPS + 1):
        loss = step(*batch(train))
        schedule.step()
        if number % 250 == 0:
            print(f"step {number}: loss {loss.item():.3f}", flush=True)
    model.eval()
    with torch.no_grad():
        held_loss = sum(loss_of(*batch(held_out)).item() for _ in range(20)) / 20
        out = torch.tensor([[known[c] for c in "def "]])
        for _ in range(120):
            chances = model(out[:, -LENGTH:])[:, -1].div(0.7).softmax(-1)
            out = torch.cat([out, torch.multinomial(chances, 1)], 1)
    print("".join(letters[i] for i in out[0].tolist()))
    print(f"reached {held_loss / math.log(2):.2f} bits a character of held-out text")


if __name__ == "__main__":
    main()

"""A small GPT over characters: causal attention, pre-norm blocks, tied embeddings."""

import math

from seeded import fill

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F
from rushlight.optim import AdamW

TEXT = "the rush is peeled and dipped in fat; the light it gives is a small and steady one. "


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        mask = torch.tril(torch.ones(length, length)).view(1, 1, length, length)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, length)
        self.mlp = nn.ModuleDict(
            {
                "fc": nn.Linear(width, 4 * width),
                "act": nn.GELU(),
                "proj": nn.Linear(4 * width, width),
            }
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        m = self.mlp
        return x + m["proj"](m["act"](m["fc"](self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, vocab, length, width=32, heads=4, layers=2):
        super().__init__()
        self.length = length
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads, length) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, idx, targets=None):
        places = torch.arange(0, idx.shape[1], dtype=torch.long, device=idx.device)
        x = self.tokens(idx) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    @torch.no_grad()
    def generate(self, idx, count):
        for _ in range(count):
            logits, _ = self(idx[:, -self.length :])
            probs = F.softmax(logits[:, -1, :], dim=-1)
            _, chosen = torch.topk(probs, k=1, dim=-1)
            idx = torch.cat((idx, chosen), dim=1)
        return idx


def train(device="cpu", steps=5):
    chars = sorted(set(TEXT))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in TEXT], dtype=torch.long)
    model = fill(GPT(len(chars), 16)).to(device)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-5)
    losses = []
    for step in range(steps):
        starts = [step * 3, step * 5 + 7, step * 2 + 11, 40 + step]
        x = torch.stack([data[i : i + 16] for i in starts]).to(device)
        y = torch.stack([data[i + 1 : i + 17] for i in starts]).to(device)
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    text = model.generate(torch.zeros((1, 1), dtype=torch.long, device=device), 4)
    assert text.shape == (1, 5)
    return losses


if __name__ == "__main__":
    print(train())

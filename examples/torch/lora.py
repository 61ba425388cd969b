"""Low-rank adapters (Hu et al., 2022) in a transformer whose own weights do not change."""

import math

from seeded import fill, integers, numbers

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 2, alpha: float = 4.0):
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scaling = alpha / rank
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.lora_A), self.lora_B) * self.scaling

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.lora_B @ self.lora_A * self.scaling
        return self.base


def inject(model):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear) and not isinstance(model, nn.MultiheadAttention):
            setattr(model, name, LoRALinear(child))
        else:
            inject(child)


class Classifier(nn.Module):
    def __init__(self, vocab=12, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.out = nn.Linear(width, 3)

    def forward(self, x):
        return self.out(self.encoder(self.embed(x)).mean(dim=1))


def train(device="cpu", steps=5):
    model = fill(Classifier())
    for p in model.parameters():
        p.requires_grad = False
    inject(model)
    for i, (name, p) in enumerate(model.named_parameters()):
        if name.endswith("lora_A"):
            p.data.copy_(torch.from_numpy(numbers(*p.shape, seed=i)) * 0.3)
    model.to(device)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2, eps=1e-5)
    losses = []
    for step in range(steps):
        x = torch.from_numpy(integers(12, 8, 6, seed=step)).to(device)
        y = torch.from_numpy(integers(3, 8, seed=step)).to(device)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    before = model(x)
    adapters = {k: v for k, v in model.state_dict().items() if "lora_" in k}
    for _, module in list(model.named_modules()):
        for child_name, child in list(module.named_children()):
            if isinstance(child, LoRALinear):
                setattr(module, child_name, child.merge())
    assert len(adapters) == 10 and torch.allclose(model(x), before, atol=1e-4)
    return losses


if __name__ == "__main__":
    print(train())

"""Labels of a graph's nodes by two layers of neighbours' means, over a sparse matrix."""

from seeded import fill, integers, numbers

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter


class Neighbours(Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = Parameter(torch.FloatTensor(inner, outer))
        self.bias = Parameter(torch.zeros(outer))
        nn.init.xavier_uniform_(self.weight.data)

    def forward(self, x, adjacency):
        return torch.spmm(adjacency, x @ self.weight) + self.bias


class Labels(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.layers = nn.ModuleList([Neighbours(features, hidden)]) + [Neighbours(hidden, classes)]

    def forward(self, x, adjacency):
        first, last = self.layers
        return F.log_softmax(last(F.relu(first(x, adjacency)), adjacency), dim=1)


def mean_of_neighbours(nodes, edges):
    pairs = torch.from_numpy(integers(nodes, 2, edges, seed=7))
    loops = torch.arange(nodes).expand(2, nodes)
    places = torch.cat([pairs, pairs.flip(0), loops], dim=1)
    links = torch.sparse_coo_tensor(places, torch.ones(places.size(1)), (nodes, nodes)).coalesce()
    degree = torch.sparse.sum(links, dim=1).to_dense()
    values = links.values() / degree[links.indices()[0]]
    return torch.sparse_coo_tensor(links.indices(), values, links.size())


def train(device="cpu", steps=6):
    adjacency = mean_of_neighbours(24, 40).to(device)
    x = torch.from_numpy(numbers(24, 10, seed=1)).to(device)
    y = torch.from_numpy(integers(3, 24, seed=2)).to(device)
    known = torch.arange(0, 24, 2, device=device)
    model = fill(Labels(10, 16, 3)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=5e-4)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.nll_loss(model(x, adjacency)[known], y[known])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(train())

"""REINFORCE (Williams, 1992) with returns normalized over an episode."""

import numpy as np
from seeded import fill, numbers

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F
import rushlight.optim as optim

eps = np.finfo(np.float32).eps.item()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 24)
        self.dropout = nn.Dropout(p=0.0)
        self.affine2 = nn.Linear(24, 3)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        return F.softmax(self.affine2(x), dim=1)


def select_action(policy, state, draw, device):
    state = torch.from_numpy(state).float().unsqueeze(0).to(device)
    probs = policy(state)
    # The action whose share of [0, 1) holds the draw.
    action = (probs.detach().cumsum(dim=1) < draw).sum(dim=1, keepdim=True).clamp(max=2)
    policy.saved_log_probs.append(probs.gather(1, action).log().squeeze(1))
    return action.item()


def finish_episode(policy, optimizer, device, gamma=0.95):
    returns, total = [], 0
    for r in policy.rewards[::-1]:
        total = r + gamma * total
        returns.insert(0, total)
    returns = torch.tensor(returns, device=device)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_loss = [-log_prob * R for log_prob, R in zip(policy.saved_log_probs, returns)]
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]
    return policy_loss.item()


def train(device="cpu", steps=4):
    policy = fill(Policy()).to(device)
    optimizer = optim.RMSprop(policy.parameters(), lr=1e-2, eps=1e-3)
    losses = []
    for episode in range(steps):
        state = numbers(4, seed=episode)
        for t in range(8):
            draw = float(numbers(1, seed=97 * episode + t)[0] + 1) / 2
            action = select_action(policy, state, draw, device)
            policy.rewards.append(float(state[action]))
            state = (0.7 * np.roll(state, action + 1)).astype(np.float32)
        losses.append(finish_episode(policy, optimizer, device))
    return losses


if __name__ == "__main__":
    print(train())

"""Deep Q-learning (Mnih et al., 2015) from a replay memory, with a target network."""

from collections import namedtuple

import numpy as np
from seeded import fill, integers, numbers

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F
import rushlight.optim as optim

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super(DQN, self).__init__()
        self.layer1 = nn.Linear(n_observations, 32)
        self.layer2 = nn.Linear(32, 32)
        self.layer3 = nn.Linear(32, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


def memory():
    """Transitions; every fifth ends its episode."""
    states, rewards = numbers(65, 4, seed=7), numbers(64, seed=8)
    actions = integers(2, 64, seed=9)
    return [
        Transition(
            torch.tensor(states[i], dtype=torch.float32).unsqueeze(0),
            torch.tensor([[actions[i]]], dtype=torch.long),
            None if i % 5 == 4 else torch.tensor(states[i + 1]).unsqueeze(0),
            torch.tensor([float(rewards[i])]),
        )
        for i in range(64)
    ]


def train(device="cpu", steps=5, batch_size=16, gamma=0.99, tau=0.05):
    policy_net = fill(DQN(4, 2)).to(device)
    target_net = DQN(4, 2).to(device)
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True, eps=1e-5)
    replay, losses = memory(), []
    for step in range(steps):
        picked = [replay[(step * 7 + 3 * i) % 64] for i in range(batch_size)]
        batch = Transition(*zip(*picked))
        mask = torch.tensor(
            tuple(map(lambda s: s is not None, batch.next_state)), device=device, dtype=torch.bool
        )
        non_final = torch.cat([s for s in batch.next_state if s is not None]).to(device)
        state_batch = torch.cat(batch.state).to(device)
        action_batch = torch.cat(batch.action).to(device)
        reward_batch = torch.cat(batch.reward).to(device)

        state_action_values = policy_net(state_batch).gather(1, action_batch)
        next_state_values = torch.zeros(batch_size, device=device)
        with torch.no_grad():
            next_state_values[mask] = target_net(non_final).max(1).values
        expected = (next_state_values * gamma) + reward_batch
        loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        optimizer.step()
        losses.append(loss.item())

        target_state = target_net.state_dict()
        policy_state = policy_net.state_dict()
        for key in policy_state:
            target_state[key] = policy_state[key] * tau + target_state[key] * (1 - tau)
        target_net.load_state_dict(target_state)
    return losses


if __name__ == "__main__":
    print(np.round(train(), 6))

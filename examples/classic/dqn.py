"""Deep Q-learning (Mnih et al., 2015) balances gymnasium's CartPole.

pip install gymnasium; python examples/classic/dqn.py
Reached RESULT_dqn.
"""

import random
from collections import deque

import gymnasium
import numpy as np

import rushlight as torch
import rushlight.nn as nn

BATCH, GAMMA, STEPS = 128, 0.99, 12000


def network():
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
                         nn.Linear(128, 2))  # fmt: skip


def main():
    torch.manual_seed(0)
    random.seed(0)
    env = gymnasium.make("CartPole-v1")
    policy, target = network(), network()
    target.load_state_dict(policy.state_dict())
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    memory = deque(maxlen=10000)

    @torch.compile
    def learn(state, action, reward, following, ended):
        with torch.no_grad():
            # The policy chooses, the target network values (van Hasselt et al., 2016).
            best = policy(following).argmax(1, keepdim=True)
            value = target(following).gather(1, best).squeeze(1)
            goal = reward + GAMMA * value * (1 - ended)
        optimizer.zero_grad()
        guess = policy(state).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(guess, goal)
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        for mine, its in zip(target.parameters(), policy.parameters()):
            mine.data.mul_(0.99).add_(its.data * 0.01)
        return loss.detach()

    @torch.compile
    def act(state):
        with torch.no_grad():
            return policy(state).argmax(1)

    def play(seed, explore):
        """An episode: the sum of its rewards."""
        state, total = env.reset(seed=seed)[0], 0.0
        while True:
            if random.random() < explore():
                action = random.randrange(2)
            else:
                action = act(torch.tensor(state[None])).item()
            following, reward, ended, cut, _ = env.step(action)
            yield state, action, reward, following, float(ended)
            state, total = following, total + reward
            if ended or cut:
                return total

    done, totals, seed = 0, [], 0
    while done < STEPS:
        seed, total = seed + 1, 0.0
        for moved in play(seed, lambda: max(0.05, 0.9 - done / 4000)):
            memory.append(moved)
            done, total = done + 1, total + moved[2]
            if len(memory) >= 500:
                parts = [np.stack(part) for part in zip(*random.sample(memory, BATCH))]
                state, action, reward, following, ended = parts
                learn(torch.tensor(state), torch.tensor(action),
                      *(torch.tensor(part, dtype=torch.float32)
                        for part in (reward, following, ended)))  # fmt: skip
        totals.append(total)
        if seed % 20 == 0:
            print(f"episode {seed}, step {done}: {np.mean(totals[-20:]):.1f}", flush=True)
    scores = [sum(moved[2] for moved in play(1000 + n, lambda: 0.0)) for n in range(20)]
    print(f"reached a mean of {np.mean(scores):.1f} of 500 in 20 new episodes")


if __name__ == "__main__":
    main()

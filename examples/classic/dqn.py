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

# Rates and rhythm as in Stable-Baselines3's zoo.
BATCH, GAMMA, STEPS, COLLECT, LEARN = 64, 0.99, 50_000, 256, 128


def network():
    return nn.Sequential(nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                         nn.Linear(256, 2))  # fmt: skip


def main():
    torch.manual_seed(0)
    random.seed(0)
    env = gymnasium.make("CartPole-v1")
    policy, target = network(), network()
    target.load_state_dict(policy.state_dict())
    target.requires_grad_(False)
    optimizer = torch.optim.Adam(policy.parameters(), lr=2.3e-3)
    memory = deque(maxlen=100_000)

    @torch.compile
    def learn(state, action, reward, following, ended):
        goal = reward + GAMMA * target(following).max(1)[0] * (1 - ended)
        optimizer.zero_grad()
        guess = policy(state).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(guess, goal)
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        optimizer.step()
        return loss.detach()

    @torch.no_grad()
    @torch.compile
    def act(state):
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

    done, totals, seed, best, kept = 0, [], 0, 0.0, None
    while done < STEPS and np.mean(totals[-10:] or 0) < 475:
        seed, total = seed + 1, 0.0
        for moved in play(seed, lambda: max(0.04, 1 - done / 8000)):
            memory.append(moved)
            done, total = done + 1, total + moved[2]
            if done % COLLECT or done < 1000:
                continue
            for _ in range(LEARN):
                parts = [np.stack(part) for part in zip(*random.sample(memory, BATCH))]
                state, action, reward, following, ended = parts
                learn(torch.tensor(state), torch.tensor(action),
                      *(torch.tensor(part, dtype=torch.float32)
                        for part in (reward, following, ended)))  # fmt: skip
            target.load_state_dict(policy.state_dict())
        totals.append(total)
        if np.mean(totals[-10:]) > best:
            best = np.mean(totals[-10:])
            kept = {name: value.clone() for name, value in policy.state_dict().items()}
        if seed % 20 == 0:
            print(f"episode {seed}, step {done}: {np.mean(totals[-20:]):.1f}", flush=True)
    policy.load_state_dict(kept)  # those that did best in ten episodes
    scores = [sum(moved[2] for moved in play(1000 + n, lambda: 0.0)) for n in range(20)]
    print(f"reached a mean of {np.mean(scores):.1f} of 500 in 20 new episodes")


if __name__ == "__main__":
    main()

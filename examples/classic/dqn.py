"""A deep Q-network (Mnih et al., 2015), with double targets, balances gymnasium's CartPole.

pip install gymnasium; python examples/classic/dqn.py
Reached a mean of 500.0 of 500 in 20 new episodes.
"""

import copy

import gymnasium
import numpy as np

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

STEPS, START, EVERY, UPDATES, BATCH = 50_000, 1_000, 256, 128, 64
GAMMA, RATE, EXPLORING, LEAST = 0.99, 2.3e-3, 8_000, 0.04


def main():
    torch.manual_seed(0)
    draws = np.random.default_rng(0)
    model = nn.Sequential(
        nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2)
    )
    target = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, STEPS // EVERY)

    @torch.no_grad()
    @torch.compile
    def look(state):
        return model(state)

    @torch.compile
    def learn(state, action, reward, following, going):
        best = model(following).argmax(1, keepdim=True)
        later = target(following).gather(1, best).squeeze(1)
        goal = reward + GAMMA * going * later
        values = model(state).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(values, goal.detach())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()

    def act(state):
        return int(look(torch.tensor(state[None])).numpy().argmax())

    env = gymnasium.make("CartPole-v1")
    memory = [
        np.zeros((STEPS, *shape), kind)
        for shape, kind in (
            ((4,), np.float32),
            ((), np.int64),
            ((), np.float32),
            ((4,), np.float32),
            ((), np.float32),
        )
    ]
    state, total, totals = env.reset(seed=0)[0], 0.0, []
    for step in range(STEPS):
        chance = max(LEAST, 1 - step / EXPLORING)
        action = int(draws.integers(2)) if draws.random() < chance else act(state)
        following, reward, ended, cut, _ = env.step(action)
        for rows, value in zip(memory, (state, action, reward, following, not ended)):
            rows[step] = value
        state, total = following, total + reward
        if ended or cut:
            totals.append(total)
            state, total = env.reset()[0], 0.0
        if step >= START and (step + 1) % EVERY == 0:
            target.load_state_dict(model.state_dict())
            for _ in range(UPDATES):
                picked = draws.integers(0, step + 1, BATCH)
                learn(*(torch.tensor(rows[picked]) for rows in memory))
            schedule.step()
        if (step + 1) % 10_000 == 0:
            print(
                f"step {step + 1}: the last 20 episodes reached {np.mean(totals[-20:]):.1f}",
                flush=True,
            )
    scores = []
    for n in range(20):
        state, total, going = env.reset(seed=1000 + n)[0], 0.0, True
        while going:
            state, reward, ended, cut, _ = env.step(act(state))
            total, going = total + reward, not (ended or cut)
        scores.append(total)
    print(f"reached a mean of {np.mean(scores):.1f} of 500 in 20 new episodes")


if __name__ == "__main__":
    main()

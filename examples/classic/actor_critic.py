"""Proximal policy optimization (Schulman et al., 2017) balances gymnasium's CartPole.

pip install gymnasium; python examples/classic/actor_critic.py
Reached a mean of 426.5 of 500 in 20 new episodes.
"""

import gymnasium
import numpy as np

import rushlight as torch
import rushlight.nn as nn

ENVS, HORIZON, ROUNDS, EPOCHS, BATCH = 8, 128, 50, 4, 256
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = (
            nn.Sequential(
                nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n)
            )
            for n in (2, 1)
        )
        self.actor[-1].weight.data.mul_(0.01)

    def forward(self, state):
        return self.actor(state).log_softmax(1), self.critic(state).squeeze(1)


def main():
    torch.manual_seed(0)
    draws = np.random.default_rng(0)
    envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * ENVS)
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-5)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, ROUNDS)

    @torch.no_grad()
    @torch.compile
    def look(state):
        return model(state)

    @torch.compile
    def learn(state, action, before, advantage, goal):
        logp, value = model(state)
        chosen = logp.gather(1, action.unsqueeze(1)).squeeze(1)
        ratio = (chosen - before).exp()
        gain = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy = torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
        entropy = -(logp.exp() * logp).sum(1).mean()
        loss = 0.5 * (value - goal).square().mean() - policy - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()

    def choose(state):
        logp, value = (x.numpy() for x in look(torch.tensor(state.astype(np.float32))))
        action = (draws.random(len(state)) < np.exp(logp[:, 1])).astype(np.int64)
        return action, logp[np.arange(len(state)), action], value

    state, over = envs.reset(seed=0)[0], np.zeros(ENVS)
    for number in range(1, ROUNDS + 1):
        rows = []
        for _ in range(HORIZON):
            action, logp, value = choose(state)
            following, reward, ended, cut, _ = envs.step(action)
            # A step after an end only resets; it is not learned from.
            rows.append((state, action, logp, value, reward, ended | cut, over.copy()))
            state, over = following, (ended | cut).astype(float)
        states, actions, logps, values, rewards, ends, resets = map(np.array, zip(*rows))
        advantage, later, last = np.zeros_like(values), choose(state)[2], 0.0
        for t in reversed(range(HORIZON)):
            delta = rewards[t] + GAMMA * later * (1 - ends[t]) - values[t]
            last = advantage[t] = delta + GAMMA * LAMBDA * (1 - ends[t]) * last
            later = values[t]
        usable = np.flatnonzero(resets.ravel() == 0)
        flat = [
            x.reshape(HORIZON * ENVS, -1).squeeze(1) if x.ndim == 2 else x.reshape(-1, 4)
            for x in (states, actions, logps, advantage, advantage + values)
        ]
        for _ in range(EPOCHS):
            order = draws.permutation(usable)
            for i in range(0, len(order) - BATCH + 1, BATCH):
                picked = order[i : i + BATCH]
                learn(
                    *(
                        torch.tensor(
                            x[picked] if x.dtype == np.int64 else x[picked].astype(np.float32)
                        )
                        for x in flat
                    )
                )
        schedule.step()
        if number % 10 == 0:
            print(
                f"round {number}: an end each {HORIZON * ENVS / max(1, ends.sum()):.0f} steps",
                flush=True,
            )
    scores, env = [], gymnasium.make("CartPole-v1")
    for n in range(20):
        state, total, going = env.reset(seed=1000 + n)[0], 0.0, True
        while going:
            action = int(look(torch.tensor(state[None]))[0].numpy().argmax())
            state, reward, ended, cut, _ = env.step(action)
            total, going = total + reward, not (ended or cut)
        scores.append(total)
    print(f"reached a mean of {np.mean(scores):.1f} of 500 in 20 new episodes")


if __name__ == "__main__":
    main()

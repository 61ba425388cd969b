// Threads: one job at a time, cut into items that any of them may take.
#ifndef RL_POOL_H
#define RL_POOL_H

void rl_lock(void);
void rl_unlock(void);

#endif

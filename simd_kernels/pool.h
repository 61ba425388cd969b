// Threads run one job at a time. It is cut into items, and each thread takes the next.
#ifndef RL_POOL_H
#define RL_POOL_H

void rl_lock(void);
void rl_unlock(void);

#endif

// The thread pool: workers spin for the next job, then give way to others, and then sleep. One
// thread in WebAssembly.
#if defined(__linux__)
#define _GNU_SOURCE // sched_getcpu, pthread_setaffinity_np
#endif
#include "pool.h"
#include "rl.h"

#define API __attribute__((visibility("default")))

static struct {
    void *raw;
    uint8_t *at;
    size_t bytes;
} scratch[RL_THREADS + 1]; // the last is shared

static void *memory(int i, int64_t asked) {
    if (asked < 0 || (uint64_t)asked > SIZE_MAX / 2) return NULL;
    size_t bytes = asked ? (size_t)asked : 1;
    if (scratch[i].bytes < bytes) {
        free(scratch[i].raw);
        scratch[i].bytes = 0;
        if (!(scratch[i].raw = malloc(bytes + 64))) return NULL;
        scratch[i].at = (uint8_t *)(((uintptr_t)scratch[i].raw + 63) & ~(uintptr_t)63);
        scratch[i].bytes = bytes;
    }
    return scratch[i].at;
}

void *rl_scratch(int thread, int64_t bytes) { return memory(thread, bytes); }
void *rl_shared(int64_t bytes) { return memory(RL_THREADS, bytes); }

// Frees large scratch memory at the end of the message.
static void trim(void) {
    for (int i = 0; i <= RL_THREADS; i++)
        if (scratch[i].bytes > (size_t)16 << 20) {
            free(scratch[i].raw);
            scratch[i].raw = NULL;
            scratch[i].bytes = 0;
        }
}

#if defined(__wasm__)

void rl_lock(void) {}
void rl_unlock(void) { trim(); }
int rl_threads(void) { return 1; }
API int32_t rl_set_threads(int32_t n) { return n == 1; }

void rl_parallel(int64_t items, void (*fn)(void *, int64_t, int), void *ctx) {
    for (int64_t i = 0; i < items; i++) fn(ctx, i, 0);
}

#else

#include <stdatomic.h>
#include <stdbool.h>

#if defined(_WIN32)
#include <windows.h>
typedef SRWLOCK mutex;
typedef CONDITION_VARIABLE condition;
#define MUTEX SRWLOCK_INIT
#define CONDITION CONDITION_VARIABLE_INIT
static void take(mutex *m) { AcquireSRWLockExclusive(m); }
static void give(mutex *m) { ReleaseSRWLockExclusive(m); }
static void wait(condition *c, mutex *m) { SleepConditionVariableSRW(c, m, INFINITE, 0); }
static void wake(condition *c) { WakeAllConditionVariable(c); }
static void pause_long(void) { SwitchToThread(); }
#else
#include <pthread.h>
#include <sched.h>
typedef pthread_mutex_t mutex;
typedef pthread_cond_t condition;
#define MUTEX PTHREAD_MUTEX_INITIALIZER
#define CONDITION PTHREAD_COND_INITIALIZER
static void take(mutex *m) { pthread_mutex_lock(m); }
static void give(mutex *m) { pthread_mutex_unlock(m); }
static void wait(condition *c, mutex *m) { pthread_cond_wait(c, m); }
static void wake(condition *c) { pthread_cond_broadcast(c); }
static void pause_long(void) { sched_yield(); }
#endif

static inline void pause_short(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Waking a thread that sleeps takes as long as a million multiplications, so a worker first waits
// for some milliseconds: some spinning, then leaving its core to whoever else wants it.
#define SPINS 4000
#define YIELDS 4000

static mutex one_job = MUTEX, sleeping = MUTEX;
static condition news = CONDITION;
static int wanted = 1, started = 0; // threads, the caller's among them; workers that exist
static int busy = 0; // with a job; what its items ask for is done by their threads
static atomic_int sleepers, inside;
static atomic_uint open_job; // number of the job that may be joined, 0 for none
static unsigned last_job;
static struct {
    void (*fn)(void *, int64_t, int);
    void *ctx;
    int threads;
    // Each thread begins with items of its own, the same for the same sizes, so that its core's
    // cache has what it wrote before; then it helps the others. A line of the cache each.
    struct {
        _Alignas(64) _Atomic int64_t next;
        int64_t end;
    } of[RL_THREADS];
} job;

static void work(int thread) {
    for (int k = 0, t = thread; k < job.threads; k++, t = t + 1 < job.threads ? t + 1 : 0)
        while (atomic_load_explicit(&job.of[t].next, memory_order_relaxed) < job.of[t].end) {
            int64_t i = atomic_fetch_add_explicit(&job.of[t].next, 1, memory_order_relaxed);
            if (i < job.of[t].end) job.fn(job.ctx, i, thread);
        }
}

static void worker(int thread) {
    unsigned seen = 0;
    for (;;) {
        unsigned now = 0;
        for (int i = 0; i < SPINS + YIELDS; i++) {
            now = atomic_load_explicit(&open_job, memory_order_acquire);
            if (now && now != seen) break;
            if (i < SPINS) pause_short();
            else pause_long();
            now = 0;
        }
        if (!now) {
            // Whoever wakes too late for a job waits awake for the next one.
            take(&sleeping);
            atomic_fetch_add(&sleepers, 1);
            if (!(now = atomic_load(&open_job)) || now == seen) wait(&news, &sleeping);
            atomic_fetch_sub(&sleepers, 1);
            give(&sleeping);
            continue;
        }
        // Join, then look again: a job that was closed meanwhile is not touched.
        atomic_fetch_add(&inside, 1);
        now = atomic_load(&open_job);
        if (now && now != seen) {
            seen = now;
            if (thread < job.threads) work(thread);
        }
        atomic_fetch_sub(&inside, 1);
    }
}

#if defined(_WIN32)
static void keep_apart(void) {}
static DWORD WINAPI entry(LPVOID thread) { return worker((int)(intptr_t)thread), 0; }
static bool start(int thread) {
    HANDLE made = CreateThread(NULL, 0, entry, (LPVOID)(intptr_t)thread, 0, NULL);
    if (made) CloseHandle(made);
    return made != NULL;
}
#else
static void *entry(void *thread) { return worker((int)(intptr_t)thread), NULL; }

// A forked child has only the caller's thread, so it starts with a new pool.
static void forked(void) {
    one_job = sleeping = (mutex)MUTEX;
    news = (condition)CONDITION;
    started = busy = 0;
    atomic_store(&sleepers, 0);
    atomic_store(&inside, 0);
    atomic_store(&open_job, 0);
}

#if defined(__linux__)
static pthread_t workers[RL_THREADS + 1];
static int caller = -1; // the core that no worker may use

// Linux may wake a worker on the caller's core, where it waits while another core has nothing to
// do: ten milliseconds and more were seen. So the workers may use all cores but the caller's.
static void keep_apart(void) {
    cpu_set_t others;
    int core = sched_getcpu();
    if (core < 0 || core >= CPU_SETSIZE || core == caller) return;
    if (sched_getaffinity(0, sizeof others, &others)) return;
    CPU_CLR(core, &others);
    if (!CPU_COUNT(&others)) return;
    for (int i = 1; i <= started; i++) pthread_setaffinity_np(workers[i], sizeof others, &others);
    caller = core;
}

static void track(int thread, pthread_t made) { workers[thread] = made, caller = -1; }
#else
static void keep_apart(void) {}
static void track(int thread, pthread_t made) { (void)thread, (void)made; }
#endif

static bool start(int thread) {
    static bool told = false;
    if (!told) told = !pthread_atfork(NULL, NULL, forked);
    pthread_attr_t attributes;
    pthread_t made;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    bool ok = !pthread_create(&made, &attributes, entry, (void *)(intptr_t)thread);
    pthread_attr_destroy(&attributes);
    if (ok) track(thread, made);
    return ok;
}
#endif

void rl_lock(void) { take(&one_job); }

void rl_unlock(void) {
    trim();
    give(&one_job);
}

int rl_threads(void) { return wanted; }

// Sets the number of threads, from 1 to RL_THREADS; returns 0 if `n` is out of range.
API int32_t rl_set_threads(int32_t n) {
    if (n < 1 || n > RL_THREADS) return 0;
    take(&one_job);
    wanted = n;
    give(&one_job);
    return 1;
}

void rl_parallel(int64_t items, void (*fn)(void *, int64_t, int), void *ctx) {
    int64_t most = rl_min(wanted, items);
    if (most <= 1 || busy) {
        for (int64_t i = 0; i < items; i++) fn(ctx, i, 0);
        return;
    }
    busy = 1;
    while (started < most - 1 && start(started + 1)) started++;
    keep_apart();
    job.fn = fn, job.ctx = ctx, job.threads = (int)most;
    int64_t each = items / most, more = items % most, first = 0;
    for (int t = 0; t < most; t++) {
        atomic_store_explicit(&job.of[t].next, first, memory_order_relaxed);
        job.of[t].end = first += each + (t < more);
    }
    if (!++last_job) last_job = 1;
    atomic_store(&open_job, last_job);
    if (atomic_load(&sleepers)) {
        // Who went to sleep meanwhile has seen the job, or waits. The lock is free for who wakes.
        take(&sleeping);
        give(&sleeping);
        wake(&news);
    }
    work(0);
    atomic_store(&open_job, 0);
    for (int i = 0; atomic_load(&inside); i++)
        if (i < SPINS) pause_short();
        else pause_long();
    busy = 0;
}

#endif

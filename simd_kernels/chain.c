// Elementwise functions one after another in one pass: values on the way stay in the cache.

#define CHAIN_RUN 256 // elements of a piece
#define CHAIN_STEPS 16

typedef struct {
    const rl_call *call;
    int dims, steps;            // dims: the outer ones
    int64_t inner, outer;       // elements of a run; runs
    int kind[RL_OPERANDS];      // of each operand's memory
    int64_t step[RL_OPERANDS], shape[RL_DIMS], strides[RL_OPERANDS][RL_DIMS];
    struct {
        map_fn fn;
        int from[2]; // an operand, from 1 on, or ~value, where values count from 0
    } chain[CHAIN_STEPS];
} chain_job;

enum { IN_RUNS, LIKE_OUT, ONE_VALUE };

// Elements from `item` times ITEM on. Of operands in runs, those of a piece are gathered.
static void chain_item(void *ctx, int64_t item, int thread) {
    // Vectors that cross lines of the cache take twice as long.
    __attribute__((aligned(64))) float values[CHAIN_STEPS][CHAIN_RUN];
    __attribute__((aligned(64))) float loaded[RL_OPERANDS][CHAIN_RUN];
    const chain_job *job = ctx;
    const rl_operand *op = job->call->op;
    int n = job->call->n;
    int64_t start = item * ITEM, stop = rl_min(job->inner * job->outer, start + ITEM);
    int64_t index[RL_DIMS], at[RL_OPERANDS] = {0}, run = start / job->inner;
    int64_t within = start % job->inner;
    (void)thread;
    for (int d = job->dims - 1; d >= 0; run /= job->shape[d], d--) {
        index[d] = run % job->shape[d];
        for (int k = 1; k < n; k++) at[k] += index[d] * job->strides[k][d];
    }
    for (int k = 1; k < n; k++)
        if (job->kind[k] == ONE_VALUE) LOAD_F[RL_F32](loaded[k], op[k].data, 0, CHAIN_RUN);
    for (int64_t s = start, count; s < stop; s += count) {
        const float *from[RL_OPERANDS];
        count = rl_min(CHAIN_RUN, stop - s);
        int64_t whole = (count + VF - 1) & ~(int64_t)(VF - 1);
        int inside = count == whole && within + count <= job->inner;
        for (int k = 1; k < n; k++) {
            const uint8_t *first = op[k].data;
            first += (job->kind[k] == LIKE_OUT ? s : at[k] + within * job->step[k]) * 4;
            from[k] = loaded[k];
            if (job->kind[k] == LIKE_OUT ? count == whole
                                         : inside && job->kind[k] == IN_RUNS && job->step[k] == 1)
                from[k] = (const float *)(const void *)first;
            else if (job->kind[k] == LIKE_OUT) rl_copy(loaded[k], first, (size_t)count * 4);
        }
        for (int64_t done = 0, some; done < count; done += some) {
            some = rl_min(job->inner - within, count - done);
            for (int k = 1; k < n; k++)
                if (job->kind[k] == IN_RUNS && from[k] == loaded[k])
                    LOAD_F[RL_F32](loaded[k] + done,
                                   op[k].data + (at[k] + within * job->step[k]) * 4,
                                   job->step[k], some);
            within += some;
            if (within < job->inner) continue;
            within = 0;
            for (int d = job->dims - 1; d >= 0; d--) {
                int more = ++index[d] < job->shape[d];
                for (int k = 1; k < n; k++)
                    at[k] += more ? job->strides[k][d] : -(job->shape[d] - 1) * job->strides[k][d];
                if (more) break;
                index[d] = 0;
            }
        }
        float *to = (float *)(void *)op->data + s;
        for (int i = 0; i < job->steps; i++) {
            const float *given[2];
            for (int k = 0; k < 2; k++) {
                int source = job->chain[i].from[k];
                given[k] = source < 0 ? values[~source] : from[source];
            }
            int last = i == job->steps - 1;
            float *made = last && count == whole ? to : values[i];
            job->chain[i].fn(made, given[0], given[1], whole);
            if (last && count < whole) rl_copy(to, made, (size_t)count * 4);
        }
    }
}

// out = the last value; all operands are float32 of the shape of out, which is contiguous. Each
// step has three attributes: a kernel's number and two sources, see `chain_job`.
static int k_chain(const rl_call *c) {
    const rl_operand *x[RL_OPERANDS], *out = c->op;
    chain_job job = {.call = c, .steps = c->n_attrs / 3, .outer = 1};
    if (c->n < 2 || c->n_attrs % 3 || !job.steps || job.steps > CHAIN_STEPS) return RL_REFUSED;
    if (!operands_of_one_shape(c, x, c->n) || !packed(out, 0) || (uintptr_t)out->data & 3)
        return RL_REFUSED;
    for (int k = 0; k < c->n; k++)
        if (x[k]->dtype != RL_F32) return RL_REFUSED;
    for (int s = 0; s < job.steps; s++) {
        const int64_t *told = c->attrs + 3 * s;
        if (told[0] < 0 || told[0] >= (int64_t)(sizeof CHAINED / sizeof *CHAINED) ||
            !CHAINED[told[0]])
            return RL_REFUSED;
        job.chain[s].fn = CHAINED[told[0]];
        for (int k = 0; k < 2; k++) {
            int64_t source = told[1 + k];
            if (!source || source < -(int64_t)s || source >= c->n) return RL_REFUSED;
            job.chain[s].from[k] = (int)source;
        }
    }
    int64_t n = rl_numel(out), shape[RL_DIMS];
    if (!n) return RL_OK;
    int dims = 0; // those that are contiguous in all operands are joined
    for (int d = 0; d < out->ndim; d++) {
        int64_t size = out->shape[d];
        if (size == 1) continue;
        int joins = dims > 0;
        for (int k = 0; k < c->n && joins; k++)
            joins = job.strides[k][dims - 1] == x[k]->strides[d] * size;
        if (!joins) dims++;
        shape[dims - 1] = joins ? shape[dims - 1] * size : size;
        for (int k = 0; k < c->n; k++) job.strides[k][dims - 1] = x[k]->strides[d];
    }
    job.inner = dims ? shape[dims - 1] : 1;
    job.dims = dims > 0 ? dims - 1 : 0;
    for (int d = 0; d < job.dims; d++) job.outer *= job.shape[d] = shape[d];
    for (int k = 1; k < c->n; k++) {
        int one = 1;
        for (int d = 0; d < dims; d++) one &= !job.strides[k][d];
        job.step[k] = dims ? job.strides[k][dims - 1] : 0;
        job.kind[k] = one ? ONE_VALUE : packed(x[k], 0) ? LIKE_OUT : IN_RUNS;
    }
    run_items((n + ITEM - 1) / ITEM, rl_times(n, job.steps), chain_item, &job);
    return RL_OK;
}

// Elements moved as they are stored: any strides on both sides.

typedef struct {
    const rl_call *call;
    int64_t size, inner, outer;
    int dim;  // the dim that one run of the inner loop goes along
} move_job;

#define MOVE_LOOP(type)                                                                            \
    for (int64_t i = 0; i < n; i++) ((type *)to)[i * ts] = ((const type *)from)[i * fs]

static void move_run(uint8_t *to, const uint8_t *from, int64_t n, int64_t ts, int64_t fs,
                     int64_t size) {
    if (ts == 1 && fs == 1) rl_copy(to, from, (size_t)(n * size));
    else if (size == 4) MOVE_LOOP(uint32_t);
    else if (size == 2) MOVE_LOOP(uint16_t);
    else if (size == 8) MOVE_LOOP(uint64_t);
    else MOVE_LOOP(uint8_t);
}

static void move_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const move_job *job = ctx;
    const rl_operand *out = &job->call->op[0], *in = &job->call->op[1];
    int64_t to = 0, from = 0;
    for (int d = out->ndim - 1; d >= 0; d--) {
        if (d == job->dim) continue;
        int64_t i = item % out->shape[d];
        item /= out->shape[d];
        to += i * out->strides[d], from += i * in->strides[d];
    }
    move_run(out->data + to * job->size, in->data + from * job->size, job->inner,
             out->strides[job->dim], in->strides[job->dim], job->size);
}

// out[...] = x[...]: the same shape and size of elements; they do not overlap.
static int k_copy(const rl_call *c) {
    static const uint8_t SIZES[] = {1, 1, 1, 2, 4, 4, 8, 2, 2, 4, 8, 1, 1};
    const rl_operand *out = &c->op[0], *in = &c->op[1];
    if (c->n != 2 || in->ndim != out->ndim) return RL_REFUSED;
    if (out->dtype >= RL_Q4_0 || in->dtype >= RL_Q4_0) return RL_REFUSED;
    int64_t size = SIZES[out->dtype], n = rl_numel(out);
    if (SIZES[in->dtype] != size) return RL_REFUSED;
    for (int d = 0; d < out->ndim; d++)
        if (in->shape[d] != out->shape[d]) return RL_REFUSED;
    if (!n) return RL_OK;
    if (!out->ndim) return move_run(out->data, in->data, 1, 1, 1, size), RL_OK;
    move_job job = {c, size, 0, 0, out->ndim - 1};
    for (int d = 0; d < out->ndim; d++) // the longest dim without gaps in the output, else the last
        if (out->strides[d] == 1 && out->shape[d] > 1) job.dim = d;
    job.inner = out->shape[job.dim], job.outer = n / job.inner;
    if (n < 1 << 14)
        for (int64_t i = 0; i < job.outer; i++) move_item(&job, i, 0);
    else rl_parallel(job.outer, move_item, &job);
    return RL_OK;
}

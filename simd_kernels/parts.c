// Kernels over parts of their operands, which threads do at the same time.

// A call whose operands are cut along a dim each, where parts write to different elements.
typedef struct {
    const rl_call *c;
    rl_kernel fn;
    int32_t by[4]; // the dim of each operand; -1 for one that all parts read
    int64_t size, per;
    int failed;
} parts_job;

static void part_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    parts_job *job = ctx;
    rl_call part = *job->c;
    int64_t first = item * job->per;
    int last = first + job->per >= job->size;
    for (int k = 0; k < part.n; k++) {
        if (job->by[k] < 0) continue;
        rl_operand *x = &part.op[k];
        int64_t *size = &x->shape[job->by[k]];
        x->data += first * x->strides[job->by[k]] * RL_SIZE[x->dtype];
        *size = last ? *size - first : job->per; // an operand may be larger than the index
    }
    int failed = job->fn(&part);
    if (failed) job->failed = failed;
}

// The kernel `fn` over `size` elements of the dims `by`, in parts if there is enough work.
static int in_parts(const rl_call *c, rl_kernel fn, const int32_t by[4], int64_t size) {
    parts_job job = {.c = c, .fn = fn, .size = size};
    job.per = (size + 4 * rl_threads() - 1) / (4 * rl_threads());
    for (int k = 0; k < c->n; k++) {
        job.by[k] = by[k];
        if (by[k] >= 0 && c->op[k].shape[by[k]] < size) return fn(c); // which refuses it
    }
    rl_parallel((size + job.per - 1) / job.per, part_item, &job);
    return job.failed;
}

// The outermost dim of `x` but `not` that gives each thread some parts, else the largest; -1 where
// there is little work.
static int32_t part_dim(const rl_call *c, const rl_operand *x, int64_t not) {
    int32_t found = -1;
    if (rl_threads() == 1 || x->ndim < 0 || rl_numel(x) < 1 << 15) return -1;
    for (int k = 0; k < c->n; k++)
        if (!rl_numel(&c->op[k])) return -1;
    for (int32_t d = 0; d < x->ndim; d++) {
        if (d == not || (found >= 0 && x->shape[found] >= 4 * rl_threads())) continue;
        if (x->shape[d] > 1 && (found < 0 || x->shape[d] > x->shape[found])) found = d;
    }
    return found;
}

// The kernel `fn` of `n` operands of one shape.
static int elements_in_parts(const rl_call *c, rl_kernel fn, int n) {
    const rl_operand *x[4];
    if (!operands_of_one_shape(c, x, n)) return RL_REFUSED;
    int32_t d = part_dim(c, x[0], -1);
    return d < 0 ? fn(c) : in_parts(c, fn, (int32_t[4]){d, d, d, d}, x[0]->shape[d]);
}

static int k_copy(const rl_call *c) { return elements_in_parts(c, whole_copy, 2); }
static int k_where(const rl_call *c) { return elements_in_parts(c, whole_where, 4); }

static int k_index_select(const rl_call *c) {
    int32_t d = c->n == 3 && c->n_attrs == 1 ? part_dim(c, &c->op[0], -1) : -1;
    if (d < 0 || c->op[1].ndim != c->op[0].ndim || c->op[2].ndim != 1) return whole_index_select(c);
    int along = d == c->attrs[0];
    return in_parts(c, whole_index_select, (int32_t[4]){d, along ? -1 : d, along ? 0 : -1},
                    c->op[0].shape[d]);
}

static int k_gather(const rl_call *c) {
    int32_t d = c->n == 3 && c->n_attrs == 1 ? part_dim(c, &c->op[0], -1) : -1;
    if (d < 0 || c->op[1].ndim != c->op[0].ndim || c->op[2].ndim != c->op[0].ndim)
        return whole_gather(c);
    return in_parts(c, whole_gather, (int32_t[4]){d, d == c->attrs[0] ? -1 : d, d},
                    c->op[0].shape[d]);
}

// Here and below a part of the result is first filled from the same part of its base.
static int k_scatter(const rl_call *c) {
    int32_t d = c->n == 4 && c->n_attrs == 2 ? part_dim(c, &c->op[2], c->attrs[0]) : -1;
    if (d < 0 || c->op[0].ndim != c->op[2].ndim || c->op[3].ndim != c->op[2].ndim)
        return whole_scatter(c);
    return in_parts(c, whole_scatter, (int32_t[4]){d, d, d, d}, c->op[2].shape[d]);
}

static int k_index_add(const rl_call *c) {
    int32_t d = c->n == 4 && c->n_attrs == 1 ? part_dim(c, &c->op[3], c->attrs[0]) : -1;
    if (d < 0 || c->op[0].ndim != c->op[3].ndim) return whole_index_add(c);
    return in_parts(c, whole_index_add, (int32_t[4]){d, d, -1, d}, c->op[3].shape[d]);
}

static void arange_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    parts_job *job = ctx;
    rl_call part = *job->c;
    rl_operand *out = &part.op[0];
    int64_t first = item * job->per, step = part.attrs[2];
    uint64_t start = (uint64_t)part.attrs[1] + (uint64_t)first * (uint64_t)step;
    out->data += first * out->strides[0] * RL_SIZE[out->dtype];
    out->shape[0] = rl_min(job->per, job->size - first);
    part.attrs = (int64_t[3]){1, (int64_t)start, step};
    int failed = whole_arange(&part);
    if (failed) job->failed = failed;
}

// Of integers; a number that is not whole is rounded once, from its place in the whole.
static int k_arange(const rl_call *c) {
    if (c->n != 1 || c->n_attrs != 3 || !c->attrs[0] || part_dim(c, &c->op[0], -1))
        return whole_arange(c);
    parts_job job = {.c = c, .size = c->op[0].shape[0]};
    job.per = (job.size + 4 * rl_threads() - 1) / (4 * rl_threads());
    rl_parallel((job.size + job.per - 1) / job.per, arange_item, &job);
    return job.failed;
}

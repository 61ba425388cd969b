// Functions of whole rows: softmax and its logarithm, normalisation, rotary positions.

typedef struct row_job row_job;
typedef void (*row_fn)(const row_job *job, float *const *x, int64_t n);

struct row_job {
    const rl_call *call;
    rl_walk walk;
    row_fn fn;
    int64_t runs, widths[WALK_OPERANDS]; // rows of an item; elements of an operand's row
    const float *weight, *bias;
    double eps;
    int interleaved, failed;
};

// Replaces the lanes from n on by `other`.
RL_INLINE vf vkeep(vf x, int64_t n, float other) {
    static const int32_t LANES[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return vselect(viload(LANES) < (int32_t)rl_min(n, VF), x, vsplat(other));
}

static inline vf row_load(const float *x, int64_t left) {
    return left >= VF ? vload(x) : load_rest(x, left);
}
static inline void row_store(float *x, vf y, int64_t left) {
    if (left >= VF) vstore(x, y);
    else store_rest(x, y, left);
}

#define BLOCK 512 // elements summed in float; the sums of blocks are added in double

// Calls a function for every row, with each operand's row as contiguous floats.
static void row_item(void *ctx, int64_t item, int thread) {
    row_job *job = ctx;
    const rl_walk *w = &job->walk;
    int64_t first = item * job->runs, last = rl_min(w->outer, first + job->runs), need = 0;
    int direct[WALK_OPERANDS];
    for (int i = 0; i < w->n; i++) {
        direct[i] = job->call->op[i].dtype == RL_F32 && w->step[i] == 1;
        need += direct[i] ? 0 : job->widths[i];
    }
    float *scratch = NULL, *x[WALK_OPERANDS] = {NULL};
    if (need && !(scratch = rl_scratch(thread, need * 4))) {
        job->failed = 1;
        return;
    }
    for (int i = 0; i < w->n; i++)
        if (!direct[i]) x[i] = scratch, scratch += job->widths[i];
    rl_place p = walk_to(w, first);
    for (int64_t run = first; run < last; run++, walk_on(w, &p)) {
        for (int i = 0; i < w->n; i++) {
            const rl_operand *op = &job->call->op[i];
            uint8_t *at = op->data + p.at[i] * RL_SIZE[op->dtype];
            if (direct[i]) x[i] = (float *)at;
            else if (i) LOAD_F[op->dtype](x[i], at, w->step[i], job->widths[i]);
        }
        job->fn(job, x, w->inner);
        const rl_operand *out = &job->call->op[0];
        if (!direct[0])
            STORE_F[out->dtype](out->data + p.at[0] * RL_SIZE[out->dtype], x[0], w->step[0],
                                w->inner);
    }
}

static RL_ONCE int run_rows(row_job *job, const rl_operand *const *x, int n, int dim) {
    for (int i = 0; i < n; i++)
        if (!IS_FLOAT(x[i]->dtype)) return RL_REFUSED;
    if (!rl_numel(x[0])) return RL_OK;
    job->walk = walk_over(x, n, dim);
    for (int i = 0; i < n; i++) job->widths[i] = x[i]->shape[dim];
    job->runs = rl_max(1, ITEM / job->walk.inner);
    int64_t items = (job->walk.outer + job->runs - 1) / job->runs;
    run_items(items, rl_numel(x[0]), row_item, job);
    return job->failed ? RL_MEMORY : RL_OK;
}

static float row_top(const float *x, int64_t n) {
    vf top = vsplat(-__builtin_inff()), other = top;
    int64_t i = 0;
    for (; i + 2 * VF <= n; i += 2 * VF)
        top = vmax(vload(x + i), top), other = vmax(vload(x + i + VF), other);
    for (; i < n; i += VF)
        top = vmax(vkeep(row_load(x + i, n - i), n - i, -__builtin_inff()), top);
    return vtop(vmax(other, top));
}

// Softmax, or log_softmax if `log` is set.
static void softmax_row(float *out, const float *x, int64_t n, int log) {
    vf top = vsplat(row_top(x, n));
    double total = 0;
    for (int64_t s = 0; s < n; s += BLOCK) {
        vf sum = {0}, other = {0};
        int64_t stop = rl_min(n, s + BLOCK), i = s;
        for (; i + 2 * VF <= stop; i += 2 * VF) {
            vf y = vexp_down(vload(x + i) - top), z = vexp_down(vload(x + i + VF) - top);
            if (!log) vstore(out + i, y), vstore(out + i + VF, z);
            sum += y, other += z;
        }
        for (; i < stop; i += VF) {
            vf y = exp_down(row_load(x + i, n - i) - top);
            if (!log) row_store(out + i, y, n - i);
            sum += vkeep(y, n - i, 0);
        }
        total += vsum(sum + other);
    }
    vf by = vsplat((float)total);
    if (log) by = vlog(by);
    int64_t i = 0;
    for (; !log && i + VF <= n; i += VF) vstore(out + i, vload(out + i) / by);
    for (; i < n; i += VF) {
        vf y = log ? row_load(x + i, n - i) - top - by : row_load(out + i, n - i) / by;
        row_store(out + i, y, n - i);
    }
}

static void row_softmax(const row_job *job, float *const *x, int64_t n) {
    (void)job;
    softmax_row(x[0], x[1], n, 0);
}

static void row_log_softmax(const row_job *job, float *const *x, int64_t n) {
    (void)job;
    softmax_row(x[0], x[1], n, 1);
}

// The sum of (x - mean) ** power; power is 1 or 2.
static RL_APART double row_sum(const float *x, int64_t n, float mean, int power) {
    double total = 0;
    for (int64_t s = 0; s < n; s += BLOCK) {
        vf sum = {0}, other = {0};
        int64_t stop = rl_min(n, s + BLOCK), i = s;
        for (; i + 2 * VF <= stop; i += 2 * VF) {
            vf a = vload(x + i) - mean, b = vload(x + i + VF) - mean;
            sum = power == 2 ? vfma(a, a, sum) : sum + a;
            other = power == 2 ? vfma(b, b, other) : other + b;
        }
        for (; i < stop; i += VF) {
            vf a = vkeep(row_load(x + i, n - i) - mean, n - i, 0);
            sum += power == 2 ? a * a : a;
        }
        total += vsum(sum + other);
    }
    return total;
}

static void row_norm(const row_job *job, float *const *x, int64_t n, float mean) {
    double square = row_sum(x[1], n, mean, 2) / (double)n;
    vf by = vsplat((float)(1 / __builtin_sqrt(square + job->eps)));
    for (int64_t i = 0; i < n; i += VF) {
        vf y = (row_load(x[1] + i, n - i) - mean) * by;
        if (job->weight) y *= row_load(job->weight + i, n - i);
        if (job->bias) y += row_load(job->bias + i, n - i);
        row_store(x[0] + i, y, n - i);
    }
}

static void row_layer_norm(const row_job *job, float *const *x, int64_t n) {
    row_norm(job, x, n, (float)(row_sum(x[1], n, 0, 1) / (double)n));
}

static void row_rms_norm(const row_job *job, float *const *x, int64_t n) {
    row_norm(job, x, n, 0);
}

static RL_ONCE int softmax(const rl_call *c, row_fn fn) {
    const rl_operand *x[2];
    if (!operands_of_one_shape(c, x, 2) || c->n_attrs != 1) return RL_REFUSED;
    if (c->attrs[0] < 0 || c->attrs[0] >= x[0]->ndim) return RL_REFUSED;
    row_job job = {.call = c, .fn = fn};
    return run_rows(&job, x, 2, (int)c->attrs[0]);
}

// out, x; attrs: the dim.
static int k_softmax(const rl_call *c) { return softmax(c, row_softmax); }
static int k_log_softmax(const rl_call *c) { return softmax(c, row_log_softmax); }

// A vector of n floats, in place or converted in `held`; NULL for an operand that is left out.
static const float *vector_of(const rl_operand *x, int64_t n, float *held) {
    if (x->ndim < 0) return NULL;
    if (x->dtype == RL_F32 && x->strides[0] == 1) return (const float *)x->data;
    LOAD_F[x->dtype](held, x->data, x->strides[0], n);
    return held;
}

static RL_ONCE int norm(const rl_call *c, row_fn fn) {
    const rl_operand *x[2] = {&c->op[0], &c->op[1]};
    if (c->n < 2 || c->n > 4 || c->n_attrs != 1 || x[0]->ndim < 1 || x[1]->ndim < 1 ||
        !same_shapes(x, 2))
        return RL_REFUSED;
    int dim = x[0]->ndim - 1;
    int64_t n = x[0]->shape[dim];
    for (int i = 2; i < c->n; i++) {
        const rl_operand *part = &c->op[i];
        if (part->ndim < 0) continue;
        if (part->ndim != 1 || part->shape[0] != n || !IS_FLOAT(part->dtype)) return RL_REFUSED;
    }
    if (!rl_numel(x[0])) return RL_OK;
    float *held = rl_shared(n * 8);
    if (!held) return RL_MEMORY;
    row_job job = {.call = c, .fn = fn, .eps = rl_double(c->attrs[0])};
    if (c->n > 2) job.weight = vector_of(&c->op[2], n, held);
    if (c->n > 3) job.bias = vector_of(&c->op[3], n, held + n);
    return run_rows(&job, x, 2, dim);
}

// out, x, weight or none, bias or none; attrs: eps. Over the last dim.
static int k_layer_norm(const rl_call *c) { return norm(c, row_layer_norm); }
static int k_rms_norm(const rl_call *c) { return norm(c, row_rms_norm); }

static RL_ONCE void row_rope(const row_job *job, float *const *x, int64_t n) {
    float *out = x[0];
    const float *in = x[1], *cosine = x[2], *sine = x[3];
    int64_t half = job->widths[2], i = 0;
    if (job->interleaved)
        for (; i < half; i++) {
            float a = fload(in + 2 * i), b = fload(in + 2 * i + 1);
            float cos = fload(cosine + i), sin = fload(sine + i);
            fstore(out + 2 * i, a * cos - b * sin);
            fstore(out + 2 * i + 1, b * cos + a * sin);
        }
    for (; i < half; i += VF) {
        int64_t left = half - i;
        vf a = row_load(in + i, left), b = row_load(in + half + i, left);
        vf c = row_load(cosine + i, left), s = row_load(sine + i, left);
        row_store(out + i, a * c - b * s, left);
        row_store(out + half + i, b * c + a * s, left);
    }
    rl_copy(out + 2 * half, in + 2 * half, (size_t)(n - 2 * half) * 4);
}

// out, x, cos, sin; attrs: interleaved. cos and sin have half as many features as are rotated.
static RL_ONCE int k_rope(const rl_call *c) {
    const rl_operand *x[4];
    if (c->n != 4 || c->n_attrs != 1) return RL_REFUSED;
    for (int i = 0; i < 4; i++) x[i] = &c->op[i];
    int dim = x[0]->ndim - 1;
    if (dim < 0 || !same_shapes(x, 2)) return RL_REFUSED;
    for (int i = 2; i < 4; i++) {
        if (x[i]->ndim != dim + 1 || x[i]->shape[dim] != x[2]->shape[dim]) return RL_REFUSED;
        for (int d = 0; d < dim; d++)
            if (x[i]->shape[d] != x[0]->shape[d]) return RL_REFUSED;
    }
    if (2 * x[2]->shape[dim] > x[0]->shape[dim]) return RL_REFUSED;
    row_job job = {.call = c, .fn = row_rope, .interleaved = c->attrs[0] != 0};
    return run_rows(&job, x, 4, dim);
}

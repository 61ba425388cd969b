// Packed rows: n signed bytes, a float16 scale for each 32 of them, zeros up to a whole word.
// core/basis/packed.py describes them. And writes of rows into a cache.

RL_INLINE int64_t packed_bytes(int64_t n) { return n + (n / 32 + 1) / 2 * 4; }

// A row of n floats from packed bytes.
static RL_APART void unpack_row(float *to, const uint8_t *from, int64_t n) {
    for (int64_t i = 0; i < n; i += 32) {
        vf d = vsplat(q_half(from + n + i / 16)), values[32 / VF];
        for (int half = 0; half < 2; half++) {
            b16 bytes;
            rl_copy(&bytes, from + i + half * 16, 16);
            q_floats(bytes, values + half * 16 / VF);
        }
        for (int j = 0; j < 32 / VF; j++) vstore(to + i + j * VF, values[j] * d);
    }
}

static void pack_row(uint8_t *to, const float *from, int64_t n) {
    rl_zero(to + n, (size_t)(packed_bytes(n) - n));
    for (int64_t i = 0; i < n; i += 32) {
        float top = 0;
        int nan = 0;
        RL_SMALL_LOOP for (int j = 0; j < 32; j++) {
            float x = __builtin_fabsf(fload(from + i + j));
            nan |= x != x;
            top = x > top ? x : top;
        }
        // A smaller scale rounds to zero.
        float d = nan ? __builtin_nanf("") : top / 127, by = d > 0x1p-25f ? 1 / d : 0;
        RL_SMALL_LOOP for (int j = 0; j < 32; j++) {
            float x = fload(from + i + j) * by;
            x = x != x ? 0 : x + (x < 0 ? -0.5f : 0.5f);
            to[i + j] = (uint8_t)(int8_t)x;
        }
        uint16_t scale = nan ? 0x7e00 : to_half(d);
        rl_copy(to + n + i / 16, &scale, 2);
    }
}

typedef struct {
    const rl_call *call;
    rl_walk walk;
    int64_t n;
    int failed;
} pack_job;

static RL_ONCE void pack_item(void *ctx, int64_t item, int thread) {
    pack_job *job = ctx;
    const rl_operand *x = &job->call->op[1];
    float *row = rl_scratch(thread, job->n * 4);
    if (!row) {
        job->failed = 1;
        return;
    }
    rl_place p = walk_to(&job->walk, item);
    LOAD_F[x->dtype](row, x->data + p.at[1] * RL_SIZE[x->dtype], x->strides[x->ndim - 1], job->n);
    pack_row(job->call->op[0].data + p.at[0], row, job->n);
}

// out (..., packed bytes), x (..., n); out is contiguous along the last dim.
static RL_ONCE int k_pack_rows(const rl_call *c) {
    const rl_operand *x[2] = {&c->op[0], &c->op[1]};
    int dim = x[0]->ndim - 1;
    if (c->n != 2 || dim < 0 || x[1]->ndim != dim + 1 || x[0]->dtype != RL_U8 ||
        !IS_FLOAT(x[1]->dtype) || x[0]->strides[dim] != 1)
        return RL_REFUSED;
    for (int d = 0; d < dim; d++)
        if (x[0]->shape[d] != x[1]->shape[d]) return RL_REFUSED;
    int64_t n = x[1]->shape[dim];
    if (n % 32 || x[0]->shape[dim] != packed_bytes(n)) return RL_REFUSED;
    if (!rl_numel(x[0])) return RL_OK;
    pack_job job = {.call = c, .walk = walk_over(x, 2, dim), .n = n};
    run_items(job.walk.outer, rl_numel(x[1]), pack_item, &job);
    return job.failed ? RL_MEMORY : RL_OK;
}

// cache (batch, heads, capacity, features), values (batch, heads, n, features), offsets (batch,):
// row b of the values goes to the positions from offsets[b] on.
static RL_ONCE int k_cache_write(const rl_call *c) {
    const rl_operand *out = &c->op[0], *in = &c->op[1], *offsets = &c->op[2];
    if (c->n != 3 || out->ndim != 4 || in->ndim != 4 || offsets->ndim != 1 ||
        !IS_INT(offsets->dtype) || out->dtype != in->dtype || out->dtype >= RL_Q4_0)
        return RL_REFUSED;
    for (int d = 0; d < 4; d++)
        if (d != 2 && in->shape[d] != out->shape[d]) return RL_REFUSED;
    if (offsets->shape[0] != out->shape[0]) return RL_REFUSED;
    int64_t batch = out->shape[0], places = out->shape[2] - in->shape[2] + 1;
    int64_t *first = rl_numel(in) ? rl_shared(batch * 8) : NULL;
    if (rl_numel(in) && !first) return RL_MEMORY;
    if (!copy_indices(first, offsets, batch, places)) return RL_INDEX;
    for (int64_t b = 0; b < batch && first; b++) {
        rl_operand part[2] = {*out, *in};
        for (int i = 0; i < 2; i++) {
            rl_operand *x = &part[i];
            int64_t start = b * x->strides[0] + (i ? 0 : first[b] * x->strides[2]);
            x->data += start * RL_SIZE[x->dtype];
            x->shape[0] = 1, x->shape[2] = in->shape[2];
        }
        move(&part[0], &part[1]);
    }
    return RL_OK;
}

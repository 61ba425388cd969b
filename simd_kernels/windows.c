// Windows along rows, weighted sums of rows, and the kernels that are made of these two alone.

// Elements of a row of results that are computed at once.
#define SPAN 1024
// The most bytes that a part of a row with all its windows may take.
#define SPAN_BYTES (1 << 20)
// The most parts that a row is loaded in where windows lie apart.
#define PHASES 64

// Whether the dims of x from `from` on are contiguous.
static int packed(const rl_operand *x, int from) {
    int64_t step = 1;
    for (int d = x->ndim - 1; d >= from; d--) {
        if (x->shape[d] != 1 && x->strides[d] != step) return 0;
        step *= x->shape[d];
    }
    return 1;
}

// Of the elements from + i * step, i < n, those from number `first` to before `last` are among the
// `size` elements of a row, which are `stride` apart.
typedef struct {
    int dtype;
    int64_t stride, from, step, n, first, last;
} row_cut;

static RL_ONCE row_cut cut_row(int dtype, int64_t stride, int64_t size, int64_t from, int64_t step,
                               int64_t n) {
    int64_t first = from < 0 ? rl_min(n, (step - 1 - from) / step) : 0;
    int64_t last = from < size ? rl_min(n, (size - 1 - from) / step + 1) : 0;
    return (row_cut){dtype, stride, from, step, n, first, rl_max(first, last)};
}

// to[i] = from[2 * i], i < n. Reads nothing past the last of these.
static RL_ONCE void load_second(float *to, const uint8_t *from, int64_t n) {
    int64_t i = 0;
    for (; i + VF < n; i += VF)
        vstore(to + i, EVEN(vload(from + i * 8), vload(from + i * 8 + VF * 4)));
    RL_SMALL_LOOP for (; i < n; i++) rl_copy(to + i, from + i * 8, 4);
}

// Loads these elements of row x, and `fill` outside of it.
static RL_ONCE void load_row(const row_cut *c, float *to, const uint8_t *x, float fill) {
    for (int64_t i = 0; i < c->first; i++) to[i] = fill;
    int64_t n = c->last - c->first, step = c->step * c->stride;
    if (n) x += (c->from + c->first * c->step) * c->stride * RL_SIZE[c->dtype];
    if (n && c->dtype == RL_F32 && step == 1) move_bytes((uint8_t *)(to + c->first), x, n * 4);
    else if (n && c->dtype == RL_F32 && step == 2) load_second(to + c->first, x, n);
    else if (n) LOAD_F[c->dtype](to + c->first, x, step, n);
    for (int64_t i = c->last; i < c->n; i++) to[i] = fill;
}

// The elements from i on of the sum below: so many vectors, the last of which ends before n.
RL_INLINE void weigh_some(const int vectors, float *to, const float *const *from, const float *by,
                          int64_t taps, int64_t i, int64_t n, int add) {
    int64_t last = rl_min(i + (vectors - 1) * VF, n - VF);
    vf sum[4];
#define AT(k) ((k) < vectors - 1 ? i + (k) * VF : last)
    for (int k = 0; k < vectors; k++) sum[k] = add ? vload(to + AT(k)) : (vf){};
    for (int64_t t = 0; t < taps; t++) {
        vf w = vsplat(by[t]);
        for (int k = 0; k < vectors; k++) sum[k] = vfma(w, vload(from[t] + AT(k)), sum[k]);
    }
    for (int k = 0; k < vectors - 1; k++) vstore(to + AT(k), sum[k]);
#undef AT
    vi fresh = last_lanes(last + VF - i - (vectors - 1) * VF);
    vstore(to + last, vselect(fresh, sum[vectors - 1], vload(to + last)));
}

// to[i] = (to[i] if `add`) + the sum over t of by[t] * from[t][i], i < n.
static void weighted(float *to, const float *const *from, const float *by, int64_t taps, int64_t n,
                     int add) {
    int64_t i = 0;
    for (; n >= VF && i < n; i += 4 * VF)
        if (n - i > 3 * VF) weigh_some(4, to, from, by, taps, i, n, add);
        else if (n - i > 2 * VF) weigh_some(3, to, from, by, taps, i, n, add);
        else if (n - i > VF) weigh_some(2, to, from, by, taps, i, n, add);
        else weigh_some(1, to, from, by, taps, i, n, add);
    for (; i < n; i++) {
        float sum = add ? fload(to + i) : 0;
        for (int64_t t = 0; t < taps; t++) sum += by[t] * fload(from[t] + i);
        fstore(to + i, sum);
    }
}

// --- weighted elements along a dim --------------------------------------------------------------

typedef struct {
    const float *x;
    float *out;
    int64_t rows, n, m, inner, blocks; // x (rows, n, inner), out (rows, m, inner)
    const int64_t *first;              // element j has the terms first[j] to first[j + 1] - 1
    const int64_t *at;
    const float *by;
    int copies, lanes; // whether each element is one of x; whether a vector's lanes are rows
} resample_job;

#define RESAMPLED 64 // rows or elements of an item

// to (m, n) = from (n, m) turned; their rows are `ts` and `fs` apart.
static RL_ONCE void turn(float *to, int64_t ts, const float *from, int64_t fs, int64_t m,
                         int64_t n) {
    for (int64_t i = 0, j; i < m; i += 4) {
        for (j = 0; i + 4 <= m && j + 4 <= n; j += 4)
            turn4(to + i * ts + j, ts, from + j * fs + i, fs);
        for (; j < n; j++)
            for (int64_t k = i; k < rl_min(i + 4, m); k++)
                fstore(to + k * ts + j, fload(from + j * fs + k));
    }
}

// The last dim: the lanes of a vector are rows.
static void resample_rows(const resample_job *job, int64_t row, int64_t last, float *in) {
    const int64_t n = job->n, m = job->m, *first = job->first, *at = job->at;
    const float *by = job->by, *x = job->x + row * n;
    float *made = in + n * VF, *to = job->out + row * m;
    for (; job->lanes && row + VF <= last; row += VF, x += n * VF, to += m * VF) {
        turn(in, VF, x, n, n, VF);
        for (int64_t j = 0, t = 0; j < m; j++) {
            vf sum = {0};
            for (; t < first[j + 1]; t++) sum = vfma(vsplat(by[t]), vload(in + at[t] * VF), sum);
            vstore(made + j * VF, sum);
        }
        turn(to, m, made, VF, VF, m);
    }
    for (; row < last; row++, x += n, to += m)
        if (job->copies)
            for (int64_t j = 0; j < m; j++) rl_copy(to + j, x + at[j], 4);
        else
            for (int64_t j = 0, t = 0; j < m; j++) {
                float sum = 0;
                for (; t < first[j + 1]; t++) sum += by[t] * fload(x + at[t]);
                fstore(to + j, sum);
            }
}

static RL_ONCE void resample_item(void *ctx, int64_t item, int thread) {
    const resample_job *job = ctx;
    const float *from[PIECE];
    if (job->inner == 1) {
        int64_t row = item * RESAMPLED;
        resample_rows(job, row, rl_min(job->rows, row + RESAMPLED), rl_scratch(thread, 0));
        return;
    }
    int64_t row = item / job->blocks, j = item % job->blocks * RESAMPLED;
    const float *x = job->x + row * job->n * job->inner;
    for (int64_t end = rl_min(job->m, j + RESAMPLED); j < end; j++) {
        float *to = job->out + (row * job->m + j) * job->inner;
        int64_t t = job->first[j], last = job->first[j + 1];
        if (job->copies) {
            rl_copy(to, x + job->at[t] * job->inner, (size_t)job->inner * 4);
            continue;
        }
        int64_t some = rl_min(PIECE, last - t);
        do {
            for (int64_t k = 0; k < some; k++) from[k] = x + job->at[t + k] * job->inner;
            weighted(to, from, job->by + t, some, job->inner, t > job->first[j]);
            t += some, some = rl_min(PIECE, last - t);
        } while (some);
    }
}

// out[.., j, ..] = the sum over t of weight[j][t] * x[.., at[j][t], ..], nothing for an `at` of -1.
// Weights are the bits of floats. attrs: the dim.
static RL_ONCE int k_resample(const rl_call *c) {
    const rl_operand *out = &c->op[0], *x = &c->op[1], *at = &c->op[2], *weight = &c->op[3];
    const rl_operand *tables[2] = {at, weight};
    if (c->n != 4 || c->n_attrs != 1 || out->dtype != RL_F32 || x->dtype != RL_F32 ||
        x->ndim != out->ndim || at->ndim != 2 || !IS_INT(at->dtype) || weight->dtype != RL_I32 ||
        !same_shapes(tables, 2) || !packed(out, 0) || !packed(x, 0))
        return RL_REFUSED;
    int64_t dim = c->attrs[0], terms = rl_numel(at), used = 0, copies = 0;
    if (dim < 0 || dim >= out->ndim || at->shape[0] != out->shape[dim]) return RL_REFUSED;
    resample_job job = {.x = (const float *)(const void *)x->data, .rows = 1,
                        .out = (float *)(void *)out->data, .n = x->shape[dim],
                        .m = out->shape[dim], .inner = 1};
    for (int d = 0; d < out->ndim; d++)
        if (d != dim) {
            if (x->shape[d] != out->shape[d]) return RL_REFUSED;
            *(d < dim ? &job.rows : &job.inner) *= x->shape[d];
        }
    int64_t *first = rl_shared(rl_times(job.m + 1 + terms, 12)), *places = first + job.m + 1;
    if (!first) return RL_MEMORY;
    float *by = (float *)(void *)(places + terms);
    for (int64_t i = 0; i < terms; i++) {
        if (i % at->shape[1] == 0) first[i / at->shape[1]] = used;
        LOAD_I[at->dtype](places + used, element_at(at, i, 0), 1, 1);
        rl_copy(by + used, element_at(weight, i, 0), 4);
        if (places[used] < -1 || places[used] >= job.n) return RL_INDEX;
        copies += places[used] >= 0 && by[used] == 1.0f;
        used += places[used] >= 0;
    }
    for (int64_t j = terms ? job.m : 0; j <= job.m; j++) first[j] = used;
    if (!rl_numel(out)) return RL_OK;
    job.first = first, job.at = places, job.by = by;
    job.copies = at->shape[1] == 1 && copies == job.m;
    job.blocks = (job.m + RESAMPLED - 1) / RESAMPLED;
    int64_t bytes = rl_times(job.n + job.m, VF * 4);
    job.lanes = job.inner == 1 && !job.copies && job.rows >= VF && bytes <= SPAN_BYTES;
    if (job.lanes && !reserve(bytes)) return RL_MEMORY;
    int64_t items = job.inner == 1 ? (job.rows + RESAMPLED - 1) / RESAMPLED : job.rows * job.blocks;
    share_out(5.0 * (double)rl_numel(out) * (double)(1 + used / job.m), items, resample_item, &job);
    return RL_OK;
}

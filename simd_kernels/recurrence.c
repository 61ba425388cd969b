// Recurrences along a sequence, one token after another: the scan of Mamba, and linear attention.

typedef struct {
    const rl_call *call;
    int64_t blocks; // of VF channels in a group
    int failed;
} scan_job;

// The float at index i, j, k of the first three dims.
RL_INLINE float *scan_at(const rl_operand *x, int64_t i, int64_t j, int64_t k) {
    return (float *)x->data + i * x->strides[0] + j * x->strides[1] + k * x->strides[2];
}

// 2 ** x within 2 ulp for x of [-126, 127], and as at these ends beyond: vexp costs twice as much.
RL_INLINE vf scan_power(vf x) {
    x = vmax(vsplat(-126.5f), vmin(vsplat(127.0f), x));
    vf shifted = x + 12582912.0f, r = x - (shifted - 12582912.0f), square = r * r;
    vf p = vfma(vfma(vsplat(0.00015467365f), r, vsplat(0.00134004322f)), square,
                vfma(vsplat(0.00961803596f), r, vsplat(0.0555032721f)));
    p = vfma(vfma(p, r, vsplat(0.240226511f)), r, vsplat(0.693147207f));
    // The bits of the whole part become an exponent.
    return vfma(p, r, vsplat(1.0f)) * (vf)(((vi)shifted - (0x4b400000 - 127)) << 23);
}

#if RL_ROOM
// to (n, VF) = the numbers of `left` channels from `first` on, times `by`. Channels are `across`
// apart, their n states `along` apart.
static RL_APART void scan_states(float *to, const float *first, int64_t across, int64_t along,
                                 int64_t n, int64_t left, float by) {
    if (across == 1) {
        for (int64_t s = 0; s < n; s++) vstore(to + s * VF, row_load(first + s * along, left) * by);
        return;
    }
    if (along == 1 && left == VF && n % 4 == 0) {
        for (int64_t s = 0; s < n; s += 4)
            for (int64_t i = 0; i < VF; i += 4)
                turn4(to + s * VF + i, VF, first + i * across + s, across);
        for (int64_t s = 0; s < n; s++) vstore(to + s * VF, vload(to + s * VF) * by);
        return;
    }
    for (int64_t s = 0; s < n; s++)
        RL_SMALL_LOOP for (int64_t i = 0; i < left; i++)
            to[s * VF + i] = fload(first + i * across + s * along) * by;
}
#endif

// The states of VF channels, (n, VF), over all tokens.
static void scan_item(void *ctx, int64_t item, int thread) {
    scan_job *job = ctx;
    const rl_operand *op = job->call->op, *out = op, *x = op + 1, *dt = op + 2, *b = op + 4;
    const rl_operand *c = op + 5, *state = op + 6;
    int64_t length = x->shape[1], n = op[3].shape[1], per = x->shape[2] / b->shape[2];
    int64_t block = item % job->blocks, group = item / job->blocks % b->shape[2];
    int64_t batch = item / job->blocks / b->shape[2], first = group * per + block * VF;
    int64_t left = rl_min(VF, per - block * VF);
    float *rates = rl_scratch(thread, 2 * n * VF * 4), *h = rates + n * VF;
    if (!rates) {
        job->failed = 1;
        return;
    }
    rl_zero(rates, (size_t)(2 * n * VF * 4));
#if RL_ROOM
    scan_states(rates, scan_at(op + 3, first, 0, 0), op[3].strides[0], op[3].strides[1], n, left,
                1.44269504f);
    if (state->ndim >= 0)
        scan_states(h, scan_at(state, batch, first, 0), state->strides[1], state->strides[2], n,
                    left, 1);
#else
    for (int64_t s = 0; s < n; s++)
        RL_SMALL_LOOP for (int64_t i = 0; i < left; i++) {
            rates[s * VF + i] = fload(scan_at(op + 3, first + i, s, 0)) * 1.44269504f;
            if (state->ndim >= 0) h[s * VF + i] = fload(scan_at(state, batch, first + i, s));
        }
#endif
    for (int64_t t = 0; t < length; t++) {
        vf step = row_load(scan_at(dt, batch, t, first), left);
        vf new = step * row_load(scan_at(x, batch, t, first), left), y = {0};
        const float *write = scan_at(b, batch, t, group), *read = scan_at(c, batch, t, group);
        for (int64_t s = 0; s < n; s++) {
            vf decay = scan_power(step * vload(rates + s * VF));
            vf now = vfma(decay, vload(h + s * VF), new * fload(write + s));
            vstore(h + s * VF, now);
            y = vfma(now, vsplat(fload(read + s)), y);
        }
        row_store(scan_at(out, batch, t, first), y, left);
    }
    const rl_operand *last = RL_ROOM && job->call->n > 7 ? op + 7 : out;
    for (int64_t s = 0; s < n; s++)
        row_store(scan_at(last, batch, (last == out ? length : 0) + s, first), vload(h + s * VF),
                  left);
}

// Whether an operand is of float32, has `n` dims of these sizes, and, if `dense`, the last one's
// elements side by side.
static RL_ONCE RL_APART int scan_is(const rl_operand *x, const int64_t *shape, int n, int dense) {
    if (x->ndim != n || x->dtype != RL_F32) return 0;
    if (dense && x->strides[n - 1] != 1 && x->shape[n - 1] > 1) return 0;
    for (int d = 0; d < n; d++)
        if (x->shape[d] != shape[d]) return 0;
    return 1;
}

// out, x, dt, a, b, c, state or none; see core/ops/recurrence.py. All but a and the state are
// contiguous along the last dim. An operand more, (batch, n, channels), gets the last state in
// place of the result's last rows; it may be the state's memory.
static RL_ONCE int k_selective_scan(const rl_call *call) {
    const rl_operand *op = call->op, *x = op + 1;
    if (call->n < 7 || call->n > 7 + RL_ROOM || call->n_attrs || x->ndim != 3 ||
        op[3].ndim != 2 || op[4].ndim != 4)
        return RL_REFUSED;
    int64_t batch = x->shape[0], length = x->shape[1], channels = x->shape[2], n = op[3].shape[1];
    int64_t groups = op[4].shape[2], out[] = {batch, length + n, channels}, rates[] = {channels, n};
    int64_t read[] = {batch, length, groups, n}, states[] = {batch, channels, n};
    int64_t last[] = {batch, n, channels};
    int good = scan_is(op, out, 3, 1) && scan_is(x, x->shape, 3, 1)
        && scan_is(op + 2, x->shape, 3, 1) && scan_is(op + 3, rates, 2, 0)
        && scan_is(op + 4, read, 4, 1) && scan_is(op + 5, read, 4, 1)
        && (op[6].ndim < 0 || scan_is(op + 6, states, 3, 0))
        && (!RL_ROOM || call->n == 7 || scan_is(op + 7, last, 3, 1));
    if (!good || groups < 1 || channels % groups) return RL_REFUSED;
    scan_job job = {call, (channels / groups + VF - 1) / VF, 0};
    int64_t items = batch * groups * job.blocks;
    run_items(items, rl_times(rl_numel(op), 16 * n), scan_item, &job);
    return job.failed ? RL_MEMORY : RL_OK;
}

// Vectors of columns that are read at once: their sums do not wait for each other.
#define DELTA_WIDE (VF == 4 ? 2 : 4)

// n vectors of columns of the state of one head, which lies in the result, for one token. row: r,
// decay, k, a, b. left: the columns of the last vector.
RL_INLINE void delta_columns(const float *const *row, int64_t keys, int64_t shared, float *state,
                             int64_t wide, const float *v, float *y, int n, int64_t left,
                             int before) {
    vf value[4], sum[4] = {{0}}, seen[4] = {{0}};
    for (int i = 0; i < n; i++) value[i] = row_load(v + i * VF, left);
    for (int64_t k = 0; k < keys && row[3]; k++)
        for (int i = 0; i < n; i++)
            seen[i] = vfma(row_load(state + k * wide + i * VF, left), vsplat(fload(row[3] + k)),
                           seen[i]);
    for (int64_t k = 0; k < keys; k++)
        for (int i = 0; i < n; i++) {
            vf old = row_load(state + k * wide + i * VF, left);
            vf kept = vsplat(fload(row[1] + (shared ? 0 : k)));
            vf now = vfma(old, kept, value[i] * fload(row[2] + k));
            if (row[3]) now = vfma(seen[i], vsplat(fload(row[4] + k)), now);
            row_store(state + k * wide + i * VF, now, left);
            sum[i] = vfma(before ? old : now, vsplat(fload(row[0] + k)), sum[i]);
        }
    for (int i = 0; i < n; i++) row_store(y + i * VF, sum[i], left);
}

static RL_ONCE RL_APART void delta_rest(const float *const *row, int64_t keys, int64_t shared,
                                        float *state, int64_t wide, const float *v, float *y,
                                        int64_t left, int before) {
    delta_columns(row, keys, shared, state, wide, v, y, 1, left, before);
}

#if RL_ROOM
// Tokens that are read at once where a head has one decay, and keys of a part of their rows.
#define DELTA_TOKENS (VF == 16 ? 8 : 4)
#define DELTA_KEYS 256
typedef float delta_rows[2 * DELTA_TOKENS][DELTA_KEYS]; // r of each token, then k of each

// sum[t] += r[t] S, then S = whole S + the sum of k[t] new[t], for `vectors` of the columns.
RL_INLINE void delta_tile(delta_rows rows, int64_t keys, float *state, int64_t wide, vf whole,
                          const vf new[][2], vf sum[][2], const int vectors, int64_t left) {
    for (int64_t k = 0; k < keys; k++, state += wide) {
        vf old[2], now[2];
        for (int i = 0; i < vectors; i++) {
            old[i] = vectors > 1 ? vload(state + i * VF) : row_load(state, left);
            now[i] = old[i] * whole;
        }
#pragma GCC unroll 8
        for (int t = 0; t < DELTA_TOKENS; t++) {
            vf read = vsplat(rows[t][k]), write = vsplat(rows[DELTA_TOKENS + t][k]);
            for (int i = 0; i < vectors; i++) {
                sum[t][i] = vfma(old[i], read, sum[t][i]);
                now[i] = vfma(new[t][i], write, now[i]);
            }
        }
        for (int i = 0; i < vectors; i++)
            if (vectors > 1) vstore(state + i * VF, now[i]);
            else row_store(state, now[i], left);
    }
}

// DELTA_TOKENS tokens of one head from t on: as token by token, but the state is read once. What a
// token adds reaches later ones through scores, as in attention without softmax (Yang et al.,
// 2024). `scores` and `kept` are of the results, `rest` of what is left at the end of each token.
static void delta_tokens(const rl_call *call, int64_t batch, int64_t head, int64_t t, float *state,
                         int64_t wide) {
    __attribute__((aligned(64))) delta_rows rows;
    const rl_operand *op = call->op;
    int64_t keys = op[3].shape[3], values = op[4].shape[3];
    int before = call->attrs[0] != 0;
    float scores[DELTA_TOKENS][DELTA_TOKENS] = {{0}}, kept[DELTA_TOKENS + 1], rest[DELTA_TOKENS];
    float by[DELTA_TOKENS];
    kept[0] = 1;
    for (int i = 0; i < DELTA_TOKENS; i++) {
        by[i] = fload(scan_at(op + 2, batch, head, t + i));
        kept[i + 1] = kept[i] * by[i];
    }
    rest[DELTA_TOKENS - 1] = 1;
    for (int i = DELTA_TOKENS - 1; i > 0; i--) rest[i - 1] = rest[i] * by[i];
    float *first = scan_at(op + 4, batch, head, t), *y = scan_at(op, batch, head, t);
    int64_t step = op[4].strides[2], to = op->strides[2];
    for (int64_t part = 0; part < keys; part += DELTA_KEYS) {
        int64_t n = rl_min(DELTA_KEYS, keys - part), padded = (n + VF - 1) & ~(int64_t)(VF - 1);
        for (int i = 0; i < 2 * DELTA_TOKENS; i++) {
            const rl_operand *x = op + (i < DELTA_TOKENS ? 1 : 3);
            const float *from = scan_at(x, batch, head, t + i % DELTA_TOKENS) + part;
            for (int64_t k = n & ~(int64_t)(VF - 1); k < padded; k++) rows[i][k] = 0;
            rl_copy(rows[i], from, (size_t)n * 4);
        }
        for (int i = 0; i < DELTA_TOKENS; i++)
            for (int j = 0; j < i + !before; j += 4) {
                v4 made = dot4(rows[i], rows[DELTA_TOKENS + j], DELTA_KEYS, padded);
                for (int l = 0; l < 4; l++) scores[i][j + l] += made[l];
            }
        int last = part + n == keys;
        for (int i = 0; i < DELTA_TOKENS && last; i++) {
            float left = 1;
            for (int j = DELTA_TOKENS - 1; j >= 0; j--) {
                if (j > i - before) scores[i][j] = 0;
                else {
                    scores[i][j] *= left;
                    left *= by[j];
                }
            }
        }
        for (int64_t j = 0; j < values;) {
            int64_t left = values - j, two = left >= 2 * VF;
            vf new[DELTA_TOKENS][2], sum[DELTA_TOKENS][2];
            for (int i = 0; i < DELTA_TOKENS; i++)
                for (int c = 0; c < 1 + two; c++) {
                    int64_t at = j + c * VF;
                    new[i][c] = row_load(first + i * step + at, left - c * VF) * rest[i];
                    sum[i][c] = part ? row_load(y + i * to + at, left - c * VF) : (vf){0};
                }
            float *at = state + part * wide + j;
            vf whole = vsplat(kept[DELTA_TOKENS]);
            if (two) delta_tile(rows, n, at, wide, whole, new, sum, 2, left);
            else delta_tile(rows, n, at, wide, whole, new, sum, 1, left);
            for (int i = 0; i < DELTA_TOKENS; i++)
                for (int c = 0; c < 1 + two; c++) {
                    vf made = sum[i][c];
                    if (last) {
                        made *= kept[i + !before];
                        for (int l = 0; l <= i - before; l++) {
                            vf value = row_load(first + l * step + j + c * VF, left - c * VF);
                            made = vfma(value, vsplat(scores[i][l]), made);
                        }
                    }
                    row_store(y + i * to + j + c * VF, made, left - c * VF);
                }
            j += two ? 2 * VF : VF;
        }
    }
}
#endif

// One head.
static void delta_item(void *ctx, int64_t item, int thread) {
    const rl_call *call = ctx;
    const rl_operand *op = call->op, *out = op, *v = op + 4, *from = op + 7;
    int64_t heads = v->shape[1], length = v->shape[2], values = v->shape[3], keys = op[3].shape[3];
    int64_t batch = item / heads, head = item % heads;
    int64_t shared = op[2].shape[3] == 1;
    const rl_operand *last = RL_ROOM && call->n > 8 ? op + 8 : out;
    float *state = scan_at(last, batch, head, last == out ? length : 0);
    int64_t wide = last->strides[2], t = 0;
    int before = call->attrs[0] != 0;
    (void)thread;
    for (int64_t k = 0; k < keys; k++) {
        const float *row = from->ndim < 0 ? NULL : scan_at(from, batch, head, k);
#if RL_ROOM
        if (row == state + k * wide && from->strides[3] == 1) continue; // it is there already
        if (row && from->strides[3] == 1) {
            rl_copy(state + k * wide, row, (size_t)values * 4);
            continue;
        }
#endif
        RL_SMALL_LOOP for (int64_t i = 0; i < values; i++)
            fstore(state + k * wide + i, row ? fload(row + i * from->strides[3]) : 0);
    }
#if RL_ROOM
    for (; shared && op[5].ndim < 0 && t + DELTA_TOKENS <= length; t += DELTA_TOKENS)
        delta_tokens(call, batch, head, t, state, wide);
#endif
    for (; t < length; t++) {
        const float *row[5] = {
            scan_at(op + 1, batch, head, t), scan_at(op + 2, batch, head, t),
            scan_at(op + 3, batch, head, t), NULL, NULL,
        };
        for (int i = 0; i < 2 && op[5].ndim >= 0; i++)
            row[3 + i] = scan_at(op + 5 + i, batch, head, t);
        const float *value = scan_at(v, batch, head, t);
        float *y = scan_at(out, batch, head, t);
        int64_t j = 0;
        for (; j + DELTA_WIDE * VF <= values; j += DELTA_WIDE * VF)
            delta_columns(row, keys, shared, state + j, wide, value + j, y + j, DELTA_WIDE, VF,
                          before);
        for (; j < values; j += VF)
            delta_rest(row, keys, shared, state + j, wide, value + j, y + j,
                       rl_min(VF, values - j), before);
    }
}

// out, r, decay, k, v, a and b or none, state or none; attrs: whether the state is read before a
// token is written; see core/ops/recurrence.py. All but the state are contiguous along the last
// dim. An operand more, of the state's shape, gets the last state in place of the result's last
// rows; it may be the state's memory.
static RL_ONCE int k_delta_scan(const rl_call *call) {
    const rl_operand *op = call->op, *k = op + 3, *v = op + 4;
    if (call->n < 8 || call->n > 8 + RL_ROOM || call->n_attrs != 1 || k->ndim != 4 ||
        v->ndim != 4)
        return RL_REFUSED;
    int64_t batch = k->shape[0], heads = k->shape[1], length = k->shape[2], keys = k->shape[3];
    int64_t values = v->shape[3], out[] = {batch, heads, length + keys, values};
    int64_t own[] = {batch, heads, length, values}, one[] = {batch, heads, length, 1};
    int64_t state[] = {batch, heads, keys, values};
    int good = scan_is(op, out, 4, 1) && scan_is(v, own, 4, 1) && scan_is(k, k->shape, 4, 1)
        && scan_is(op + 1, k->shape, 4, 1)
        && (scan_is(op + 2, one, 4, 1) || scan_is(op + 2, k->shape, 4, 1))
        && (op[7].ndim < 0 || scan_is(op + 7, state, 4, 0))
        && (!RL_ROOM || call->n == 8 || scan_is(op + 8, state, 4, 1));
    for (int i = 5; i < 7 && good; i++)
        good = op[i].ndim < 0 ? op[11 - i].ndim < 0 : scan_is(op + i, k->shape, 4, 1);
    if (!good) return RL_REFUSED;
    run_items(batch * heads, rl_times(rl_numel(op), 4 * keys), delta_item, (void *)call);
    return RL_OK;
}

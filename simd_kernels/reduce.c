// Reductions over any dims, cumulative sums, argmax and argmin.

typedef struct {
    const rl_operand *out, *in;
    rl_walk kept, reduced; // over out and in; over in
    int kind, floats, truth;
    int64_t runs, chunks; // of the kept dims: runs of an item, or pieces of a run
} reduce_job;

typedef union {
    float f[PIECE];
    int64_t i[PIECE];
} reduce_buffer;

// n elements as floats or integers, or as 0 and 1 if only their truth matters.
static RL_APART const void *reduce_load(const reduce_job *job, int64_t at, int64_t step, int64_t n,
                               reduce_buffer *buffer) {
    const rl_operand *x = job->in;
    const uint8_t *from = x->data + at * RL_SIZE[x->dtype];
    if (job->truth) {
        reduce_buffer wide;
        int floats = IS_FLOAT(x->dtype);
        map_load(floats ? FLOATS : INTS, x, &wide, at, step, n);
        RL_SMALL_LOOP for (int64_t i = 0; i < n; i++)
            buffer->i[i] = floats ? wide.f[i] != 0 : wide.i[i] != 0;
        return buffer;
    }
    if (map_direct(job->floats ? FLOATS : INTS, x, step)) return from;
    map_load(job->floats ? FLOATS : INTS, x, buffer, at, step, n);
    return buffer;
}

#define BETTER(a, b) (kind == MAX ? (a) > (b) : (a) < (b))

static void store_result(const rl_operand *out, int64_t at, int64_t step, int floats,
                         const void *from, int64_t n) {
    map_store(floats ? FLOATS : INTS, out, from, at, step, n);
}

// The elements of a run per pass: all of them if they need no conversion.
static int64_t reduce_piece(const reduce_job *job, const rl_walk *w) {
    int direct = !job->truth && map_direct(job->floats ? FLOATS : INTS, job->in, w->step[0]);
    return direct ? rl_max(1, w->inner) : PIECE;
}

// One element of the output, from all runs of the reduced dims, beginning at `start` in the input.
static RL_APART void reduce_one(const reduce_job *job, int64_t to, int64_t start) {
    reduce_buffer buffer;
    const rl_walk *w = &job->reduced;
    int kind = job->kind, first = 1;
    double sum = 0;
    float best = 0;
    int64_t whole = 0, piece = reduce_piece(job, w);
    int bools = job->truth && job->in->dtype == RL_BOOL && w->step[0] == 1;
    rl_place p = walk_to(w, 0);
    if (job->truth) whole = kind == MIN;
    for (int64_t run = 0; run < w->outer; run++, walk_on(w, &p))
        for (int64_t s = 0; s < w->inner; s += piece) {
            int64_t n = rl_min(piece, w->inner - s), at = start + p.at[0] + s * w->step[0];
            if (job->truth && whole == (kind == MAX)) break; // decided
            if (bools) {
                const uint8_t *b = job->in->data + at;
                uint8_t found = 0;
                for (int64_t j = 0; j < n; j++) found |= (b[j] != 0) ^ (kind == MIN);
                if (found) whole = kind == MAX;
                continue;
            }
            const void *x = reduce_load(job, at, w->step[0], n, &buffer);
            const int64_t *i = x;
            if (job->truth)
                RL_SMALL_LOOP for (int64_t j = 0; j < n; j++)
                    whole = kind == MAX ? whole | i[j] : whole & i[j];
            else if (job->floats && kind == SUM) sum += row_total(x, n);
            else if (job->floats)
                best = extreme_of(x, n, kind, first ? fload(x) : best);
            else if (kind == SUM)
                RL_SMALL_LOOP for (int64_t j = 0; j < n; j++)
                    whole = (int64_t)((uint64_t)whole + (uint64_t)load64(i + j));
            else
                RL_SMALL_LOOP for (int64_t j = 0; j < n; j++)
                    whole = (first && !j) || BETTER(load64(i + j), whole) ? load64(i + j) : whole;
            first = 0;
        }
    if (kind == SUM) best = (float)sum;
    store_result(job->out, to, 1, job->floats, job->floats ? (void *)&best : (void *)&whole, 1);
}

// `n` contiguous elements of the output, each reduced over its own column.
static RL_APART void reduce_columns(const reduce_job *job, int64_t to, int64_t start, int64_t n) {
    reduce_buffer buffer, best;
    double sum[PIECE];
    const rl_walk *w = &job->reduced;
    int kind = job->kind, count = 0, adds = job->floats && kind == SUM;
    int quick = adds && map_direct(FLOATS, job->in, 1);
    rl_place p = walk_to(w, 0);
    for (int64_t j = 0; j < n; j++) sum[j] = 0;
    for (int64_t run = 0; run < w->outer; run++, walk_on(w, &p))
        for (int64_t s = 0; s < w->inner; s++, count++) {
            if (quick && (count & 3) == 1 && (count & 63) != 61 && s + 4 <= w->inner) {
                // Four rows at once.
                int64_t step = w->step[0];
                const float *r = (const float *)job->in->data + start + p.at[0] + s * step;
                add_four_rows(best.f, r, step, n);
                s += 3, count += 3;
                continue;
            }
            const void *x = reduce_load(job, start + p.at[0] + s * w->step[0], 1, n, &buffer);
            const float *f = x;
            const int64_t *i = x;
            if (!count) {
                if (job->floats) rl_copy(best.f, f, (size_t)n * 4);
                else rl_copy(best.i, i, (size_t)n * 8);
            } else if (!job->floats) {
                RL_SMALL_LOOP for (int64_t j = 0; j < n; j++) {
                    int64_t one = load64(i + j);
                    if (kind == SUM) best.i[j] = (int64_t)((uint64_t)best.i[j] + (uint64_t)one);
                    else if (BETTER(one, best.i[j])) best.i[j] = one;
                }
            } else if (adds && !(count & 63)) { // blocks of 64 are summed in float
                for (int64_t j = 0; j < n; j++)
                    sum[j] += (double)best.f[j], best.f[j] = fload(f + j);
            } else
                combine_rows(best.f, f, best.f, n, adds ? SUM : kind);
        }
    if (adds)
        for (int64_t j = 0; j < n; j++) best.f[j] = (float)(sum[j] + (double)best.f[j]);
    store_result(job->out, to, job->kept.step[0], job->floats, &best, n);
}

// Rows of floats that need no conversion, one after another, to elements one after another.
static int plain_rows(const reduce_job *job) {
    return job->floats && job->kept.outer == 1 && job->reduced.outer == 1 &&
           map_direct(FLOATS, job->in, job->reduced.step[0]) &&
           map_direct(FLOATS, job->out, job->kept.step[0]);
}

static RL_ONCE void reduce_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const reduce_job *job = ctx;
    const rl_walk *w = &job->kept;
    if (job->chunks) {
        int64_t s = item % job->chunks * PIECE;
        rl_place p = walk_to(w, item / job->chunks);
        reduce_columns(job, p.at[0] + s * w->step[0], p.at[1] + s, rl_min(PIECE, w->inner - s));
        return;
    }
    int64_t first = item * job->runs, last = rl_min(w->outer * w->inner, first + job->runs);
    if (plain_rows(job)) {
        reduce_rows((float *)job->out->data + first, (float *)job->in->data + first * w->step[1],
                    w->step[1], last - first, job->reduced.inner, job->kind);
        return;
    }
    for (int64_t i = first; i < last; i++) {
        rl_place p = walk_to(w, i / w->inner);
        int64_t s = i % w->inner;
        reduce_one(job, p.at[0] + s * w->step[0], p.at[1] + s * w->step[1]);
    }
}

#if RL_ROOM
typedef struct {
    const float *x;
    double *sums; // of items
    float *best;
    int64_t n;
    int kind;
} total_job;

static void total_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const total_job *job = ctx;
    const float *x = job->x + item * ITEM;
    int64_t n = rl_min(ITEM, job->n - item * ITEM);
    if (job->kind == SUM) job->sums[item] = row_total(x, n);
    else job->best[item] = extreme_of(x, n, job->kind, fload(x));
}

// All elements as one by all threads; 0 if there is no memory for it. The sum is row_total()'s.
static int total_of(const float *x, int64_t n, int kind, float *to) {
    int64_t items = (n + ITEM - 1) / ITEM;
    total_job job = {x, rl_shared(items * 8), NULL, n, kind};
    if (!job.sums) return 0;
    job.best = (float *)job.sums;
    rl_parallel(items, total_item, &job);
    double sum = 0;
    for (int64_t i = 0; i < items && kind == SUM; i++) sum += job.sums[i];
    *to = kind == SUM ? (float)sum : extreme_of(job.best, items, kind, *job.best);
    return 1;
}
#endif

// The input, and an output with size 1 in the reduced dims.
static RL_ONCE int reduce(const rl_call *c, int kind, int truth) {
    const rl_operand *out = &c->op[0], *in = &c->op[1];
    if (c->n != 2 || out->ndim < 0 || in->ndim != out->ndim) return RL_REFUSED;
    int floats = IS_FLOAT(in->dtype) && !truth;
    if (!(IS_FLOAT(in->dtype) || IS_INT(in->dtype))) return RL_REFUSED;
    if (!(truth ? out->dtype == RL_BOOL : floats ? IS_FLOAT(out->dtype) : IS_INT(out->dtype)))
        return RL_REFUSED;
    rl_operand kept[2] = {*out, *in}, reduced = *in;
    for (int d = 0; d < in->ndim; d++) {
        if (out->shape[d] == in->shape[d]) reduced.shape[d] = 1;
        else if (out->shape[d] == 1) kept[1].shape[d] = 1;
        else return RL_REFUSED;
    }
    if (!rl_numel(out)) return RL_OK;
    if (!rl_numel(in)) { // no elements: zero, false, or true for `all`
        if (kind != SUM && !truth) return RL_REFUSED;
        fill(out, kind == MIN);
        return RL_OK;
    }
    const rl_operand *x[2] = {&kept[0], &kept[1]}, *y = &reduced;
    reduce_job job = {.out = out, .in = in, .kind = kind, .floats = floats, .truth = truth,
                      .kept = walk_over(x, 2, -1), .reduced = walk_over(&y, 1, -1)};
    int64_t items, size = job.reduced.outer * job.reduced.inner;
#if RL_ROOM
    float one;
    if (size >= 1 << 15 && size == rl_numel(in) && plain_rows(&job) &&
        (kind != SUM || rl_threads() > 1) &&
        total_of((float *)in->data, size, kind, &one)) {
        store_result(out, 0, 1, 1, &one, 1);
        return RL_OK;
    }
#endif
    if (job.kept.inner > 1 && job.kept.step[1] == 1 && job.reduced.step[0] != 1) {
        job.chunks = (job.kept.inner + PIECE - 1) / PIECE;
        items = job.kept.outer * job.chunks;
    } else {
        job.runs = rl_max(1, ITEM / size);
        items = (job.kept.outer * job.kept.inner + job.runs - 1) / job.runs;
    }
    run_items(items, rl_numel(in), reduce_item, &job);
    return RL_OK;
}

static int k_sum(const rl_call *c) { return reduce(c, SUM, 0); }
static int k_amax(const rl_call *c) { return reduce(c, MAX, 0); }
static int k_amin(const rl_call *c) { return reduce(c, MIN, 0); }
static int k_any(const rl_call *c) { return reduce(c, MAX, 1); }
static int k_all(const rl_call *c) { return reduce(c, MIN, 1); }

typedef struct {
    const rl_operand *out, *in;
    rl_walk walk; // over in and out
    int64_t runs;
    int kind;
} row_scan;

static RL_ONCE void arg_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const row_scan *job = ctx;
    const rl_walk *w = &job->walk;
    int kind = job->kind, floats = IS_FLOAT(job->in->dtype);
    reduce_job load = {.in = job->in, .floats = floats};
    reduce_buffer buffer;
    int64_t first = item * job->runs, last = rl_min(w->outer, first + job->runs);
    rl_place p = walk_to(w, first);
    for (int64_t run = first; run < last; run++, walk_on(w, &p)) {
        int64_t found = 0, whole = 0, piece = reduce_piece(&load, w);
        float best = 0;
        for (int64_t s = 0; s < w->inner; s += piece) {
            int64_t n = rl_min(piece, w->inner - s), j = 0;
            const void *x = reduce_load(&load, p.at[0] + s * w->step[0], w->step[0], n, &buffer);
            const float *f = x;
            const int64_t *i = x;
            if (!floats) {
                RL_SMALL_LOOP for (; j < n; j++)
                    if ((!s && !j) || BETTER(load64(i + j), whole))
                        whole = load64(i + j), found = s + j;
                continue;
            }
            float top = extreme_of(f, n, kind, fload(f)), one;
            if (s && !(top != top || BETTER(top, best))) continue;
            for (int hit = 0; j + 32 <= n; j += 32) {
                for (int k = 0; k < 32; k++) {
                    one = fload(f + j + k);
                    hit |= !(one < top || one > top);
                }
                if (hit) break; // equal or NaN
            }
            for (; j < n - 1; j++) {
                one = fload(f + j);
                if (top != top ? one != one : one == top) break;
            }
            best = top, found = s + j;
            if (best != best) break; // the first NaN
        }
        STORE_I[job->out->dtype](job->out->data + p.at[1] * RL_SIZE[job->out->dtype], &found, 1, 1);
    }
}

// The index of the first largest element along a dim (attrs). NaN is the largest. out has size 1
// there.
static RL_ONCE int arg(const rl_call *c, int kind) {
    const rl_operand *out = &c->op[0], *in = &c->op[1], *x[2] = {in, out};
    if (c->n != 2 || c->n_attrs != 1 || out->ndim != in->ndim || !IS_INT(out->dtype) ||
        !(IS_FLOAT(in->dtype) || IS_INT(in->dtype)))
        return RL_REFUSED;
    int64_t dim = c->attrs[0];
    if (dim < 0 || dim >= in->ndim || in->shape[dim] < 1) return RL_REFUSED;
    for (int d = 0; d < in->ndim; d++)
        if (out->shape[d] != (d == dim ? 1 : in->shape[d])) return RL_REFUSED;
    if (!rl_numel(in)) return RL_OK;
    row_scan job = {out, in, walk_over(x, 2, (int)dim), 0, kind};
    job.runs = rl_max(1, ITEM / job.walk.inner);
    run_items((job.walk.outer + job.runs - 1) / job.runs, rl_numel(in), arg_item, &job);
    return RL_OK;
}

static int k_argmax(const rl_call *c) { return arg(c, MAX); }
static int k_argmin(const rl_call *c) { return arg(c, MIN); }

// Running sums over n floats, from `sum` on; four at a time, so that none waits for all before it.
static double running(float *x, int64_t n, double sum) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        double a = (double)x[i], b = a + (double)x[i + 1], c = (double)x[i + 2];
        double d = b + (c + (double)x[i + 3]);
        x[i] = (float)(sum + a), x[i + 1] = (float)(sum + b);
        x[i + 2] = (float)(sum + (b + c)), x[i + 3] = (float)(sum += d);
    }
    for (; i < n; i++) x[i] = (float)(sum += (double)x[i]);
    return sum;
}

static RL_ONCE void cumsum_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const row_scan *job = ctx;
    const rl_walk *w = &job->walk;
    int floats = IS_FLOAT(job->in->dtype);
    rl_place p = walk_to(w, item);
    reduce_buffer x;
    double sum = 0;
    uint64_t whole = 0;
    for (int64_t s = 0; s < w->inner; s += PIECE) {
        int64_t n = rl_min(PIECE, w->inner - s);
        map_load(floats ? FLOATS : INTS, job->in, &x, p.at[0] + s * w->step[0], w->step[0], n);
        if (floats)
            sum = running(x.f, n, sum);
        else
            RL_SMALL_LOOP for (int64_t i = 0; i < n; i++)
                x.i[i] = (int64_t)(whole += (uint64_t)x.i[i]);
        map_store(floats ? FLOATS : INTS, job->out, &x, p.at[1] + s * w->step[1], w->step[1], n);
    }
}

// attrs: the dim.
static RL_ONCE int k_cumsum(const rl_call *c) {
    const rl_operand *x[2];
    if (!operands_of_one_shape(c, x, 2) || c->n_attrs != 1) return RL_REFUSED;
    const rl_operand *y[2] = {x[1], x[0]};
    int64_t dim = c->attrs[0];
    if (dim < 0 || dim >= x[0]->ndim || !(IS_FLOAT(x[0]->dtype) ? IS_FLOAT(x[1]->dtype)
                                          : IS_INT(x[0]->dtype) && IS_INT(x[1]->dtype)))
        return RL_REFUSED;
    if (!rl_numel(x[0])) return RL_OK;
    row_scan job = {x[0], x[1], walk_over(y, 2, (int)dim), 1, SUM};
    run_items(job.walk.outer, rl_numel(x[0]), cumsum_item, &job);
    return RL_OK;
}

// Copies of stored elements between any strides; fills and concatenation.

typedef struct {
    const rl_operand *out, *in;
    rl_walk walk;
    int64_t size, runs;
    // A second dim of a run, its length and strides. If the input is contiguous along it, the run
    // is transposed, otherwise it is many short runs.
    int64_t across, to_step, from_step;
    int turned;
} move_job;

#define MOVE_LOOP(type)                                                                            \
    RL_SMALL_LOOP for (int64_t i = 0; i < n; i++)                                                  \
        rl_copy((type *)to + i * ts, (const type *)from + i * fs, sizeof(type))

// Copies a short run by vectors of 16 bytes, of which the last two overlap. A call would cost more.
static inline void move_bytes(uint8_t *to, const uint8_t *from, int64_t n) {
    if (n < 16 || n > 1024) {
        rl_copy(to, from, (size_t)n);
        return;
    }
    RL_SMALL_LOOP for (int64_t i = 0; i < n - 16; i += 16) rl_copy(to + i, from + i, 16);
    rl_copy(to + n - 16, from + n - 16, 16);
}

static RL_APART void move_run(uint8_t *to, const uint8_t *from, int64_t n, int64_t ts, int64_t fs,
                     int64_t size) {
    if (ts == 1 && fs == -1 && size == 4) // four at a time in reverse, which are behind `from`
        for (; n >= 4; n -= 4, to += 16, from -= 16) {
            v4 x = v4load(from - 12);
            v4store(to, __builtin_shufflevector(x, x, 3, 2, 1, 0));
        }
    if (ts == 1 && fs == 1) move_bytes(to, from, n * size);
    else if (size == 4) MOVE_LOOP(uint32_t);
    else if (size == 2) MOVE_LOOP(uint16_t);
    else if (size == 8) MOVE_LOOP(uint64_t);
    else MOVE_LOOP(uint8_t);
}

#define SQUARE 16 // side of the square pieces of a transposition, in elements

// to[i * ts + j] = from[i + j * fs] for i < m, j < n.
static void move_turned(uint8_t *to, const uint8_t *from, int64_t m, int64_t n, int64_t ts,
                        int64_t fs, int64_t size) {
    for (int64_t a = 0; a < m; a += SQUARE)
        for (int64_t b = 0; b < n; b += SQUARE) {
            int64_t rows = rl_min(SQUARE, m - a), columns = rl_min(SQUARE, n - b), i = 0;
            if (size == 4)
                for (; i + 4 <= rows; i += 4) {
                    int64_t j = 0;
                    for (; j + 4 <= columns; j += 4)
                        turn4((float *)to + (a + i) * ts + b + j, ts,
                              (const float *)from + (b + j) * fs + a + i, fs);
                    for (int64_t r = i; r < i + 4; r++)
                        move_run(to + ((a + r) * ts + b + j) * size,
                                 from + ((b + j) * fs + a + r) * size, columns - j, 1, fs, size);
                }
            for (; i < rows; i++)
                move_run(to + ((a + i) * ts + b) * size, from + (b * fs + a + i) * size, columns, 1,
                         fs, size);
        }
}

static void move_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const move_job *job = ctx;
    const rl_walk *w = &job->walk;
    int64_t first = item * job->runs, last = rl_min(w->outer, first + job->runs);
    rl_place p = walk_to(w, first);
    for (int64_t run = first; run < last; run++, walk_on(w, &p)) {
        uint8_t *to = job->out->data + p.at[0] * job->size;
        const uint8_t *from = job->in->data + p.at[1] * job->size;
        if (job->turned)
            move_turned(to, from, job->across, w->inner, job->to_step, job->from_step, job->size);
        else
            for (int64_t i = 0; i < job->across; i++)
                move_run(to + i * job->to_step * job->size, from + i * job->from_step * job->size,
                         w->inner, w->step[0], w->step[1], job->size);
    }
}

// out[...] = in[...] for equal shapes and element sizes; they must not overlap.
static RL_ONCE void move(const rl_operand *out, const rl_operand *in) {
    const rl_operand *x[2] = {out, in};
    int64_t n = rl_numel(out);
    if (!n) return;
    move_job job = {.out = out, .in = in, .walk = walk_over(x, 2, -1),
                    .size = RL_SIZE[out->dtype]};
    rl_walk *w = &job.walk;
    int d = w->outer_dims - 1;
    for (int i = 0; i <= d && w->step[0] == 1 && w->step[1] != 1 && !job.turned; i++)
        if (w->strides[1][i] == 1) job.turned = 1, d = i;
    if (!job.turned && w->inner > SQUARE) d = -1; // long runs are shared out one by one
    job.across = d < 0 ? 1 : w->shape[d];
    if (d >= 0) { // removed from the walk
        job.to_step = w->strides[0][d];
        job.from_step = job.turned ? w->step[1] : w->strides[1][d];
        w->outer /= job.across;
        for (w->outer_dims--; d < w->outer_dims; d++) {
            w->shape[d] = w->shape[d + 1];
            for (int i = 0; i < 2; i++) w->strides[i][d] = w->strides[i][d + 1];
        }
    }
    job.runs = rl_max(1, ITEM / (w->inner * job.across));
    run_items((w->outer + job.runs - 1) / job.runs, n, move_item, &job);
}

// out = in with the dims that attrs names in reverse.
static RL_ONCE int k_flip(const rl_call *c) {
    const rl_operand *x[2];
    if (!operands_of_one_shape(c, x, 2)) return RL_REFUSED;
    if (RL_SIZE[x[0]->dtype] != RL_SIZE[x[1]->dtype]) return RL_REFUSED;
    if (!rl_numel(x[0])) return RL_OK;
    rl_operand in = c->op[1];
    for (int i = 0; i < c->n_attrs; i++) {
        int64_t d = c->attrs[i];
        if (d < 0 || d >= in.ndim) return RL_REFUSED;
        in.data += (in.shape[d] - 1) * in.strides[d] * RL_SIZE[in.dtype];
        in.strides[d] = -in.strides[d];
    }
    move(x[0], &in);
    return RL_OK;
}

#if RL_ROOM
#define CUT(name) static int whole_##name(const rl_call *c) // k_##name does it in parts
#else
#define CUT(name) static int k_##name(const rl_call *c)
#endif

CUT(copy) {
    const rl_operand *x[2];
    if (!operands_of_one_shape(c, x, 2)) return RL_REFUSED;
    if (RL_SIZE[x[0]->dtype] != RL_SIZE[x[1]->dtype]) return RL_REFUSED;
    move(x[0], x[1]);
    return RL_OK;
}

static void fill_run(uint8_t *to, int64_t n, int64_t step, int64_t bits, int64_t size) {
    const uint8_t *from = (const uint8_t *)&bits;
    if (step == 1 && (!bits || size == 1))
        __builtin_memset(to, (int)(bits & 255), (size_t)(n * size));
    else move_run(to, from, n, step, 0, size);
}

// Sets every element to the low bytes of `bits`.
static RL_ONCE void fill(const rl_operand *out, int64_t bits) {
    if (!rl_numel(out)) return;
    rl_walk w = walk_over(&out, 1, -1);
    int64_t size = RL_SIZE[out->dtype];
    rl_place p = walk_to(&w, 0);
    for (int64_t run = 0; run < w.outer; run++, walk_on(&w, &p))
        fill_run(out->data + p.at[0] * size, w.inner, w.step[0], bits, size);
}

// attrs: the bits of the value.
static RL_ONCE int k_fill(const rl_call *c) {
    if (c->n != 1 || c->n_attrs != 1 || c->op[0].ndim < 0 || c->op[0].dtype >= RL_Q4_0)
        return RL_REFUSED;
    fill(&c->op[0], c->attrs[0]);
    return RL_OK;
}

// A region of out, the region's values, all of out, and out's initial value: x, or without it a
// number (attrs: its bits).
static RL_ONCE int k_place(const rl_call *c) {
    const rl_operand *region = &c->op[0], *value = &c->op[1], *out = &c->op[2], *x = &c->op[3];
    if (c->n != 4 || c->n_attrs != 1) return RL_REFUSED;
    for (int i = 0; i < 4; i++)
        if ((c->op[i].ndim < 0 && i < 3) || (c->op[i].ndim >= 0 && c->op[i].dtype != out->dtype))
            return RL_REFUSED;
    const rl_operand *inner[2] = {region, value}, *whole[2] = {out, x};
    if (out->dtype >= RL_Q4_0 || !same_shapes(inner, 2)) return RL_REFUSED;
    if (x->ndim < 0) fill(out, c->attrs[0]);
    else if (same_shapes(whole, 2)) move(out, x);
    else return RL_REFUSED;
    move(region, value);
    return RL_OK;
}

// out, then the parts; attrs: the dim.
static RL_ONCE int k_cat(const rl_call *c) {
    rl_operand out = c->op[0];
    if (c->n_attrs != 1 || out.ndim < 1 || out.dtype >= RL_Q4_0) return RL_REFUSED;
    int64_t dim = c->attrs[0], whole = out.shape[dim < 0 || dim >= out.ndim ? 0 : dim], total = 0;
    if (dim < 0 || dim >= out.ndim) return RL_REFUSED;
    for (int write = 0; write < 2; write++)
        for (int i = 1; i < c->n; i++) {
            const rl_operand *x[2] = {&out, &c->op[i]};
            if (x[1]->ndim != out.ndim || x[1]->dtype != out.dtype) return RL_REFUSED;
            out.shape[dim] = x[1]->shape[dim];
            if (!same_shapes(x, 2)) return RL_REFUSED;
            if (!write) total += out.shape[dim];
            else {
                if (total != whole) return RL_REFUSED;
                move(&out, x[1]);
                out.data += out.shape[dim] * out.strides[dim] * RL_SIZE[out.dtype];
            }
        }
    return c->n > 1 ? RL_OK : RL_REFUSED;
}

// start + i * step; attrs: whether they are integers, start, step (else the bits of doubles).
RL_ONCE CUT(arange) {
    const rl_operand *out = &c->op[0];
    if (c->n != 1 || c->n_attrs != 3 || out->ndim != 1 || out->dtype >= RL_Q4_0) return RL_REFUSED;
    uint64_t start = (uint64_t)c->attrs[1], step = (uint64_t)c->attrs[2];
    double from = rl_double(c->attrs[1]), by = rl_double(c->attrs[2]);
    int64_t size = RL_SIZE[out->dtype], stride = out->strides[0];
    for (int64_t s = 0; s < out->shape[0]; s += PIECE) {
        int64_t whole[PIECE], n = rl_min(PIECE, out->shape[0] - s);
        double x[PIECE];
        float narrow[PIECE];
        uint8_t *to = out->data + s * stride * size;
        if (c->attrs[0])
            RL_SMALL_LOOP for (int64_t i = 0; i < n; i++)
                whole[i] = (int64_t)(start + step * (uint64_t)(s + i));
        if (!c->attrs[0])
            RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) x[i] = (double)(s + i) * by + from;
        else if (out->dtype == RL_F64)
            RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) x[i] = (double)whole[i];
        if (!IS_INT(out->dtype) && out->dtype != RL_F64)
            RL_SMALL_LOOP for (int64_t i = 0; i < n; i++)
                narrow[i] = c->attrs[0] ? (float)whole[i] : (float)x[i];
        if (!c->attrs[0] && IS_INT(out->dtype))
            for (int64_t i = 0; i < n; i++) whole[i] = to_i64(x[i]);
        if (IS_INT(out->dtype)) STORE_I[out->dtype](to, whole, stride, n);
        else if (out->dtype == RL_F64)
            RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) rl_copy(to + i * stride * 8, &x[i], 8);
        else STORE_F[out->dtype](to, narrow, stride, n);
    }
    return RL_OK;
}

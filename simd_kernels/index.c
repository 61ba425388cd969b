// Reading and writing elements by index, and sorting.

typedef struct {
    const rl_operand *out, *in, *index;
    rl_walk walk;
    int64_t first, count, dim, size;
} index_job;

static int read_indices(const rl_operand *index, int64_t at, int64_t step, int64_t n, int64_t size,
                        int64_t *to) {
    LOAD_I[index->dtype](to, index->data + at * RL_SIZE[index->dtype], step, n);
    int64_t bad = 0;
    RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) bad |= (to[i] < 0) | (to[i] >= size);
    return !bad;
}

// Element i, row-major, of an operand; with `skip` 1 its row, which is over all dims but the last.
static uint8_t *element_at(const rl_operand *x, int64_t i, int skip) {
    int64_t at = 0;
    for (int d = x->ndim - 1 - skip; d >= 0; i /= x->shape[d], d--)
        at += i % x->shape[d] * x->strides[d];
    return x->data + at * RL_SIZE[x->dtype];
}

static int is_index(const rl_operand *x) {
    return x->ndim >= 0 && x->dtype >= RL_U8 && x->dtype <= RL_I64;
}

// Whether n integers of any dtype are from 0 to size - 1. `to`: if not NULL, they are copied there.
// Kernels use the copies, because another thread may write to the operand.
static int copy_indices(int64_t *to, const rl_operand *x, int64_t n, int64_t size) {
    for (int64_t i = 0; i < n; i++) {
        int64_t found;
        LOAD_I[x->dtype](&found, element_at(x, i, 0), 1, 1);
        if (found < 0 || found >= size) return 0;
        if (to) to[i] = found;
    }
    return 1;
}

// The least index above `last`; the largest number if there is none.
static int64_t next_index(const int64_t *named, int64_t n, int64_t last) {
    int64_t next = INT64_MAX;
    for (int64_t i = 0; i < n; i++)
        if (named[i] > last && named[i] < next) next = named[i];
    return next;
}

static inline void add_one(void *to, const void *from) { fstore(to, fload(to) + fload(from)); }

// Moves n elements to or from the places `at` along a dim, each from its own base.
#define BY_INDEX(type, to_place, from_place)                                                       \
    RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) {                                                \
        type x;                                                                                    \
        rl_copy(&x, (const type *)from + (from_place), sizeof x);                                  \
        rl_copy((type *)to + (to_place), &x, sizeof x);                                            \
    }
#define BY_SIZE(to_place, from_place)                                                              \
    do {                                                                                           \
        if (bytes == 4) BY_INDEX(uint32_t, to_place, from_place)                                   \
        else if (bytes == 8) BY_INDEX(uint64_t, to_place, from_place)                              \
        else if (bytes == 2) BY_INDEX(uint16_t, to_place, from_place)                              \
        else BY_INDEX(uint8_t, to_place, from_place)                                               \
    } while (0)

// out[.., k, ..] = x[.., index[k], ..]; attrs: the dim.
CUT(index_select) {
    if (c->n != 3 || c->n_attrs != 1) return RL_REFUSED;
    rl_operand out = c->op[0], in = c->op[1];
    const rl_operand *index = &c->op[2], *x[2] = {&out, &in};
    int64_t dim = c->attrs[0], at[PIECE];
    if (dim < 0 || dim >= out.ndim || in.ndim != out.ndim || out.dtype != in.dtype ||
        out.dtype >= RL_Q4_0 || index->ndim != 1 || !IS_INT(index->dtype) ||
        index->shape[0] != out.shape[dim])
        return RL_REFUSED;
    int64_t size = in.shape[dim], n = out.shape[dim], bytes = RL_SIZE[out.dtype];
    out.shape[dim] = in.shape[dim] = 1;
    if (!same_shapes(x, 2)) return RL_REFUSED;
    int empty = !rl_numel(&out);
    rl_walk w = walk_over(x, 2, -1);
    for (int64_t s = 0; s < n; s += PIECE) {
        int64_t count = rl_min(PIECE, n - s);
        if (!read_indices(index, s * index->strides[0], index->strides[0], count, size, at))
            return RL_INDEX;
        if (w.outer == 1 && w.inner == 1) { // elements, not rows
            int64_t n = count, on = out.strides[dim], along = in.strides[dim];
            uint8_t *to = out.data + s * on * bytes;
            const uint8_t *from = in.data;
            BY_SIZE(i * on, at[i] * along);
            continue;
        }
        for (int64_t k = 0; k < count && !empty; k++) {
            rl_place p = walk_to(&w, 0);
            uint8_t *to = out.data + (s + k) * out.strides[dim] * bytes;
            const uint8_t *from = in.data + at[k] * in.strides[dim] * bytes;
            for (int64_t run = 0; run < w.outer; run++, walk_on(&w, &p))
                move_run(to + p.at[0] * bytes, from + p.at[1] * bytes, w.inner, w.step[0],
                         w.step[1], bytes);
        }
    }
    return RL_OK;
}

// `x` as it is walked over beside `shape`: its dim `dim`, which indices name, has no step.
static rl_operand indexed(const rl_operand *x, const rl_operand *shape, int64_t dim) {
    rl_operand found = *x;
    for (int d = 0; d < x->ndim; d++) found.shape[d] = shape->shape[d];
    found.strides[dim] = 0;
    return found;
}

#if RL_ROOM
// Whether runs have indices of 64 bits and values, each one after another, of one row of `of` that
// has elements, one after another along `dim`.
static int is_row_of(const rl_operand *of, int64_t dim, const rl_operand *index, const rl_walk *w,
                     int i, int value) {
    return index->dtype == RL_I64 && w->step[i] == 1 && w->step[value] == 1 && !w->step[2] &&
           of->shape[dim] && of->strides[dim] == 1;
}

// Reads an index, once; *at becomes 0 and *bad 1 if it is not below `size`.
static inline void read_index(uint64_t *at, int *bad, const uint8_t *index, int64_t size) {
    rl_copy(at, index, 8);
    int beyond = *at >= (uint64_t)size;
    *bad |= beyond;
    if (beyond) *at = 0;
}

static int gather_row(uint8_t *to, const uint8_t *from, const uint8_t *index, int64_t n,
                      int64_t size) {
    int bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t at;
        read_index(&at, &bad, index + 8 * i, size);
        rl_copy(to + 4 * i, from + 4 * at, 4);
    }
    return bad;
}

static int add_row(float *to, const float *from, const uint8_t *index, int64_t n, int64_t size) {
    int bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t at;
        int beyond = 0;
        read_index(&at, &beyond, index + 8 * i, size);
        fstore(to + at, fload(to + at) + (beyond ? -0.0f : fload(from + i)));
        bad |= beyond;
    }
    return bad;
}
#endif

// out[i][j] = x[index[i][j]][j] for dim 0 (attrs), and so on.
CUT(gather) {
    if (c->n != 3 || c->n_attrs != 1) return RL_REFUSED;
    const rl_operand *out = &c->op[0], *in = &c->op[1], *index = &c->op[2];
    const rl_operand *x[3] = {out, index};
    int64_t dim = c->attrs[0], at[PIECE];
    if (dim < 0 || dim >= out->ndim || in->ndim != out->ndim || out->dtype != in->dtype ||
        out->dtype >= RL_Q4_0 || !IS_INT(index->dtype) || !same_shapes(x, 2))
        return RL_REFUSED;
    for (int d = 0; d < in->ndim; d++)
        if (d != dim && in->shape[d] < out->shape[d]) return RL_REFUSED;
    if (!rl_numel(out)) return RL_OK;
    rl_operand base = indexed(in, out, dim);
    x[2] = &base;
    rl_walk w = walk_over(x, 3, -1);
    int64_t bytes = RL_SIZE[out->dtype], step = in->strides[dim];
    rl_place p = walk_to(&w, 0);
#if RL_ROOM
    if (bytes == 4 && is_row_of(in, dim, index, &w, 1, 0)) {
        int bad = 0;
        for (int64_t run = 0; run < w.outer; run++, walk_on(&w, &p))
            bad |= gather_row(out->data + p.at[0] * 4, in->data + p.at[2] * 4,
                              index->data + p.at[1] * 8, w.inner, in->shape[dim]);
        return bad ? RL_INDEX : RL_OK;
    }
#endif
    for (int64_t run = 0; run < w.outer; run++, walk_on(&w, &p))
        for (int64_t s = 0; s < w.inner; s += PIECE) {
            int64_t n = rl_min(PIECE, w.inner - s), on = w.step[0], along = w.step[2];
            if (!read_indices(index, p.at[1] + s * w.step[1], w.step[1], n, in->shape[dim], at))
                return RL_INDEX;
            uint8_t *to = out->data + (p.at[0] + s * on) * bytes;
            const uint8_t *from = in->data + (p.at[2] + s * along) * bytes;
            BY_SIZE(i * on, i * along + at[i] * step);
        }
    return RL_OK;
}

// The reverse: out = x, then out[index[i][j]][j] = (or +=) source[i][j] for dim 0, and so on, in
// the order of the source. attrs: the dim, whether to add.
CUT(scatter) {
    if (c->n != 4 || c->n_attrs != 2) return RL_REFUSED;
    const rl_operand *out = &c->op[0], *in = &c->op[1], *index = &c->op[2], *source = &c->op[3];
    const rl_operand *x[3] = {index, source}, *whole[2] = {out, in};
    int64_t dim = c->attrs[0], at[PIECE];
    if (dim < 0 || dim >= out->ndim || source->ndim != out->ndim || out->dtype != in->dtype ||
        out->dtype != source->dtype || out->dtype >= RL_Q4_0 || !IS_INT(index->dtype) ||
        !same_shapes(x, 2) || !same_shapes(whole, 2) || (c->attrs[1] && out->dtype != RL_F32))
        return RL_REFUSED;
    for (int d = 0; d < out->ndim; d++)
        if (d != dim && out->shape[d] < index->shape[d]) return RL_REFUSED;
    if (out->data != in->data) move(out, in);
    if (!rl_numel(index)) return RL_OK;
    rl_operand base = indexed(out, index, dim);
    x[2] = &base;
    rl_walk w = walk_over(x, 3, -1);
    int64_t bytes = RL_SIZE[out->dtype], step = out->strides[dim];
    rl_place p = walk_to(&w, 0);
#if RL_ROOM
    if (c->attrs[1] && is_row_of(out, dim, index, &w, 0, 1)) {
        int bad = 0;
        for (int64_t run = 0; run < w.outer; run++, walk_on(&w, &p))
            bad |= add_row((float *)out->data + p.at[2], (const float *)source->data + p.at[1],
                           index->data + p.at[0] * 8, w.inner, out->shape[dim]);
        return bad ? RL_INDEX : RL_OK;
    }
#endif
    for (int64_t run = 0; run < w.outer; run++, walk_on(&w, &p))
        for (int64_t s = 0; s < w.inner; s += PIECE) {
            int64_t n = rl_min(PIECE, w.inner - s), on = w.step[1], along = w.step[2];
            if (!read_indices(index, p.at[0] + s * w.step[0], w.step[0], n, out->shape[dim], at))
                return RL_INDEX;
            const uint8_t *from = source->data + (p.at[1] + s * on) * bytes;
            uint8_t *to = out->data + (p.at[2] + s * along) * bytes;
            if (c->attrs[1])
                RL_SMALL_LOOP for (int64_t i = 0; i < n; i++)
                    add_one((float *)to + i * along + at[i] * step, (const float *)from + i * on);
            else BY_SIZE(i * along + at[i] * step, i * on);
        }
    return RL_OK;
}

// out = x, then out[.., index[k], ..] += source[.., k, ..], in the order of k; attrs: the dim.
CUT(index_add) {
    if (c->n != 4 || c->n_attrs != 1) return RL_REFUSED;
    rl_operand out = c->op[0], source = c->op[3];
    const rl_operand *in = &c->op[1], *index = &c->op[2], *x[2] = {&out, in};
    int64_t dim = c->attrs[0], at[PIECE];
    if (dim < 0 || dim >= out.ndim || !same_shapes(x, 2) || source.ndim != out.ndim ||
        out.dtype != RL_F32 || in->dtype != RL_F32 || source.dtype != RL_F32 || index->ndim != 1 ||
        !IS_INT(index->dtype) || index->shape[0] != source.shape[dim])
        return RL_REFUSED;
    if (out.data != in->data) move(&out, in);
    int64_t size = out.shape[dim], n = source.shape[dim];
    out.shape[dim] = source.shape[dim] = 1;
    x[1] = &source;
    if (!same_shapes(x, 2)) return RL_REFUSED;
    int empty = !rl_numel(&out);
    rl_walk w = walk_over(x, 2, -1);
    for (int64_t s = 0; s < n; s += PIECE) {
        int64_t count = rl_min(PIECE, n - s);
        if (!read_indices(index, s * index->strides[0], index->strides[0], count, size, at))
            return RL_INDEX;
        for (int64_t k = 0; k < count && !empty; k++) {
            rl_place p = walk_to(&w, 0);
            float *to = (float *)out.data + at[k] * out.strides[dim];
            const float *from = (const float *)source.data + (s + k) * source.strides[dim];
            for (int64_t run = 0; run < w.outer; run++, walk_on(&w, &p)) {
                float *o = to + p.at[0];
                const float *f = from + p.at[1];
                if (w.step[0] == 1 && w.step[1] == 1)
                    map_floats(f_add, (uint8_t *)o, 4, (uint8_t *)o, (uint8_t *)f, w.inner);
                else
                    RL_SMALL_LOOP for (int64_t i = 0; i < w.inner; i++)
                        add_one(o + i * w.step[0], f + i * w.step[1]);
            }
        }
    }
    return RL_OK;
}

// Integers in the order of the floats. Equal floats have equal integers; NaN is the largest.
static uint32_t sort_key(float x, uint32_t flip) {
    uint32_t bits = float_bits(x == 0 ? 0.0f : x);
    if (x != x) return 0xffffffffu ^ flip;
    return (bits >> 31 ? ~bits : bits | 0x80000000u) ^ flip;
}

typedef struct {
    uint32_t key, place;
} sort_pair;

// A radix sort by 8 or 11 bits of the key at a time, the lowest first, which is stable.
static sort_pair *sort_pairs(sort_pair *a, sort_pair *b, int64_t n) {
#if defined(__wasm__) // small code
    const int bits = 8;
#else
    int bits = n < 1 << 13 ? 8 : 11;
#endif
    uint32_t size = 1u << bits, mask = size - 1;
    for (int shift = 0; shift < 32; shift += bits) {
        uint32_t at[2048], sum = 0;
        rl_zero(at, size * sizeof *at);
        RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) at[a[i].key >> shift & mask]++;
        if (at[a[0].key >> shift & mask] == n) continue; // all alike here
        RL_SMALL_LOOP for (uint32_t i = 0; i < size; i++) {
            uint32_t count = at[i];
            at[i] = sum;
            sum += count;
        }
        RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) b[at[a[i].key >> shift & mask]++] = a[i];
        sort_pair *other = a;
        a = b, b = other;
    }
    return a;
}

typedef struct {
    const rl_operand *out, *in;
    rl_walk walk; // over in and out
    uint32_t flip;
    int64_t k, step; // of the output
    int failed;
} sort_job;

// The pairs of a run into `a`; 0 where integers span more than a key holds.
static RL_APART int sort_load(const sort_job *job, const rl_place *p, sort_pair *a, int64_t n) {
    const rl_operand *in = job->in;
    int whole = IS_INT(in->dtype);
    int64_t step = job->walk.step[0], least = INT64_MAX, most = INT64_MIN;
    map_buffer piece;
    for (int64_t s = 0; whole && s < n; s += PIECE) {
        int64_t m = rl_min(PIECE, n - s);
        map_load(INTS, in, &piece, p->at[0] + s * step, step, m);
        RL_SMALL_LOOP for (int64_t i = 0; i < m; i++) {
            least = rl_min(least, piece.i[i]);
            most = rl_max(most, piece.i[i]);
        }
    }
    if (whole && (uint64_t)most - (uint64_t)least > UINT32_MAX) return 0;
    for (int64_t s = 0; s < n; s += PIECE) {
        int64_t m = rl_min(PIECE, n - s);
        map_load(whole ? INTS : FLOATS, in, &piece, p->at[0] + s * step, step, m);
        RL_SMALL_LOOP for (int64_t i = 0; i < m; i++) {
            uint32_t key = whole ? (uint32_t)((uint64_t)piece.i[i] - (uint64_t)least) ^ job->flip
                                 : sort_key(piece.f[i], job->flip);
            a[s + i] = (sort_pair){key, (uint32_t)(s + i)};
        }
    }
    return 1;
}

// How many of n pairs may be among the first k; they are moved to the front.
static RL_APART int64_t sort_fewer(sort_pair *a, int64_t n, int64_t k) {
    uint32_t counts[2048] = {0}, last = 2047;
    int64_t m = 0, below = 0;
    RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) counts[a[i].key >> 21]++;
    for (uint32_t i = 0; i < 2048 && last == 2047; i++)
        if ((below += counts[i]) >= k) last = i;
    RL_SMALL_LOOP for (int64_t i = 0; i < n; i++)
        if (a[i].key >> 21 <= last) a[m++] = a[i];
    return m;
}

static RL_ONCE void sort_item(void *ctx, int64_t item, int thread) {
    sort_job *job = ctx;
    const rl_walk *w = &job->walk;
    int64_t n = w->inner, m = n;
    sort_pair *a = rl_scratch(thread, n * 2 * (int64_t)sizeof *a);
    rl_place p = walk_to(w, item);
    if (!a || !sort_load(job, &p, a, n)) {
        job->failed = RL_REFUSED; // NumPy's kernel takes it
        return;
    }
    if (job->k < n) m = sort_fewer(a, n, job->k);
    const sort_pair *sorted = sort_pairs(a, a + n, m);
    for (int64_t s = 0; s < job->k; s += PIECE) {
        int64_t places[PIECE], count = rl_min(PIECE, job->k - s);
        RL_SMALL_LOOP for (int64_t i = 0; i < count; i++) places[i] = sorted[s + i].place;
        map_store(INTS, job->out, places, p.at[1] + s * job->step, job->step, count);
    }
}

// The indices of the first `k` elements in rising or falling order along a dim. out (size k), x.
// attrs: dim, falling.
static RL_ONCE int k_argsort(const rl_call *c) {
    const rl_operand *out = &c->op[0], *in = &c->op[1], *x[2] = {in, out};
    if (c->n != 2 || c->n_attrs != 2 || !(IS_INT(in->dtype) || IS_FLOAT(in->dtype)) ||
        !IS_INT(out->dtype) || in->ndim != out->ndim)
        return RL_REFUSED;
    int64_t dim = c->attrs[0];
    if (dim < 0 || dim >= in->ndim) return RL_REFUSED;
    for (int d = 0; d < in->ndim; d++)
        if (d == dim ? out->shape[d] > in->shape[d] : out->shape[d] != in->shape[d])
            return RL_REFUSED;
    if (!rl_numel(out)) return RL_OK;
#if !defined(__wasm__) // whose memory holds fewer
    if (in->shape[dim] > UINT32_MAX) return RL_REFUSED;
#endif
    sort_job job = {out, in, walk_over(x, 2, (int)dim), c->attrs[1] ? 0xffffffffu : 0,
                    out->shape[dim], out->strides[dim], RL_OK};
    run_items(job.walk.outer, rl_numel(in), sort_item, &job);
    return job.failed;
}

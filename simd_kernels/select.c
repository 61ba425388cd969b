// where, and conversions between dtypes.

typedef struct {
    const rl_call *call;
    rl_walk walk;
    int64_t runs, parts; // runs of an item, or items of a run
} select_job;

// Both are read, because a choice between addresses is not vectorized.
#define SELECT_ONE(to, at, first, second)                                                          \
    (rl_copy(&yes, a + (first), sizeof yes), rl_copy(&no, b + (second), sizeof no),                \
     yes = condition[at] ? yes : no, rl_copy(o + (to), &yes, sizeof yes))
#define SELECT_LOOP(type)                                                                          \
    do {                                                                                           \
        type *o = (type *)data[0], yes, no;                                                        \
        const type *a = (const type *)data[2], *b = (const type *)data[3];                         \
        const uint8_t *condition = data[1];                                                        \
        RL_SMALL_LOOP for (int64_t i = 0; i < n; i++)                                              \
            SELECT_ONE(i * s[0], i * s[1], i * s[2], i * s[3]);                                    \
    } while (0)

// Words of 32 bits beside each other, or one word for all in place of the first or second choice.
static RL_APART void select_words(uint8_t *const *data, const int64_t *s, int64_t n) {
    uint32_t one[2];
    rl_copy(&one[0], data[2], 4);
    rl_copy(&one[1], data[3], 4);
    vi yes = (vi)((vu){} + one[0]), no = (vi)((vu){} + one[1]);
    int64_t i = 0;
#if VF == 4
    if (s[2] & s[3]) {
        typedef int8_t s16 __attribute__((vector_size(16)));
        typedef int32_t w16 __attribute__((vector_size(64)));
        s16 chosen;
        w16 a, b;
        for (uint8_t *o = data[0], *p = data[2], *q = data[3]; i + 16 <= n;
             i += 16, o += 64, p += 64, q += 64) {
            rl_copy(&chosen, data[1] + i, 16), rl_copy(&a, p, 64), rl_copy(&b, q, 64);
            w16 mask = __builtin_convertvector((s16)(chosen != 0), w16);
            a = (a & mask) | (b & ~mask);
            rl_copy(o, &a, 64);
        }
    }
#endif
    for (; i + VF <= n; i += VF) {
        if (s[2]) yes = viload(data[2] + i * 4);
        if (s[3]) no = viload(data[3] + i * 4);
        vistore(data[0] + i * 4, (vi)vselect(vtruth(data[1] + i), (vf)yes, (vf)no));
    }
    for (; i < n; i++) {
        int which = data[1][i] ? 2 : 3;
        rl_copy(data[0] + i * 4, data[which] + i * 4 * s[which], 4);
    }
}

static void select_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const select_job *job = ctx;
    const rl_walk *w = &job->walk;
    const int64_t *s = w->step, n = w->inner;
    int64_t first = item * job->runs, last = rl_min(w->outer, first + job->runs);
    int size = RL_SIZE[job->call->op[0].dtype];
    rl_place p = walk_to(w, first);
    for (int64_t run = first; run < last; run++, walk_on(w, &p)) {
        uint8_t *data[4];
        for (int i = 0; i < 4; i++)
            data[i] = job->call->op[i].data + p.at[i] * (i == 1 ? 1 : size);
        int words = size == 4 && s[0] == 1 && s[1] == 1 && s[2] >> 1 == 0 && s[3] >> 1 == 0;
        if (words) select_words(data, s, n);
        else if (size == 4) SELECT_LOOP(uint32_t);
        else if (size == 8) SELECT_LOOP(uint64_t);
        else if (size == 2) SELECT_LOOP(uint16_t);
        else SELECT_LOOP(uint8_t);
    }
}

// where: condition (bool) ? a : b, elements as they are stored.
CUT(where) {
    const rl_operand *x[4];
    if (!operands_of_one_shape(c, x, 4) || x[1]->dtype != RL_BOOL) return RL_REFUSED;
    if (x[2]->dtype != x[0]->dtype || x[3]->dtype != x[0]->dtype) return RL_REFUSED;
    int64_t n = rl_numel(x[0]);
    if (!n) return RL_OK;
    select_job job = {c, walk_over(x, 4, -1), 0, 0};
    job.runs = rl_max(1, ITEM / job.walk.inner);
    run_items((job.walk.outer + job.runs - 1) / job.runs, n, select_item, &job);
    return RL_OK;
}

typedef union {
    float f[PIECE];
    int64_t i[PIECE];
    double d[PIECE];
} cast_buffer;

static const int64_t INT_LOW[] = {0, 0, -128, -32768, INT32_MIN, 0, INT64_MIN};
static const int64_t INT_HIGH[] = {1, 255, 127, 32767, INT32_MAX, UINT32_MAX, INT64_MAX};

#if !defined(__wasm__)
// n floats to int64, in one pass.
static RL_APART void whole_run(int64_t *to, const float *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = to_i64(from[i]);
}
#endif

// Numbers side by side, between float32 and integers of 8 and 32 bits, a vector at a time: how many
// of n were converted. Floats are truncated to what the integer holds, nan to zero.
static RL_APART int64_t cast_vectors(int dtype, uint8_t *to, int from_dtype, const uint8_t *from,
                                     int64_t n) {
    typedef int8_t vsmall __attribute__((vector_size(VF)));
    int64_t i = 0;
    if (dtype == RL_F32 && from_dtype == RL_I32)
        for (; i + VF <= n; i += VF)
            vstore(to + 4 * i, __builtin_convertvector(viload(from + 4 * i), vf));
    else if (dtype == RL_F32 && from_dtype == RL_U8)
        for (; i + VF <= n; i += VF)
            vstore(to + 4 * i, __builtin_convertvector(
                                   __builtin_convertvector(vbload(from + i), vi), vf));
    else if (dtype == RL_F32 && from_dtype == RL_I8)
        for (; i + VF <= n; i += VF)
            vstore(to + 4 * i, __builtin_convertvector(
                                   __builtin_convertvector((vsmall)vbload(from + i), vi), vf));
    else if (from_dtype == RL_F32 && (dtype == RL_U8 || dtype == RL_I8)) {
        vf low = vsplat(dtype == RL_U8 ? 0 : -128), high = vsplat(dtype == RL_U8 ? 255 : 127);
        for (; i + VF <= n; i += VF) {
            vf x = vload(from + 4 * i);
            vi known = x == x, whole = __builtin_convertvector(vmin(vmax(x, low), high), vi);
            vbstore(to + i, __builtin_convertvector(whole & known, vbytes));
        }
    }
    return i;
}

// Converts n elements of `from` to `to`; both are `stride` apart.
static void cast_piece(const rl_operand *out, void *to, int64_t to_stride, const rl_operand *in,
                       const void *from, int64_t stride, int64_t n) {
    cast_buffer a, b;
    int wide = in->dtype == RL_F64, low = out->dtype;
    if (stride == 1 && to_stride == 1) {
        int64_t done = cast_vectors(low, to, in->dtype, from, n);
        if (!(n -= done)) return;
        to = (uint8_t *)to + done * RL_SIZE[low];
        from = (const uint8_t *)from + done * RL_SIZE[in->dtype];
    }
    if (IS_INT(in->dtype)) {
        LOAD_I[in->dtype](a.i, from, stride, n);
        if (IS_INT(low)) {
            STORE_I[low](to, a.i, to_stride, n);
            return;
        }
        if (low == RL_F64)
            RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) b.d[i] = (double)a.i[i];
        else
            RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) b.f[i] = (float)a.i[i];
    } else {
        if (wide)
            RL_SMALL_LOOP for (int64_t i = 0; i < n; i++)
                rl_copy(&a.d[i], (const double *)from + i * stride, 8);
        else if (in->dtype == RL_F32 && stride == 1 && !((uintptr_t)from & 3) && IS_FLOAT(low)) {
            STORE_F[low](to, from, to_stride, n);
            return;
        }
#if !defined(__wasm__)
        else if (in->dtype == RL_F32 && low == RL_I64 && stride == 1 && to_stride == 1 &&
                 !((uintptr_t)from & 3) && !((uintptr_t)to & 7)) {
            whole_run(to, from, n);
            return;
        }
#endif
        else LOAD_F[in->dtype](a.f, from, stride, n);
        if (IS_INT(low)) {
            int64_t least = INT_LOW[low], most = INT_HIGH[low];
            if (low == RL_BOOL)
                RL_SMALL_LOOP for (int64_t i = 0; i < n; i++)
                    b.i[i] = wide ? a.d[i] != 0 : a.f[i] != 0;
            else
                RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) {
                    int64_t y = to_i64(wide ? a.d[i] : (double)a.f[i]);
                    b.i[i] = rl_max(least, rl_min(most, y));
                }
            STORE_I[low](to, b.i, to_stride, n);
            return;
        }
        if (low == RL_F64)
            RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) b.d[i] = wide ? a.d[i] : (double)a.f[i];
        else if (!wide) {
            STORE_F[low](to, a.f, to_stride, n);
            return;
        } else
            RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) b.f[i] = (float)a.d[i];
    }
    if (low == RL_F64)
        RL_SMALL_LOOP for (int64_t i = 0; i < n; i++)
            rl_copy((double *)to + i * to_stride, &b.d[i], 8);
    else STORE_F[low](to, b.f, to_stride, n);
}

static void cast_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const select_job *job = ctx;
    const rl_walk *w = &job->walk;
    const rl_operand *out = &job->call->op[0], *in = &job->call->op[1];
#if defined(__wasm__) // one thread
    int64_t first = item * job->runs, start = 0, stop = w->inner, piece = PIECE;
#else
    int64_t first = item / job->parts * job->runs;
    int64_t start = item % job->parts * ITEM;
    int64_t stop = job->parts == 1 ? w->inner : rl_min(w->inner, start + ITEM);
    // What is converted in one step needs no pieces.
    int64_t piece = in->dtype == RL_F32 && w->step[1] == 1 && IS_FLOAT(out->dtype) &&
                            !((uintptr_t)in->data & 3) ? ITEM : PIECE;
#endif
    int64_t last = rl_min(w->outer, first + job->runs);
    rl_place p = walk_to(w, first);
    for (int64_t run = first; run < last; run++, walk_on(w, &p))
        for (int64_t s = start; s < stop; s += piece)
            cast_piece(out, out->data + (p.at[0] + s * w->step[0]) * RL_SIZE[out->dtype],
                       w->step[0], in, in->data + (p.at[1] + s * w->step[1]) * RL_SIZE[in->dtype],
                       w->step[1], rl_min(piece, stop - s));
}

// cast: floats are truncated and clamped to integers; integers wrap around.
static int k_cast(const rl_call *c) {
    const rl_operand *x[2];
    if (!operands_of_one_shape(c, x, 2)) return RL_REFUSED;
    int64_t n = rl_numel(x[0]);
    if (!n) return RL_OK;
    select_job job = {c, walk_over(x, 2, -1), 0, 0};
    job.runs = rl_max(1, ITEM / job.walk.inner);
    int64_t items = (job.walk.outer + job.runs - 1) / job.runs;
#if !defined(__wasm__)
    items *= job.parts = (job.walk.inner + ITEM - 1) / ITEM;
#endif
    run_items(items, n, cast_item, &job);
    return RL_OK;
}

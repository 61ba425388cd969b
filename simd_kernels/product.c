// Types and functions of matrix products: operands of any float dtype and strides, sums in f32.

#define TAIL_OPERANDS 8
#define TAIL_STEPS 16
#define TAIL_RUN 256 // elements of a row that go through the steps at once

// Strides count elements.
typedef struct {
    uint8_t *data;
    int32_t dtype;
    int64_t row, col;
} matrix;

// c = a @ b + bias: (m, k) @ (k, n) = (m, n), `batch` times over. Without a bias its data is NULL.
// The batch has `dims` dims, each with a step in elements for c, a, b and bias.
typedef struct {
    int64_t m, n, k, batch;
    matrix c, a, b, bias;
    int32_t dims;
    int64_t shape[RL_DIMS], step[4][RL_DIMS];
    const struct image *image; // the image whose windows are b, if b is not in memory (conv.c)
    int add;                   // whether to add to c, which is then f32 with contiguous rows
    int64_t wide, line;        // if not 0, a row of c is lines of `wide` elements, `line` apart
    const struct tail *tail;   // what is done to c's elements before they are stored, or NULL
    const float *kept;         // a in panels, with a head, from an earlier call; or NULL
    int64_t moved[TAIL_OPERANDS]; // of the tail's operands, in elements, for this product
} product;

// A chain of elementwise functions over the result: step i makes value i + 1 of values (value 0 is
// the product) and operands, which have the result's rows and columns. `step`: of the batch's dims.
typedef struct tail {
    matrix of[TAIL_OPERANDS];
    int64_t step[TAIL_OPERANDS][RL_DIMS];
    int32_t operands, steps;
    // The steps that one pass does, how it ends, and which operands it takes: the added one, and
    // one number a row each. Later steps use none before `alone`. From step `swish` on five are
    // one, whose operands no other step uses.
    int32_t begun, bounds, added, by[6], alone, swish, single; // single: a bit for each
    float numbers[4]; // of these: what is added, the bounds, the last factor
    struct {
        map_fn fn;
        int32_t from[2]; // an operand, or ~value
    } chain[TAIL_STEPS];
} tail;

static inline uint8_t *element(const matrix *x, int64_t row, int64_t col) {
    return x->data + (row * x->row + col * x->col) * RL_SIZE[x->dtype];
}

// VF contiguous elements of one of the three wide dtypes.
RL_INLINE vf load_as(const int dtype, const uint8_t *p) {
    return dtype == RL_F32 ? vload(p) : dtype == RL_F16 ? vload_half(p) : vload_bfloat(p);
}

#if RL_ROOM
// How a tail begins, where that is done in one pass: the bias, a norm with its statistics, the sum
// with another tensor, and bounds.
enum { NO_BOUNDS, RELU, CLAMP };
enum { OF_BIAS, OF_MEAN, OF_SCALE, OF_OFFSET, OF_LOW, OF_HIGH, NUMBERS };

// The numbers of rows i to i + rows, of each kind `room` after the last; what leaves every bit of a
// sum as it is where there is none.
static void tail_numbers(const product *p, int64_t i, int64_t rows, float *to, int64_t room) {
    static const float NONE[NUMBERS] = {-0.0f, 0, 1, -0.0f, 0, 0};
    const tail *t = p->tail;
    for (int k = 0; k < NUMBERS; k++, to += room) {
        int32_t of = t && (k < OF_LOW || t->bounds == CLAMP) ? t->by[k] : -1;
        const matrix *m = of < 0 ? &p->bias : &t->of[of];
        if (of < 0 && (k || !m->data)) {
            for (int64_t r = 0; r < rows; r++) to[r] = NONE[k];
            continue;
        }
        const uint8_t *at = element(m, i, 0) + (of < 0 ? 0 : p->moved[of] * RL_SIZE[m->dtype]);
        if (rows > 1) LOAD_F[m->dtype](to, at, m->row, rows);
        else if (m->dtype == RL_F32) rl_copy(to, at, 4);
        else LOAD_F[m->dtype](to, at, 1, 1);
    }
    to -= NUMBERS * room;
    for (int64_t r = 0; t && t->bounds == CLAMP && r < rows; r++) { // a bound that is nan
        float low = to[OF_LOW * room + r], high = to[OF_HIGH * room + r];
        if (low != low || high != high) to[OF_OFFSET * room + r] = __builtin_nanf("");
    }
}

RL_INLINE vf begin_vector(const int bounds, vf a, vf bias, vf mean, vf scale, vf offset, vf low,
                          vf high, const float *more) {
    a = (a + bias - mean) * scale + offset;
    if (more) a = a + vload(more);
    if (bounds == RELU) a = vselect(~(vi)(a <= 0.0f), a, (vf){}); // nan stays
    if (bounds == CLAMP) {
        a = vselect(~(vi)(a <= low), a, low);
        a = vselect(~(vi)(a >= high), a, high);
    }
    return a;
}

// to = the steps of a tail's beginning over n elements of x, a row with the numbers `by`.
RL_INLINE void begin_row(const int added, const int bounds, float *to, const float *x,
                         const float *more, const float *by, int64_t room, int64_t n) {
    vf bias = vsplat(by[0]), mean = vsplat(by[room]), scale = vsplat(by[2 * room]);
    vf offset = vsplat(by[3 * room]), low = vsplat(by[4 * room]), high = vsplat(by[5 * room]);
    int64_t i = 0;
    for (; i + VF <= n; i += VF)
        vstore(to + i, begin_vector(bounds, vload(x + i), bias, mean, scale, offset, low, high,
                                    added ? more + i : NULL));
    if (i < n) {
        float rest[VF];
        if (added) vstore(rest, vload_part(more + i, n - i));
        vstore_part(to + i, begin_vector(bounds, vload_part(x + i, n - i), bias, mean, scale,
                                         offset, low, high, added ? rest : NULL), n - i);
    }
}

// The same over `rows` rows, `step` apart; of `more`, if it is there, `more_step`.
static RL_APART void begin_rows(int bounds, int64_t rows, float *to, const float *x, int64_t step,
                                const float *more, int64_t more_step, const float *by,
                                int64_t room, int64_t n) {
#define EACH_ROW(added, bounds)                                                                    \
    for (int64_t r = 0; r < rows; r++)                                                             \
        begin_row(added, bounds, to + r * step, x + r * step, more + r * more_step, by + r, room, n)
    if (more && bounds == RELU) EACH_ROW(1, RELU);
    else if (more && bounds) EACH_ROW(1, CLAMP);
    else if (more) EACH_ROW(1, NO_BOUNDS);
    else if (bounds == RELU) EACH_ROW(0, RELU);
    else if (bounds) EACH_ROW(0, CLAMP);
    else EACH_ROW(0, NO_BOUNDS);
#undef EACH_ROW
}

// x times x plus a number between two bounds, through another number: the hard swish.
static RL_APART void swish_run(float *to, const float *x, float plus, float least, float most,
                               float by, int divides, int64_t n) {
    vf add = vsplat(plus), low = vsplat(least), high = vsplat(most), factor = vsplat(by);
    for (int64_t i = 0; i < n; i += VF) {
        vf a = vload(x + i), b = a + add;
        b = vselect(~(vi)(b <= low), b, low);
        b = vselect(~(vi)(b >= high), b, high);
        b = a * b;
        vstore(to + i, divides ? b / factor : b * factor);
    }
}

// finish() for a product with a tail, whose result is f32 in contiguous rows. `begun`: x has its
// beginning already.
static RL_APART void finish_tail(const product *p, int64_t i, int64_t j, const float *x, int64_t n,
                                 int begun) {
    // Vectors that cross lines of the cache take twice as long.
    __attribute__((aligned(64))) float values[TAIL_STEPS][TAIL_RUN];
    __attribute__((aligned(64))) float loaded[TAIL_OPERANDS][TAIL_RUN], sums[TAIL_RUN];
    float bias = 0, by[NUMBERS];
    const tail *t = p->tail;
    for (int k = t->begun ? t->alone : 0; k < t->operands; k++) { // one value: broadcast it once
        const matrix *m = &t->of[k];
        const uint8_t *at = element(m, i, 0) + p->moved[k] * RL_SIZE[m->dtype];
        if (!m->col && !(t->single >> k & 1))
            LOAD_F[m->dtype](loaded[k], at, 0, rl_min(TAIL_RUN, n));
    }
    if (t->begun && !begun) tail_numbers(p, i, 1, by, 1);
    if (p->bias.data && !t->begun) LOAD_F[p->bias.dtype](&bias, element(&p->bias, i, 0), 1, 1);
    for (int64_t at = 0, count; at < n; at += count, j += count) {
        const float *from[TAIL_OPERANDS], *made[TAIL_STEPS + 1];
        float *to = (float *)(void *)element(&p->c, i, j);
        count = rl_min(TAIL_RUN, n - at);
        int64_t whole = (count + VF - 1) & ~(int64_t)(VF - 1);
        made[0] = x + at;
        if (p->bias.data && !t->begun) {
            for (int64_t e = 0; e < count; e++) sums[e] = fload(x + at + e) + bias;
            made[0] = sums;
        }
        for (int k = t->begun == t->steps ? rl_max(t->added, 0) : 0; k < t->operands; k++) {
            const matrix *m = &t->of[k];
            const uint8_t *first = element(m, i, j) + p->moved[k] * RL_SIZE[m->dtype];
            from[k] = loaded[k];
            if (m->dtype == RL_F32 && m->col == 1 && (count == whole || k == t->added))
                from[k] = (const float *)(const void *)first;
            else if (m->col) LOAD_F[m->dtype](loaded[k], first, m->col, count);
        }
        if (t->begun && !begun) {
            float *out = t->begun == t->steps ? to : values[t->begun - 1];
            begin_rows(t->bounds, 1, out, made[0], 0, t->added < 0 ? NULL : from[t->added], 0, by,
                       1, count);
            made[t->begun] = out;
        } else if (count < whole) { // whole vectors of memory that is no one else's
            rl_copy(sums, made[0], (size_t)count * 4);
            made[0] = sums;
        }
        if (begun) made[t->begun] = made[0];
        for (int s = t->begun; s < t->steps; s++) {
            const void *given[2];
            for (int k = 0; k < 2; k++) {
                int32_t source = t->chain[s].from[k];
                given[k] = source < 0 ? made[~source] : from[source];
            }
            const float *x = given[t->chain[s].from[0] >= 0], *number = t->numbers;
            int swish = s == t->swish;
            if (swish) s += 4;
            int last = s == t->steps - 1;
            float *out = last && count == whole ? to : values[s];
            if (swish) swish_run(out, x, number[0], number[1], number[2], number[3],
                                 t->chain[s].fn == f_div, whole);
            else t->chain[s].fn(out, given[0], given[1], whole);
            if (last && count < whole) rl_copy(to, out, (size_t)count * 4);
            made[s + 1] = out;
        }
    }
}

#endif

// A run of a row of the result: c[i, j + ...] = x + bias. x may be the result's own memory.
static void finish(const product *p, int64_t i, int64_t j, const float *x, int64_t n) {
    float sums[64];
#if RL_ROOM
    if (p->tail) {
        finish_tail(p, i, j, x, n, 0);
        return;
    }
#endif
    if (p->c.dtype == RL_F32 && p->c.col == 1 && !p->bias.data && !p->wide) {
        uint8_t *to = element(&p->c, i, j);
        if (to != (const uint8_t *)x) rl_copy(to, x, (size_t)n * 4);
        return;
    }
    for (int64_t at = 0, count; at < n; at += count, j += count) {
        uint8_t *to = element(&p->c, i, p->wide ? j % p->wide : j);
        count = rl_min(64, n - at);
        if (p->wide) {
            count = rl_min(count, p->wide - j % p->wide);
            to += j / p->wide * p->line * RL_SIZE[p->c.dtype];
        }
        if (p->bias.data) {
            LOAD_F[p->bias.dtype](sums, element(&p->bias, i, j), p->bias.col, count);
            for (int64_t t = 0; t < count; t++) sums[t] += x[at + t];
        } else rl_copy(sums, x + at, (size_t)count * 4);
        STORE_F[p->c.dtype](to, sums, p->c.col, count);
    }
}

// The matrices of one product of the batch.
static product nth(const product *p, int64_t index) {
    product one = *p;
    matrix *of[4] = {&one.c, &one.a, &one.b, &one.bias};
    int more = RL_ROOM && p->tail ? p->tail->operands : 0;
    for (int d = p->dims - 1; d >= 0; d--) {
        int64_t i = index % p->shape[d];
        index /= p->shape[d];
        for (int j = 0; j < (p->bias.data ? 4 : 3); j++)
            of[j]->data += i * p->step[j][d] * RL_SIZE[of[j]->dtype];
        for (int j = 0; j < more; j++) one.moved[j] += i * p->tail->step[j][d];
    }
    return one;
}

// Threads pay from some tens of microseconds of work on.
static void share_out(double work, int64_t items, void (*fn)(void *, int64_t, int), void *ctx) {
    if (work > 1e6) rl_parallel(items, fn, ctx);
    else
        for (int64_t i = 0; i < items; i++) fn(ctx, i, 0);
}

// Allocates the scratch memory of every thread in advance, so that no item fails for lack of it.
static int reserve(int64_t bytes) {
    for (int t = 0; t < rl_threads(); t++)
        if (!rl_scratch(t, bytes)) return 0;
    return 1;
}

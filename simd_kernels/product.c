// Types and functions of matrix products: operands of any float dtype and strides, sums in f32.

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
} product;

static inline uint8_t *element(const matrix *x, int64_t row, int64_t col) {
    return x->data + (row * x->row + col * x->col) * RL_SIZE[x->dtype];
}

// VF contiguous elements of one of the three wide dtypes.
RL_INLINE vf load_as(const int dtype, const uint8_t *p) {
    return dtype == RL_F32 ? vload(p) : dtype == RL_F16 ? vload_half(p) : vload_bfloat(p);
}

// A run of a row of the result: c[i, j + ...] = x + bias. x may be the result's own memory.
static void finish(const product *p, int64_t i, int64_t j, const float *x, int64_t n) {
    float sums[64];
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
    for (int d = p->dims - 1; d >= 0; d--) {
        int64_t i = index % p->shape[d];
        index /= p->shape[d];
        for (int j = 0; j < (p->bias.data ? 4 : 3); j++)
            of[j]->data += i * p->step[j][d] * RL_SIZE[of[j]->dtype];
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

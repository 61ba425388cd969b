// Products with few rows or one: each weight is read once, in its stored form.

// Rows per pass, and weights side by side.
#define FEW_ROWS 4
// Columns of a piece of sums that fits the first-level cache; bytes of weights per item.
#define LINE 2048
#define ITEM_BYTES 65536
#define GEMV_AHEAD 16384

// All bits set in the last n lanes.
RL_INLINE vi last_lanes(int64_t n) {
    static const int32_t LAST[2 * VF] = {[VF ... 2 * VF - 1] = -1};
    return viload(LAST + n);
}

// The sums of four vectors' lanes, side by side.
#define IN_LANE(at, i) ((i) < 4 ? 4 * (at) + (i) : VF - 4 + 4 * (at) + (i))
#define LANE(at, i, j, k, l) IN_LANE(at, i), IN_LANE(at, j), IN_LANE(at, k), IN_LANE(at, l)
#if VF == 16
#define EACH_LANE(...)                                                                             \
    LANE(0, __VA_ARGS__), LANE(1, __VA_ARGS__), LANE(2, __VA_ARGS__), LANE(3, __VA_ARGS__)
#elif VF == 8
#define EACH_LANE(...) LANE(0, __VA_ARGS__), LANE(1, __VA_ARGS__)
#else
#define EACH_LANE(...) LANE(0, __VA_ARGS__)
#endif
#define MIXED(a, b, ...) __builtin_shufflevector(a, b, EACH_LANE(__VA_ARGS__))
RL_INLINE v4 four_sums(vf a, vf b, vf c, vf d) {
    vf ab = MIXED(a, b, 0, 4, 1, 5) + MIXED(a, b, 2, 6, 3, 7);
    vf cd = MIXED(c, d, 0, 4, 1, 5) + MIXED(c, d, 2, 6, 3, 7);
    vf all = MIXED(ab, cd, 0, 1, 4, 5) + MIXED(ab, cd, 2, 3, 6, 7);
    v4 lanes[VF / 4], sum;
    rl_copy(lanes, &all, sizeof all);
    sum = lanes[0];
    for (int i = 1; i < VF / 4; i++) sum += lanes[i];
    return sum;
}

RL_INLINE v4 halves(vf x) {
#if VF == 16
    typedef float v8 __attribute__((vector_size(32)));
    v8 y = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
           __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_shufflevector(y, y, 0, 1, 2, 3) + __builtin_shufflevector(y, y, 4, 5, 6, 7);
#elif VF == 8
    return __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
#else
    return x;
#endif
}

// The products of q with four rows; n is whole vectors.
static RL_APART v4 dot4(const float *q, const float *k, int64_t stride, int64_t n) {
    vf a = {0}, b = {0}, c = {0}, d = {0};
    for (int64_t i = 0; i < n; i += VF) {
        vf x = vload(q + i);
        a = vfma(x, vload(k + i), a), b = vfma(x, vload(k + stride + i), b);
        c = vfma(x, vload(k + 2 * stride + i), c), d = vfma(x, vload(k + 3 * stride + i), d);
    }
    v4 p = halves(a), o = halves(b), r = halves(c), s = halves(d);
#define PAIRS(x, y)                                                                                \
    (__builtin_shufflevector(x, y, 0, 4, 1, 5) + __builtin_shufflevector(x, y, 2, 6, 3, 7))
    v4 left = PAIRS(p, o), right = PAIRS(r, s);
    return __builtin_shufflevector(left, right, 0, 1, 4, 5) +
           __builtin_shufflevector(left, right, 2, 3, 6, 7);
}

// out[r * FEW_ROWS + c] = x[r] . w[c], each k long, at least VF or nothing.
RL_INLINE void dots(const int dtype, const int rows, const int cols, const int rounds, int64_t k,
                    const float *const *x, const uint8_t *const *w, float *out) {
    const int64_t size = dtype == RL_F32 ? 4 : 2;
    vf sum[2][FEW_ROWS][FEW_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < cols; c++) sum[0][r][c] = sum[1][r][c] = (vf){};
    int64_t i = 0;
#if !defined(__wasm__)
    // Weights are fetched as they lie in memory, whole rows ahead, which the hardware does not see
    // in several streams.
    const int64_t all = rl_max(cols * k * size, 1), some = cols * rounds * VF * size;
    const int follows = w[1] - w[0] == k * size;
    const uint8_t *next = w[0] + (GEMV_AHEAD - 1 + all) / all * all;
#endif
    for (; i + rounds * VF <= k; i += rounds * VF) {
#if !defined(__wasm__)
        for (int64_t at = 0; follows && at < some; at += 64) __builtin_prefetch(next + at, 0, 2);
        next += some;
#endif
#pragma GCC unroll 2
        for (int u = 0; u < rounds; u++) {
            vf at[FEW_ROWS];
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) at[r] = vload(x[r] + i + u * VF);
#pragma GCC unroll 4
            for (int c = 0; c < cols; c++) {
                vf weight = load_as(dtype, w[c] + (i + u * VF) * size);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++) sum[u][r][c] = vfma(at[r], weight, sum[u][r][c]);
            }
        }
    }
    // The remainder: the last VF terms again, without those that were added already.
    if (i < k) {
        vf at[FEW_ROWS];
        for (; i < k - VF; i += VF) // after double rounds a whole vector may be left
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
                for (int c = 0; c < cols; c++) {
                    vf weight = load_as(dtype, w[c] + i * size);
                    sum[0][r][c] = vfma(vload(x[r] + i), weight, sum[0][r][c]);
                }
        vi fresh = last_lanes(k - i);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) at[r] = vselect(fresh, vload(x[r] + k - VF), (vf){});
#pragma GCC unroll 4
        for (int c = 0; c < cols; c++) {
            vf weight = vselect(fresh, load_as(dtype, w[c] + (k - VF) * size), (vf){});
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) sum[0][r][c] = vfma(at[r], weight, sum[0][r][c]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        if (rounds > 1)
#pragma GCC unroll 4
            for (int c = 0; c < cols; c++) sum[0][r][c] += sum[1][r][c];
        const int more = cols > 2 ? 2 : 0;
        v4store(out + r * FEW_ROWS,
                four_sums(sum[0][r][0], sum[0][r][1], sum[0][r][more], sum[0][r][more + 1]));
    }
}

// With few registers: two weights by four rows.
#define BESIDE(rows) (VF < 16 && (rows) == 4 ? 2 : 4)
typedef void (*dots_kernel)(int64_t, const float *const *, const uint8_t *const *, float *);
#define DOTS(name, dtype, rows)                                                                    \
    static void name(int64_t k, const float *const *x, const uint8_t *const *w, float *out) {      \
        dots(dtype, rows, BESIDE(rows), rows == 1 ? 2 : 1, k, x, w, out);                          \
    }
// In WebAssembly the conversion of f16 takes much code, and a module must be small. So it is a pass
// of its own there, and two rows are read as four.
#if defined(__wasm__)
#define EACH_KIND(M) M(F32) M(BF16)
#define TWO_ROWS 0 // whether two rows have kernels of their own
#else
#define EACH_KIND(M) M(F32) M(BF16) M(F16)
#define TWO_ROWS 1
#endif
static int gemv_kind(int dtype) {
#if !defined(__wasm__)
    if (dtype == RL_F16) return 2;
#endif
    return dtype == RL_F32 ? 0 : dtype == RL_BF16 ? 1 : -1;
}

#define DOTS_OF(dtype)                                                                             \
    DOTS(dots_##dtype##_1, RL_##dtype, 1)                                                          \
    DOTS(dots_##dtype##_4, RL_##dtype, 4)
EACH_KIND(DOTS_OF)
#if TWO_ROWS
#define DOTS_PAIR(dtype) DOTS(dots_##dtype##_2, RL_##dtype, 2)
EACH_KIND(DOTS_PAIR)
#define DOTS_ROW(dtype) {dots_##dtype##_1, dots_##dtype##_2, dots_##dtype##_4},
#else
#define DOTS_ROW(dtype) {dots_##dtype##_1, NULL, dots_##dtype##_4},
#endif
static const dots_kernel DOTS_KERNELS[][3] = {EACH_KIND(DOTS_ROW)};

// sums[r] (n long, at least VF, `row` apart) += x[r][0..terms) @ the rows w.
RL_INLINE void adds(const int dtype, const int rows, const int terms, int64_t n,
                    const float *const *x, const uint8_t *const *w, float *sums, int64_t row) {
    const int64_t size = dtype == RL_F32 ? 4 : 2;
#if !defined(__wasm__)
    const int64_t further = terms > 1 ? (w[1] - w[0]) * terms : 0; // the next rows of weights
#endif
    vf by[FEW_ROWS][8];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int t = 0; t < terms; t++) by[r][t] = vsplat(x[r][t]);
    for (int64_t j = 0; j < n; j += VF) {
        vf weight[8];
        // The last vector ends with the piece. It reads elements before it, whose lanes are
        // corrected at the end.
        int64_t at = rl_min(j, n - VF);
#if !defined(__wasm__)
#pragma GCC unroll 8
        for (int t = 0; t < terms; t++) __builtin_prefetch(w[t] + further + at * size, 0, 2);
#endif
#pragma GCC unroll 8
        for (int t = 0; t < terms; t++) weight[t] = load_as(dtype, w[t] + at * size);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            vf sum = vload(sums + r * row + j);
#pragma GCC unroll 8
            for (int t = 0; t < terms; t++) sum = vfma(by[r][t], weight[t], sum);
            vstore(sums + r * row + j, sum);
        }
    }
}

typedef void (*adds_kernel)(int64_t, const float *const *, const uint8_t *const *, float *,
                            int64_t);
#define ADDS(name, dtype, rows, terms)                                                             \
    static void name(int64_t n, const float *const *x, const uint8_t *const *w, float *sums,       \
                     int64_t row) {                                                                \
        adds(dtype, rows, terms, n, x, w, sums, row);                                              \
    }
#define TERMS 8
#define ADDS_OF(dtype)                                                                             \
    ADDS(adds_##dtype##_1, RL_##dtype, 1, TERMS)                                                   \
    ADDS(adds_##dtype##_4, RL_##dtype, 4, 4)                                                       \
    ADDS(adds_##dtype##_4_1, RL_##dtype, 4, 1)
EACH_KIND(ADDS_OF)
#if TWO_ROWS
#define ADDS_PAIR(dtype) ADDS(adds_##dtype##_2, RL_##dtype, 2, TERMS)
EACH_KIND(ADDS_PAIR)
#define ADDS_ROW(dtype)                                                                            \
    {adds_##dtype##_1, adds_##dtype##_2, adds_##dtype##_4, adds_##dtype##_4_1},
#else
#define ADDS_ROW(dtype) {adds_##dtype##_1, NULL, adds_##dtype##_4, adds_##dtype##_4_1},
#endif
static const adds_kernel ADDS_KERNELS[][4] = {EACH_KIND(ADDS_ROW)};

typedef struct {
    const product *p;
    const float *x; // of the whole batch, rows side by side; NULL: read in place
    int64_t cols, items; // columns of an item, items of one product
    int dots;
} gemv_job;

// Scratch floats: sums, and converted or gathered weights, at most four vectors of k or a piece.
static int64_t gemv_bytes(const gemv_job *job) {
    int64_t weights = job->dots ? 4 * job->p->k : TERMS * LINE;
    return (FEW_ROWS * LINE + 2 * VF + weights) * 4;
}

// The columns j to j + n (at most LINE) of rows i to i + rows (at most FEW_ROWS).
static void gemv_piece(const gemv_job *job, const product *p, const float *const *x, int64_t i,
                       int rows, int64_t j, int64_t n, float *sums, float *widened) {
    int64_t along = job->dots ? p->b.row : p->b.col; // stride of successive elements
    int kind = gemv_kind(p->b.dtype), stored = kind >= 0 && along == 1;
    int many = rows > 1 + TWO_ROWS;
    if (!stored) kind = 0;
    const uint8_t *w[TERMS];
    if (job->dots) {
        dots_kernel kernel = DOTS_KERNELS[kind][many ? 2 : rows - 1];
        int beside = many ? BESIDE(4) : 4;
        for (int64_t c = 0; c < n; c += beside) {
            float out[FEW_ROWS * FEW_ROWS];
            for (int t = 0; t < beside; t++) { // after the last column, the last one again
                w[t] = element(&p->b, 0, j + rl_min(c + t, n - 1));
                if (stored) continue;
                float *to = widened + t * p->k;
                LOAD_F[p->b.dtype](to, w[t], along, p->k);
                w[t] = (const uint8_t *)to;
            }
            kernel(p->k, x, w, out);
            for (int r = 0; r < rows; r++)
                for (int t = 0; t < beside && c + t < n; t++)
                    sums[r * LINE + c + t] = out[r * FEW_ROWS + t];
        }
    } else {
        for (int r = 0; r < FEW_ROWS; r++) rl_zero(sums + r * LINE, (size_t)(n + VF) / VF * VF * 4);
        for (int64_t k = 0; k < p->k;) {
            int most = many ? TERMS / 2 : TERMS, terms = p->k - k < most ? 1 : most;
            const float *at[FEW_ROWS];
            for (int r = 0; r < FEW_ROWS; r++) at[r] = x[r] + k;
            for (int t = 0; t < terms; t++) {
                w[t] = element(&p->b, k + t, j);
                if (stored) continue;
                LOAD_F[p->b.dtype](widened + t * LINE, w[t], along, n);
                w[t] = (const uint8_t *)(widened + t * LINE);
            }
            ADDS_KERNELS[kind][terms == 1 ? 3 : many ? 2 : rows - 1](n, at, w, sums, LINE);
            k += terms;
        }
        int64_t whole = n / VF * VF, skip = n - whole ? VF - (n - whole) : 0;
        for (int r = 0; skip && r < rows; r++)
            for (int64_t t = whole; t < n; t++) sums[r * LINE + t] = sums[r * LINE + t + skip];
    }
    for (int r = 0; r < rows; r++) finish(p, i + r, j, sums + r * LINE, n);
}

static void gemv_item(void *ctx, int64_t item, int thread) {
    const gemv_job *job = ctx;
    float *sums = rl_scratch(thread, gemv_bytes(job));
    product p = nth(job->p, item / job->items);
    const float *x = job->x ? job->x + item / job->items * p.m * p.k
                            : (const float *)(const void *)p.a.data;
    int64_t row = job->x ? p.k : p.a.row, from = item % job->items * job->cols;
    int64_t to = rl_min(p.n, from + job->cols);
    for (int64_t j = from; j < to; j += LINE)
        for (int64_t i = 0; i < p.m; i += FEW_ROWS) {
            const float *rows[FEW_ROWS]; // after the last row, the last one again
            for (int r = 0; r < FEW_ROWS; r++) rows[r] = x + rl_min(i + r, p.m - 1) * row;
            int count = (int)rl_min(FEW_ROWS, p.m - i);
            gemv_piece(job, &p, rows, i, count, j, rl_min(LINE, to - j), sums,
                       sums + FEW_ROWS * LINE + 2 * VF);
        }
}

static int gemv_in_place(const product *p) {
    return p->a.dtype == RL_F32 && p->a.col == 1 && !((uintptr_t)p->a.data & 3);
}

// The number of floats that gemv needs in `shared`.
static int64_t gemv_shared(const product *p) {
    return gemv_in_place(p) ? 0 : p->batch * p->m * p->k;
}

// Whether the sums run along contiguous weights; otherwise scaled rows of weights are added up.
static int gemv_dots(const product *p) { return p->b.row == 1 && (p->b.col != 1 || p->k >= p->n); }

// Whether gemv is faster than gemm: for few rows, and for more if the weights come from memory.
static int gemv_fits(const product *p) {
    int far = p->k * p->n > 1 << 20;
    return gemv_dots(p) ? p->m <= (far ? 32 : 12) && p->k >= VF
                        : p->m <= (far ? 12 : 2) && p->n >= VF && p->k > 0;
}

// A product for which gemv is chosen. `shared`: gemv_shared floats.
static int gemv(const product *p, float *shared) {
    gemv_job job = {.p = p, .dots = gemv_dots(p)};
    if (!gemv_in_place(p)) {
        for (int64_t i = 0; i < p->batch; i++) {
            product one = nth(p, i);
            for (int64_t r = 0; r < p->m; r++)
                LOAD_F[p->a.dtype](shared + (i * p->m + r) * p->k, element(&one.a, r, 0), p->a.col,
                                   p->k);
        }
        job.x = shared;
    }
    int64_t cols = job.dots ? ITEM_BYTES / (p->k * RL_SIZE[p->b.dtype]) & ~3
                            : (p->n / (2 * rl_threads()) + 63) & ~63;
    job.cols = rl_max(rl_min(cols, LINE), job.dots ? 4 : 64);
    job.items = (p->n + job.cols - 1) / job.cols;
    if (!reserve(gemv_bytes(&job))) return RL_MEMORY;
    // It is bound by memory: an operation takes twenty times as long as in gemm.
    share_out(40.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch,
              job.items * p->batch, gemv_item, &job);
    return RL_OK;
}

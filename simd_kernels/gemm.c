// Matrix products in tiles: operands are packed into panels and multiplied in registers.
// The method: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008.

// Rows of a micro-tile; it is PANEL columns wide, two vectors.
#if VF == 16
#define ROWS 14
#define EACH_ROWS(M) \
    M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14)
#elif defined(__wasm__) && !defined(__wasm_relaxed_simd__)
#define ROWS 4
#define EACH_ROWS(M) M(1) M(2) M(3) M(4)
#elif defined(__aarch64__)
#define ROWS 8
#define EACH_ROWS(M) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8)
#else
#define ROWS 6
#define EACH_ROWS(M) M(1) M(2) M(3) M(4) M(5) M(6)
#endif
#define PANEL (2 * VF)
// Terms of a sum between two updates of the result; rows of a strip of the first operand.
#define DEPTH 256
#define STRIP (ROWS * 24)

// Panels of the first operand are padded to four rows, which are transposed at a time.
#define PADDED(rows) (((rows) + 3) & ~3)

// V8 keeps the order of instructions and has fifteen registers. So rows go one after the other,
// each with one register, where clang would load them all first. An opaque pointer keeps its
// offsets in the instructions.
#if defined(__wasm__)
#define IN_ORDER(x, y, pointer) __asm__ volatile("" : "+r"(x), "+r"(y), "+r"(pointer))
#else
#define IN_ORDER(x, y, pointer)
#endif

// c (rows, vectors * VF) = or += the product of two panels of `depth` terms.
RL_INLINE void micro(const int rows, const int vectors, int64_t depth, const float *a,
                     const float *b, int64_t b_row, float *c, int64_t c_row, int add) {
    vf sum[ROWS][2];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = (vf){};
    for (int64_t i = 0; i < depth; i++, a += PADDED(rows), b += b_row) {
        vf first = vload(b), second = vectors > 1 ? vload(b + VF) : first;
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            vf x = vsplat(a[r]);
            sum[r][0] = vfma(x, first, sum[r][0]);
            if (vectors > 1) sum[r][1] = vfma(x, second, sum[r][1]);
            IN_ORDER(sum[r][0], sum[r][vectors - 1], a);
        }
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++, c += c_row) {
        vstore(c, add ? sum[r][0] + vload(c) : sum[r][0]);
        if (vectors > 1) vstore(c + VF, add ? sum[r][1] + vload(c + VF) : sum[r][1]);
    }
}

typedef void (*micro_kernel)(int64_t, const float *, const float *, int64_t, float *, int64_t, int);
#define MICRO(rows)                                                                                \
    static void micro_##rows##_1(int64_t depth, const float *a, const float *b, int64_t b_row,     \
                                 float *c, int64_t c_row, int add) {                               \
        micro(rows, 1, depth, a, b, b_row, c, c_row, add);                                         \
    }                                                                                              \
    static void micro_##rows##_2(int64_t depth, const float *a, const float *b, int64_t b_row,     \
                                 float *c, int64_t c_row, int add) {                               \
        micro(rows, 2, depth, a, b, b_row, c, c_row, add);                                         \
    }
EACH_ROWS(MICRO)
#undef MICRO
#define MICRO(rows) {micro_##rows##_1, micro_##rows##_2},
static const micro_kernel MICRO_KERNELS[ROWS][2] = {EACH_ROWS(MICRO)};
#undef MICRO

// to[i * row + r] = from[r][i]: four rows become four columns.
static void turn_four(float *to, int64_t row, const float *const from[4], int64_t n) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        v4 a = v4load(from[0] + i), b = v4load(from[1] + i);
        v4 c = v4load(from[2] + i), d = v4load(from[3] + i);
        v4 e = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        v4 f = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        v4 g = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        v4 h = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        float *at = to + i * row;
        v4store(at, __builtin_shufflevector(e, f, 0, 1, 4, 5));
        v4store(at + row, __builtin_shufflevector(e, f, 2, 3, 6, 7));
        v4store(at + 2 * row, __builtin_shufflevector(g, h, 0, 1, 4, 5));
        v4store(at + 3 * row, __builtin_shufflevector(g, h, 2, 3, 6, 7));
    }
    for (; i < n; i++)
        for (int r = 0; r < 4; r++) to[i * row + r] = from[r][i];
}

// A panel of `width` columns (a multiple of four), of which n exist, with zeros after them:
// to[i * width + j] = from[j * minor + i * major], i < depth. `rows`: 4 * DEPTH floats of scratch.
static void pack(float *to, int64_t width, int64_t n, const uint8_t *from, int dtype, int64_t minor,
                 int64_t major, int64_t depth, float *rows) {
    static const float NOTHING[DEPTH];
    int64_t size = RL_SIZE[dtype];
    if (major == 1 && (minor != 1 || n == 1)) {
        for (int64_t j = 0; j < width; j += 4) {
            const float *row[4] = {NOTHING, NOTHING, NOTHING, NOTHING};
            for (int r = 0; r < 4 && j + r < n; r++) {
                const uint8_t *at = from + (j + r) * minor * size;
                row[r] = (const float *)(const void *)at;
                // An address that is not a multiple of four bytes must not be read as a float.
                if (dtype == RL_F32 && !((uintptr_t)at & 3)) continue;
                row[r] = rows + r * DEPTH;
                LOAD_F[dtype](rows + r * DEPTH, at, 1, depth);
            }
            turn_four(to + j, width, row, depth);
        }
        return;
    }
    for (int64_t i = 0; i < depth; i++, to += width) {
        const uint8_t *at = from + i * major * size;
        if (dtype == RL_F32 && minor == 1 && n == PANEL) {
            vstore(to, vload(at));
            vstore(to + VF, vload(at + VF * 4));
            continue;
        }
        LOAD_F[dtype](to, at, minor, n);
        for (int64_t j = n; j < width; j++) to[j] = 0;
    }
}

static void image_panel(const product *p, int64_t index, float *to, int64_t width, int64_t k0,
                        int64_t depth, int64_t j, int64_t n, float *rows);

typedef struct {
    const product *p;
    int64_t rows, cols, down, across; // of a tile; tiles
    int direct, whole;                // the second operand is read in place; so is the result
} gemm_job;

// Scratch floats: packed rows, a panel of columns, rows to transpose, a micro-tile, a tile's sums.
#define SCRATCH_A (PADDED(ROWS) * (STRIP / ROWS + 1) * DEPTH)
#define SCRATCH_B (PANEL * DEPTH)
#define SCRATCH_MORE (4 * DEPTH + ROWS * PANEL)

static int64_t tile_row(const gemm_job *job) { return (job->cols + PANEL - 1) / PANEL * PANEL; }

static int64_t gemm_bytes(const gemm_job *job) {
    int64_t sums = job->whole ? 0 : job->rows * tile_row(job);
    return (SCRATCH_A + SCRATCH_B + SCRATCH_MORE + sums) * 4;
}

static void gemm_item(void *ctx, int64_t item, int thread) {
    const gemm_job *job = ctx;
    float *pa = rl_scratch(thread, gemm_bytes(job)), *pb = pa + SCRATCH_A;
    float *turned = pb + SCRATCH_B, *small = turned + 4 * DEPTH;
    int64_t tiles = job->down * job->across, at = item % tiles;
    product p = nth(job->p, item / tiles);
    int64_t i0 = at % job->down * job->rows, j0 = at / job->down * job->cols;
    int64_t m = rl_min(job->rows, p.m - i0), n = rl_min(job->cols, p.n - j0);
    float *c = job->whole ? (float *)(void *)element(&p.c, i0, j0) : small + ROWS * PANEL;
    int64_t c_row = job->whole ? p.c.row : tile_row(job);
    // Panels have equal numbers of rows, and rounds equal numbers of terms.
    int64_t panels = (m + ROWS - 1) / ROWS, base = m / panels, more = m % panels;
    int64_t rounds = (p.k + DEPTH - 1) / DEPTH, round = ((p.k + rounds - 1) / rounds + 3) & ~3;
    for (int64_t k0 = 0; k0 < p.k; k0 += round) {
        int64_t depth = rl_min(round, p.k - k0);
        float *to = pa;
        for (int64_t s = 0, i = i0; s < panels; s++) {
            int64_t rows = base + (s < more);
            pack(to, PADDED(rows), rows, element(&p.a, i, k0), p.a.dtype, p.a.row, p.a.col, depth,
                 turned);
            to += PADDED(rows) * depth, i += rows;
        }
        for (int64_t j = 0; j < n; j += PANEL) {
            int64_t cols = rl_min(PANEL, n - j), vectors = cols > VF ? 2 : 1, b_row = vectors * VF;
            const uint8_t *from = p.image ? NULL : element(&p.b, k0, j0 + j);
            const float *b = pb;
            if (p.image)
                image_panel(&p, item / tiles, pb, b_row, k0, depth, j0 + j, cols, turned);
            else if (job->direct && cols == b_row) {
                b = (const float *)(const void *)from;
                b_row = p.b.row;
            } else pack(pb, b_row, cols, from, p.b.dtype, p.b.col, p.b.row, depth, turned);
            int part = job->whole && cols < vectors * VF;
            const float *a = pa;
            for (int64_t s = 0, i = 0; s < panels; s++) {
                int64_t rows = base + (s < more);
                float *out = c + i * c_row + j;
                MICRO_KERNELS[rows - 1][vectors - 1](depth, a, b, b_row, part ? small : out,
                                                     part ? PANEL : c_row, !part && (k0 || p.add));
                for (int64_t r = 0; part && r < rows; r++)
                    for (int64_t t = 0; t < cols; t++) {
                        float sum = small[r * PANEL + t];
                        out[r * c_row + t] = k0 || p.add ? out[r * c_row + t] + sum : sum;
                    }
                a += PADDED(rows) * depth, i += rows;
            }
        }
    }
    if (!job->whole || p.bias.data || p.tail)
        for (int64_t i = 0; i < m; i++) finish(&p, i0 + i, j0, c + i * c_row, n);
}

// Any product with k > 0.
static int gemm(const product *p) {
    gemm_job job = {.p = p};
    int aligned = !((uintptr_t)p->c.data & 3);
    job.whole = p->c.dtype == RL_F32 && p->c.col == 1 && aligned && !p->wide;
    // Packing pays if a panel is used several times.
    job.direct = !p->image && p->b.dtype == RL_F32 && p->b.col == 1 && p->m <= 2 * ROWS &&
                 !((uintptr_t)p->b.data & 3);
    int64_t wanted = 3 * rl_threads();
    job.rows = rl_min(p->m, job.whole ? STRIP : STRIP / 2);
    job.cols = job.whole ? p->n : rl_min(p->n, 16 * PANEL);
    // The cut does not change the order of a sum, so it may depend on the number of threads.
    for (;;) {
        job.down = (p->m + job.rows - 1) / job.rows;
        job.across = (p->n + job.cols - 1) / job.cols;
        if (rl_threads() == 1 || job.down * job.across * p->batch >= wanted) break;
        if (job.cols > 4 * PANEL && (job.cols > job.rows || job.rows < 4 * ROWS))
            job.cols = (job.cols / 2 + PANEL - 1) / PANEL * PANEL;
        else if (job.rows >= 4 * ROWS) job.rows = (job.rows / 2 + ROWS - 1) / ROWS * ROWS;
        else break;
    }
    if (!reserve(gemm_bytes(&job))) return RL_MEMORY;
    double work = 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
    share_out(work, job.down * job.across * p->batch, gemm_item, &job);
    return RL_OK;
}

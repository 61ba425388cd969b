// Micro-kernels of matrix products: a few rows by a panel's width of columns, in registers.

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
// The most panels of columns that are multiplied by the same rows one after the other.
#define GROUP (RL_ROOM ? 16 : 1)
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

#define AHEAD 1024 // floats of the first operand, which may come from far away

// c (rows, vectors * VF) = or += the product of two panels of `depth` terms.
RL_INLINE void micro(const int rows, const int vectors, int64_t depth, const float *a,
                     const float *b, int64_t b_row, float *c, int64_t c_row, int add) {
    vf sum[ROWS][2];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = (vf){};
    for (int64_t i = 0; i < depth; i++, a += PADDED(rows), b += b_row) {
        vf first = vload(b), second = vectors > 1 ? vload(b + VF) : first;
        if (RL_ROOM) __builtin_prefetch(a + AHEAD);
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

#if RL_ROOM
// The same for at most EDGE columns, by vectors of rows: `a` has VF floats of each term. The result
// has rows of PANEL.
#define EDGE 4
RL_INLINE void edge(const int cols, int rows, int64_t depth, const float *a, const float *b,
                    int64_t b_row, float *c) {
    for (int r = 0; r < rows; r += VF) {
        const float *from = a + r, *by = b;
        vf sum[EDGE];
#pragma GCC unroll 4
        for (int t = 0; t < cols; t++) sum[t] = (vf){};
        for (int64_t i = 0; i < depth; i++, from += PADDED(rows), by += b_row) {
            vf x = vload(from);
#pragma GCC unroll 4
            for (int t = 0; t < cols; t++) sum[t] = vfma(x, vsplat(by[t]), sum[t]);
        }
        for (int t = 0; t < cols; t++)
            for (int k = 0; k < VF && r + k < rows; k++) c[(r + k) * PANEL + t] = sum[t][k];
    }
}

static RL_APART void edges(int64_t cols, int rows, int64_t depth, const float *a, const float *b,
                           int64_t b_row, float *c) {
    if (cols == 1) edge(1, rows, depth, a, b, b_row, c);
    else if (cols == 2) edge(2, rows, depth, a, b, b_row, c);
    else if (cols == 3) edge(3, rows, depth, a, b, b_row, c);
    else edge(4, rows, depth, a, b, b_row, c);
}

// How many of the n columns that are left one pass takes.
static int64_t panel_cols(int64_t n) {
    return n < PANEL && n > VF && n <= VF + EDGE ? VF : rl_min(PANEL, n);
}
#else
#define panel_cols(n) rl_min(PANEL, n)
#endif

// Products of float activations with weights in blocks: one row, and tiles of many.

#if VF == 16
#define QX_ROWS 8 // activation rows of a tile
#define QX_VECTORS 1 // vectors of weight rows
#else
#define QX_ROWS 4
#define QX_VECTORS 2
#endif
#define QX_WIDTH (QX_VECTORS * VF)
#define QX_BLOCKS 8 // blocks of a row in one panel, which fits the first-level cache
#define QX_DEPTH (32 * QX_BLOCKS)
_Static_assert(QX_DEPTH == QC_SIZE, "a panel is as deep as a chunk");

// A product of `n` rows of `x` with weight rows (linear), or with weight columns (linear_t).
typedef struct {
    const float *const *x;
    float *const *out;
    int64_t n;
} qx_rows;

#if defined(__wasm__)
#define QX_FEW 1 // activation rows that are multiplied as they are, without panels
#else
#define QX_FEW 4
// `n` activation rows with weight rows: the weights are unpacked once for all of them.
RL_INLINE void qx_each_vector(int type, int n, const qx_rows *g, const uint8_t *w, int64_t row,
                              int64_t rows, int64_t blocks, const float *bias, int64_t to) {
    enum { N = 32 / VF, TOGETHER = VF == 16 ? 4 : 2 };
    const int chains = n == 1 ? 2 : 1; // sums of a row, which the units fill by turns
    for (int64_t r = 0; r < rows; r += TOGETHER) {
        vf sum[TOGETHER][QX_FEW * 2] = {0};
        const uint8_t *p[TOGETHER];
        for (int t = 0; t < TOGETHER; t++) p[t] = w + rl_min(r + t, rows - 1) * row;
        for (int64_t b = 0; b < blocks; b++)
            for (int t = 0; t < TOGETHER; t++) {
                vf v[N];
                q_values(type, p[t] + b * q_bytes(type), v);
                for (int k = 0; k < n; k++)
                    for (int i = 0; i < N; i++) {
                        vf *at = &sum[t][k * chains + i % chains];
                        *at = vfma(v[i], vload(g->x[k] + b * 32 + i * VF), *at);
                    }
            }
        for (int k = 0; k < n; k++)
            for (int t = 0; t < rl_min(TOGETHER, rows - r); t++) {
                vf whole = n == 1 ? sum[t][0] + sum[t][1] : sum[t][k];
                fstore(g->out[k] + to + r + t, vsum(whole) + (bias ? fload(bias + r + t) : 0));
            }
    }
}

#define QX_EACH(n)                                                                                 \
    case n: Q_EACH(type, qx_each_vector(TYPE, n, &g, w, row, rows, blocks, bias, to)) break;
#endif

// out[i][to + r] = the product of row i <= QX_FEW of `g` with weight row r of `rows`, and bias.
Q_APART void qx_vector(int type, qx_rows g, const uint8_t *w, int64_t row, int64_t rows,
                       int64_t blocks, const float *bias, int64_t to) {
#if defined(__wasm__) // as fast there, and 4 KB smaller
    const float *x = g.x[0];
    for (int64_t r = 0; r < rows; r++) {
        vf sum[2] = {0};
        for (int64_t b = 0; b < blocks; b += 8) {
            float v[8 * 32];
            int64_t n = rl_min(8, blocks - b) * 32;
            q_widen(type, w + r * row + b * q_bytes(type), n / 32, v);
            for (int64_t i = 0; i < n; i += 2 * VF)
                for (int j = 0; j < 2; j++)
                    sum[j] = vfma(vload(v + i + j * VF), vload(x + b * 32 + i + j * VF), sum[j]);
        }
        fstore(g.out[0] + to + r, vsum(sum[0] + sum[1]) + (bias ? fload(bias + r) : 0));
    }
#else
    switch (g.n) { QX_EACH(1) QX_EACH(2) QX_EACH(3) QX_EACH(4) }
#endif
}

// out[i][0..width) += x[i][k] * panel[k][0..width), for k < depth, i < rows <= QX_ROWS. If `first`,
// out starts from `bias`, or from zero without one.
static void qx_tile(const float *const *x, int64_t at, const float *panel, int64_t step,
                   int64_t depth, float *const *out, int64_t to, int64_t rows, int64_t width,
                   const float *bias, int first) {
    vf sum[QX_ROWS][QX_VECTORS];
    const float *from[QX_ROWS];
    for (int i = 0; i < QX_ROWS; i++) {
        int64_t r = rl_min(i, rows - 1);
        from[i] = x[r] + at;
        const float *start = first ? bias : out[r] + to;
        for (int v = 0; v < QX_VECTORS; v++) {
            int64_t left = width - v * VF;
            sum[i][v] = !start ? (vf){0}
                        : left >= VF ? vload(start + v * VF)
                                     : vload_part(start + v * VF, rl_max(left, 0));
        }
    }
    for (int64_t k = 0; k < depth; k++, panel += step) {
        vf w[QX_VECTORS];
        for (int v = 0; v < QX_VECTORS; v++) w[v] = vload(panel + v * VF);
        for (int i = 0; i < QX_ROWS; i++) {
            vf a = vsplat_at(from[i] + k);
            for (int v = 0; v < QX_VECTORS; v++) sum[i][v] = vfma(a, w[v], sum[i][v]);
        }
    }
    for (int i = 0; i < QX_ROWS; i++) {
        if (i >= rows) break;
        for (int v = 0; v < QX_VECTORS; v++) {
            float *p = out[i] + to + v * VF;
            int64_t left = width - v * VF;
            if (left >= VF) vstore(p, sum[i][v]);
            else vstore_part(p, sum[i][v], rl_max(left, 0));
        }
    }
}

// The values of QX_WIDTH weight rows, column by column.
static void qx_panel(int type, const uint8_t *w, int64_t row, int64_t rows, int64_t blocks,
                       float *panel, uint8_t *spare) {
    const int32_t less = q_less(type);
    for (int v = 0; v < QX_VECTORS; v++) {
        int64_t step = row;
        const uint8_t *p = q_whole(type, w + v * VF * row, &step, rl_max(rows - v * VF, 0), blocks,
                                   spare);
        float *to = panel + v * VF;
        for (int64_t b = 0; b < blocks; b++, p += q_bytes(type)) {
            vi q[8];
            vf d, m;
            q_columns(type, p, step, q, &d, &m);
            for (int k = 0; k < 32; k++, to += QX_WIDTH) {
                vi n = (q[k / 4] << (24 - 8 * (k % 4)) >> 24) - less;
                vstore(to, vfma(__builtin_convertvector(n, vf), d, m));
            }
        }
    }
}

// The same for chunk number `chunk` of rows of chunks, of which `count` columns.
static void qc_panel(const q_weight *w, const uint8_t *p, int64_t row, int64_t rows, int64_t chunk,
                     int64_t count, float *panel) {
    for (int v = 0; v < QX_VECTORS; v++) {
        q_chunk c[VF];
        qc_rows(w, p + v * VF * row, row, rl_max(rows - v * VF, 0), chunk, c);
        float *to = panel + v * VF;
        for (int64_t g = 0; g < count / 16; g++) {
            vi q[4];
            vf s, m;
            qc_columns(c, g, q, &s, &m);
            for (int k = 0; k < 16; k++, to += QX_WIDTH) {
                vi n = q[k / 4] << (24 - 8 * (k % 4)) >> 24;
                vstore(to, vfma(__builtin_convertvector(n, vf), s, m));
            }
        }
    }
}

#define QX_SPARE (VF * QX_BLOCKS * 34)
#define QX_PANEL (QX_BLOCKS * 32 * QX_WIDTH * 4)

// Many rows times `count` weight rows from `p` on, which give the outputs' columns from `to` on.
static int qx_matrix(const q_weight *w, qx_rows g, const uint8_t *p, int64_t row, int64_t to,
                     int64_t count, const float *bias, int thread) {
    float *panel = rl_scratch(thread, QX_PANEL + QX_SPARE);
    if (!panel) return 0;
    for (int64_t c = 0; c < count; c += QX_WIDTH)
        for (int64_t k = 0; k == 0 || k < w->columns; k += QX_DEPTH) {
            int64_t depth = rl_min(QX_DEPTH, w->columns - k), width = rl_min(QX_WIDTH, count - c);
            const uint8_t *from = p + c * row;
            if (q_is_chunked(w->type)) qc_panel(w, from, row, width, k / QC_SIZE, depth, panel);
            else
                qx_panel(w->type, from + k / 32 * q_bytes(w->type), row, width, depth / 32, panel,
                         (uint8_t *)panel + QX_PANEL);
            for (int64_t r = 0; r < g.n; r += QX_ROWS)
                qx_tile(g.x + r, k, panel, QX_WIDTH, depth, g.out + r, to + c,
                        rl_min(QX_ROWS, g.n - r), width, bias ? bias + c : NULL, k == 0);
        }
    return 1;
}

// Columns and rows of a panel of linear_t.
#define QT_COLUMNS QC_SIZE
#define QT_ROWS 32

// out[:, columns] = x @ w for `count` <= QT_COLUMNS columns from `first` on of `depth` weight rows.
static int qx_transposed(const q_weight *w, qx_rows g, const uint8_t *p, int64_t row, int64_t depth,
                         int64_t first, int64_t count, int thread) {
    float *panel = rl_scratch(thread, QT_ROWS * QT_COLUMNS * 4);
    if (!panel) return 0;
    for (int64_t k = 0; k == 0 || k < depth; k += QT_ROWS) {
        int64_t n = rl_min(QT_ROWS, depth - k);
        for (int64_t i = 0; i < n; i++)
            q_row_floats(w, p + (k + i) * row, first, count, panel + i * count);
        for (int64_t r = 0; r < g.n; r += QX_ROWS)
            for (int64_t c = 0; c < count; c += QX_WIDTH)
                qx_tile(g.x + r, k, panel + c, count, n, g.out + r, first + c,
                        rl_min(QX_ROWS, g.n - r), QX_WIDTH, NULL, k == 0);
    }
    return 1;
}

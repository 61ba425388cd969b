// Matrix products in tiles: operands are packed into panels and multiplied in registers.
// The method: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008.

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
            // The next four rows; they are too many short streams for the processor's prefetching.
            for (int64_t i = 0; i < depth * size; i += 64)
                for (int r = 4; r < 8; r++)
                    __builtin_prefetch(from + (j + r) * minor * size + i);
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
            __builtin_prefetch(at + PANEL * 4), __builtin_prefetch(at + PANEL * 8 - 4); // the next
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
    int64_t panels, strip, cols, down, across; // panels of rows, of a tile; tiles
    int direct, whole;   // the second operand is read in place; so is the result
    const float *packed; // the first operand's panels, round by round, or NULL
} gemm_job;

// Scratch floats: packed rows, a panel of columns, rows to transpose, two micro-tiles, numbers of
// rows, a tile's sums.
#define SCRATCH_A (PADDED(ROWS) * (STRIP / ROWS + 1) * DEPTH)
#define SCRATCH_B (PANEL * DEPTH)
#define SCRATCH_MORE (4 * DEPTH + 2 * ROWS * PANEL + SCRATCH_NUMBERS)
#if RL_ROOM
#define SCRATCH_NUMBERS (NUMBERS * (2 * STRIP + ROWS)) // of the rows of a tile, for a tail
#else
#define SCRATCH_NUMBERS 0
#endif
// Floats of a tile of results, which stays in the cache; the most of an operand that is packed.
#define TILE_FLOATS 49152
#define MOST_PACKED (3 << 20)

static int64_t tile_row(const gemm_job *job) { return (job->cols + PANEL - 1) / PANEL * PANEL; }

static RL_ONCE int64_t gemm_floats(const gemm_job *job) {
    int64_t sums = job->whole ? 0 : job->strip * ROWS * tile_row(job);
    return SCRATCH_A + SCRATCH_B + SCRATCH_MORE + sums;
}

// Panels have equal numbers of rows: those of panel `s`, which have `first` before them.
static RL_ONCE int64_t panel_rows(int64_t m, int64_t s, int64_t *first) {
    int64_t all = (m + ROWS - 1) / ROWS, base = m / all, more = m % all;
    *first = s * base + rl_min(s, more);
    return base + (s < more);
}

// Floats of a term of the first `s` panels.
static RL_ONCE int64_t panel_floats(int64_t m, int64_t s) {
    int64_t all = (m + ROWS - 1) / ROWS, base = m / all, more = rl_min(s, m % all);
    return more * PADDED(base + 1) + (s - more) * PADDED(base);
}

// Rounds of a sum have equal numbers of terms.
static RL_ONCE int64_t round_of(int64_t k) {
    int64_t rounds = (k + DEPTH - 1) / DEPTH;
    return ((k + rounds - 1) / rounds + 3) & ~3;
}

#if RL_ROOM
static void gemm_pack_item(void *ctx, int64_t item, int thread) {
    const gemm_job *job = ctx;
    const product *p = job->p;
    float *turned = rl_scratch(thread, 0), *to = (float *)(uintptr_t)job->packed;
    int64_t first, rows = panel_rows(p->m, item, &first), round = round_of(p->k);
    int64_t before = panel_floats(p->m, item), all = panel_floats(p->m, job->panels);
    for (int64_t k0 = 0; k0 < p->k; k0 += round) {
        int64_t depth = rl_min(round, p->k - k0);
        pack(to + all * k0 + before * depth, PADDED(rows), rows, element(&p->a, first, k0),
             p->a.dtype, p->a.row, p->a.col, depth, turned);
    }
}

#endif

// Rows of at most PANEL floats that do not fill their vectors.
static void copy_part(float *to, const float *from, int64_t n) {
    for (; n >= VF; n -= VF, to += VF, from += VF) vstore(to, vload(from));
    if (n) vstore_part(to, vload(from), n);
}

// small (rows, PANEL) += c (rows, n), c_row apart.
static void add_part(float *small, const float *c, int64_t c_row, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++, small += PANEL, c += c_row) {
        int64_t i = 0;
        for (; i + VF <= n; i += VF) vstore(small + i, vload(small + i) + vload(c + i));
        if (i < n) vstore(small + i, vload(small + i) + vload_part(c + i, n - i));
    }
}

#if RL_ROOM
// The beginning of a tail over a micro-tile, while it is near: rows i and columns j on, in c. Where
// `beside` is given, c has whole vectors and the added tensor is brought there.
static void begin_tile(const product *p, int64_t i, int64_t j, int64_t rows, int64_t cols,
                       float *c, int64_t c_row, float *beside, const float *numbers,
                       int64_t room) {
    const tail *t = p->tail;
    const float *more = NULL;
    int64_t step = 0, n = beside ? (cols + VF - 1) & ~(int64_t)(VF - 1) : cols;
    if (t && t->added >= 0) {
        const matrix *from = &t->of[t->added];
        more = (const float *)(const void *)element(from, i, j) + p->moved[t->added];
        step = from->row;
        if (beside) {
            for (int64_t r = 0; r < rows; r++)
                for (int64_t e = 0; e < cols; e += VF) {
                    const float *at = more + r * step + e;
                    vstore(beside + r * PANEL + e, cols - e < VF ? vload_part(at, cols - e)
                                                                 : vload(at));
                }
            more = beside, step = PANEL;
        }
    }
    begin_rows(t ? t->bounds : NO_BOUNDS, rows, c, c, c_row, more, step, numbers, room, n);
}

#endif

#if RL_ROOM
// Fetches what a micro-tile is stored to, and what is added to it, while it is computed.
static void fetch_tile(const product *p, int64_t i, int64_t j, int64_t rows, const float *c,
                       int64_t c_row, int ends) {
    const tail *t = p->tail;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t e = 0; e < PANEL; e += 16) __builtin_prefetch(c + r * c_row + e, 1);
    if (!ends || !t || t->added < 0) return;
    const matrix *from = &t->of[t->added];
    const float *more = (const float *)(const void *)element(from, i, j) + p->moved[t->added];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t e = 0; e < PANEL; e += 16) __builtin_prefetch(more + r * from->row + e);
}
#endif

static void gemm_item(void *ctx, int64_t item, int thread) {
    const gemm_job *job = ctx;
    float *own = rl_scratch(thread, 0), *pb = own + SCRATCH_A;
    float *turned = pb + SCRATCH_B, *small = turned + 4 * DEPTH;
    int64_t tiles = job->down * job->across, at = item % tiles;
    product p = nth(job->p, item / tiles);
    int64_t s0 = at % job->down * job->strip, s1 = rl_min(job->panels, s0 + job->strip);
    int64_t i0, last, m = panel_rows(p.m, s1 - 1, &last), j0 = at / job->down * job->cols;
    panel_rows(p.m, s0, &i0);
    m += last - i0;
    int64_t n = rl_min(job->cols, p.n - j0), round = round_of(p.k);
    float *beside = small + ROWS * PANEL, *numbers = beside + ROWS * PANEL;
    float *c = job->whole ? (float *)(void *)element(&p.c, i0, j0) : numbers + SCRATCH_NUMBERS;
    int64_t c_row = job->whole ? p.c.row : tile_row(job);
    int begun = RL_ROOM && job->whole && (p.tail ? p.tail->begun : p.bias.data && !p.bias.col);
    int done = job->whole && (p.tail ? RL_ROOM && begun && p.tail->begun == p.tail->steps
                                     : begun || !p.bias.data);
#if RL_ROOM
    if (begun) tail_numbers(&p, i0, m, numbers, m);
#endif
    for (int64_t k0 = 0; k0 < p.k; k0 += round) {
        int64_t depth = rl_min(round, p.k - k0), i = i0;
        const float *pa = own;
        if (RL_ROOM && job->packed)
            pa = job->packed + panel_floats(p.m, job->panels) * k0 + panel_floats(p.m, s0) * depth;
        else
            for (int64_t s = s0, rows; s < s1; s++, i += rows) {
                rows = panel_rows(p.m, s, &i);
                pack(own + (panel_floats(p.m, s) - panel_floats(p.m, s0)) * depth, PADDED(rows),
                     rows, element(&p.a, i, k0), p.a.dtype, p.a.row, p.a.col, depth, turned);
            }
        for (int64_t j = 0, next; j < n; j = next) {
            // A few panels of columns, so that rows of the result are written in longer runs.
            const float *panel[GROUP];
            float *to = pb;
            int panels = 0;
            for (next = j; panels < GROUP && next < n && to + depth * PANEL <= pb + SCRATCH_B;) {
                int64_t cols = panel_cols(n - next), b_row = cols > VF ? PANEL : VF;
                const uint8_t *from = p.image ? NULL : element(&p.b, k0, j0 + next);
                panel[panels] = to;
                if (p.image)
                    image_panel(&p, item / tiles, to, b_row, k0, depth, j0 + next, cols, turned);
                else if (job->direct && cols == b_row)
                    panel[panels] = (const float *)(const void *)from;
                else pack(to, b_row, cols, from, p.b.dtype, p.b.col, p.b.row, depth, turned);
                panels++, next += cols, to += depth * b_row;
            }
            const float *a = pa;
            float *rows_of = c;
            for (int64_t s = s0, rows, r0 = 0; s < s1; s++, r0 += rows) {
                rows = panel_rows(p.m, s, &i);
                float *out = rows_of + j;
                for (int64_t g = 0, at = j, cols; g < panels; g++, at += cols, out += cols) {
                    cols = panel_cols(n - at);
                    int64_t vectors = cols > VF ? 2 : 1, b_row = vectors * VF;
                    if (job->direct && !p.image && cols == b_row) b_row = p.b.row;
                    int part = job->whole && cols < vectors * VF;
                    float *sum = part ? small : out;
                    int64_t row = part ? PANEL : c_row;
#if RL_ROOM
                    fetch_tile(&p, i0 + r0, j0 + at, rows, out, c_row, begun && k0 + depth == p.k);
                    if (part && cols <= EDGE && cols < VF)
                        edges(cols, (int)rows, depth, a, panel[g], b_row, sum);
                    else
#endif
                        MICRO_KERNELS[rows - 1][vectors - 1](depth, a, panel[g], b_row, sum, row,
                                                             !part && (k0 || p.add));
                    if (part && (k0 || p.add)) add_part(small, out, c_row, rows, cols);
#if RL_ROOM
                    if (begun && k0 + depth == p.k)
                        begin_tile(&p, i0 + r0, j0 + at, rows, cols, sum, row,
                                   part ? beside : NULL, numbers + r0, m);
#endif
                    for (int64_t r = 0; part && r < rows; r++)
                        copy_part(out + r * c_row, small + r * PANEL, cols);
                }
                rows_of += rows * c_row;
                a += PADDED(rows) * depth;
            }
        }
    }
    for (int64_t i = 0; i < m && !done; i++)
#if RL_ROOM
        if (p.tail) finish_tail(&p, i0 + i, j0, c + i * c_row, n, begun);
        else
#endif
            finish(&p, i0 + i, j0, c + i * c_row, n);
}

#if RL_ROOM
// Operands that are kept between calls have a head: which form it is, and whether an element is not
// finite, or close to it.
enum { KEPT_PANELS = 1, KEPT_TILES };
#define KEPT_HEAD 16

static int64_t kept_panels(int64_t m, int64_t k) {
    return KEPT_HEAD + panel_floats(m, (m + ROWS - 1) / ROWS) * k + VF;
}

// The first operand in panels.
static int keep_panels(const product *p, float *to) {
    gemm_job job = {.p = p, .panels = (p->m + ROWS - 1) / ROWS, .packed = to + KEPT_HEAD};
    if (!reserve(4 * DEPTH * 4)) return RL_MEMORY;
    to[0] = KEPT_PANELS;
    share_out(100.0 * (double)p->m * (double)p->k, job.panels, gemm_pack_item, &job);
    return RL_OK;
}
#endif

// Any product with k > 0.
static RL_ONCE int gemm(const product *p) {
    gemm_job job = {.p = p, .panels = (p->m + ROWS - 1) / ROWS};
    int aligned = !((uintptr_t)p->c.data & 3), same = RL_ROOM && p->k <= MOST_PACKED / p->m;
    for (int d = 0; d < p->dims; d++) same &= p->shape[d] == 1 || !p->step[1][d];
    job.whole = p->c.dtype == RL_F32 && p->c.col == 1 && aligned && !p->wide;
    // Packing pays if a panel is used several times.
    job.direct = !p->image && p->b.dtype == RL_F32 && p->b.col == 1 && p->m <= 2 * ROWS &&
                 !((uintptr_t)p->b.data & 3);
    int64_t wanted = 3 * rl_threads();
    job.strip = rl_min(job.panels, STRIP / ROWS / (job.whole ? 1 : 2));
#if RL_ROOM
    // Windows are packed once for all rows, where these are kept in panels.
    if (p->kept && p->image && job.whole) job.strip = rl_min(job.panels, 2 * STRIP / ROWS);
#endif
    int64_t most = TILE_FLOATS / (job.strip * ROWS) / PANEL * PANEL;
    job.cols = rl_min(p->n, !job.whole ? 16 * PANEL : same ? rl_max(4 * PANEL, most) : p->n);
    // The cut does not change the order of a sum, so it may depend on the number of threads.
    for (;;) {
        job.down = (job.panels + job.strip - 1) / job.strip;
        job.across = (p->n + job.cols - 1) / job.cols;
        if (rl_threads() == 1 || job.down * job.across * p->batch >= wanted) break;
        if (job.cols > 4 * PANEL && (job.cols > job.strip * ROWS || job.strip < 4))
            job.cols = (job.cols / 2 + PANEL - 1) / PANEL * PANEL;
        else if (job.strip >= 4) job.strip = (job.strip + 1) / 2;
        else break;
    }
    int64_t floats = gemm_floats(&job);
    double work = 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
    if (!reserve(floats * 4)) return RL_MEMORY;
#if RL_ROOM
    if (p->kept) job.packed = p->kept + KEPT_HEAD;
    else if (same && job.across * p->batch > 1) { // behind what a thread needs for itself
        float *more = rl_scratch(0, (floats + panel_floats(p->m, job.panels) * p->k + VF) * 4);
        if (!more) return RL_MEMORY;
        job.packed = more + floats;
        share_out(work / (double)p->n * 100, job.panels, gemm_pack_item, &job);
    }
#endif
    share_out(work, job.down * job.across * p->batch, gemm_item, &job);
    return RL_OK;
}

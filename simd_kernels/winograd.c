// Convolution with windows of 3 by 3 at stride 1: tiles of 2 by 2 results from 4 by 4 elements,
// with 16 products for 36. The method: Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2015, F(2x2, 3x3); its sums are as exact as plain ones, which larger tiles' are not.

#define MOST_TILES 112    // of an item, unless a row has more
#define SEEN_FLOATS (1 << 18) // their transforms, which should stay in the cache
#define BLOCK_PANELS 8    // panels of filters whose transforms are in memory at once
#define CHANNELS 28       // channels whose weights are packed at once: 9 * CHANNELS <= DEPTH

typedef struct {
    const product *p;
    const image *m;
    int64_t across, down, rows, groups; // tiles of a row, rows of tiles; of an item; items
    int64_t panel, panels, each;        // first panel of the block, how many, of an item
    float *weights;                     // transforms: panel, place of 16, channel, filter
    int large;                          // whether an operand is not finite, or close to it
} tile_job;

// out = the transforms of 3 by 3 weights, of one lane each.
#define TURN_WEIGHTS(name, type, load, store)                                                      \
    RL_INLINE void name(float *to, int64_t place, const float *g, int64_t step) {                  \
        type t[4][3];                                                                              \
        for (int j = 0; j < 3; j++) {                                                              \
            type a = load(g + j * step), b = load(g + (3 + j) * step) * 0.5f;                      \
            type c = load(g + (6 + j) * step), half = (a + c) * 0.5f;                              \
            t[0][j] = a, t[1][j] = half + b, t[2][j] = half - b, t[3][j] = c;                      \
        }                                                                                          \
        for (int i = 0; i < 4; i++, to += 4 * place) {                                             \
            type half = (t[i][0] + t[i][2]) * 0.5f, b = t[i][1] * 0.5f;                            \
            store(to, t[i][0]), store(to + place, half + b);                                       \
            store(to + 2 * place, half - b), store(to + 3 * place, t[i][2]);                       \
        }                                                                                          \
    }
TURN_WEIGHTS(turn_weights, vf, vload, vstore)
TURN_WEIGHTS(turn_weights_4, v4, v4load, v4store)

static void tile_weights_item(void *ctx, int64_t item, int thread) {
    const tile_job *job = ctx;
    const product *p = job->p;
    float *packed = rl_scratch(thread, 0), *turned = packed + PADDED(ROWS) * DEPTH;
    int64_t channels = p->k / 9, first, rows = panel_rows(p->m, job->panel + item, &first);
    int64_t width = PADDED(rows), place = channels * width;
    float *to = job->weights + item * 16 * channels * PADDED(ROWS);
    for (int64_t c = 0; c < channels; c += CHANNELS) {
        int64_t n = rl_min(CHANNELS, channels - c);
        pack(packed, width, rows, element(&p->a, first, c * 9), p->a.dtype, p->a.row, 1, n * 9,
             turned);
        for (int64_t i = 0; i < n; i++) {
            const float *g = packed + i * 9 * width;
            float *at = to + (c + i) * width;
            if (width % VF == 0)
                for (int64_t l = 0; l < width; l += VF) turn_weights(at + l, place, g + l, width);
            else
                for (int64_t l = 0; l < width; l += 4) turn_weights_4(at + l, place, g + l, width);
        }
    }
}

// The rows that tiles see, in eight planes: of even and odd rows, each with the elements that a
// tile's four columns see. `line`: a row with its padding.
static void tile_planes(const tile_job *job, const uint8_t *channel, int64_t y, int64_t rows,
                        float *planes, int64_t plane, float *line) {
    const image *m = job->m;
    int64_t across = job->across, width = 2 * across + 2;
    row_cut cut = cut_row(m->dtype, m->w, m->width, m->taps[0][1], 1, width);
    for (int64_t r = 0; r < 2 * rows + 2; r++) {
        int64_t row = 2 * y + r + m->taps[0][0];
        float *to = planes + r % 2 * 4 * plane + r / 2 * across;
        if (row < 0 || row >= m->height) rl_zero(line, (size_t)width * 4);
        else load_row(&cut, line, channel + row * m->h * RL_SIZE[m->dtype], 0);
        for (int64_t t = 0; t < across; t += VF) // rows are written in order, the rest is scratch
            for (int j = 0; j < 4; j += 2) {
                vf a = vload(line + 2 * t + j), b = vload(line + 2 * t + j + VF);
                vstore(to + j * plane + t, EVEN(a, b));
                vstore(to + (j + 1) * plane + t, ODD(a, b));
            }
    }
}

// The transforms of VF tiles, which begin at `at` in the planes.
RL_INLINE void turn_tiles(float *to, int64_t place, const float *at, int64_t plane,
                          int64_t across) {
    vf t[4][4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const float *from = at + j * plane;
        vf a = vload(from), b = vload(from + 4 * plane), c = vload(from + across);
        vf d = vload(from + 4 * plane + across);
        t[0][j] = a - c, t[1][j] = b + c, t[2][j] = c - b, t[3][j] = b - d;
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++, to += 4 * place) {
        vstore(to, t[i][0] - t[i][2]), vstore(to + place, t[i][1] + t[i][2]);
        vstore(to + 2 * place, t[i][2] - t[i][1]), vstore(to + 3 * place, t[i][1] - t[i][3]);
    }
}

// Two rows of results of VF tiles.
RL_INLINE void turn_sums(float *upper, float *lower, const float *sums, int64_t place) {
    vf t[2][4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const float *at = sums + j * place;
        vf a = vload(at), b = vload(at + 4 * place), c = vload(at + 8 * place);
        t[0][j] = a + b + c, t[1][j] = b - c - vload(at + 12 * place);
    }
    for (int i = 0; i < 2; i++) {
        vf a = t[i][0] + t[i][1] + t[i][2], b = t[i][1] - t[i][2] - t[i][3];
        float *to = i ? lower : upper;
        vstore(to, LOW(a, b));
        vstore(to + VF, HIGH(a, b));
    }
}

// Sets job->large where an element of a channel of an image, or of a filter, is nan or 2^100 or
// more: a tile's sums would carry it to results that do not see it.
static void tile_check_item(void *ctx, int64_t item, int thread) {
    tile_job *job = ctx;
    const image *m = job->m;
    const product *p = job->p;
    int64_t channels = p->batch * m->channels, rows = item < channels ? m->height : 1;
    int64_t wide = item < channels ? m->width : p->k, step = item < channels ? m->w : 1;
    float *line = rl_scratch(thread, 0);
    const uint8_t *from = element(&p->a, item - channels, 0);
    int dtype = item < channels ? m->dtype : p->a.dtype;
    if (item < channels)
        from = image_of(m, item / m->channels) + item % m->channels * m->c * RL_SIZE[dtype];
    vi bad = {};
    for (int64_t y = 0; y < rows; y++, from += m->h * RL_SIZE[dtype])
        for (int64_t x = 0; x < wide; x += DEPTH) {
            int64_t n = rl_min(DEPTH, wide - x);
            LOAD_F[dtype](line, from + x * step * RL_SIZE[dtype], step, n);
            rl_zero(line + n, VF * 4);
            for (int64_t i = 0; i < n; i += VF) {
                vi bits = (vi)vload(line + i) & 0x7fffffff;
                bad |= (vi)(bits >= 0x71800000);
            }
        }
    for (int i = 0; i < VF; i++)
        if (bad[i]) job->large = 1;
}

// Scratch floats: planes, a line, transforms of a block of tiles, their sums, rows of results.
static int64_t plane_floats(const tile_job *job) { return (job->rows + 1) * job->across + VF; }
static int64_t tile_floats(const tile_job *job) {
    int64_t each = job->each * ROWS;
    int64_t blocks = (job->rows * job->across + PANEL - 1) / PANEL;
    return 8 * plane_floats(job) + 2 * job->across + 2 + 4 * VF +
           16 * PANEL * (blocks * (job->p->k / 9 + 1) + each + 1) + 4 * PANEL;
}

static void tile_item(void *ctx, int64_t item, int thread) {
    const tile_job *job = ctx;
    const image *m = job->m;
    int64_t parts = (job->panels + job->each - 1) / job->each, part = item % parts;
    int64_t image_number = item / parts / job->groups, y = item / parts % job->groups * job->rows;
    int64_t channels = job->p->k / 9, rows = rl_min(job->rows, job->down - y);
    int64_t across = job->across, tiles = rows * across, plane = plane_floats(job);
    product p = nth(job->p, image_number);
    float *sums = rl_scratch(thread, 0), *seen = sums + 16 * PANEL * (job->each * ROWS + 1);
    int64_t first, none, high = p.n / m->wide, place = PANEL * (channels + 1);
    float *results = seen + (tiles + PANEL - 1) / PANEL * 16 * place;
    float *planes = results + 4 * PANEL, *line = planes + 8 * plane;
    int64_t from = part * job->each, stop = rl_min(job->panels, from + job->each);
    panel_rows(p.m, job->panel + from, &first);
    int64_t count = panel_rows(p.m, job->panel + stop - 1, &none) + none - first;
    int64_t to = PANEL * (count + 1);
    for (int64_t c = 0; c < channels; c++) {
        tile_planes(job, image_of(m, image_number) + c * m->c * RL_SIZE[m->dtype], y, rows, planes,
                    plane, line);
        for (int64_t f = 0; f < tiles; f += VF)
            turn_tiles(seen + f / PANEL * 16 * place + c * PANEL + f % PANEL, place, planes + f,
                       plane, across);
    }
    for (int64_t f = 0; f < tiles; f += PANEL, seen += 16 * place) {
        int64_t n = rl_min(PANEL, tiles - f), vectors = n > VF ? 2 : 1;
        for (int64_t k = 0; k < 16; k++)
            for (int64_t s = from, row = 0, here; s < stop; s++, row += here) {
                here = panel_rows(p.m, job->panel + s, &none);
                const float *a = job->weights + channels * s * 16 * PADDED(ROWS);
                a += channels * k * PADDED(here);
                MICRO_KERNELS[here - 1][vectors - 1](channels, a, seen + k * place, PANEL,
                                                     sums + k * to + row * PANEL, PANEL, 0);
            }
        for (int64_t row = 0; row < count; row++) {
            for (int64_t v = 0; v < vectors; v++)
                turn_sums(results + 2 * v * VF, results + 2 * PANEL + 2 * v * VF,
                          sums + row * PANEL + v * VF, to);
            for (int64_t t = 0, some; t < n; t += some) {
                int64_t x = (f + t) % across, down = 2 * (y + (f + t) / across);
                some = rl_min(n - t, across - x);
                int64_t wide = rl_min(2 * some, m->wide - 2 * x);
                for (int64_t i = 0; i < rl_min(2, high - down); i++)
                    move_bytes(element(&p.c, first + row, (down + i) * m->wide + 2 * x),
                               (const uint8_t *)(results + i * 2 * PANEL + 2 * t), wide * 4);
            }
        }
    }
    if (!p.tail && !p.bias.data) return;
    int64_t start = 2 * y * m->wide, end = rl_min(2 * (y + rows), high) * m->wide;
    for (int64_t row = first; row < first + count; row++)
        finish(&p, row, start, (const float *)(const void *)element(&p.c, row, start), end - start);
}

// Whether tiles pay: there are enough filters for a panel, and places for the weights' transforms.
// Nine tiles leave most of a vector empty, and the transforms are read for them alone.
static int tiles_pay(const int64_t *attrs, const rl_operand *w, int64_t high, int64_t wide) {
    int64_t one = attrs[0] * attrs[1] * attrs[4] * attrs[5] * attrs[6];
    return one == 1 && w->shape[2] == 3 && w->shape[3] == 3 && w->shape[0] >= 8 &&
            w->shape[1] >= 8 && w->shape[1] <= 1 << 14 && wide < 1 << 14 && high > 3 && wide > 3 &&
            high * wide > 25;
}

// Floats of shared memory for the transforms of a block.
static int64_t tile_weights(int64_t channels) {
    return BLOCK_PANELS * 16 * channels * PADDED(ROWS) + 16;
}

static int64_t kept_tiles(int64_t m, int64_t channels) {
    return KEPT_HEAD + rl_times((m + ROWS - 1) / ROWS * 16 * PADDED(ROWS), channels);
}

// The transforms of all weights.
static int keep_tiles(const product *p, const image *m, float *to) {
    product none = *p;
    tile_job job = {.p = &none, .m = m, .weights = to + KEPT_HEAD};
    none.batch = 0; // no images to look at
    if (!reserve((PADDED(ROWS) + 4) * DEPTH * 4)) return RL_MEMORY;
    share_out(10.0 * (double)p->m * (double)p->k, p->m, tile_check_item, &job);
    share_out(100.0 * (double)p->m * (double)p->k, (p->m + ROWS - 1) / ROWS, tile_weights_item,
              &job);
    to[0] = KEPT_TILES, to[1] = (float)job.large;
    return RL_OK;
}

static int conv_tiles(const product *p, void *shared) {
    const image *m = p->image;
    tile_job job = {.p = p, .m = m, .across = (m->wide + 1) / 2,
                    .down = (p->n / m->wide + 1) / 2};
    job.weights = (float *)(((uintptr_t)shared + 63) & ~(uintptr_t)63);
    // As many rows as fill their vectors best.
    double best = 0;
    int64_t most = rl_max(PANEL, rl_min(MOST_TILES, SEEN_FLOATS / 16 / m->channels));
    for (int64_t rows = 1; rows <= job.down && (rows == 1 || rows * job.across <= most); rows++) {
        int64_t tiles = rows * job.across, lanes = (tiles + VF - 1) / VF * VF;
        double full = (double)tiles / (double)lanes + 1e-3 * (double)rows;
        if (full > best) best = full, job.rows = rows;
    }
    job.groups = (job.down + job.rows - 1) / job.rows;
    int64_t all = (p->m + ROWS - 1) / ROWS;
    job.each = job.groups * p->batch < 4 ? BLOCK_PANELS / 2 : BLOCK_PANELS;
    if (!reserve(rl_max(tile_floats(&job), (PADDED(ROWS) + 4) * DEPTH) * 4)) return RL_MEMORY;
    if (p->kept) job.large = p->kept[1] != 0;
    share_out(10.0 * (double)(p->batch * m->channels * m->height * m->width),
              p->batch * m->channels + (p->kept ? 0 : p->m), tile_check_item, &job);
    if (job.large) {
        product plain = *p;
        plain.kept = NULL;
        return gemm(&plain);
    }
    for (; job.panel < all; job.panel += BLOCK_PANELS) {
        job.panels = rl_min(BLOCK_PANELS, all - job.panel);
        double work = (double)job.panels * ROWS * (double)p->k;
        if (p->kept) {
            int64_t before = job.panel * 16 * m->channels * PADDED(ROWS);
            job.weights = (float *)(uintptr_t)p->kept + KEPT_HEAD + before;
        } else share_out(work * 10, job.panels, tile_weights_item, &job);
        int64_t parts = (job.panels + job.each - 1) / job.each;
        share_out(work * (double)p->n * (double)p->batch, job.groups * p->batch * parts, tile_item,
                  &job);
    }
    return RL_OK;
}

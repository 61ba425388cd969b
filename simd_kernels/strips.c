// Convolutions with few filters per group (depthwise), for which nothing is packed.

// A strip holds the rows of one channel that some lines of windows see, as floats, with the
// padding. A row has slots of `length`: in a slot are elements that are a step apart, so that a tap
// of neighbouring windows is neighbours.
typedef struct {
    const product *p;
    const image *m;
    int64_t lines, blocks, n; // lines of windows of a strip, strips of an image; windows of a line
    int64_t high, slots, length, least[2], at[PHASES]; // at: the first element of each slot
    int64_t images, step[2];  // for the weight's gradient, with the strides of both operands
} strip_job;

#define FEW 2 // filters
#define STRIP_LINES 16
#define STRIP_BYTES (128 << 10)

// Cuts an image into strips and places the taps in them. Returns the bytes of scratch memory, or
// INT64_MAX if the taps are too far apart.
static RL_ONCE int64_t cut_strips(strip_job *job, const product *p, int64_t rows) {
    const image *m = p->image;
    int64_t wide = 0, bytes, slot_of[PHASES];
    *job = (strip_job){.p = p, .m = m, .n = rl_min(SPAN, m->wide), .images = 1,
                       .least = {m->taps[0][0], m->taps[0][1]}};
    if (m->step[1] > PHASES) return INT64_MAX;
    for (int64_t t = 0; t < m->count; t++)
        for (int d = 0; d < 2; d++) job->least[d] = rl_min(job->least[d], m->taps[t][d]);
    for (int i = 0; i < PHASES; i++) slot_of[i] = -1;
    for (int64_t t = 0; t < m->count; t++) {
        int64_t x = m->taps[t][1] - job->least[1], *slot = &slot_of[x % m->step[1]];
        if (*slot < 0) job->at[*slot = job->slots++] = x % m->step[1];
        job->high = rl_max(job->high, m->taps[t][0] - job->least[0]);
        wide = rl_max(wide, x / m->step[1]);
    }
    job->length = job->n + wide;
    for (job->lines = rl_min(STRIP_LINES, rows);; job->lines /= 2) {
        int64_t high = (job->lines - 1) * m->step[0] + job->high + 1;
        bytes = rl_times(rl_times(high, job->slots), job->length * 4);
        if (bytes < SPAN_BYTES)
            bytes += (FEW * job->lines * job->length + 2 * VF) * 4 +
                     m->count * (12 + FEW * (8 + VF * 4));
        if (bytes <= STRIP_BYTES || job->lines == 1) break;
    }
    job->blocks = (rows + job->lines - 1) / job->lines;
    for (int64_t t = 0; t < m->count && bytes <= SPAN_BYTES; t++) {
        int64_t x = m->taps[t][1] - job->least[1], y = m->taps[t][0] - job->least[0];
        m->taps[t][2] = (y * job->slots + slot_of[x % m->step[1]]) * job->length + x / m->step[1];
    }
    return bytes <= SPAN_BYTES ? bytes : INT64_MAX;
}

// The strip of a channel for `lines` of windows from (y, x) on.
static RL_ONCE void load_strip(const strip_job *job, const uint8_t *channel, int64_t y, int64_t x,
                               int64_t lines, float *to) {
    const image *m = job->m;
    int64_t rows = (lines - 1) * m->step[0] + job->high + 1;
    for (int64_t s = 0; s < job->slots; s++, to += job->length) {
        int64_t row = y * m->step[0] + job->least[0], first = x * m->step[1] + job->least[1];
        row_cut cut = cut_row(m->dtype, m->w, m->width, first + job->at[s], m->step[1],
                              job->length);
        float *at = to;
        for (int64_t r = 0; r < rows; r++, row++, at += job->slots * job->length) {
            if (m->step[0] > 1 && r % m->step[0] > job->high) continue; // between two windows
            if (row < 0 || row >= m->height) rl_zero(at, (size_t)job->length * 4);
            else load_row(&cut, at, channel + row * m->h * RL_SIZE[m->dtype], 0);
        }
    }
}

static RL_ONCE void strip_item(void *ctx, int64_t item, int thread) {
    const strip_job *job = ctx;
    const image *m = job->m;
    product p = nth(job->p, item / job->blocks);
    const uint8_t *base = image_of(m, item / job->blocks);
    const float **from = rl_scratch(thread, 0);
    float *by = (float *)(from + m->count), *sums = by + m->count;
    float *strip = sums + FEW * job->lines * job->length;
    int64_t y = item % job->blocks * job->lines, lines = rl_min(job->lines, p.n / m->wide - y);
    // Where lines of windows are as far apart as rows, all are one run; what lies between two of
    // its lines is nobody's.
    int direct = p.c.dtype == RL_F32 && p.c.col == 1 && !p.bias.data && !p.wide &&
                 !(RL_ROOM && p.tail);
    int64_t pitch = m->step[0] * job->slots * job->length, flat = pitch == job->length;
    for (int64_t x = 0; x < m->wide; x += job->n) {
        int64_t n = rl_min(job->n, m->wide - x), run = flat ? (lines - 1) * pitch + n : n;
        for (int64_t c = 0; c < m->channels; c++) {
            load_strip(job, base + c * m->c * RL_SIZE[m->dtype], y, x, lines, strip);
            for (int64_t row = 0; row < p.m; row++) {
                float *to = sums + row * job->lines * job->length;
                LOAD_F[p.a.dtype](by, element(&p.a, row, c * m->count), p.a.col, m->count);
                for (int64_t line = 0; line < (flat ? 1 : lines); line++, to += job->length) {
                    for (int64_t t = 0; t < m->count; t++)
                        from[t] = strip + m->taps[t][2] + line * pitch;
                    weighted(to, from, by, m->count, run, c > 0);
                }
            }
        }
        for (int64_t row = 0; row < p.m; row++) {
            float *sum = sums + row * job->lines * job->length;
            // Whole lines are finished as one.
            int64_t count = n == m->wide && !direct ? 1 : lines;
            for (int64_t line = 1; line < lines && count == 1; line++) {
                float *to = sum + line * n, *at = sum + line * job->length;
                int64_t i = 0;
                for (; i + 4 <= n; i += 4) v4store(to + i, v4load(at + i));
                RL_SMALL_LOOP for (; i < n; i++) fstore(to + i, fload(at + i));
            }
            for (int64_t line = 0; line < count; line++, sum += job->length) {
                int64_t at = (y + line) * m->wide + x;
                if (direct) move_bytes(element(&p.c, row, at), (const uint8_t *)sum, n * 4);
                else finish(&p, row, at, sum, count == 1 ? n * lines : n);
            }
        }
    }
}

// to[t] += x[i] * from[t][i], i < n, by lanes.
RL_INLINE void tap_dots(const int taps, float *to, const float *x, const float *const *from,
                    int64_t n) {
    vf sum[4];
    for (int t = 0; t < taps; t++) sum[t] = vload(to + t * VF);
    int64_t i = 0;
    for (; i + VF <= n; i += VF) {
        vf a = vload(x + i);
        for (int t = 0; t < taps; t++) sum[t] = vfma(a, vload(from[t] + i), sum[t]);
    }
    if (i < n) { // what lies behind is scratch memory too
        vi rest = ~last_lanes(VF - (n - i));
        vf a = vselect(rest, vload(x + i), (vf){});
        for (int t = 0; t < taps; t++)
            sum[t] = vfma(a, vselect(rest, vload(from[t] + i), (vf){}), sum[t]);
    }
    for (int t = 0; t < taps; t++) vstore(to + t * VF, sum[t]);
}

static RL_ONCE void strip_dots_item(void *ctx, int64_t item, int thread) {
    const strip_job *job = ctx;
    const image *m = job->m;
    product p = nth(job->p, item / m->channels);
    const uint8_t *base = image_of(m, item / m->channels);
    const float **from = rl_scratch(thread, 0);
    double *totals = (double *)(void *)(from + m->count);
    float *sums = (float *)(totals + FEW * m->count), *seen = sums + FEW * m->count * VF;
    float *strip = seen + job->length + VF;
    int64_t channel = item % m->channels, high = p.k / m->wide;
    base += channel * m->c * RL_SIZE[m->dtype];
    for (int64_t i = 0; i < p.m * m->count; i++) totals[i] = 0;
    for (int64_t i = 0; i < job->images * job->blocks; i++)
        for (int64_t x = 0; x < m->wide; x += job->n) {
            int64_t image = i / job->blocks, y = i % job->blocks * job->lines;
            int64_t lines = rl_min(job->lines, high - y), n = rl_min(job->n, m->wide - x);
            load_strip(job, base + image * job->step[0] * RL_SIZE[m->dtype], y, x,
                       lines, strip);
            rl_zero(sums, (size_t)(p.m * m->count) * VF * 4);
            for (int64_t j = 0; j < p.m * lines; j++) {
                int64_t row = j / lines, line = j % lines, t = 0;
                const uint8_t *at = element(&p.a, row, (y + line) * m->wide + x);
                LOAD_F[p.a.dtype](seen, at + image * job->step[1] * RL_SIZE[p.a.dtype], 1, n);
                for (; t < m->count; t++)
                    from[t] = strip + m->taps[t][2] +
                              line * m->step[0] * job->slots * job->length;
                float *to = sums + row * m->count * VF;
                for (t = 0; t + 4 <= m->count; t += 4) tap_dots(4, to + t * VF, seen, from + t, n);
                for (; t < m->count; t++) tap_dots(1, to + t * VF, seen, from + t, n);
            }
            for (int64_t t = 0; t < p.m * m->count; t++)
                totals[t] += (double)vsum(vload(sums + t * VF));
        }
    for (int64_t t = 0; t < p.m * m->count; t++) {
        float total = (float)totals[t];
        fstore(element(&p.c, t / m->count, channel * m->count + t % m->count), total);
    }
}

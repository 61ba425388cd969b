// Convolution of each channel by itself. Where windows are 3 by 3 and lines long, the lanes of a
// vector are neighbouring results. Else they are channels: planes are turned into pixels of VF
// channels, and the results back, so that small planes fill their vectors too.

#define LANE_BYTES (128 << 10) // of seen pixels and results of an item, unless a line has more
#define LANE_MOST (1 << 20)
#define LANE_STEP 4 // larger strides see few of the pixels that are loaded

typedef struct {
    const product *p;
    const image *m;
    int64_t channels, blocks, parts, lines; // blocks of VF channels; parts of an image, their lines
    int64_t least[2], pitch, high;          // the first tap; pixels of a seen row; rows of a window
    const int64_t *at;                      // taps, in pixels of the seen rows
} lane_job;

// x becomes its transpose, by stages of a perfect shuffle.
RL_INLINE void turn_lanes(vf *x) {
    vf y[VF];
#pragma GCC unroll 4
    for (int s = 1; s < VF; s *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < VF / 2; i++) {
            y[2 * i] = LOW(x[i], x[i + VF / 2]);
            y[2 * i + 1] = HIGH(x[i], x[i + VF / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < VF; i++) x[i] = y[i];
    }
}

// n pixels of VF planes become pixels of lanes. Lines of `width` of them go `pitch` apart.
static void load_lanes(float *to, const float *const *from, int64_t n, int64_t width,
                       int64_t pitch) {
    __attribute__((aligned(64))) float made[VF * VF];
    for (int64_t i = 0, x = 0, some; i < n; i += some) {
        vf v[VF];
        some = rl_min(VF, n - i);
        if (some < VF) {
            for (int l = 0; l < VF; l++) v[l] = vload_part(from[l] + i, some);
        } else {
#pragma GCC unroll 16
            for (int l = 0; l < VF; l++) v[l] = vload(from[l] + i);
        }
        turn_lanes(v);
        float *at = some == VF && x + VF <= width ? to : made;
#pragma GCC unroll 16
        for (int l = 0; l < VF; l++) vstore(at + l * VF, v[l]);
        for (int64_t t = 0, run; t < some; t += run) {
            run = rl_min(some - t, width - x);
            for (int64_t k = 0; k < run && at == made; k++)
                vstore(to + k * VF, vload(made + (t + k) * VF));
            to += run * VF, x += run;
            if (x == width) x = 0, to += (pitch - width) * VF;
        }
    }
}

// n pixels of lanes, with scratch memory behind them, become runs of `count` planes.
static void store_lanes(float *const *to, const float *from, int64_t n, int64_t count) {
    for (int64_t i = 0; i < n; i += VF, from += VF * VF) {
        vf v[VF];
#pragma GCC unroll 16
        for (int l = 0; l < VF; l++) v[l] = vload(from + l * VF);
        turn_lanes(v);
        if (n - i >= VF && count == VF) {
#pragma GCC unroll 16
            for (int l = 0; l < VF; l++) vstore(to[l] + i, v[l]);
        } else
            for (int64_t l = 0; l < count; l++) vstore_part(to[l] + i, v[l], rl_min(VF, n - i));
    }
}

// What the lines of an item have in common: the weights of `taps` taps, and how a tail begins.
typedef struct {
    const float *by, *numbers; // no numbers: no tail begins
    const int64_t *at;
    int64_t taps;
    int bounds;
} lane_line;

// `some` neighbouring results: the sums over the taps of weights by pixels `step` apart.
RL_INLINE void lane_sums(const int some, const int64_t step, float *to, const float *x,
                         const lane_line *line) {
    const float *by = line->by, *numbers = line->numbers;
    vf sum[8];
#pragma GCC unroll 8
    for (int i = 0; i < some; i++) sum[i] = (vf){};
    for (int64_t t = 0; t < line->taps; t++) {
        vf w = vload(by + t * VF);
        const float *from = x + line->at[t] * VF;
#pragma GCC unroll 8
        for (int i = 0; i < some; i++) sum[i] = vfma(w, vload(from + i * step * VF), sum[i]);
    }
#define BEGIN(bounds)                                                                              \
    _Pragma("GCC unroll 8") for (int i = 0; i < some; i++)                                         \
        sum[i] = begin_vector(bounds, sum[i], bias, mean, scale, offset, low, high, NULL)
    if (numbers) {
        vf bias = vload(numbers), mean = vload(numbers + VF), scale = vload(numbers + 2 * VF);
        vf offset = vload(numbers + 3 * VF), low = vload(numbers + 4 * VF);
        vf high = vload(numbers + 5 * VF);
        if (line->bounds == RELU) BEGIN(RELU);
        else if (line->bounds) BEGIN(CLAMP);
        else BEGIN(NO_BOUNDS);
    }
#undef BEGIN
#pragma GCC unroll 8
    for (int i = 0; i < some; i++) vstore(to + i * VF, sum[i]);
}

// A line of n results.
RL_INLINE void make_line(const int64_t step, float *to, const float *x, const lane_line *line,
                         int64_t n) {
    for (int64_t i = 0, rest; (rest = n - i) > 0;) {
        // The last ones may be computed twice.
        if (rest >= 8 || (rest > 4 && n >= 8)) {
            i = rl_min(i, n - 8);
            lane_sums(8, step, to + i * VF, x + i * step * VF, line);
            i += 8;
        } else if (n >= 4) {
            i = rl_min(i, n - 4);
            lane_sums(4, step, to + i * VF, x + i * step * VF, line);
            i += 4;
        } else {
            lane_sums(1, step, to + i * VF, x + i * step * VF, line);
            i++;
        }
    }
}

// The pixels that the windows of `lines` lines from line y on see.
static void see_lanes(const lane_job *job, const float *const *planes, int64_t y, int64_t lines,
                      float *to) {
    const image *m = job->m;
    int64_t rows = (lines - 1) * m->step[0] + job->high, top = y * m->step[0] + job->least[0];
    int64_t left = rl_max(0, -job->least[1]), first = left + job->least[1];
    int64_t width = rl_max(0, rl_min(m->width - first, job->pitch - left));
    int64_t r0 = rl_min(rows, rl_max(0, -top)), r1 = rl_max(r0, rl_min(rows, m->height - top));
    int64_t line = job->pitch * VF;
    if (!width) r1 = r0;
    rl_zero(to, (size_t)(r0 * line) * 4);
    rl_zero(to + r1 * line, (size_t)((rows - r1) * line) * 4);
    for (int64_t r = r0; r < r1 && width < job->pitch; r++) {
        float *at = to + r * line;
        for (int64_t x = 0; x < left; x++) vstore(at + x * VF, (vf){});
        for (int64_t x = left + width; x < job->pitch; x++) vstore(at + x * VF, (vf){});
    }
    const float *from[VF];
    int whole = width == m->width && m->h == m->width;
    for (int64_t r = r0; r < r1; r += whole ? r1 - r0 : 1) {
        for (int l = 0; l < VF; l++) from[l] = planes[l] + (top + r) * m->h + first;
        load_lanes(to + r * line + left * VF, from, width * (whole ? r1 - r0 : 1), width,
                   job->pitch);
    }
}

static void lane_item(void *ctx, int64_t item, int thread) {
    const lane_job *job = ctx;
    const image *m = job->m;
    int64_t part = item % job->parts, block = item / job->parts % job->blocks;
    int64_t c = block * VF, number = item / job->parts / job->blocks * job->channels + c;
    int64_t count = rl_min(VF, job->channels - c), y = part * job->lines;
    int64_t lines = rl_min(job->lines, job->p->n / m->wide - y), taps = m->count;
    product p = nth(job->p, number);
    const float *planes[VF], *weights[VF];
    float *to[VF], *by = rl_scratch(thread, 0), *numbers = by + taps * VF;
    float *made = numbers + NUMBERS * VF, *seen = made + (job->lines * m->wide + VF) * VF;
    for (int64_t l = 0; l < VF; l++) { // after the last channel, the last one again
        int64_t k = rl_min(l, count - 1);
        planes[l] = (const float *)(const void *)image_of(m, number + k);
        to[l] = (float *)(void *)(p.c.data + k * job->p->step[0][1] * 4) + y * m->wide;
        weights[l] = (const float *)(const void *)(p.a.data + k * taps * RL_SIZE[p.a.dtype]);
    }
    if (p.a.dtype != RL_F32)
        for (int64_t l = 0; l < VF; l++) {
            LOAD_F[p.a.dtype](seen + l * taps, weights[l], 1, taps);
            weights[l] = seen + l * taps;
        }
    load_lanes(by, weights, taps, taps, taps);
    see_lanes(job, planes, y, lines, seen);
    int64_t n = lines * m->wide;
    const tail *t = p.tail;
    int begun = t && t->begun && t->added < 0, done = begun ? t->begun == t->steps : !t;
    lane_line line = {by, NULL, job->at, taps, t ? t->bounds : NO_BOUNDS};
    if (begun || (!t && p.bias.data)) {
        tail_numbers(&p, 0, count, numbers, VF);
        line.numbers = numbers;
    }
    for (int64_t l = 0; l < lines; l++) {
        float *out = made + l * m->wide * VF;
        const float *x = seen + l * m->step[0] * job->pitch * VF;
        if (m->step[1] == 1) make_line(1, out, x, &line, m->wide);
        else if (m->step[1] == 2) make_line(2, out, x, &line, m->wide);
        else make_line(m->step[1], out, x, &line, m->wide);
    }
    store_lanes(to, made, n, count);
    for (int64_t l = 0; l < count && !done; l++) {
        product one = nth(job->p, number + l);
        finish_tail(&one, 0, y * m->wide, to[l], n, begun);
    }
}

// Whether lanes of channels pay: there are channels for most of a vector, and pixels fit the cache.
static int lanes_pay(const product *p) {
    const image *m = p->image;
    return p->m == 1 && m->channels == 1 && m->groups >= VF / 2 && m->w == 1 &&
           m->dtype == RL_F32 && !((uintptr_t)m->data & 3) && p->c.dtype == RL_F32 &&
           !((uintptr_t)p->c.data & 3) && m->step[0] <= LANE_STEP && m->step[1] <= LANE_STEP &&
           p->n && m->count <= 512; // for which `at` has room
}

// RL_REFUSED where a line of windows sees too much.
static int conv_lanes(const product *p, int64_t *at) {
    const image *m = p->image;
    int64_t rows = p->n / m->wide, most[2];
    lane_job job = {.p = p, .m = m, .channels = m->groups, .at = at};
    for (int d = 0; d < 2; d++) {
        job.least[d] = most[d] = m->taps[0][d];
        for (int64_t t = 0; t < m->count; t++) {
            job.least[d] = rl_min(job.least[d], m->taps[t][d]);
            most[d] = rl_max(most[d], m->taps[t][d]);
        }
    }
    job.high = most[0] - job.least[0] + 1;
    job.pitch = (m->wide - 1) * m->step[1] + most[1] - job.least[1] + 1;
    int64_t line = VF * 4 * (job.pitch * m->step[0] + m->wide);
    int64_t more = VF * 4 * (rl_times(job.pitch, job.high) + VF + 2 * m->count + NUMBERS);
    if (line > LANE_MOST || more > LANE_MOST) return RL_REFUSED;
    job.lines = rl_max(1, rl_min(rows, (LANE_BYTES - more) / line));
    job.parts = (rows + job.lines - 1) / job.lines;
    job.lines = (rows + job.parts - 1) / job.parts; // of equal size
    job.blocks = (job.channels + VF - 1) / VF;
    for (int64_t t = 0; t < m->count; t++)
        at[t] = (m->taps[t][0] - job.least[0]) * job.pitch + m->taps[t][1] - job.least[1];
    if (!reserve(more + job.lines * line)) return RL_MEMORY;
    share_out(10.0 * (double)p->n * (double)p->batch * (double)(m->count + 8),
              p->batch / job.channels * job.blocks * job.parts, lane_item, &job);
    return RL_OK;
}

#define PLANE_FLOATS 16384 // of an image that the lines of a part see
#define LINES_FROM 24 // results of a line that fill vectors well enough themselves

// What the three taps of a row see in neighbouring windows.
typedef struct {
    vf left, middle, right;
} three;

// `at`: where the middle tap of the first window is in a row of `width`, or no row.
RL_INLINE three see_three(const int step, const float *row, int64_t at, int64_t width) {
    if (!row) return (three){{0}, {0}, {0}};
    vf a = vload(row + at), before = vsplat(at ? row[at - 1] : 0), next = {0};
    int64_t rest = width - at - VF;
    if (step == 1) {
        if (rest) next = vsplat(row[at + VF]);
        return (three){AFTER(a, before), a, BEFORE(a, next)};
    }
    next = rest >= VF ? vload(row + at + VF) : vload_part(row + at + VF, rest);
    vf odd = ODD(a, next);
    return (three){AFTER(odd, before), EVEN(a, next), odd};
}

typedef struct {
    const image *m;
    const float *plane, *by, *numbers; // no numbers: no tail begins
    float *to;
    int64_t lines, up, left; // the padding above and on the left
} plane_job;

// The results from number x of each line on, line after line: what rows see stays in registers.
RL_INLINE void down_three(const int step, const int bounds, const plane_job *job, int64_t x) {
    const image *m = job->m;
    int64_t at = x * step + 1 - job->left;
    const float *number = job->numbers;
    float *to = job->to + x;
    vf w[9], bias = {0}, mean = {0}, scale = {0}, offset = {0}, low = {0}, high = {0};
#pragma GCC unroll 9
    for (int t = 0; t < 9; t++) w[t] = vsplat(job->by[t]);
    if (number) {
        bias = vsplat(number[OF_BIAS]), mean = vsplat(number[OF_MEAN]);
        scale = vsplat(number[OF_SCALE]), offset = vsplat(number[OF_OFFSET]);
        low = vsplat(number[OF_LOW]), high = vsplat(number[OF_HIGH]);
    }
#define SEEN(r)                                                                                    \
    see_three(step, (r) < 0 || (r) >= m->height ? NULL : job->plane + (r) * m->h, at, m->width)
    three a = SEEN(-job->up), b = {{0}, {0}, {0}}, c;
    if (step == 1) b = SEEN(1 - job->up);
    for (int64_t y = 0; y < job->lines; y++, to += m->wide) {
        if (step == 2) b = SEEN(2 * y + 1 - job->up);
        c = SEEN(step * y + 2 - job->up);
        vf sum = vfma(w[0], a.left, (vf){});
        sum = vfma(w[2], a.right, vfma(w[1], a.middle, sum));
        sum = vfma(w[5], b.right, vfma(w[4], b.middle, vfma(w[3], b.left, sum)));
        sum = vfma(w[8], c.right, vfma(w[7], c.middle, vfma(w[6], c.left, sum)));
        if (number) sum = begin_vector(bounds, sum, bias, mean, scale, offset, low, high, NULL);
        vstore(to, sum);
        a = step == 1 ? b : c, b = c;
    }
#undef SEEN
}

// Planes are cut into parts that stay in the cache.
typedef struct {
    const product *p;
    int64_t parts, lines;
} planes_job;

static void plane_item(void *ctx, int64_t item, int thread) {
    const planes_job *all = ctx;
    const image *m = all->p->image;
    int64_t number = item / all->parts, first = item % all->parts * all->lines;
    product p = nth(all->p, number);
    int64_t lines = rl_min(all->lines, p.n / m->wide - first);
    float by[9], numbers[NUMBERS];
    (void)thread;
    LOAD_F[p.a.dtype](by, p.a.data, 1, 9);
    const tail *t = p.tail;
    int begun = t && t->begun && t->added < 0, done = begun ? t->begun == t->steps : !t;
    int bounds = begun ? t->bounds : NO_BOUNDS;
    plane_job job = {m, (const float *)(const void *)image_of(m, number), by, NULL,
                     (float *)(void *)p.c.data + first * m->wide, lines,
                     -m->taps[0][0] - first * m->step[0], -m->taps[0][1]};
    if (begun || (!t && p.bias.data)) {
        tail_numbers(&p, 0, 1, numbers, 1);
        job.numbers = numbers;
    }
    for (int64_t x = 0; x < m->wide; x += VF) { // the last results may be computed twice
        x = rl_min(x, m->wide - VF);
        if (m->step[0] == 1 && bounds == CLAMP) down_three(1, CLAMP, &job, x);
        else if (m->step[0] == 1 && bounds) down_three(1, RELU, &job, x);
        else if (m->step[0] == 1) down_three(1, NO_BOUNDS, &job, x);
        else if (bounds == CLAMP) down_three(2, CLAMP, &job, x);
        else if (bounds) down_three(2, RELU, &job, x);
        else down_three(2, NO_BOUNDS, &job, x);
    }
    if (!done) finish_tail(&p, 0, first * m->wide, job.to, lines * m->wide, begun);
}

static void conv_planes(const product *p) {
    const image *m = p->image;
    int64_t high = p->n / m->wide, most = rl_max(8, PLANE_FLOATS / (m->width * m->step[0]));
    planes_job job = {p, (high + most - 1) / most, 0};
    job.lines = (high + job.parts - 1) / job.parts; // of equal size
    job.parts = (high + job.lines - 1) / job.lines;
    share_out(30.0 * (double)p->n * (double)p->batch, p->batch * job.parts, plane_item, &job);
}

// Whether these are planes with long lines under windows of 3 by 3 elements.
static int planes_pay(const product *p) {
    const image *m = p->image;
    int64_t step = m->step[0], left = -m->taps[0][1], up = -m->taps[0][0];
    if (p->m != 1 || m->channels != 1 || m->count != 9 || m->w != 1 || m->wide < LINES_FROM ||
        m->wide < VF || step != m->step[1] || step > 2 || left < 0 || left > 1 || up < 0)
        return 0;
    for (int t = 0; t < 9; t++)
        if (m->taps[t][0] != t / 3 - up || m->taps[t][1] != t % 3 - left) return 0;
    return m->dtype == RL_F32 && !((uintptr_t)m->data & 3) && p->c.dtype == RL_F32 &&
           !((uintptr_t)p->c.data & 3) && (m->wide - VF) * step + 1 - left + VF <= m->width;
}

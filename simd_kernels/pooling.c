// The largest elements of windows, and their places.

typedef struct {
    const rl_operand *out, *x;
    const int64_t *taps, *step, *pad, *apart; // of three dims each
    int64_t parts, phases, period, length;    // of a row; no phases: windows one by one
} window_job;

// The taps of window `at` of a dim that lie in it: from `first` to before `last`.
static RL_ONCE int64_t first_tap(const window_job *job, int d, int64_t at, int64_t *last) {
    int64_t from = at * job->step[d] - job->pad[d], apart = job->apart[d];
    int64_t size = job->x->shape[1 + d];
    int64_t first = from < 0 ? (apart - 1 - from) / apart : 0;
    *last = from < size ? rl_min(job->taps[d], (size - 1 - from) / apart + 1) : 0;
    return first;
}

// One row of taps joins the best so far of n windows: their elements are x, with places from
// `place` on, `step` apart.
static void join_taps(float *best, int32_t *found, const float *x, int64_t n, int64_t place,
                      int64_t step) {
    static const uint32_t NUMBERS[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vu at;
    rl_copy(&at, NUMBERS, sizeof at);
    at = at * (uint32_t)step + (uint32_t)place;
    for (int64_t i = 0; i < n; i += VF, at += (uint32_t)(step * VF)) { // rows have a vector more
        vf v = vload(x + i), top = vload(best + i);
        vi wins = (vi)(v > top) | (vi)(v != v);
        vstore(best + i, vselect(wins, v, top));
        vistore(found + i, (vi)vselect(wins, (vf)at, (vf)viload(found + i)));
    }
}

// The best of a vector's lanes becomes that of the first.
static RL_ONCE void join_lanes(float *best, int32_t *found) {
    for (int i = 1; i < VF; i++) {
        int nan = best[0] != best[0], wins = best[i] > best[0];
        wins |= best[i] == best[0] && found[i] < found[0];
        if (best[i] != best[i] ? !nan || found[i] > found[0] : wins)
            best[0] = best[i], found[0] = found[i];
    }
}

// The windows from number x on of row `y` of plane `z`. Without phases it is one: each lane of a
// vector has the best of every VF-th tap.
static RL_ONCE void window_part(const window_job *job, const uint8_t *image, int64_t z, int64_t y,
                                int64_t x, int64_t n, float *best, int32_t *found, float *rows) {
    const rl_operand *in = job->x;
    int64_t h = in->shape[2], w = in->shape[3], step = job->step[2], apart = job->apart[2];
    int64_t z1, y1, x1 = 0, x0 = 0, z0 = first_tap(job, 0, z, &z1), y0 = first_tap(job, 1, y, &y1);
    int64_t down = z * job->step[0] - job->pad[0], across = y * job->step[1] - job->pad[1];
    int64_t from = x * step - job->pad[2], top = 0;
    if (z0 < z1 && y0 < y1)
        top = ((down + z0 * job->apart[0]) * h + across + y0 * job->apart[1]) * w;
    for (int64_t t = 0; t < (job->phases ? n : VF); t++) {
        if (job->phases || !t) x0 = first_tap(job, 2, x + t, &x1);
        best[t] = -__builtin_inff();
        found[t] = (int32_t)(top + from + (job->phases ? t * step : 0) + x0 * apart);
        if (z0 >= z1 || y0 >= y1 || x0 >= x1) found[t] = -1;
    }
    row_cut cuts[PHASES];
    for (int64_t p = 0; p < job->phases; p++)
        cuts[p] = cut_row(in->dtype, in->strides[3], w, from + p * apart % step, step, job->length);
    for (int64_t a = z0; a < z1; a++)
        for (int64_t b = y0; b < y1; b++) {
            int64_t i = down + a * job->apart[0], j = across + b * job->apart[1], some;
            const uint8_t *row = image + (i * in->strides[1] + j * in->strides[2]) *
                                             RL_SIZE[in->dtype];
            int64_t place = (i * h + j) * w + from;
            for (int64_t p = 0; p < job->phases; p++)
                load_row(&cuts[p], rows + p * job->length, row, -__builtin_inff());
            for (int64_t c = 0; c < job->taps[2] && job->phases; c++)
                join_taps(best, found, rows + c % job->period * job->length + c * apart / step, n,
                          place + c * apart, step);
            for (int64_t tap = x0; tap < x1 && !job->phases; tap += some) {
                some = rl_min(x1 - tap, SPAN);
                row_cut cut = cut_row(in->dtype, in->strides[3], w, from + tap * apart, apart,
                                      some);
                load_row(&cut, rows, row, 0);
                for (int64_t c = some; c % VF; c++) rows[c] = -__builtin_inff();
                for (int64_t c = 0; c < some; c += VF)
                    join_taps(best, found, rows + c, VF, place + (tap + c) * apart, apart);
            }
        }
    if (!job->phases) join_lanes(best, found);
}

static RL_ONCE void window_item(void *ctx, int64_t item, int thread) {
    const window_job *job = ctx;
    float *best = rl_scratch(thread, 0);
    int32_t *found = (int32_t *)(void *)(best + SPAN + VF);
    const int64_t *shape = job->out->shape;
    int64_t x = item % job->parts * SPAN, line = item / job->parts, n = rl_min(SPAN, shape[3] - x);
    int64_t y = line % shape[2], z = line / shape[2] % shape[1], image = line / shape[2] / shape[1];
    const uint8_t *from = job->x->data + image * job->x->strides[0] * RL_SIZE[job->x->dtype];
    uint8_t *to = job->out->data + (line * shape[3] + x) * 8;
    for (int64_t t = 0, some; t < n; t += some) {
        some = job->phases ? n : 1;
        window_part(job, from, z, y, x + t, some, best, found,
                    (float *)(void *)(found + SPAN + VF));
        for (int64_t k = 0; k < some; k++, to += 8) {
            int64_t at = found[k];
            rl_copy(to, &at, 8);
        }
    }
}

RL_INLINE vf larger(vf a, vf b) { return vselect((vi)(a > b) | (vi)(a != a), a, b); }

// The largest of n squares of two by two elements of two rows; n is at least a vector's.
static RL_APART void squares(float *to, const float *p, const float *q, int64_t n) {
    for (int64_t i = 0; i < n; i += VF) {
        int64_t at = rl_min(i, n - VF), x = 2 * at;
        vf a = larger(vload(p + x), vload(q + x));
        vf b = larger(vload(p + x + VF), vload(q + x + VF));
        vstore(to + at, larger(EVEN(a, b), ODD(a, b)));
    }
}

// So many rows of windows of a plane `z`, or fewer, and of each row a part: the largest of the rows
// of x first, element by element, then of those that lie side by side.
#define POOLED 16
static RL_ONCE void max_item(void *ctx, int64_t item, int thread) {
    const window_job *job = ctx;
    const rl_operand *in = job->x, *out = job->out;
    const int64_t *shape = out->shape, *strides = in->strides;
    float *best = rl_scratch(thread, 0), *row = best + job->length, *top = row + job->length;
    int64_t blocks = (shape[2] + POOLED - 1) / POOLED, part = item % job->parts, y1, z1;
    int64_t block = item / job->parts % blocks, plane = item / job->parts / blocks;
    int64_t x = part * SPAN, n = rl_min(SPAN, shape[3] - x), z = plane % shape[1];
    int64_t step = job->step[2], apart = job->apart[2], size = RL_SIZE[in->dtype];
    int64_t wide = (n - 1) * step + (job->taps[2] - 1) * apart + 1;
    row_cut cut = cut_row(in->dtype, strides[3], in->shape[3], x * step - job->pad[2], 1, wide);
    row_cut side = {RL_F32, 1, 0, step, n, 0, n};
    int whole = in->dtype == RL_F32 && strides[3] == 1 && cut.last - cut.first == wide;
    int plain = in->dtype == RL_F32 && !((uintptr_t)out->data & 3);
    int square = plain && n >= VF && step == 2 && job->taps[2] == 2 && apart == 1;
    int64_t z0 = first_tap(job, 0, z, &z1), down = z * job->step[0] - job->pad[0];
    const uint8_t *from = in->data + plane / shape[1] * strides[0] * size;
    for (int64_t y = block * POOLED; y < rl_min(shape[2], (block + 1) * POOLED); y++) {
        int64_t y0 = first_tap(job, 1, y, &y1), across = y * job->step[1] - job->pad[1];
        int64_t left = (z1 - z0) * (y1 - y0);
        const float *seen = NULL, *last = NULL;
        uint8_t *to = out->data + ((plane * shape[2] + y) * shape[3] + x) * size;
        for (int64_t a = z0; a < z1; a++)
            for (int64_t b = y0; b < y1; b++) {
                const uint8_t *line = from + ((down + a * job->apart[0]) * strides[1] +
                                              (across + b * job->apart[1]) * strides[2]) * size;
                const float *x = (const float *)(const void *)line + cut.from;
                if (!whole) load_row(&cut, seen ? row : best, line, -__builtin_inff());
                if (!whole) x = seen ? row : best;
                if (square && !--left) last = x;
                else if (seen) combine_rows(best, x, seen, wide, MAX);
                seen = !seen ? x : last ? seen : best;
            }
        if (last) {
            squares((float *)(void *)to, seen, last, n);
            continue;
        }
        for (int64_t i = 0; i < wide && !seen; i++) best[i] = -__builtin_inff();
        if (!seen) seen = best;
        for (int64_t c = 1, all = wide - (job->taps[2] - 1) * apart; c < job->taps[2]; c++)
            combine_rows(row, seen + c * apart, c > 1 ? row : seen, all, MAX);
        load_row(&side, plain ? (float *)(void *)to : top,
                 (const uint8_t *)(job->taps[2] > 1 ? row : seen), 0);
        if (!plain) STORE_F[out->dtype](to, top, 1, n);
    }
}

// The checks of both kernels of windows. attrs: taps, strides, paddings and dilations of the three
// dims.
static RL_ONCE int are_windows(const rl_call *c) {
    const rl_operand *out = &c->op[0], *x = &c->op[1];
    if (c->n != 2 || c->n_attrs != 12 || out->ndim != 4 || x->ndim != 4 || !IS_FLOAT(x->dtype) ||
        !packed(out, 0) || out->shape[0] != x->shape[0])
        return 0;
    for (int i = 0; i < 12; i++)
        if (c->attrs[i] < (i / 3 != 2) || c->attrs[i] > 1 << 30) return 0;
    for (int d = 1; d < 4; d++)
        if (out->shape[d] > 1 << 30 || x->shape[d] > 1 << 30) return 0;
    return 1;
}

// out (n, od, oh, ow): the largest element of each window of x (n, d, h, w), NaN if one is NaN,
// minus infinity of none.
static RL_ONCE int k_window_max(const rl_call *c) {
    const rl_operand *out = &c->op[0];
    if (!are_windows(c) || out->dtype != c->op[1].dtype) return RL_REFUSED;
    if (!rl_numel(out)) return RL_OK;
    window_job job = {.out = out, .x = &c->op[1], .taps = c->attrs, .step = c->attrs + 3,
                      .pad = c->attrs + 6, .apart = c->attrs + 9};
    job.parts = (out->shape[3] + SPAN - 1) / SPAN;
    job.length = rl_min(SPAN, out->shape[3]) * job.step[2] + job.taps[2] * job.apart[2] + VF;
    if (rl_times(job.taps[2], job.apart[2]) > SPAN_BYTES || job.length * 4 > SPAN_BYTES)
        return RL_REFUSED;
    if (!reserve(job.length * 8 + (SPAN + VF) * 4)) return RL_MEMORY;
    int64_t items = out->shape[0] * out->shape[1] * ((out->shape[2] + POOLED - 1) / POOLED);
    share_out(2.0 * (double)items * POOLED * (double)job.parts * (double)job.length *
                  (double)(job.taps[0] * job.taps[1] + job.taps[2]),
              items * job.parts, max_item, &job);
    return RL_OK;
}

// out (n, od, oh, ow), i64: the place in (d, h, w) of the largest element of each window of x
// (n, d, h, w): the first of equal ones, the last NaN.
static RL_ONCE int k_window_argmax(const rl_call *c) {
    const rl_operand *out = &c->op[0], *x = &c->op[1];
    if (!are_windows(c) || out->dtype != RL_I64) return RL_REFUSED;
    if (rl_times(x->shape[1], x->shape[2] * x->shape[3]) > INT32_MAX) return RL_REFUSED;
    if (!rl_numel(out)) return RL_OK;
    window_job job = {.out = out, .x = x, .taps = c->attrs, .step = c->attrs + 3,
                      .pad = c->attrs + 6, .apart = c->attrs + 9};
    int64_t n = rl_min(SPAN, out->shape[3]), step = job.step[2], apart = job.apart[2], a = step;
    job.parts = (out->shape[3] + SPAN - 1) / SPAN;
    for (int64_t b = apart % a; b;) { // the common divisor
        int64_t rest = a % b;
        a = b, b = rest;
    }
    job.period = step / a;
    job.length = n + (job.taps[2] - 1) * apart / step + VF;
    job.phases = rl_min(job.taps[2], job.period);
    int64_t bytes = rl_times(job.length * 4, job.phases);
    // Fewer windows than parts to load: each has its taps side by side in a vector instead.
    int few = n < VF && job.phases > n;
    if (few || job.phases > PHASES || bytes > SPAN_BYTES) job.phases = 0, bytes = SPAN * 4;
    if (!reserve(bytes + (SPAN + VF) * 8)) return RL_MEMORY;
    share_out(5.0 * (double)rl_numel(out) * (double)job.taps[0] * (double)job.taps[1] *
                  (double)job.taps[2],
              rl_numel(out) / out->shape[3] * job.parts, window_item, &job);
    return RL_OK;
}

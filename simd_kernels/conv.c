// Convolution and its two gradients as matrix products or, with few filters, by strips.

static int run_conv(const product *p) {
    strip_job job;
    if (!p->m || !p->n || !p->batch) return RL_OK;
    if (!p->k) return run_product(p, NULL);
    if (!p->image || p->image->turned || p->m > FEW) return gemm(p);
    int64_t bytes = cut_strips(&job, p, p->n / p->image->wide);
    if (bytes == INT64_MAX) return gemm(p);
    if (!reserve(bytes)) return RL_MEMORY;
    share_out(20.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch,
              job.blocks * p->batch, strip_item, &job);
    return RL_OK;
}

// Describes the windows of x for `weight` and the attributes (strides, paddings, dilations,
// groups), for a result `wide` elements wide, with `more` shared memory after the taps. RL_OK, or
// an error.
static int windows(image *m, const rl_call *c, const rl_operand *x, const rl_operand *weight,
                   int64_t wide, int64_t more) {
    if (c->n_attrs < 7 || x->ndim != 4 || weight->ndim != 4) return RL_REFUSED;
    for (int i = 0; i < 7; i++)
        if (c->attrs[i] < (i == 2 || i == 3 ? 0 : 1) || c->attrs[i] > 1 << 30) return RL_REFUSED;
    for (int d = 2; d < 4; d++)
        if (weight->shape[d] > 1 << 30 || x->shape[d] > 1 << 30) return RL_REFUSED;
    if (!IS_FLOAT(x->dtype) || !IS_FLOAT(weight->dtype) || weight->shape[0] % c->attrs[6] ||
        !packed(weight, 0))
        return RL_REFUSED;
    int64_t height = weight->shape[2], width = weight->shape[3], count = height * width;
    int64_t(*taps)[3] = rl_shared(count * 24 + more);
    if (!taps) return RL_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        taps[i][0] = i / width * c->attrs[4] - c->attrs[2];
        taps[i][1] = i % width * c->attrs[5] - c->attrs[3];
    }
    *m = (image){x->data, x->dtype, 0, x->strides[0], x->strides[1], x->strides[2], x->strides[3],
                 x->shape[2], x->shape[3], wide, weight->shape[1], c->attrs[6],
                 {c->attrs[0], c->attrs[1]}, count, taps, 0};
    return RL_OK;
}

// A window of one element in a plain image: b is the image itself.
static int is_plain(const image *m, const rl_operand *x, int64_t result) {
    return m->step[0] * m->step[1] * m->count == 1 && !m->taps[0][0] && !m->taps[0][1] &&
           packed(x, 2) && result == m->height * m->width;
}

#if RL_ROOM
// The functions of a tail by the numbers of their kernels.
#define FLOAT(name, arity, expr) f_##name,
#define BOTH(name, arity, expr, type, whole) f_##name,
#define TRUTH(name, arity, expr) NULL,
#define KIND(name, arity, expr) NULL,
#define WHOLE(name, arity, whole) NULL,
#define BOUNDED(name) NULL,
static const map_fn CHAINED[] = {
#include "elementwise.def"
};

// Whether step s is fn of the value before and of an operand that is one number of a row, or, if
// `whole`, contiguous floats. The operand is *found.
static int step_is(const tail *t, int s, map_fn fn, int whole, int32_t *found) {
    if (s >= t->steps || t->chain[s].fn != fn) return 0;
    int turned = (fn == f_add || fn == f_mul) && t->chain[s].from[1] == ~s;
    int32_t k = *found = t->chain[s].from[!turned];
    if (t->chain[s].from[turned] != ~s || k < 0) return 0;
    return whole ? t->of[k].dtype == RL_F32 && t->of[k].col == 1 : !t->of[k].col;
}

// Whether the steps from n on use no value from before, other than n itself.
static int is_apart(const tail *t, int32_t n) {
    for (int s = n; s < t->steps; s++)
        for (int k = 0; k < 2; k++)
            if (t->chain[s].from[k] < 0 && ~t->chain[s].from[k] < n) return 0;
    return 1;
}

// Finds what of a tail one pass does, of at most the first `most` steps; how many these are.
static int32_t begins(tail *t, int biased, int32_t most) {
    const map_fn FNS[] = {f_add, f_sub, f_mul, f_add};
    int32_t n = 0, found, high;
    t->added = -1, t->bounds = NO_BOUNDS;
    for (int k = 0; k < NUMBERS; k++) t->by[k] = -1;
    for (int k = OF_BIAS; k <= OF_OFFSET; k++)
        if (n < most && !(biased && k == OF_BIAS) && step_is(t, n, FNS[k], 0, &found))
            t->by[k] = found, n++;
    if (n < most && step_is(t, n, f_add, 1, &found)) t->added = found, n++;
    if (n < most && t->chain[n].fn == f_relu && t->chain[n].from[0] == ~n) t->bounds = RELU, n++;
    else if (n + 1 < most && step_is(t, n, f_maximum, 0, &found) &&
             step_is(t, n + 1, f_minimum, 0, &high))
        t->bounds = CLAMP, t->by[OF_LOW] = found, t->by[OF_HIGH] = high, n += 2;
    return n;
}

// Whether step s is fn of value x and of an operand that is one number, *found.
static int number_step(tail *t, int s, map_fn fn, int32_t x, float *found) {
    const int32_t *from = t->chain[s].from;
    int turned = from[0] >= 0, k = from[!turned];
    if (t->chain[s].fn != fn || from[turned] != ~x || k < 0 || (turned && fn != f_add)) return 0;
    const matrix *m = &t->of[k];
    if (m->dtype != RL_F32 || m->row || m->col || t->step[k][0] || t->step[k][1]) return 0;
    rl_copy(found, m->data, 4);
    t->single |= 1 << k;
    return *found == *found;
}

// Whether the steps from s on are a hard swish.
static int is_swish(tail *t, int s) {
    const int32_t *plus = t->chain[s].from, *times = t->chain[s + 3].from;
    int32_t x = plus[0] < 0 ? ~plus[0] : ~plus[1], y = s + 3;
    float *to = t->numbers;
    t->single = 0;
    if (x < 0 || !number_step(t, s, f_add, x, to) ||
        !number_step(t, s + 1, f_maximum, s + 1, to + 1) ||
        !number_step(t, s + 2, f_minimum, s + 2, to + 2) || t->chain[y].fn != f_mul ||
        !((times[0] == ~x && times[1] == ~y) || (times[1] == ~x && times[0] == ~y)) ||
        (!number_step(t, s + 4, f_div, s + 4, to + 3) &&
         !number_step(t, s + 4, f_mul, s + 4, to + 3)))
        return 0;
    for (int i = t->begun; i < t->steps; i++)
        for (int k = 0; k < 2 && (i < s || i > s + 4); k++)
            if (t->chain[i].from[k] >= 0 && t->single >> t->chain[i].from[k] & 1) return 0;
    return is_apart(t, s + 5);
}

// Finds what of a tail one pass does, and what of the rest.
static void begin(tail *t, int biased) {
    int32_t used = 0, most = t->steps;
    while ((t->begun = begins(t, biased, most)) && !is_apart(t, t->begun)) most = t->begun - 1;
    for (int s = t->begun; s < t->steps; s++)
        for (int k = 0; k < 2; k++)
            if (t->chain[s].from[k] >= 0) used |= 1 << t->chain[s].from[k];
    while (t->begun && t->alone < t->operands && !(used >> t->alone & 1)) t->alone++;
    t->swish = -1;
    for (int s = t->begun; s + 5 <= t->steps && t->swish < 0; s++)
        if (is_swish(t, s)) t->swish = s;
    if (t->swish < 0) t->single = 0;
}

// Reads the tail of a convolution: the operands from number `first` on, and three attributes a step
// (a kernel's number and what it is applied to: the number of an operand, or ~value).
static int read_tail(tail *t, const rl_call *c, int first, int64_t rows) {
    const rl_operand *out = &c->op[0];
    *t = (tail){.operands = rl_max(c->n - first, 0), .steps = (c->n_attrs - 7) / 3};
    if ((c->n_attrs - 7) % 3 || t->operands > TAIL_OPERANDS || t->steps > TAIL_STEPS ||
        !t->steps || out->dtype != RL_F32 || (uintptr_t)out->data & 3 || !packed(out, 2))
        return 0;
    for (int k = 0; k < t->operands; k++) {
        const rl_operand *x = &c->op[first + k];
        const rl_operand *both[2] = {out, x};
        if (x->ndim != 4 || !IS_FLOAT(x->dtype) || !same_shapes(both, 2) ||
            (x->shape[2] > 1 && x->shape[3] > 1 && x->strides[2] != x->strides[3] * x->shape[3]))
            return 0;
        int64_t one = x->shape[2] * x->shape[3] == 1; // a row is one number
        int64_t col = one ? 0 : x->strides[x->shape[3] > 1 ? 3 : 2];
        t->of[k] = (matrix){x->data, x->dtype, x->strides[1], col};
        t->step[k][0] = x->strides[0], t->step[k][1] = rows * x->strides[1];
    }
    for (int s = 0; s < t->steps; s++) {
        const int64_t *told = c->attrs + 7 + 3 * s;
        if (told[0] < 0 || told[0] >= (int64_t)(sizeof CHAINED / sizeof *CHAINED) ||
            !CHAINED[told[0]])
            return 0;
        t->chain[s].fn = CHAINED[told[0]];
        for (int k = 0; k < 2; k++) {
            if (told[1 + k] < ~(int64_t)s || told[1 + k] >= t->operands) return 0;
            t->chain[s].from[k] = (int32_t)told[1 + k];
        }
    }
    begin(t, c->n > 3 && c->op[3].data != NULL);
    return 1;
}

#endif

#if RL_ROOM
// Whether windows are of one element each, all of them inside of the image.
static int sees_inside(const image *m, int64_t high) {
    return m->count == 1 && !m->taps[0][0] && !m->taps[0][1] && m->step[0] * m->step[1] > 1 &&
           (high - 1) * m->step[0] < m->height && (m->wide - 1) * m->step[1] < m->width;
}

#define MOST_PHASED (1 << 23) // floats of an image in phases

// The elements that such windows see, as floats: an image that is read once, not once per strip.
static float *see_every(const image *m, int64_t n, int64_t high) {
    int64_t planes = m->groups * m->channels, size = high * m->wide;
    float *seen = rl_shared(rl_times(rl_times(n * planes, size), 4)), *to = seen;
    row_cut cut = cut_row(m->dtype, m->w, m->width, 0, m->step[1], m->wide);
    for (int64_t i = 0; seen && i < n * planes; i++) {
        const uint8_t *at = m->data;
        at += (i / planes * m->n + i % planes * m->c) * RL_SIZE[m->dtype];
        for (int64_t y = 0; y < high; y++, to += m->wide)
            load_row(&cut, to, at + y * m->step[0] * m->h * RL_SIZE[m->dtype], 0);
    }
    return seen;
}
#endif

// out (n, o, oh, ow) = x (n, c, h, w) under weight (o, c / groups, kh, kw), plus bias (o).
static int convolve(const rl_call *c, tail *t, const rl_operand *kept) {
    (void)kept;
    const rl_operand *out = &c->op[0], *x = &c->op[1], *w = &c->op[2], *bias = &c->op[3];
    image m;
    if (c->n < 3 || out->ndim != 4) return RL_REFUSED;
    int64_t more = 0;
#if RL_ROOM
    int64_t phased = 0;
    if (w->ndim == 4 && x->ndim == 4 && c->n_attrs > 6 && c->attrs[0] > 0 && c->attrs[1] > 0) {
        more = tile_weights(rl_min(w->shape[1], 1 << 14)) * 4;
        phased = phase_floats(w->shape + 2, c->attrs, c->attrs + 4, out->shape[2], out->shape[3]);
        phased = rl_times(phased, x->shape[0] * x->shape[1]);
        if (phased > MOST_PHASED) phased = 0;
        more = rl_max(more, (phased + 2 * VF) * 4);
    }
#endif
    int code = windows(&m, c, x, w, out->shape[3], more);
    if (code) return code;
    int64_t n = out->shape[0], rows = w->shape[0] / m.groups, size = out->shape[2] * out->shape[3];
    if (!IS_FLOAT(out->dtype) || !packed(out, 2) || x->shape[0] != n ||
        out->shape[1] != w->shape[0] || x->shape[1] / m.groups != m.channels ||
        x->shape[1] % m.groups || out->shape[2] > 1 << 30 || out->shape[3] > 1 << 30)
        return RL_REFUSED;
    int64_t k = m.channels * m.count;
    product p = {.m = rows, .n = size, .k = k, .batch = n * m.groups, .image = &m, .dims = 2,
                 .c = {out->data, out->dtype, out->strides[1], 1},
                 .a = {w->data, w->dtype, k, 1},
                 .b = {x->data, x->dtype, x->strides[1], 1},
                 .shape = {n, m.groups},
                 .step = {{out->strides[0], rows * out->strides[1]},
                          {0, rows * k},
                          {x->strides[0], m.channels * x->strides[1]}}};
#if RL_ROOM
    if (t && !read_tail(t, c, kept ? 5 : 4, rows)) return RL_REFUSED;
#endif
    p.tail = t;
    if (c->n > 3 && bias->data) {
        if (bias->ndim != 1 || bias->shape[0] != w->shape[0] || !IS_FLOAT(bias->dtype))
            return RL_REFUSED;
        p.bias = (matrix){bias->data, bias->dtype, bias->strides[0], 0};
        p.step[3][1] = rows * bias->strides[0];
    }
    if (is_plain(&m, x, size)) p.image = NULL;
#if RL_ROOM
    else if (sees_inside(&m, out->shape[2]) && rows > FEW) {
        float *seen = see_every(&m, n, out->shape[2]);
        if (!seen) return RL_MEMORY;
        p.b = (matrix){(uint8_t *)seen, RL_F32, size, 1}, p.image = NULL;
        p.step[2][0] = m.groups * m.channels * size, p.step[2][1] = m.channels * size;
    }
    if (n && size && p.image && planes_pay(&p)) {
        conv_planes(&p);
        return RL_OK;
    }
    if (n && p.image && k && lanes_pay(&p)) {
        code = conv_lanes(&p, m.taps[m.count]);
        if (code != RL_REFUSED) return code;
    }
    float form = kept ? ((const float *)(const void *)kept->data)[0] : 0;
    int tiles = tiles_pay(c->attrs, w, out->shape[2], m.wide) && out->dtype == RL_F32 &&
                !((uintptr_t)out->data & 3);
    if (kept && m.groups > 1) return RL_REFUSED;
    if (form && form == (tiles ? KEPT_TILES : KEPT_PANELS)) {
        if (rl_numel(kept) < (tiles ? kept_tiles(rows, m.channels) : kept_panels(rows, k)))
            return RL_REFUSED;
        p.kept = (const float *)(const void *)kept->data;
    }
    if (n && tiles) return conv_tiles(&p, m.taps + m.count);
    if (phased && p.image && rows > FEW && size) {
        float *to = (float *)(void *)(m.taps + m.count);
        phase_image(&m, n, out->shape[2], to + (-((uintptr_t)to >> 2) & (VF - 1)));
    }
#endif
    return run_conv(&p);
}

static int k_conv2d(const rl_call *c) {
    return c->n > 4 || c->n_attrs != 7 ? RL_REFUSED : convolve(c, NULL, NULL);
}

#if RL_ROOM
// The same, through the steps of a tail.
static int k_conv2d_tail(const rl_call *c) {
    tail t;
    return c->n < 4 ? RL_REFUSED : convolve(c, &t, NULL);
}

static int is_kept(const rl_operand *x) {
    return x->ndim == 1 && x->dtype == RL_F32 && packed(x, 0) && x->shape[0] >= KEPT_HEAD &&
           !((uintptr_t)x->data & 3);
}

// The same, with or without a tail, and with the weight as conv2d_keep made it after the bias.
static int k_conv2d_kept(const rl_call *c) {
    tail t;
    if (c->n < 5 || !is_kept(&c->op[4])) return RL_REFUSED;
    return convolve(c, c->n_attrs > 7 ? &t : NULL, &c->op[4]);
}

// out: the form of weight (o, c / groups, kh, kw), f32, in which it is multiplied; or, i64 (1), how
// many floats that takes, 0 where none is kept. attrs: as above; height and width of results.
static int k_conv2d_keep(const rl_call *c) {
    const rl_operand *out = &c->op[0], *w = &c->op[1];
    image m;
    if (c->n != 2 || c->n_attrs != 9 || out->ndim != 1 || w->dtype != RL_F32 || w->ndim != 4)
        return RL_REFUSED;
    int code = windows(&m, c, w, w, 1, 0); // w stands for the image, of which nothing is read
    if (code) return code;
    product p = {.m = w->shape[0], .n = 1, .k = m.channels * m.count, .batch = 1};
    p.a = (matrix){w->data, RL_F32, p.k, 1};
    int tiles = tiles_pay(c->attrs, w, c->attrs[7], c->attrs[8]);
    int64_t floats = tiles ? kept_tiles(p.m, m.channels) : kept_panels(p.m, p.k);
    if (out->dtype == RL_I64 && out->shape[0] == 1) {
        if (m.groups > 1 || p.m <= FEW || !p.k) floats = 0;
        rl_copy(out->data, &floats, 8);
        return RL_OK;
    }
    if (!is_kept(out) || out->shape[0] < floats || m.groups > 1 || p.m <= FEW || !p.k)
        return RL_REFUSED;
    float *to = (float *)(void *)out->data;
    return tiles ? keep_tiles(&p, &m, to) : keep_panels(&p, to);
}
#endif

// out (n, c, h, w), the gradient of the input, from grad (n, o, oh, ow). The residues of rows and
// columns modulo the strides are computed one by one, because each has taps of its own.
static int k_conv2d_input(const rl_call *c) {
    const rl_operand *out = &c->op[0], *grad = &c->op[1], *w = &c->op[2];
    image m;
    if (c->n != 3 || c->n_attrs != 7 || out->ndim != 4 || w->ndim != 4) return RL_REFUSED;
    int64_t all = w->shape[2] * w->shape[3], width = w->shape[3], rows = w->shape[1];
    int64_t more = all * 8 + rl_numel(w) * 4;
#if RL_ROOM
    int tiles = tiles_pay(c->attrs, w, out->shape[2], out->shape[3]) && w->shape[0] <= 1 << 14 &&
                out->dtype == RL_F32 && !((uintptr_t)out->data & 3);
    if (tiles) more += tile_weights(w->shape[0]) * 4;
#endif
    int code = windows(&m, c, grad, w, 1, more);
    if (code) return code;
    int64_t n = out->shape[0], size = RL_SIZE[w->dtype];
    if (!IS_FLOAT(out->dtype) || !packed(out, 2) || grad->shape[0] != n ||
        out->shape[1] % m.groups || out->shape[1] / m.groups != rows || out->shape[2] > 1 << 30 ||
        out->shape[3] > 1 << 30 || grad->shape[1] != w->shape[0])
        return RL_REFUSED;
    int64_t *used = m.taps[all];
    float *turned = (float *)(void *)(used + all);
    m.channels = w->shape[0] / m.groups, m.step[0] = m.step[1] = 1;
    for (int64_t y = 0; y < rl_min(c->attrs[0], out->shape[2]); y++)
        for (int64_t x = 0; x < rl_min(c->attrs[1], out->shape[3]); x++) {
            m.count = 0, m.wide = (out->shape[3] - x - 1) / c->attrs[1] + 1;
            for (int64_t i = all - 1; i >= 0; i--) { // so that they go down and across
                int64_t down = y + c->attrs[2] - i / width * c->attrs[4];
                int64_t across = x + c->attrs[3] - i % width * c->attrs[5];
                if (down % c->attrs[0] || across % c->attrs[1]) continue;
                m.taps[m.count][0] = down / c->attrs[0], m.taps[m.count][1] = across / c->attrs[1];
                used[m.count++] = i;
            }
            // The weights in the order of the windows: group, channel of the input, of grad, tap.
            int64_t k = m.channels * m.count;
            for (int64_t o = 0; o < w->shape[0]; o++)
                for (int64_t r = 0; r < rows; r++) {
                    float *to = turned + (o / m.channels * rows + r) * k + o % m.channels * m.count;
                    const uint8_t *from = w->data + (o * rows + r) * all * size;
                    if (m.count == all) LOAD_F[w->dtype](to, from + used[0] * size, -1, all);
                    else if (w->dtype == RL_F32)
                        for (int64_t t = 0; t < m.count; t++)
                            rl_copy(to + t, from + used[t] * 4, 4);
                    else
                        for (int64_t t = 0; t < m.count; t++)
                            LOAD_F[w->dtype](to + t, from + used[t] * size, 1, 1);
                }
            int64_t high = (out->shape[2] - y - 1) / c->attrs[0] + 1;
            product p = {.m = rows, .n = high * m.wide, .k = k, .batch = n * m.groups, .image = &m,
                         .dims = 2,
                         .c = {out->data, out->dtype, out->strides[1], c->attrs[1]},
                         .a = {(uint8_t *)turned, RL_F32, k, 1},
                         .b = {grad->data, grad->dtype, grad->strides[1], 1},
                         .shape = {n, m.groups},
                         .step = {{out->strides[0], rows * out->strides[1]},
                                  {0, rows * k},
                                  {grad->strides[0], m.channels * grad->strides[1]}}};
            p.c.data += (y * out->shape[3] + x) * RL_SIZE[out->dtype];
            if (c->attrs[0] * c->attrs[1] > 1)
                p.wide = m.wide, p.line = c->attrs[0] * out->shape[3];
            else if (is_plain(&m, grad, p.n)) p.image = NULL;
#if RL_ROOM
            if (n && tiles) return conv_tiles(&p, turned + rl_numel(w));
#endif
            code = run_conv(&p);
            if (code) return code;
        }
    return RL_OK;
}

// out (o, c / groups, kh, kw), f32, the gradient of the weight: the windows of x (n, c, h, w) times
// grad (n, o, oh, ow), image by image.
static int k_conv2d_weight(const rl_call *c) {
    const rl_operand *out = &c->op[0], *x = &c->op[1], *grad = &c->op[2];
    image m;
    if (c->n != 3 || c->n_attrs != 7 || grad->ndim != 4) return RL_REFUSED;
    int code = windows(&m, c, x, out, grad->shape[3], 0);
    if (code) return code;
    int64_t n = x->shape[0], rows = out->shape[0] / m.groups, k = m.channels * m.count;
    if (out->dtype != RL_F32 || (uintptr_t)out->data & 3 || !IS_FLOAT(grad->dtype) ||
        !packed(grad, 2) || grad->shape[0] != n || grad->shape[1] != out->shape[0] ||
        x->shape[1] % m.groups || x->shape[1] / m.groups != m.channels ||
        grad->shape[2] > 1 << 30 || grad->shape[3] > 1 << 30)
        return RL_REFUSED;
    m.turned = 1;
    product p = {.m = rows, .n = k, .k = grad->shape[2] * grad->shape[3], .batch = m.groups,
                 .image = &m, .dims = 1,
                 .c = {out->data, RL_F32, k, 1},
                 .a = {grad->data, grad->dtype, grad->strides[1], 1},
                 .b = {x->data, x->dtype, 1, x->strides[1]},
                 .shape = {m.groups},
                 .step = {{rows * k}, {rows * grad->strides[1]}, {m.channels * x->strides[1]}}};
    if (is_plain(&m, x, p.k)) p.image = NULL;
    if (!n) p.k = 0;
    strip_job job;
    int64_t bytes = p.image && p.m <= FEW && p.k ? cut_strips(&job, &p, grad->shape[2]) : INT64_MAX;
    if (bytes < INT64_MAX) {
        job.images = n, job.step[0] = x->strides[0], job.step[1] = grad->strides[0];
        if (!reserve(bytes)) return RL_MEMORY;
        share_out(20.0 * (double)rl_numel(grad) * (double)k, m.groups * m.channels, strip_dots_item,
                  &job);
        return RL_OK;
    }
    for (int64_t i = 0; i < rl_max(n, 1); i++) {
        code = i && !p.k ? RL_OK : run_conv(&p);
        if (code) return code;
        p.add = 1;
        m.data += x->strides[0] * RL_SIZE[x->dtype], p.b.data += x->strides[0] * RL_SIZE[x->dtype];
        p.a.data += grad->strides[0] * RL_SIZE[grad->dtype];
    }
    return RL_OK;
}

// Elementwise functions: each runs over pieces of its operands, converted to float or int64.

#define PIECE 512
#define ITEM 16384 // elements of one item of work
#define SHORT 96   // shorter runs are gathered into a piece
// Functions of floats take a multiple of so many. Small code is fast with four vectors at a time.
#define STEP (RL_ROOM ? VF : 4 * VF)

typedef void (*map_fn)(void *out, const void *a, const void *b, int64_t n);
enum { FLOATS, INTS, BOOLS };

typedef struct {
    const rl_call *call;
    rl_walk walk;
    map_fn fn, then;     // then: a second function, of the result and a third input, or NULL
    int in, out;         // the types of fn's input and output
    int64_t runs, parts; // runs of an item, or items of a run
} map_job;

typedef union {
    float f[PIECE];
    int64_t i[PIECE];
    uint8_t b[PIECE];
} map_buffer;

RARE_BEGIN
static RL_APART void map_load(int kind, const rl_operand *x, void *to, int64_t at, int64_t step,
                              int64_t n) {
    const uint8_t *from = x->data + at * RL_SIZE[x->dtype];
    if (kind == FLOATS) LOAD_F[x->dtype](to, from, step, n);
    else LOAD_I[x->dtype](to, from, step, n);
}

static RL_APART void map_store(int kind, const rl_operand *x, const void *from, int64_t at,
                               int64_t step, int64_t n) {
    uint8_t *to = x->data + at * RL_SIZE[x->dtype];
    if (kind == FLOATS) STORE_F[x->dtype](to, from, step, n);
    else if (kind == INTS) STORE_I[x->dtype](to, from, step, n);
    else
        for (int64_t i = 0; i < n; i++) to[i * step] = ((const uint8_t *)from)[i];
}

// Whether fn can use an operand in place.
static int map_direct(int kind, const rl_operand *x, int64_t step) {
    return step == 1 && x->dtype == (kind == FLOATS ? RL_F32 : kind == INTS ? RL_I64 : RL_BOOL);
}

// fn over n floats at any address: what is no whole step goes through memory of its own.
static RL_APART void map_floats(map_fn fn, uint8_t *out, int size, const uint8_t *a,
                                const uint8_t *b, int64_t n) {
    int64_t rest = n % STEP, whole = n - rest;
    float x[STEP] = {0}, y[STEP] = {0}, z[STEP];
    if (whole) fn(out, a, b, whole);
    if (!rest) return;
    if (whole && out != a && out != b) { // the last ones are computed twice
        fn(out + (n - STEP) * size, a + (n - STEP) * 4, b ? b + (n - STEP) * 4 : NULL, STEP);
        return;
    }
    rl_copy(x, a + whole * 4, (size_t)rest * 4);
    if (b) rl_copy(y, b + whole * 4, (size_t)rest * 4);
    fn(z, x, b ? y : NULL, STEP);
    rl_copy(out + whole * size, z, (size_t)(rest * size));
}

#if RL_ROOM
#define map_truth(fn, out, a, b, n) map_floats(fn, out, 1, a, b, n)
#else
// out[i] = fn(a[i], b[i]) as 0 or 1, where fn gives a mask of 32 bits for each.
static RL_APART void map_truth(map_fn fn, uint8_t *out, const uint8_t *a, const uint8_t *b,
                               int64_t n) {
    int32_t mask[PIECE];
    for (int64_t s = 0; s < n; s += PIECE) {
        int64_t some = rl_min(PIECE, n - s), i = 0;
        map_floats(fn, (uint8_t *)mask, 4, a + s * 4, b ? b + s * 4 : NULL, some);
        for (; i + 16 <= some; i += 16) {
            const int32_t *m = mask + i;
            __auto_type low = __builtin_wasm_narrow_s_i16x8_i32x4(viload(m), viload(m + VF));
            __auto_type high =
                __builtin_wasm_narrow_s_i16x8_i32x4(viload(m + 2 * VF), viload(m + 3 * VF));
            __auto_type one = __builtin_wasm_narrow_s_i8x16_i16x8(low, high) & 1;
            rl_copy(out + s + i, &one, 16);
        }
        RL_SMALL_LOOP for (; i < some; i++) out[s + i] = (uint8_t)(mask[i] & 1);
    }
}
#endif

// in: the inputs from 1 on, NULL where there is none.
static RL_APART void map_piece(const map_job *job, void *out, const void *const *in, int64_t n) {
    const void *a = in[1];
    map_fn fn = job->fn;
    for (int i = 2; fn; i++, a = out, fn = i == 3 ? job->then : NULL) {
        if (job->in == FLOATS && job->out == FLOATS) map_floats(fn, out, 4, a, in[i], n);
        else if (job->in == FLOATS) map_truth(fn, out, a, in[i], n);
        else fn(out, a, in[i], n);
    }
}

static RL_APART vf load_rest(const float *p, int64_t n) {
    return vload_part(p, n);
}
static RL_APART void store_rest(float *p, vf x, int64_t n) {
    vstore_part(p, x, n);
}

// n floats between two numbers that are not NaN, in one pass; NaN stays.
static RL_APART void clamp_run(float *o, const float *x, float low, float high, int64_t n) {
    vf lo = vsplat(low), hi = vsplat(high);
    for (; n >= 4 * VF; n -= 4 * VF, o += 4 * VF, x += 4 * VF) {
        vf a = vload(x), b = vload(x + VF), c = vload(x + 2 * VF), d = vload(x + 3 * VF);
        vstore(o, vmin(hi, vmax(lo, a)));
        vstore(o + VF, vmin(hi, vmax(lo, b)));
        vstore(o + 2 * VF, vmin(hi, vmax(lo, c)));
        vstore(o + 3 * VF, vmin(hi, vmax(lo, d)));
    }
    for (; n >= VF; n -= VF, o += VF, x += VF) vstore(o, vmin(hi, vmax(lo, vload(x))));
    if (n) store_rest(o, vmin(hi, vmax(lo, load_rest(x, n))), n);
}

static RL_APART void map_run(const map_job *job, const rl_place *p, int64_t start, int64_t stop) {
    map_buffer buffer[WALK_OPERANDS];
    const rl_walk *w = &job->walk;
    const rl_operand *op = job->call->op;
    const void *in[WALK_OPERANDS] = {NULL};
    int direct[WALK_OPERANDS];
    int64_t piece = stop - start;
    for (int i = 0; i < w->n; i++) {
        direct[i] = map_direct(i ? job->in : job->out, &op[i], w->step[i]);
        if (!direct[i]) piece = PIECE;
        if (i && !w->step[i]) // one value: broadcast it once
            map_load(job->in, &op[i], &buffer[i], p->at[i], 0, rl_min(PIECE, stop - start));
    }
    if (job->then && job->in == FLOATS && direct[0] && direct[1] && !(w->step[2] | w->step[3]) &&
        *buffer[2].f == *buffer[2].f && *buffer[3].f == *buffer[3].f) {
        float *o = (float *)op[0].data + p->at[0] + start;
        clamp_run(o, (float *)op[1].data + p->at[1] + start, *buffer[2].f, *buffer[3].f,
                  stop - start);
        return;
    }
    for (int64_t s = start; s < stop; s += piece) {
        int64_t n = rl_min(piece, stop - s);
        for (int i = 1; i < w->n; i++) {
            int64_t at = p->at[i] + s * w->step[i];
            in[i] = direct[i] ? (void *)(op[i].data + at * RL_SIZE[op[i].dtype]) : &buffer[i];
            if (!direct[i] && w->step[i])
                map_load(job->in, &op[i], &buffer[i], at, w->step[i], n);
        }
        int64_t at = p->at[0] + s * w->step[0];
        void *out = direct[0] ? (void *)(op[0].data + at * RL_SIZE[op[0].dtype]) : &buffer[0];
        map_piece(job, out, in, n);
        if (!direct[0]) map_store(job->out, &op[0], out, at, w->step[0], n);
    }
}

static void map_short(const map_job *job, int64_t first, int64_t last) {
    static const uint8_t WIDTH[] = {4, 8, 1};
    map_buffer buffer[WALK_OPERANDS];
    const rl_walk *w = &job->walk;
    const rl_operand *op = job->call->op;
    const void *in[WALK_OPERANDS] = {NULL};
    for (int i = 1; i < w->n; i++) in[i] = &buffer[i];
    int64_t full = PIECE / w->inner;
    rl_place p = walk_to(w, first);
    for (int64_t run = first; run < last; run += full) {
        int64_t count = rl_min(full, last - run), start = 0;
        int64_t places[PIECE];
        for (int64_t r = 0; r < count; r++, start += w->inner) {
            for (int i = 1; i < w->n; i++)
                map_load(job->in, &op[i], (uint8_t *)&buffer[i] + start * WIDTH[job->in], p.at[i],
                         w->step[i], w->inner);
            places[r] = p.at[0];
            walk_on(w, &p);
        }
        map_piece(job, &buffer[0], in, start);
        for (int64_t r = 0; r < count; r++)
            map_store(job->out, &op[0], (uint8_t *)&buffer[0] + r * w->inner * WIDTH[job->out],
                      places[r], w->step[0], w->inner);
    }
}

static void map_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const map_job *job = ctx;
    const rl_walk *w = &job->walk;
    if (job->parts > 1) {
        rl_place p = walk_to(w, item / job->parts);
        int64_t start = item % job->parts * ITEM;
        map_run(job, &p, start, rl_min(w->inner, start + ITEM));
        return;
    }
    int64_t first = item * job->runs, last = rl_min(w->outer, first + job->runs);
    if (w->inner < SHORT && w->outer > 1) {
        map_short(job, first, last);
        return;
    }
    rl_place p = walk_to(w, first);
    for (int64_t run = first; run < last; run++, walk_on(w, &p)) map_run(job, &p, 0, w->inner);
}

// Runs items on the threads if there is enough work, else on this thread.
static RL_APART void run_items(int64_t items, int64_t work, void (*fn)(void *, int64_t, int),
                               void *job) {
    if (work >= 1 << 15) rl_parallel(items, fn, job);
    else
        for (int64_t i = 0; i < items; i++) fn(job, i, 0);
}

static RL_ONCE int operands_of_one_shape(const rl_call *c, const rl_operand **x, int n) {
    if (c->n != n) return 0;
    for (int i = 0; i < n; i++) {
        x[i] = &c->op[i];
        if (x[i]->ndim < 0 || x[i]->dtype >= RL_Q4_0) return 0;
    }
    return same_shapes(x, n);
}

static void f_minimum(void *out, const void *pa, const void *pb, int64_t n);
static void i_minimum(void *out, const void *pa, const void *pb, int64_t n);

static RL_ONCE int map(const rl_call *c, int arity, map_fn floats, map_fn ints, int truth) {
    const rl_operand *x[WALK_OPERANDS];
    if (!operands_of_one_shape(c, x, arity + 1)) return RL_REFUSED;
    map_job job = {.call = c, .in = IS_FLOAT(c->op[1].dtype) ? FLOATS : INTS};
    job.fn = job.in == FLOATS ? floats : ints;
    job.out = truth ? BOOLS : job.in;
    if (!job.fn) return RL_REFUSED;
    if (arity == 3) job.then = job.in == FLOATS ? f_minimum : i_minimum;
    for (int i = 0; i <= arity; i++) {
        int kind = i ? job.in : job.out, dtype = x[i]->dtype;
        if (!(kind == FLOATS ? IS_FLOAT(dtype) : kind == INTS ? IS_INT(dtype) : dtype == RL_BOOL))
            return RL_REFUSED;
    }
    int64_t n = rl_numel(x[0]);
    if (!n) return RL_OK;
    job.walk = walk_over(x, arity + 1, -1);
    job.runs = rl_max(1, ITEM / job.walk.inner);
    job.parts = (job.walk.inner + ITEM - 1) / ITEM;
    int64_t items = job.parts > 1 ? job.walk.outer * job.parts
                                  : (job.walk.outer + job.runs - 1) / job.runs;
    run_items(items, n, map_item, &job);
    return RL_OK;
}

RARE_END

// Functions of floats run over whole vectors; `map_floats` does the rest of a piece.
#if RL_ROOM
#define QUICK VECTORS
#else
// Four vectors at a time, as offsets of one address.
#define PART(k, expr)                                                                              \
    {                                                                                              \
        vf a = vload(pu + (k) * VF), b = vload(pv + (k) * VF);                                     \
        (void)b;                                                                                   \
        vstore(o + (k) * VF, (vf)(expr));                                                          \
    }
#define QUICK(fn, expr)                                                                            \
    static void fn(void *out, const void *pa, const void *pb, int64_t n) {                         \
        float *o = out;                                                                            \
        const float *pu = pa, *pv = pb ? pb : pa;                                                  \
        RL_SMALL_LOOP for (; n > 0; n -= 4 * VF, o += 4 * VF, pu += 4 * VF, pv += 4 * VF) {        \
            PART(0, expr) PART(1, expr) PART(2, expr) PART(3, expr)                                \
        }                                                                                          \
    }
#endif
#define VECTORS(fn, expr)                                                                          \
    static void fn(void *out, const void *pa, const void *pb, int64_t n) {                         \
        float *o = out;                                                                            \
        const float *pu = pa, *pv = pb ? pb : pa;                                                  \
        RL_SMALL_LOOP for (int64_t i = 0; i < n; i += VF) {                                        \
            vf a = vload(pu + i), b = vload(pv + i);                                               \
            (void)b;                                                                               \
            vstore(o + i, expr);                                                                   \
        }                                                                                          \
    }
#if RL_ROOM
#define MASKS(name, expr)                                                                          \
    static void t_##name(void *out, const void *pa, const void *pb, int64_t n) {                   \
        uint8_t *o = out;                                                                          \
        const float *pu = pa, *pv = pb ? pb : pa;                                                  \
        for (int64_t i = 0; i < n; i += VF) {                                                      \
            vf a = vload(pu + i), b = vload(pv + i);                                               \
            (void)b;                                                                               \
            vbstore(o + i, __builtin_convertvector((vi)(expr) & 1, vbytes));                       \
        }                                                                                          \
    }
#define RARE_MASKS MASKS
#else
#define MASKS(name, expr) QUICK(t_##name, expr)
#define RARE_MASKS(name, expr) VECTORS(t_##name, (vf)(expr))
#endif
#define EACH(prefix, name, in, out_type, expr)                                                     \
    static void prefix##_##name(void *out, const void *pa, const void *pb, int64_t n) {            \
        out_type *o = out, y;                                                                      \
        const in *pu = pa, *pv = pb ? pb : pa;                                                     \
        in a, b;                                                                                   \
        RL_SMALL_LOOP for (int64_t i = 0; i < n; i++) {                                            \
            rl_copy(&a, pu + i, sizeof a);                                                         \
            rl_copy(&b, pv + i, sizeof b);                                                         \
            (void)b;                                                                               \
            y = (out_type)(expr);                                                                  \
            rl_copy(o + i, &y, sizeof y);                                                          \
        }                                                                                          \
    }

// One loop for both, because its code is long.
static RL_APART vf sine_of(vf x, int32_t quarter) { return vsincos(x, quarter); }

// The kernel of each row of the table.
#define FLOAT(name, arity, expr)                                                                   \
    VECTORS(f_##name, expr)                                                                        \
    static int k_##name(const rl_call *c) { return map(c, arity, f_##name, NULL, 0); }
#define BOTH(name, arity, expr, type, whole)                                                       \
    QUICK(f_##name, expr)                                                                          \
    EACH(i, name, type, int64_t, whole)                                                            \
    static int k_##name(const rl_call *c) { return map(c, arity, f_##name, i_##name, 0); }
#define BOUNDED(name)                                                                              \
    static int k_##name(const rl_call *c) { return map(c, 3, f_maximum, i_maximum, 0); }
#define TRUTH(name, arity, expr)                                                                   \
    MASKS(name, expr)                                                                              \
    EACH(u, name, int64_t, uint8_t, expr)                                                          \
    static int k_##name(const rl_call *c) { return map(c, arity, t_##name, u_##name, 1); }
#define KIND(name, arity, expr)                                                                    \
    RARE_MASKS(name, expr)                                                                         \
    static int k_##name(const rl_call *c) { return map(c, arity, t_##name, NULL, 1); }
#define WHOLE(name, arity, whole)                                                                  \
    EACH(i, name, int64_t, int64_t, whole)                                                         \
    static int k_##name(const rl_call *c) { return map(c, arity, NULL, i_##name, 0); }
#include "elementwise.def"

// softmax(q k^T * scale) v for blocks of queries and keys by online softmax (Milakov and
// Gimelshein, 2018): a row keeps its maximum and sum so far, so only a block of scores is stored.

#define KEYS 64    // keys of a block
#define QUERIES 64 // rows of a block, at least one query of each head that shares a key head
#define TILE_ROWS 4
#if VF == 16 || defined(__aarch64__)
#define TILE_VECTORS 4
#else
#define TILE_VECTORS 2
#endif
#define FEW_QUERIES 8 // up to so many rows, transposing the keys does not pay
#define PART_HEADS 6  // heads of a key head that make an item of a single query
#define MOST_PARTS 4
#define FAR ((int64_t)1 << 40)

typedef struct {
    const rl_call *call;
    int64_t heads, kv_heads, length, keys, width, v_width, queries, blocks;
    int64_t groups, shared, parts; // heads of an item, of a key head; items of a key head's heads
    int64_t padded, v_padded; // widths in whole vectors
    float scale, softcap;     // softcap 0: none
    int64_t window;           // -1: none
    int causal, failed;
} attention_job;

// The scratch floats of one item.
typedef struct {
    float *q, *rows, *turned, *v, *scores, *out, *top, *sum, *hidden, *bias;
} attention_room;

// c (rows, vectors) = or += a (rows, k) b (k, vectors).
RL_INLINE void tile(const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc,
                    int64_t k, int add, const int rows, const int vectors) {
    vf sum[TILE_ROWS][TILE_VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) sum[r][v] = add ? vload(c + r * ldc + v * VF) : (vf){0};
    for (int64_t i = 0; i < k; i++, b += ldb) {
        vf column[TILE_VECTORS];
        for (int v = 0; v < vectors; v++) column[v] = vload(b + v * VF);
        for (int r = 0; r < rows; r++) {
            vf x = vsplat(a[r * lda + i]);
            for (int v = 0; v < vectors; v++) sum[r][v] = vfma(x, column[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) vstore(c + r * ldc + v * VF, sum[r][v]);
}

static RL_APART void tiles(const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                           int64_t ldc, int64_t k, int add, int64_t rows, int64_t vectors) {
    for (int64_t v = 0; v < vectors;) {
        int wide = vectors - v >= TILE_VECTORS;
        for (int64_t r = 0; r < rows; r += TILE_ROWS) {
            const float *x = a + r * lda, *y = b + v * VF;
            float *z = c + r * ldc + v * VF;
#define TILE(n)                                                                                    \
    if (wide) tile(x, lda, y, ldb, z, ldc, k, add, n, TILE_VECTORS);                               \
    else tile(x, lda, y, ldb, z, ldc, k, add, n, 1);                                               \
    break
            switch (rl_min(TILE_ROWS, rows - r)) {
            case 1: TILE(1);
            case 2: TILE(2);
            case 3: TILE(3);
            default: TILE(4);
            }
        }
        v += wide ? TILE_VECTORS : 1;
    }
}

// to (n features, KEYS) = from (count keys, n features) transposed, with zeros after the last key.
static void turn_keys(float *to, const float *from, int64_t stride, int64_t count, int64_t n) {
    int64_t whole = count & ~(int64_t)3;
    for (int64_t d = 0; d < n; d++) {
        RL_SMALL_LOOP for (int64_t j = whole; j < count; j++)
            to[d * KEYS + j] = fload(from + j * stride + d);
        RL_SMALL_LOOP for (int64_t j = count; j < KEYS; j++) to[d * KEYS + j] = 0;
    }
    for (int64_t j = 0; j < whole; j += 4) {
        const float *at = from + j * stride;
        int64_t d = 0;
        for (; d + 4 <= n; d += 4) turn4(to + d * KEYS + j, KEYS, at + d, stride);
        RL_SMALL_LOOP for (; d < n; d++)
            for (int i = 0; i < 4; i++) to[d * KEYS + j + i] = fload(at + i * stride + d);
    }
}

// Rows of k or v, in place, or converted and padded with zeros to `padded`. `stride`: between rows.
// Bytes are packed rows.
static RL_APART const float *key_rows(const rl_operand *x, int64_t at, int64_t count, int64_t n,
                             int64_t padded, int whole, float *held, int64_t *stride) {
    if (x->dtype == RL_F32 && (x->strides[3] == 1 || n == 1) && (!whole || n == padded)) {
        *stride = x->strides[2];
        return (const float *)x->data + at;
    }
    for (int64_t j = 0; j < count; j++) {
        float *row = held + j * padded;
        const uint8_t *from = x->data + (at + j * x->strides[2]) * RL_SIZE[x->dtype];
        if (x->dtype == RL_U8) unpack_row(row, from, n);
        else LOAD_F[x->dtype](row, from, x->strides[3], n);
        RL_SMALL_LOOP for (int64_t d = n; d < padded; d++) row[d] = 0;
    }
    *stride = padded;
    return held;
}

static int64_t attention_integer(const rl_operand *x, int64_t b, int64_t none) {
    int64_t value;
    if (x->ndim < 0) return none;
    LOAD_I[x->dtype](&value, x->data + b * x->strides[0] * RL_SIZE[x->dtype], 0, 1);
    return rl_max(-FAR, rl_min(FAR, value));
}

// Elements of a mask or bias at (b, head, query) from key j on. A stride of 0 repeats an element.
static const uint8_t *part_at(const rl_operand *x, int64_t b, int64_t h, int64_t q, int64_t j) {
    int64_t index[4] = {b, h, q, j}, at = 0;
    for (int d = 0; d < 4; d++) at += x->shape[d] == 1 ? 0 : index[d] * x->strides[d];
    return x->data + at * RL_SIZE[x->dtype];
}

static int same_for_all_rows(const rl_operand *x) { return x->shape[1] == 1 && x->shape[2] == 1; }

// The mask and the bias of the keys from `start` on.
static void fill_parts(const attention_job *job, attention_room *room, int64_t b, int64_t h,
                       int64_t q, int64_t start, int64_t count) {
    const rl_operand *bias = &job->call->op[4], *mask = &job->call->op[5];
    if (bias->ndim >= 0)
        LOAD_F[bias->dtype](room->bias, part_at(bias, b, h, q, start),
                            bias->shape[3] == 1 ? 0 : bias->strides[3], count);
    if (mask->ndim < 0) return;
    const uint8_t *seen = part_at(mask, b, h, q, start);
    int64_t step = mask->shape[3] == 1 ? 0 : mask->strides[3];
    RL_SMALL_LOOP for (int64_t j = 0; j < count; j++)
        room->hidden[j] = seen[j * step] ? 0.0f : 1.0f;
}

// Turns the scores of one row into weights. Of its `width` keys, those in [low, high) are visible.
static RL_APART void weigh(const attention_job *job, attention_room *room, int64_t row,
                           int64_t width, int64_t low, int64_t high, int first) {
    const vf nothing = vsplat(-__builtin_inff());
    int biased = job->call->op[4].ndim >= 0, masked = job->call->op[5].ndim >= 0;
    float *s = room->scores + row * KEYS;
    vf best = nothing;
    for (int64_t i = 0; i < width; i += VF) {
        vf x = vload(s + i);
        if (job->softcap != 0) x = vtanh(x / job->softcap) * job->softcap;
        if (biased) x += vload(room->bias + i);
        if (masked) x = vselect((vi)(vload(room->hidden + i) != 0), nothing, x);
        if (i < low) x = vselect((vi)(vkeep(vsplat(1), low - i, 0) != 0), nothing, x);
        if (i + VF > high) x = vkeep(x, rl_max(0, high - i), -__builtin_inff());
        vstore(s + i, x);
        best = vmax(x, best);
    }
    float before = room->top[row], top = vtop(best);
    top = top > before ? top : before;
    // The maximum of a row without visible keys is -infinity. Its weights are zeros; NaN stays NaN.
    float base = top == -__builtin_inff() ? 0 : top;
    vf sum = {0};
    for (int64_t i = 0; i < width; i += VF) {
        vf x = vexp_down(vload(s + i) - base);
        vstore(s + i, x);
        sum += x;
    }
    float scale = first ? 0 : exp_down(vsplat(before - base))[0];
    room->top[row] = top;
    room->sum[row] = room->sum[row] * scale + vsum(sum);
    if (first || scale == 1) return;
    float *out = room->out + row * job->v_padded;
    for (int64_t i = 0; i < job->v_padded; i += VF) vstore(out + i, vload(out + i) * scale);
}

static RL_ONCE int64_t room_size(const attention_job *j, attention_room *room, float *base) {
    int64_t rows = j->groups * j->queries, at = 0;
#define ROOM(name, size)                                                                           \
    if (base) room->name = base + at;                                                              \
    at += ((size) + 15) & ~(int64_t)15
    ROOM(q, rows * j->padded);
    ROOM(rows, KEYS * j->padded);
    ROOM(turned, KEYS * j->padded);
    ROOM(v, KEYS * j->v_padded);
    ROOM(scores, rows * KEYS);
    ROOM(out, rows * j->v_padded);
    ROOM(top, rows);
    ROOM(sum, rows);
    ROOM(hidden, KEYS);
    ROOM(bias, KEYS);
    return at;
}

#if RL_ROOM
// scores (rows, KEYS) = the products of few rows of q with n keys, `stride` bytes apart, and zeros
// up to `width`. The values of these keys, from element `at` of v on, are fetched meanwhile.
static void few_scores(const attention_job *job, const attention_room *room, int64_t rows,
                       const uint8_t *key, int64_t stride, int dtype, int64_t n, int64_t width,
                       const rl_operand *v, int64_t at) {
    const int64_t size = RL_SIZE[v->dtype], bytes = v->shape[3] * size;
    for (int64_t i = 0; i < n; i += 4) {
        const uint8_t *four[4];
        for (int t = 0; t < 4; t++) { // after the last key, the last one again
            const int64_t row = rl_min(i + t, n - 1);
            const uint8_t *value = v->data + (at + row * v->strides[2]) * size;
            four[t] = key + row * stride;
            for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(value + k, 0, 2);
        }
        for (int64_t r = 0, some; r < rows; r += some) {
            const float *x[FEW_ROWS] = {NULL};
            float found[4 * FEW_ROWS];
            some = VF == 16 && rows - r > 3 ? 4 : rl_min(2, rows - r);
            for (int64_t k = 0; k < some; k++) x[k] = room->q + (r + k) * job->padded;
            DOTS_KERNELS[gemv_kind(dtype)][some / 2](job->padded, x, four, found);
            for (int64_t k = 0; k < some; k++)
                v4store(room->scores + (r + k) * KEYS + i, v4load(found + 4 * k));
        }
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = n; i < width; i++) room->scores[r * KEYS + i] = 0;
}
#endif

// Queries start to start + count of `groups` heads of one key head, against all keys visible to
// them.
static void attend(const attention_job *job, attention_room *room, int64_t b, int64_t head,
                   int64_t first_head, int64_t groups, int64_t start, int64_t count) {
    const rl_operand *op = job->call->op, *q = &op[1], *k = &op[2], *v = &op[3], *out = &op[0];
    const rl_operand *bias = &op[4], *mask = &op[5];
    const rl_operand *sinks = &op[8];
    int sunk = sinks->ndim >= 0; // the sum begins with the sink's weight
    int64_t rows = groups * count;
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = b * q->strides[0] + (first_head + r / count) * q->strides[1] +
                     (start + r % count) * q->strides[2];
        float *to = room->q + r * job->padded;
        LOAD_F[q->dtype](to, q->data + at * RL_SIZE[q->dtype], q->strides[3], job->width);
        RL_SMALL_LOOP for (int64_t d = 0; d < job->width; d++) to[d] *= job->scale;
        RL_SMALL_LOOP for (int64_t d = job->width; d < job->padded; d++) to[d] = 0;
        room->top[r] = -__builtin_inff();
        room->sum[r] = sunk;
        if (sunk) {
            int64_t h = (first_head + r / count) * sinks->strides[1];
            LOAD_F[sinks->dtype](&room->top[r], sinks->data + h * RL_SIZE[sinks->dtype], 0, 1);
        }
    }
    rl_zero(room->out, (size_t)(rows * job->v_padded) * 4);
    rl_zero(room->bias, KEYS * 4);
    rl_zero(room->hidden, KEYS * 4);
    // Keys from..to - 1 that the query at position `at` attends to.
    int64_t at = start + attention_integer(&op[6], b, 0), last = at + count - 1;
    int64_t known = rl_min(job->keys, attention_integer(&op[7], b, FAR)), w = job->window;
#define FROM(at) (w < 0 ? 0 : rl_max(0, (at)-w + 1))
#define TO(at)                                                                                     \
    rl_min(known, job->causal ? (at) + 1 : w < 0 ? known : (at) + w)
    int shared = (bias->ndim < 0 || same_for_all_rows(bias)) &&
                 (mask->ndim < 0 || same_for_all_rows(mask));
    int first = !sunk;
    for (int64_t j = FROM(at), end = TO(last); j < end; j += KEYS, first = 0) {
        int64_t n = rl_min(KEYS, end - j), width = (n + VF - 1) & ~(int64_t)(VF - 1), stride;
        int few = rows < FEW_QUERIES;
        const int64_t seen = b * k->strides[0] + head * k->strides[1] + j * k->strides[2];
        const int64_t values = b * v->strides[0] + head * v->strides[1] + j * v->strides[2];
#if RL_ROOM
        const int stored = few && gemv_kind(k->dtype) >= 0 && k->strides[3] == 1 &&
                           job->width == job->padded;
#else
        const int stored = 0;
#endif
        const float *key = NULL;
        if (!stored)
            key = key_rows(k, seen, n, job->width, job->padded, few, room->rows, &stride);
#if RL_ROOM
        if (few) {
            const int64_t size = RL_SIZE[k->dtype];
            const uint8_t *from = stored ? k->data + seen * size : (const uint8_t *)key;
            few_scores(job, room, rows, from, stored ? k->strides[2] * size : stride * 4,
                       stored ? k->dtype : RL_F32, n, width, v, values);
        }
#else
        if (few)
            for (int64_t r = 0; r < rows; r++) {
                const float *x = room->q + r * job->padded;
                float *s = room->scores + r * KEYS;
                int64_t i = 0;
                for (; i + 4 <= n; i += 4)
                    v4store(s + i, dot4(x, key + i * stride, stride, job->padded));
                for (; i < n; i++) s[i] = dot4(x, key + i * stride, 0, job->padded)[0];
                RL_SMALL_LOOP for (; i < width; i++) s[i] = 0;
            }
#endif
        if (!few) {
            turn_keys(room->turned, key, stride, n, job->width);
            tiles(room->q, job->padded, room->turned, KEYS, room->scores, KEYS, job->width, 0, rows,
                  width / VF);
        }
        if (shared) fill_parts(job, room, b, 0, 0, j, n);
        for (int64_t r = 0; r < rows; r++) {
            int64_t mine = at + r % count;
            if (!shared)
                fill_parts(job, room, b, first_head + r / count, start + r % count, j, n);
            weigh(job, room, r, width, FROM(mine) - j, rl_min(n, TO(mine) - j), first);
        }
        const float *value =
            key_rows(v, values, n, job->v_width, job->v_padded, 1, room->v, &stride);
        tiles(room->scores, KEYS, value, stride, room->out, job->v_padded, n, 1, rows,
              job->v_padded / VF);
    }
    for (int64_t r = 0; r < rows; r++) {
        float *row = room->out + r * job->v_padded, sum = room->sum[r];
        for (int64_t d = 0; d < job->v_padded; d += VF)
            vstore(row + d, vload(row + d) / (sum == 0 ? 1 : sum));
        int64_t to = b * out->strides[0] + (first_head + r / count) * out->strides[1] +
                     (start + r % count) * out->strides[2];
        STORE_F[out->dtype](out->data + to * RL_SIZE[out->dtype], row, out->strides[3],
                            job->v_width);
    }
}

// Whether k or v has rows of n features: floats, or packed.
static RL_ONCE int fits_rows(const rl_operand *x, int64_t n) {
    if (x->dtype != RL_U8) return IS_FLOAT(x->dtype) && x->shape[3] == n;
    return n % 32 == 0 && x->shape[3] == packed_bytes(n) && x->strides[3] == 1;
}

static RL_ONCE void attention_item(void *ctx, int64_t item, int thread) {
    attention_job *job = ctx;
    attention_room room = {0};
    float *base = rl_scratch(thread, room_size(job, &room, NULL) * 4);
    if (!base) {
        job->failed = 1;
        return;
    }
    room_size(job, &room, base);
    int64_t start = item % job->blocks * job->queries, pair = item / job->blocks;
    int64_t groups = job->groups, first = 0;
#if RL_ROOM
    int64_t part = pair % job->parts * groups;
    pair /= job->parts;
    first = pair % job->kv_heads * (job->shared - groups) + part;
    groups = rl_min(groups, job->shared - part);
#endif
    int64_t head = pair % job->kv_heads;
    attend(job, &room, pair / job->kv_heads, head, head * job->groups + first, groups, start,
           rl_min(job->queries, job->length - start));
}

// out, q, k, v, bias, mask, q_offset, kv_lengths, sinks (1, heads, 1, 1); the last five are
// optional; attrs: scale, causal, window (-1: none), softcap (0: none).
static RL_ONCE int k_attention(const rl_call *c) {
    if (c->n != 9 || c->n_attrs != 4) return RL_REFUSED;
    const rl_operand *out = &c->op[0], *q = &c->op[1], *k = &c->op[2], *v = &c->op[3];
    for (int i = 0; i < 6; i++) {
        const rl_operand *x = &c->op[i];
        if (x->ndim < 0 && i > 3) continue;
        if (x->ndim != 4) return RL_REFUSED;
        if (i != 2 && i != 3 && !(i == 5 ? x->dtype == RL_BOOL : IS_FLOAT(x->dtype)))
            return RL_REFUSED;
        for (int d = 0; d < 4 && i > 3; d++)
            if (x->shape[d] != 1 && x->shape[d] != (d == 3 ? k->shape[2] : q->shape[d]))
                return RL_REFUSED;
    }
    const rl_operand *s = &c->op[8];
    if (s->ndim >= 0 && (s->ndim != 4 || !IS_FLOAT(s->dtype) || s->shape[1] != q->shape[1] ||
                         rl_numel(s) != s->shape[1]))
        return RL_REFUSED;
    for (int i = 6; i < 8; i++) {
        const rl_operand *x = &c->op[i];
        if (x->ndim >= 0 && (x->ndim != 1 || x->shape[0] != q->shape[0] || !IS_INT(x->dtype)))
            return RL_REFUSED;
    }
    attention_job job = {
        .call = c, .heads = q->shape[1], .kv_heads = k->shape[1], .length = q->shape[2],
        .keys = k->shape[2], .width = q->shape[3], .v_width = out->shape[3],
        .scale = (float)rl_double(c->attrs[0]), .causal = c->attrs[1] != 0,
        .window = c->attrs[2] < 0 ? -1 : rl_min(FAR, c->attrs[2]),
        .softcap = (float)rl_double(c->attrs[3])};
    if (!job.kv_heads || job.heads % job.kv_heads || k->shape[0] != q->shape[0] ||
        !fits_rows(k, job.width) || !fits_rows(v, job.v_width) || v->shape[0] != q->shape[0] ||
        v->shape[1] != job.kv_heads || v->shape[2] != job.keys || out->shape[0] != q->shape[0] ||
        out->shape[1] != job.heads || out->shape[2] != job.length)
        return RL_REFUSED;
    if (!rl_numel(out)) return RL_OK;
    job.groups = job.heads / job.kv_heads;
    int64_t parts = 1;
#if RL_ROOM
    // Of a single query's heads each part is one item, as threads have nothing else to share.
    job.shared = job.groups;
    if (job.length == 1 && job.groups > PART_HEADS) {
        parts = rl_min(MOST_PARTS, (job.groups + PART_HEADS - 1) / PART_HEADS);
        job.groups = (job.groups + parts - 1) / parts;
        parts = (job.shared + job.groups - 1) / job.groups;
    }
    job.parts = parts;
#endif
    job.queries = rl_min(job.length, rl_max(1, QUERIES / job.groups));
    job.blocks = (job.length + job.queries - 1) / job.queries;
    job.padded = (job.width + VF - 1) & ~(int64_t)(VF - 1);
    job.v_padded = (job.v_width + VF - 1) & ~(int64_t)(VF - 1);
    int64_t work = rl_times(rl_numel(out) / job.v_width, rl_times(job.keys, job.width / 8 + 1));
    run_items(q->shape[0] * job.kv_heads * parts * job.blocks, work, attention_item, &job);
    return job.failed ? RL_MEMORY : RL_OK;
}

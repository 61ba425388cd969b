// Weights in blocks as float32 (dequantize and embedding), and chunks of many rows.

// What a weight's rows are: `columns` elements of a type. codes: of its codebook, or NULL.
typedef struct {
    int type;
    const uint8_t *codes;
    int64_t columns;
} q_weight;

// `n` chunks of the row at `p` from number `first` on. The last of a row is filled up with what
// blocks of zeros give.
RL_SMALL static void qc_load(const q_weight *w, const uint8_t *p, int64_t first, int64_t n,
                             q_chunk *out) {
    int64_t bytes = q_bytes(w->type) * (QC_SIZE / q_block(w->type));
    int64_t whole = rl_min(n, w->columns / QC_SIZE - first);
    p += first * bytes;
    if (whole) qc_unpack(w->type, w->codes, p, whole, out);
    if (whole == n) return;
    uint8_t spare[288] = {0}; // a type of blocks of 256 has no such chunk
    rl_copy(spare, p + whole * bytes,
            (size_t)(w->columns % QC_SIZE / q_block(w->type) * q_bytes(w->type)));
    qc_unpack(w->type, w->codes, spare, 1, out + whole);
}

// Elements of one chunk as floats; `count` is a multiple of 32.
static void qc_floats(const q_chunk *c, int64_t count, float *out) {
    for (int64_t k = 0; k < count; k += 16) {
        vf v[16 / VF];
        q_floats(b16load((const uint8_t *)c->q + k), v);
        for (int i = 0; i < 16 / VF; i++)
            vstore(out + k + i * VF, vfma(v[i], vsplat(c->s[k / 16]), vsplat(c->m[k / 16])));
    }
}

// `count` elements of the row at `p` from column `first` on, which begins a chunk.
static void q_row_floats(const q_weight *w, const uint8_t *p, int64_t first, int64_t count,
                         float *out) {
    if (!q_is_chunked(w->type)) {
        q_widen(w->type, p + first / 32 * q_bytes(w->type), count / 32, out);
        return;
    }
    for (int64_t k = 0; k < count; k += QC_SIZE) {
        q_chunk c;
        qc_load(w, p, (first + k) / QC_SIZE, 1, &c);
        qc_floats(&c, rl_min(QC_SIZE, count - k), out + k);
    }
}

// Chunk number `chunk` of VF rows; rows from `rows` on are zeros.
static void qc_rows(const q_weight *w, const uint8_t *p, int64_t row, int64_t rows, int64_t chunk,
                    q_chunk out[VF]) {
    for (int64_t r = 0; r < VF; r++)
        if (r < rows) qc_load(w, p + r * row, chunk, 1, &out[r]);
        else rl_zero(&out[r], sizeof(q_chunk));
}

// 16 columns of VF rows: element r of q[k] has the numbers 4k .. 4k + 3 of row r as bytes.
RL_INLINE void qc_columns(const q_chunk c[VF], int64_t g, vi q[4], vf *s, vf *m) {
    const uint8_t *p = (const uint8_t *)c->q + 16 * g;
    const int64_t row = sizeof(q_chunk);
    for (int i = 0; i < 4; i++) q[i] = (vi)lanes16(p + i * row, 4 * row);
    transpose4(q);
    *s = (vf)q_words((const uint8_t *)(c->s + g), row);
    *m = (vf)q_words((const uint8_t *)(c->m + g), row);
}

// The codes of a weight's codebook in operand `number`; 0 if the type needs others.
RL_SMALL static int q_codes(const rl_call *c, int number, int type, const uint8_t **codes) {
    int64_t wanted = qc_codes(type);
    const rl_operand *x = &c->op[number];
    int given = c->n > number && x->ndim >= 0;
    *codes = given ? x->data : NULL;
    if (!given) return wanted == 0;
    return x->dtype == RL_U8 && x->ndim == 1 && x->shape[0] == wanted && x->strides[0] == 1;
}

// The offset of row r (over all dims but the last) in elements.
static int64_t q_row_at(const rl_operand *x, int64_t r) {
    int64_t at = 0;
    for (int d = x->ndim - 2; d >= 0; d--) at += r % x->shape[d] * x->strides[d], r /= x->shape[d];
    return at;
}

static int64_t q_rows(const rl_operand *x) {
    int64_t n = 1;
    for (int d = 0; d < x->ndim - 1; d++) n *= x->shape[d];
    return n;
}

RL_INLINE int q_is_block(const rl_operand *x) { return x->ndim >= 1 && q_block(x->dtype) > 1; }
// Whether an operand is float32 with a contiguous last dim.
RL_INLINE int q_is_rows(const rl_operand *x) {
    if (x->ndim < 1 || x->dtype != RL_F32) return 0;
    return x->strides[x->ndim - 1] == 1 || x->shape[x->ndim - 1] < 2;
}

typedef struct {
    const rl_call *call;
    const int64_t *named; // the indices, or NULL
    q_weight weight;
    int64_t rows, per;
} q_widen_job;

static void q_widen_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const q_widen_job *j = ctx;
    const rl_operand *out = &j->call->op[0], *w = &j->call->op[1];
    int64_t end = rl_min(j->rows, (item + 1) * j->per);
    for (int64_t r = item * j->per; r < end; r++) {
        int64_t at = j->named ? j->named[r] * w->strides[0] : q_row_at(w, r);
        float *to = (float *)out->data + q_row_at(out, r);
        const uint8_t *from = w->data + at / q_block(w->dtype) * q_bytes(w->dtype);
        q_row_floats(&j->weight, from, 0, j->weight.columns, to);
    }
}

// Blocks as float32: out[..., :] = w[..., :], or w[index[...], :] where there is an index.
RL_SMALL static int k_blocks_widen(const rl_call *c) {
    if (c->n < 3 || c->n > 4) return RL_REFUSED;
    const rl_operand *out = &c->op[0], *w = &c->op[1], *index = &c->op[2];
    if (!q_is_rows(out) || !q_is_block(w) || w->shape[w->ndim - 1] != out->shape[out->ndim - 1])
        return RL_REFUSED;
    q_widen_job job = {c, NULL, {w->dtype, NULL, w->shape[w->ndim - 1]}, q_rows(out), 1};
    int64_t columns = job.weight.columns;
    if (!q_codes(c, 3, w->dtype, &job.weight.codes)) return RL_REFUSED;
    if (index->ndim >= 0) {
        if (w->ndim != 2 || !is_index(index) || rl_numel(index) != job.rows) return RL_REFUSED;
        int64_t *named = columns ? rl_shared(job.rows * 8) : NULL;
        if (columns && !named) return RL_MEMORY;
        if (!copy_indices(named, index, job.rows, w->shape[0])) return RL_INDEX;
        job.named = named;
    } else if (q_rows(w) != job.rows)
        return RL_REFUSED;
    if (!job.rows || !columns) return RL_OK;
    job.per = rl_max(1, 8192 / columns);
    rl_parallel((job.rows + job.per - 1) / job.per, q_widen_item, &job);
    return RL_OK;
}

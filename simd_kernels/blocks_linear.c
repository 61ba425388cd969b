// linear and linear_t with weights in blocks, with and without experts. Rows are grouped by expert,
// and the threads share out pieces of weight rows (for linear_t: of columns).

typedef struct {
    int64_t expert, first, n, tile; // rows first .. first + n; the offset of their tiles
} ql_group;

typedef struct {
    int type, fast, transposed, failed;
    q_weight weight;
    const rl_operand *w, *bias;
    const float **x;
    float **out;
    ql_group *groups;
    uint8_t *tiles;
    int64_t row, bytes, expert_bytes; // stride of rows, bytes of a row, stride of experts
    int64_t blocks, columns, rows; // of the weight
    int64_t groups_n, pieces, per, tile, one; // bytes of a tile, of a row that is not in one
} ql_job;

static void ql_round(void *ctx, int64_t item, int thread) {
    (void)thread;
    ql_job *j = ctx;
    int64_t g = 0;
    while (g + 1 < j->groups_n && j->groups[g + 1].tile <= item) g++;
    const ql_group *group = &j->groups[g];
    int64_t r = (item - group->tile) * QF_ROWS;
    const float **x = j->x + group->first + r;
    uint8_t *to = j->tiles + item * j->tile;
    if (group->n > QX_FEW) {
        qf_tile(j->type, x, rl_min(QF_ROWS, group->n - r), j->blocks, to);
        return;
    }
    for (int64_t i = 0; i < group->n; i++, to += j->one)
        if (q_is_chunked(j->type)) qc_one(j->type, x[i], j->columns, to);
        else qf_one(j->type, x[i], j->blocks, to);
}

static void ql_item(void *ctx, int64_t item, int thread) {
    ql_job *j = ctx;
    const ql_group *g = &j->groups[item / j->pieces];
    int64_t at = item % j->pieces * j->per, ok = 1;
    const uint8_t *w = j->w->data + g->expert * j->expert_bytes;
    qx_rows rows = {j->x + g->first, j->out + g->first, g->n};
    if (j->transposed) {
        int64_t n = rl_min(j->per, j->columns - at);
        ok = qx_transposed(&j->weight, rows, w, j->row, j->rows, at, n, thread);
        if (!ok) __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    int64_t count = rl_min(j->per, j->rows - at);
    const float *bias = NULL;
    if (j->bias->ndim >= 0) bias = (const float *)j->bias->data + q_row_at(j->bias, g->expert) + at;
    w += at * j->row;
    const uint8_t *x = j->fast ? j->tiles + g->tile * j->tile : NULL;
    if (g->n <= QX_FEW && q_is_chunked(j->type))
        qc_vector(&j->weight, rows, x, j->one, w, j->row, count, bias, at);
    else if (j->fast && g->n <= QX_FEW) {
        const uint8_t *last = w + (j->rows - at - 1) * j->row + j->bytes - 16;
        ok = qf_vector(j->type, rows, x, j->one, w, j->row, count, j->blocks, last, bias, at,
                       thread);
    } else if (j->fast) {
        for (int64_t c = 0; c < count && ok; c += 32)
            ok = qf_matrix(&j->weight, x, j->tile, rows.out, g->n, w + c * j->row, j->row, at + c,
                           rl_min(32, count - c), bias ? bias + c : NULL, thread);
    } else if (g->n <= QX_FEW)
        qx_vector(j->type, rows, w, j->row, count, j->blocks, bias, at);
    else
        ok = qx_matrix(&j->weight, rows, w, j->row, at, count, bias, thread);
    if (!ok) __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}

// Rows in the order of their experts, and a group for each expert that has rows. named: room for
// the rows' indices.
RL_SMALL static int ql_group_rows(ql_job *j, const rl_operand *x, const rl_operand *out,
                                  const rl_operand *index, int64_t n, int64_t *named,
                                  int64_t experts) {
    const float *from = (const float *)x->data;
    float *to = (float *)out->data;
    if (index->ndim < 0) {
        for (int64_t r = 0; r < n; r++)
            j->x[r] = from + q_row_at(x, r), j->out[r] = to + q_row_at(out, r);
        j->groups[0] = (ql_group){0, 0, n, 0};
        j->groups_n = 1;
        return RL_OK;
    }
    if (!copy_indices(named, index, n, experts)) return RL_INDEX;
    int64_t place = 0, tile = 0;
    for (int64_t e = next_index(named, n, -1); e < experts; e = next_index(named, n, e)) {
        int64_t first = place;
        for (int64_t r = 0; r < n; r++)
            if (named[r] == e)
                j->x[place] = from + q_row_at(x, r), j->out[place++] = to + q_row_at(out, r);
        j->groups[j->groups_n++] = (ql_group){e, first, place - first, tile};
        tile += (place - first + QF_ROWS - 1) / QF_ROWS;
    }
    return RL_OK;
}

RL_SMALL static int ql_run(const rl_call *c, int transposed) {
    if (c->n < 5 || c->n > 6 || c->n_attrs != 1) return RL_REFUSED;
    const rl_operand *out = &c->op[0], *x = &c->op[1], *w = &c->op[2], *bias = &c->op[3];
    const rl_operand *index = &c->op[4];
    int experts = index->ndim >= 0, d = experts;
    if (!q_is_rows(out) || !q_is_rows(x) || !q_is_block(w) || w->ndim != 2 + d) return RL_REFUSED;
    ql_job j = {.type = w->dtype, .fast = !transposed && c->attrs[0] != 0, .transposed = transposed,
               .w = w, .bias = bias, .rows = w->shape[d], .columns = w->shape[d + 1]};
    j.weight = (q_weight){j.type, NULL, j.columns};
    if (!q_codes(c, 5, j.type, &j.weight.codes)) return RL_REFUSED;
    int64_t n = q_rows(x), count = experts ? w->shape[0] : 1;
    int64_t in = transposed ? j.rows : j.columns, columns = transposed ? j.columns : j.rows;
    if (x->shape[x->ndim - 1] != in || out->shape[out->ndim - 1] != columns || q_rows(out) != n)
        return RL_REFUSED;
    if (experts && (!is_index(index) || rl_numel(index) != n)) return RL_REFUSED;
    if (bias->ndim >= 0 && (transposed || !q_is_rows(bias) || bias->ndim != 1 + d ||
                            bias->shape[d] != j.rows || (d && bias->shape[0] != count)))
        return RL_REFUSED;
    int64_t bytes = q_bytes(j.type), block = q_block(j.type);
    j.blocks = j.columns / 32;
    j.row = w->strides[d] / block * bytes, j.bytes = j.columns / block * bytes;
    j.expert_bytes = experts ? w->strides[0] / block * bytes : 0;
    if (!n || !columns) return RL_OK;
    if (!j.blocks) j.fast = 0; // nothing to round
    int64_t groups = rl_min(n, count), tiles = n / QF_ROWS + groups;
    if (j.fast) {
        const int unit = QF_UNIT(j.type);
        j.one = q_is_chunked(j.type) ? (j.columns + QC_SIZE - 1) / QC_SIZE * qc_one_bytes(j.type)
                                     : j.blocks * QF_ONE;
        j.tile = rl_max(rl_min(n, QX_FEW) * j.one, n == 1 ? 0 : j.columns / unit * QF_TILE(unit));
    }
    int64_t words = (2 * n + (experts ? n : 0)) * 8 + groups * (int64_t)sizeof(ql_group);
    words = (words + 63) / 64 * 64;
    uint8_t *memory = rl_shared(words + tiles * j.tile);
    if (!memory) return RL_MEMORY;
    j.tiles = memory + words;
    j.x = (void *)memory, j.out = (void *)(memory + 8 * n);
    j.groups = (void *)(memory + 16 * n);
    int64_t *named = (void *)(memory + 16 * n + groups * (int64_t)sizeof(ql_group));
    int code = ql_group_rows(&j, x, out, index, n, named, count);
    if (code) return code;
    if (j.fast) {
        const ql_group *last = &j.groups[j.groups_n - 1];
        int64_t items = last->tile + (last->n + QF_ROWS - 1) / QF_ROWS;
        if (items == 1) ql_round(&j, 0, 0);
        else rl_parallel(items, ql_round, &j);
    }
    if (transposed) j.per = QT_COLUMNS, j.pieces = (j.columns + QT_COLUMNS - 1) / QT_COLUMNS;
    else {
        // Pieces large enough to pay for the dispatch, and enough of them for all threads.
        j.per = j.rows >= 1024 && n <= QX_FEW ? 64 : 32;
        j.pieces = (j.rows + j.per - 1) / j.per;
    }
    rl_parallel(j.groups_n * j.pieces, ql_item, &j);
    return j.failed ? RL_MEMORY : RL_OK;
}

// out = x @ w.T + bias. Operands: out, x, w, bias, index, and the codes of the type's codebook.
// With an index, w and bias are stacks, and the index chooses one per row. Attribute: 1 if
// activations are rounded.
static int k_blocks_linear(const rl_call *c) { return ql_run(c, 0); }
// out = x @ w, always in float32, because its sums do not run along blocks.
static int k_blocks_linear_t(const rl_call *c) { return ql_run(c, 1); }

// Kernels of products: matmul and linear, linear with experts, and embedding.

static int64_t shared_floats(const product *p);

static matrix matrix_of(const rl_operand *x) {
    int d = x->ndim - 2;
    matrix out = {x->data, x->dtype, x->strides[d], x->strides[d + 1]};
    return out;
}

// With few columns and many rows the product of the transposed matrices is faster.
static product turned(const product *p) {
    product t = *p;
    t.m = p->n, t.n = p->m;
    matrix *to[] = {&t.c, &t.a, &t.b, &t.bias};
    const matrix *from[] = {&p->c, &p->b, &p->a, &p->bias};
    for (int i = 0; i < 4; i++) {
        *to[i] = *from[i];
        to[i]->row = from[i]->col, to[i]->col = from[i]->row;
    }
    for (int d = 0; d < p->dims; d++) t.step[1][d] = p->step[2][d], t.step[2][d] = p->step[1][d];
    return t;
}

static product prepared(const product *p) {
    product t = *p;
    if (t.n < t.m && t.n <= FEW_ROWS) t = turned(&t);
    // A dim of size one may have any stride.
    if (t.k == 1) t.a.col = t.b.row = 1;
    if (t.n == 1) t.b.col = t.c.col = 1;
    if (t.m == 1) t.a.row = t.c.row = 1;
    return t;
}

static int64_t shared_floats(const product *p) {
    product t = prepared(p);
    return gemv_fits(&t) ? gemv_shared(&t) : 0;
}

static int run_product(const product *p, float *shared) {
    if (!p->m || !p->n || !p->batch) return RL_OK;
    if (!p->k) {
        static const float zeros[64];
        for (int64_t i = 0; i < p->batch; i++) {
            product one = nth(p, i);
            for (int64_t r = 0; r < p->m; r++)
                for (int64_t j = 0; j < p->n; j += 64)
                    finish(&one, r, j, zeros, rl_min(64, p->n - j));
        }
        return RL_OK;
    }
    product t = prepared(p);
    return gemv_fits(&t) ? gemv(&t, shared) : gemm(&t);
}

// out (..., m, n) = a (..., m, k) @ b (..., k, n) + bias (n): any float dtypes and strides.
static int k_product(const rl_call *c) {
    const rl_operand *out = &c->op[0], *a = &c->op[1], *b = &c->op[2], *bias = &c->op[3];
    if (c->n < 3 || c->n > 4 || out->ndim < 2 || a->ndim != out->ndim ||
        b->ndim != out->ndim)
        return RL_REFUSED;
    if (!IS_FLOAT(out->dtype) || !IS_FLOAT(a->dtype) || !IS_FLOAT(b->dtype)) return RL_REFUSED;
    int d = out->ndim - 2;
    product p = {.m = out->shape[d], .n = out->shape[d + 1], .k = a->shape[d + 1], .batch = 1,
                 .c = matrix_of(out), .a = matrix_of(a), .b = matrix_of(b), .dims = d};
    if (a->shape[d] != p.m || b->shape[d] != p.k || b->shape[d + 1] != p.n) return RL_REFUSED;
    for (int i = 0; i < d; i++) {
        if (a->shape[i] != out->shape[i] || b->shape[i] != out->shape[i]) return RL_REFUSED;
        p.shape[i] = out->shape[i], p.batch *= out->shape[i];
        p.step[0][i] = out->strides[i], p.step[1][i] = a->strides[i], p.step[2][i] = b->strides[i];
    }
    if (c->n == 4 && bias->data) {
        if (bias->ndim != 1 || bias->shape[0] != p.n || !IS_FLOAT(bias->dtype)) return RL_REFUSED;
        p.bias = (matrix){bias->data, bias->dtype, 0, bias->strides[0]};
    }
    float *shared = rl_shared(shared_floats(&p) * 4);
    return shared ? run_product(&p, shared) : RL_MEMORY;
}

// Whether the leading dims of x are those of index; x has `more` dims than it.
static int led_by(const rl_operand *x, const rl_operand *index, int more) {
    int same = x->ndim == index->ndim + more && is_index(index);
    for (int d = 0; same && d < index->ndim; d++) same = x->shape[d] == index->shape[d];
    return same;
}

// out[r] = x[r] @ w[index[r]] + bias[index[r]]: x (..., k), w (experts, k, n), index (...), bias
// (experts, n).
static int k_product_experts(const rl_call *c) {
    const rl_operand *out = &c->op[0], *x = &c->op[1], *w = &c->op[2], *index = &c->op[3];
    const rl_operand *bias = &c->op[4];
    if (c->n < 4 || c->n > 5 || w->ndim != 3 || index->ndim < 0 ||
        !led_by(out, index, 1) || !led_by(x, index, 1))
        return RL_REFUSED;
    if (!IS_FLOAT(out->dtype) || !IS_FLOAT(x->dtype) || !IS_FLOAT(w->dtype)) return RL_REFUSED;
    int last = index->ndim;
    int64_t rows = rl_numel(index), n = out->shape[last], k = x->shape[last], experts = w->shape[0];
    if (w->shape[1] != k || w->shape[2] != n) return RL_REFUSED;
    int with_bias = c->n == 5 && bias->data;
    if (with_bias && (bias->ndim != 2 || bias->shape[0] != experts || bias->shape[1] != n ||
                      !IS_FLOAT(bias->dtype)))
        return RL_REFUSED;
    matrix from = {NULL, x->dtype, 0, x->strides[last]};
    matrix to = {NULL, out->dtype, 0, out->strides[last]};
    product p = {.n = n, .k = k, .batch = 1, .b = matrix_of(w)};
    // Up to `wide` rows of one expert are gathered side by side. `floats`: the shared memory of the
    // products. The first part of the shared memory holds the order of the rows.
    int64_t wide = rl_min(rows, 1024), floats = 0;
    int64_t in = k * RL_SIZE[x->dtype], made = n * RL_SIZE[out->dtype];
    for (p.m = 1; p.m <= wide && p.m <= 16; p.m++) {
        p.a = p.m > 1 ? (matrix){NULL, x->dtype, k, 1} : from;
        floats = rl_max(floats, shared_floats(&p));
    }
    for (p.m = wide; n <= FEW_ROWS && p.m > 16; p.m = 0) floats = rl_max(floats, shared_floats(&p));
    int64_t *named = rl_shared(rows * 16 + wide * (in + made) + floats * 4 + 8);
    if (!named) return RL_MEMORY;
    int64_t *order = named + rows;
    float *shared = (float *)(void *)(order + rows);
    uint8_t *packed = (uint8_t *)(shared + floats), *results = packed + (wide * in + 7) / 8 * 8;
    if (!copy_indices(named, index, rows, experts)) return RL_INDEX;
    int64_t x_size = RL_SIZE[x->dtype], size = RL_SIZE[out->dtype];
    for (int64_t e = next_index(named, rows, -1); e < experts; e = next_index(named, rows, e)) {
        int64_t count = 0;
        for (int64_t r = 0; r < rows; r++)
            if (named[r] == e) order[count++] = r;
        p.b.data = w->data + e * w->strides[0] * RL_SIZE[w->dtype];
        if (with_bias) {
            p.bias = (matrix){bias->data, bias->dtype, 0, bias->strides[1]};
            p.bias.data += e * bias->strides[0] * RL_SIZE[bias->dtype];
        }
        for (int64_t done = 0; done < count; done += p.m) {
            p.m = rl_min(wide, count - done);
            p.a = from, p.c = to;
            p.a.data = element_at(x, order[done], 1), p.c.data = element_at(out, order[done], 1);
            if (p.m > 1) {
                p.a = (matrix){packed, x->dtype, k, 1}, p.c = (matrix){results, out->dtype, n, 1};
                for (int64_t r = 0; r < p.m; r++)
                    move_run(packed + r * in, element_at(x, order[done + r], 1), k, 1, from.col,
                             x_size);
            }
            int code = run_product(&p, shared);
            if (code) return code;
            for (int64_t r = 0; p.m > 1 && r < p.m; r++)
                move_run(element_at(out, order[done + r], 1), results + r * made, n, to.col, 1,
                         size);
        }
    }
    return RL_OK;
}

// out[...] = table[index[...]]: rows of a table of floats, copied in their stored form.
static int k_embedding(const rl_call *c) {
    const rl_operand *out = &c->op[0], *table = &c->op[1], *index = &c->op[2];
    if (c->n != 3 || table->ndim != 2 || index->ndim < 0 || !led_by(out, index, 1))
        return RL_REFUSED;
    int64_t rows = rl_numel(index), n = table->shape[1], size = RL_SIZE[out->dtype];
    if (!IS_FLOAT(out->dtype) || table->dtype != out->dtype || out->shape[index->ndim] != n)
        return RL_REFUSED;
    int64_t *named = n ? rl_shared(rows * 8) : NULL;
    if (n && !named) return RL_MEMORY;
    if (!copy_indices(named, index, rows, table->shape[0])) return RL_INDEX;
    if (!n) return RL_OK;
    for (int64_t r = 0; r < rows; r++)
        move_run(element_at(out, r, 1), table->data + named[r] * table->strides[0] * size, n,
                 out->strides[index->ndim], table->strides[1], size);
    return RL_OK;
}

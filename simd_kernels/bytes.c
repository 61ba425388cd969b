// Products of matrices of bytes, exact, in 32-bit integers: two products of 16-bit numbers are
// added at a time, which nothing can saturate.
//
// The first operand's rows become 16-bit numbers less their zero point, the second operand's
// columns panels of signed bytes; the second one's zero points are taken off the sums.

#if VF == 16
#define BYTE_ROWS 12
#else
#define BYTE_ROWS 6
#endif
#define BYTE_COLS (2 * VF)
#define BYTE_BLOCK (192 << 10) // bytes of rows that are multiplied with one panel after another
#define BYTE_FEW 4             // panels of an item, at most

typedef struct {
    const rl_call *call;
    int64_t m, n, k, pairs, batch, a_row; // a_row: 16-bit numbers of a row
    int64_t block, group, down, across;   // rows and panels of an item; items
    int a_once, b_once;                   // whether the whole batch shares the operand
    int16_t *rows;
    int32_t *sums;       // of the rows
    const uint8_t *kept; // the panels of all columns, or NULL
} byte_job;

static int64_t byte_panel(int64_t k) { return (k + 1) / 2 * 2 * BYTE_COLS; }

// The first element of matrix `index` of the batch.
static const uint8_t *byte_matrix(const rl_operand *x, int64_t index) {
    int64_t at = 0;
    for (int d = x->ndim - 3; d >= 0; d--) {
        at += index % x->shape[d] * x->strides[d];
        index /= x->shape[d];
    }
    return x->data + at * RL_SIZE[x->dtype];
}

static int32_t byte_at(const rl_operand *x, int64_t row, int64_t col) {
    if (x->ndim < 0) return 0;
    const uint8_t *at = x->data + row * x->strides[x->ndim - 2] + col * x->strides[x->ndim - 1];
    return x->dtype == RL_I8 ? (int8_t)*at : *at;
}

// Rows of the first operand, an item each.
static void byte_rows_item(void *ctx, int64_t item, int thread) {
    const byte_job *job = ctx;
    const rl_operand *a = &job->call->op[1];
    int64_t row = item % job->m, step = a->strides[a->ndim - 1], k = job->k;
    const uint8_t *from = byte_matrix(a, item / job->m) + row * a->strides[a->ndim - 2];
    int16_t *to = job->rows + item * job->a_row;
    int16_t zero = (int16_t)byte_at(&job->call->op[3], row, 0);
    int32_t sum = 0;
    (void)thread;
    if (a->dtype == RL_I8 && step == 1)
        for (int64_t i = 0; i < k; i++) to[i] = (int16_t)((int8_t)from[i] - zero);
    else if (step == 1)
        for (int64_t i = 0; i < k; i++) to[i] = (int16_t)(from[i] - zero);
    else
        for (int64_t i = 0; i < k; i++) {
            uint8_t x = from[i * step];
            to[i] = (int16_t)((a->dtype == RL_I8 ? (int8_t)x : x) - zero);
        }
    for (int64_t i = 0; i < k; i++) sum += to[i];
    for (int64_t i = k; i < job->a_row; i++) to[i] = 0;
    job->sums[item] = sum;
}

// A panel of n columns from `from` on, with zeros after them and after an odd number of rows.
static void byte_pack(const rl_operand *b, const uint8_t *from, int64_t k, int64_t n, uint8_t *to) {
    int64_t row = b->strides[b->ndim - 2], col = b->strides[b->ndim - 1];
    uint8_t flip = b->dtype == RL_U8 ? 0x80 : 0;
    uint16_t flips = (uint16_t)(flip << 8 | flip);
    if (n < BYTE_COLS || (k & 1)) rl_zero(to, (size_t)byte_panel(k));
    for (int64_t i = 0; i < k / 2; i++, from += 2 * row, to += 2 * BYTE_COLS) {
        if (col == 1 && n == BYTE_COLS) {
            typedef uint8_t line __attribute__((vector_size(BYTE_COLS)));
            typedef uint16_t pair __attribute__((vector_size(2 * BYTE_COLS)));
            line even, odd;
            __builtin_memcpy(&even, from, sizeof even);
            __builtin_memcpy(&odd, from + row, sizeof odd);
            pair both = __builtin_convertvector(even, pair);
            both = (both | __builtin_convertvector(odd, pair) << 8) ^ flips;
            __builtin_memcpy(to, &both, sizeof both);
        } else
            for (int64_t j = 0; j < n; j++) {
                to[2 * j] = from[j * col] ^ flip;
                to[2 * j + 1] = from[row + j * col] ^ flip;
            }
    }
    for (int64_t j = 0; (k & 1) && j < n; j++) to[2 * j] = from[j * col] ^ flip;
}

// Two products are added to each element.
RL_INLINE vi byte_dot(vi sum, vs a, vs b) {
#if defined(__AVX512VNNI__)
    return (vi)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#else
    return sum + madd16(a, b);
#endif
}

RL_INLINE void byte_tile(const int rows, int64_t pairs, const int16_t *a, int64_t a_row,
                         const uint8_t *b, int32_t *to) {
    vi sum[BYTE_ROWS][2];
    const int16_t *row[BYTE_ROWS];
    for (int r = 0; r < rows; r++) {
        sum[r][0] = sum[r][1] = (vi){};
        row[r] = a + r * a_row;
#if defined(__x86_64__) && BYTE_ROWS <= 6
        __asm__("" : "+r"(row[r])); // a register each, or one's address is made of another's
#endif
    }
    for (int64_t i = 0; i < pairs; i++, b += 2 * BYTE_COLS) {
        vs low = widen8((const int8_t *)b), high = widen8((const int8_t *)b + BYTE_COLS);
        for (int r = 0; r < rows; r++) {
            vs x = (vs)visplat_at(row[r] + 2 * i);
            sum[r][0] = byte_dot(sum[r][0], x, low);
            sum[r][1] = byte_dot(sum[r][1], x, high);
        }
    }
    for (int r = 0; r < rows; r++, to += BYTE_COLS)
        vistore(to, sum[r][0]), vistore(to + VF, sum[r][1]);
}

static void byte_tiles(int rows, int64_t pairs, const int16_t *a, int64_t a_row, const uint8_t *b,
                       int32_t *to) {
    switch (rows) {
#define TILE(rows)                                                                                 \
    case rows: byte_tile(rows, pairs, a, a_row, b, to); break;
        TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#if BYTE_ROWS == 12
        TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12)
#endif
#undef TILE
    }
}

// What is done to the sums of a panel's columns: a number of each column, or one of the row in
// all of them.
typedef struct {
    int32_t zero[BYTE_COLS]; // of the second operand
    int32_t whole[BYTE_COLS];
    float bias[BYTE_COLS], scale[BYTE_COLS];
    float low, high, offset;
} byte_end;

static void byte_numbers(const rl_operand *x, int64_t i, int64_t j, int64_t n, void *to) {
    int64_t col = x->strides[x->ndim - 1];
    const uint8_t *from = x->data + (i * x->strides[x->ndim - 2] + j * col) * 4;
    if (!col) {
        vistore(to, visplat_at(from)), vistore((int32_t *)to + VF, visplat_at(from));
        return;
    }
    for (int64_t c = 0; c < n; c++) rl_copy((uint8_t *)to + 4 * c, from + c * col * 4, 4);
}

// The columns from j on; what is of the row is read again for each row.
RL_INLINE void byte_end_at(const rl_operand *x, int64_t i, int64_t j, int64_t n, int first,
                           void *to) {
    if (x->ndim >= 0 && (first || x->strides[x->ndim - 2])) byte_numbers(x, i, j, n, to);
}

// A row of a tile: VF columns at once, of memory for all of a panel's. `biased`: 1 for floats, 2
// for integers.
RL_INLINE void byte_finish(const int dtype, const int biased, const int32_t *sums, int32_t row_sum,
                           const byte_end *e, uint8_t *to) {
    vu times = (vu)visplat(row_sum);
    for (int c = 0; c < BYTE_COLS; c += VF) {
        vi x = (vi)((vu)viload(sums + c) - times * (vu)viload(e->zero + c));
        if (dtype == RL_I32) {
            vistore(to + 4 * c, x);
            continue;
        }
        if (biased == 2) x = (vi)((vu)x + (vu)viload(e->whole + c));
        vf y = __builtin_convertvector(x, vf) * vload(e->scale + c);
        if (biased == 1) y = y + vload(e->bias + c);
        if (dtype == RL_F32) {
            vstore(to + 4 * c, y);
            continue;
        }
        y = vrint(y) + e->offset;
        vi known = y == y;
        y = vmin(vmax(y, vsplat(e->low)), vsplat(e->high));
        vbstore(to + c, __builtin_convertvector(__builtin_convertvector(y, vi) & known, vbytes));
    }
}

static void byte_finish_row(const rl_call *call, const int32_t *sums, int32_t row_sum,
                            const byte_end *e, uint8_t *to, int64_t n) {
    int size = (int)RL_SIZE[call->op[0].dtype];
    int biased = call->op[5].ndim < 0 ? 0 : call->op[5].dtype == RL_F32 ? 1 : 2;
    __attribute__((aligned(64))) uint8_t row[BYTE_COLS * 4];
    uint8_t *at = n == BYTE_COLS ? to : row;
    if (size == 1 && biased == 1) byte_finish(RL_U8, 1, sums, row_sum, e, at);
    else if (size == 1 && biased) byte_finish(RL_U8, 2, sums, row_sum, e, at);
    else if (size == 1) byte_finish(RL_U8, 0, sums, row_sum, e, at);
    else if (call->op[0].dtype == RL_I32) byte_finish(RL_I32, 0, sums, row_sum, e, at);
    else if (biased) byte_finish(RL_F32, 1, sums, row_sum, e, at);
    else byte_finish(RL_F32, 0, sums, row_sum, e, at);
    if (at == row) rl_copy(to, row, (size_t)(n * size));
}

static void byte_item(void *ctx, int64_t item, int thread) {
    const byte_job *job = ctx;
    const rl_call *call = job->call;
    const rl_operand *out = &call->op[0], *b = &call->op[2], *bias = &call->op[5];
    int64_t tiles = job->down * job->across, index = item / tiles, place = item % tiles;
    int64_t i0 = place / job->across * job->block, i1 = rl_min(job->m, i0 + job->block);
    int64_t p0 = place % job->across * job->group, panel = byte_panel(job->k);
    int64_t first = job->a_once ? 0 : index * job->m, size = RL_SIZE[out->dtype];
    uint8_t *own = rl_scratch(thread, 0);
    const uint8_t *columns = byte_matrix(b, index);
    uint8_t *result = (uint8_t *)(uintptr_t)byte_matrix(out, index);
    int flip = b->dtype == RL_U8 ? 128 : 0;
    int32_t tile[BYTE_ROWS * BYTE_COLS];
    byte_end e = {.low = out->dtype == RL_I8 ? -128 : 0, .high = out->dtype == RL_I8 ? 127 : 255};
    e.offset = (float)byte_at(&call->op[7], 0, 0);
    for (int64_t p = p0; p < p0 + job->group && p * BYTE_COLS < job->n; p++) {
        int64_t j = p * BYTE_COLS, n = rl_min(BYTE_COLS, job->n - j);
        const uint8_t *packed = own;
        if (job->kept) packed = job->kept + p * panel;
        else byte_pack(b, columns + j * b->strides[b->ndim - 1], job->k, n, own);
        for (int64_t c = 0; c < n; c++) e.zero[c] = byte_at(&call->op[4], 0, j + c) - flip;
        int64_t strips = (i1 - i0 + BYTE_ROWS - 1) / BYTE_ROWS; // of nearly equal numbers of rows
        for (int64_t i = i0, left = strips; left; left--) {
            int rows = (int)((i1 - i + left - 1) / left);
            byte_tiles(rows, job->pairs, job->rows + (first + i) * job->a_row, job->a_row, packed,
                       tile);
            for (int r = 0; r < rows; r++) {
                byte_end_at(bias, i + r, j, n, i == i0 && !r,
                            bias->dtype == RL_F32 ? (void *)e.bias : (void *)e.whole);
                byte_end_at(&call->op[6], i + r, j, n, i == i0 && !r, e.scale);
                byte_finish_row(call, tile + r * BYTE_COLS, job->sums[first + i + r], &e,
                            result + ((i + r) * out->strides[out->ndim - 2] + j) * size, n);
            }
            i += rows;
        }
    }
}

// Whether all matrices of the batch are one.
static int byte_once(const rl_operand *x) {
    int once = 1;
    for (int d = 0; d < x->ndim - 2; d++) once &= x->shape[d] == 1 || !x->strides[d];
    return once;
}

static int is_bytes(const rl_operand *x) { return x->dtype == RL_U8 || x->dtype == RL_I8; }

// An operand of matrices, or none: of bytes, or of numbers of `dtype`.
static int byte_fits(const rl_operand *x, int dtype) {
    return x->ndim < 0 || (x->ndim >= 2 && (dtype < 0 ? is_bytes(x) : x->dtype == dtype));
}

// Panels of all columns of a matrix; into one int64, how many bytes they take.
static int k_byte_keep(const rl_call *call) {
    const rl_operand *to = &call->op[0], *b = &call->op[1];
    if (call->n != 2 || b->ndim != 2 || !is_bytes(b)) return RL_REFUSED;
    int64_t k = b->shape[0], n = b->shape[1], panels = (n + BYTE_COLS - 1) / BYTE_COLS;
    int64_t bytes = rl_times(panels, byte_panel(k));
    if (to->dtype == RL_I64) {
        rl_copy(to->data, &bytes, 8);
        return RL_OK;
    }
    if (to->dtype != RL_U8 || to->ndim != 1 || to->strides[0] != 1 || to->shape[0] < bytes)
        return RL_REFUSED;
    for (int64_t p = 0, j = 0; p < panels; p++, j += BYTE_COLS)
        byte_pack(b, b->data + j * b->strides[1], k, rl_min(BYTE_COLS, n - j),
                  to->data + p * byte_panel(k));
    return RL_OK;
}

// out, a, b, zero points of a's rows and of b's columns, bias, scale, zero point of the result,
// panels of b. Other operands than those of the batch are matrices that are broadcast by strides.
static int k_byte_product(const rl_call *call) {
    const rl_operand *out = &call->op[0], *a = &call->op[1], *b = &call->op[2];
    const rl_operand *bias = &call->op[5], *scale = &call->op[6], *kept = &call->op[8];
    if (call->n != 9 || out->ndim < 2 || a->ndim != out->ndim || b->ndim != out->ndim)
        return RL_REFUSED;
    int to_float = out->dtype == RL_F32, sums = out->dtype == RL_I32;
    if (!is_bytes(a) || !is_bytes(b) || !(to_float || sums || is_bytes(out))) return RL_REFUSED;
    if (!byte_fits(&call->op[3], -1) || !byte_fits(&call->op[4], -1) ||
        !byte_fits(&call->op[7], -1) || !byte_fits(scale, RL_F32) ||
        !(byte_fits(bias, RL_F32) || (!to_float && byte_fits(bias, RL_I32))))
        return RL_REFUSED;
    if (sums ? scale->ndim >= 0 || bias->ndim >= 0 : scale->ndim < 0) return RL_REFUSED;
    int nd = out->ndim;
    byte_job job = {.call = call, .m = out->shape[nd - 2], .n = out->shape[nd - 1],
                    .k = a->shape[nd - 1], .batch = 1};
    if (out->strides[nd - 1] != 1 && job.n > 1) return RL_REFUSED;
    for (int i = 3; i < 8; i++) {
        const rl_operand *x = &call->op[i];
        int64_t rows = i == 4 || i == 7 ? 1 : job.m, cols = i == 3 || i == 7 ? 1 : job.n;
        if (x->ndim >= 0 && (x->ndim != 2 || x->shape[0] != rows || x->shape[1] != cols))
            return RL_REFUSED;
    }
    for (int d = 0; d < nd - 2; d++) {
        if (a->shape[d] != out->shape[d] || b->shape[d] != out->shape[d]) return RL_REFUSED;
        job.batch *= out->shape[d];
    }
    if (a->shape[nd - 2] != job.m || b->shape[nd - 1] != job.n || b->shape[nd - 2] != job.k)
        return RL_REFUSED;
    if (!job.m || !job.n || !job.batch) return RL_OK;
    job.pairs = (job.k + 1) / 2, job.a_row = job.pairs * 2;
    job.a_once = byte_once(a), job.b_once = byte_once(b);
    int64_t panel = byte_panel(job.k), panels = (job.n + BYTE_COLS - 1) / BYTE_COLS;
    if (kept->ndim >= 0) {
        if (!job.b_once || kept->dtype != RL_U8 || kept->ndim != 1 || kept->strides[0] != 1 ||
            kept->shape[0] < panels * panel)
            return RL_REFUSED;
        job.kept = kept->data;
    }
    int64_t lines = job.m * (job.a_once ? 1 : job.batch);
    int64_t bytes = rl_times(rl_times(lines, job.a_row), 2), more = rl_times(lines, 4);
    if (bytes > INT64_MAX / 2 || more > INT64_MAX / 2) return RL_MEMORY;
    bytes = (bytes + 63) & ~(int64_t)63;
    if (!reserve(panel)) return RL_MEMORY;
    uint8_t *room = rl_shared(bytes + more);
    if (!room) return RL_MEMORY;
    job.rows = (int16_t *)(void *)room, job.sums = (int32_t *)(void *)(room + bytes);
    double work = 0.5 * (double)job.m * (double)job.n * (double)job.k * (double)job.batch;
    share_out(work > 4e6 ? 0.5 * (double)lines * (double)job.k : 0, lines, byte_rows_item, &job);
    int64_t most = BYTE_BLOCK / 2 / rl_max(job.a_row, 1) / BYTE_ROWS * BYTE_ROWS;
    job.block = rl_min(job.m, rl_max(most, 4 * BYTE_ROWS));
    job.group = job.kept ? rl_min(panels, BYTE_FEW) : 1;
    int64_t wanted = rl_threads() == 1 ? 1 : 3 * rl_threads();
    for (;;) {
        job.down = (job.m + job.block - 1) / job.block;
        job.across = (panels + job.group - 1) / job.group;
        if (job.down * job.across * job.batch >= wanted) break;
        if (job.group > 1) job.group /= 2;
        else if (job.block > 4 * BYTE_ROWS)
            job.block = (job.block / 2 + BYTE_ROWS - 1) / BYTE_ROWS * BYTE_ROWS;
        else break;
    }
    share_out(work, job.down * job.across * job.batch, byte_item, &job);
    return RL_OK;
}

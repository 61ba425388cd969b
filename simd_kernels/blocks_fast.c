// Products of weights in blocks with activations that are rounded to integers in blocks of 32.
//
// A block of 32 activations becomes integers q = round(x * QF_MOST / max |x|) and the float32
// d = max |x| / QF_MOST. A product is dw * d * sum(qw * q) + mw * d * sum(q), with exact sums.
// llama.cpp rounds to 8 bits. With 8 bits the likeliest token of a small model differs in 2 to 5 of
// 100 places, so this file rounds to 16 bits. Where the processor multiplies bytes, q is split into
// 256 * high + low, both within -127..127. Where it multiplies 16-bit numbers, q is used as it is.
// A block with NaN or infinity has d = NaN and gives NaN. A block whose largest number is below
// QF_TINY counts as zeros.
#define QF_TINY 1e-30f
#define QF_MOST 32512 // 127 * 256

#if VF == 16
#define QF_ROWS 8 // activation rows of a tile
#define QF_TOGETHER 2 // vectors of weight rows per pass of one activation row
#else
#define QF_ROWS 4
#define QF_TOGETHER 2
#endif
#define QF_WIDE(type) ((type) == RL_Q8_0 ? WIDE8 : WIDE4)
// In tiles unpacking costs little, so without DOT32 16-bit numbers are faster.
#define QF_WORDS (!DOT32)
// Stored numbers are too large by this. The sum of a symmetric dtype is corrected in integers.
#define QF_SIGNED(type) ((type) == RL_Q8_0 || (q_is_chunked(type) && !q_least(type)))
#define QF_LESS(type) (QF_SIGNED(type) ? BIAS8 : q_less(type))

// The layout of a block of one activation row: 32 numbers, then d, d * sum, and four words that add
// up to -QF_LESS * sum. If QF_WIDE, the numbers are in the order: even elements of 0..15, even ones
// of 16..31, odd ones of 0..15, odd ones of 16..31. Otherwise their high bytes come first, then the
// low ones. The four words are the parts of a lane's elements if these are converted to float one
// by one. If a block is summed first, the first word is the whole.
// The layout of a unit of a tile, which are `unit` elements with one scale: the numbers of QF_ROWS
// rows in twos (if QF_WORDS; otherwise in fours, the high bytes of all rows, then the low ones),
// then d of each row, then d * sum or, for a symmetric dtype, -QF_LESS * sum.
#define QF_ONE 96
#define QF_UNIT(type) (qc_is_fine(type) ? 16 : 32)
#define QF_TILE(unit) (QF_ROWS * (2 * (unit) + 8))
// The layout of a unit of VF weight rows: the numbers likewise, scales, minimums.
#define QF_NUMBERS(unit) (VF * (QF_WORDS ? 2 : 1) * (unit))
#define QF_PANEL(unit) (QF_NUMBERS(unit) + 8 * VF)

// Rounds 32 activations to integers; gives d and the integers' sum.
Q_APART float qf_round(const float *x, int32_t q[32], int32_t *sum) {
    enum { N = 32 / VF };
    vf v[N];
    vi top = {0}, total = {0};
    for (int i = 0; i < N; i++) {
        v[i] = vload(x + i * VF);
        vi size = (vi)v[i] & 0x7fffffff; // positive floats have the order of their bits
        top = (top & (vi)(top > size)) | (size & (vi)(top <= size));
    }
    int32_t most = 0;
    for (int i = 0; i < VF; i++) most = top[i] > most ? top[i] : most;
    float size;
    rl_copy(&size, &most, 4);
    *sum = 0;
    if (most >= 0x7f800000 || size < QF_TINY) {
        for (int i = 0; i < N; i++) vistore(q + i * VF, (vi){0});
        return most >= 0x7f800000 ? __builtin_nanf("") : 0;
    }
    // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, which is then in the low bits.
    vf by = vsplat(QF_MOST / size), shift = vsplat(12582912);
    for (int i = 0; i < N; i++) {
        vi n = (vi)(v[i] * by + shift) - (vi)shift;
        n -= (vi)((n & 255) == 128); // add 1 if the low byte would be -128
        vistore(q + i * VF, n);
        total += n;
    }
    for (int i = 0; i < VF; i++) *sum += total[i];
    return size / QF_MOST;
}

// The low bytes of four numbers as a word, or their high bytes after adding 128.
RL_INLINE int32_t qf_word(const int32_t n[4], int high) {
    uint32_t word = 0;
    for (int i = 0; i < 4; i++) {
        int32_t x = high ? (n[i] + 128) >> 8 : n[i];
        word |= ((uint32_t)x & 255) << 8 * i;
    }
    return (int32_t)word;
}

RL_INLINE void qf_put(void *p, int32_t x) { rl_copy(p, &x, 4); }
RL_INLINE void qf_put_float(void *p, float x) { rl_copy(p, &x, 4); }

static void qf_one(int type, const float *x, int64_t blocks, uint8_t *to) {
    for (int64_t b = 0; b < blocks; b++, x += 32, to += QF_ONE) {
        int32_t q[32], sum;
        float d = qf_round(x, q, &sum);
        uint8_t *end = to + 64;
        int16_t *wide = (int16_t *)to;
        if (QF_WIDE(type))
            for (int i = 0; i < 32; i++) wide[i] = (int16_t)q[i % 8 * 2 + i / 8 % 2 * 16 + i / 16];
        else
            for (int i = 0; i < 32; i += 4)
                qf_put(to + i, qf_word(q + i, 1)), qf_put(to + 32 + i, qf_word(q + i, 0));
        qf_put_float(end, d), qf_put_float(end + 4, d * (float)sum);
        for (int i = 0; i < 16; i += 4) {
            int32_t part = 0; // sum of the numbers whose products are in element i / 4 of a lane
            for (int k = i; k < i + 4; k++) part += q[k] + q[16 + k];
            qf_put(end + 8 + i, -QF_LESS(type) * (VF > 4 ? part : i ? 0 : sum));
        }
    }
}

// Rows of a tile from `rows` on are zeros.
static void qf_tile(int type, const float *const *x, int64_t rows, int64_t blocks, uint8_t *tile) {
    const int unit = QF_UNIT(type), quads = unit / 4, bytes = QF_TILE(unit);
    if (rows < QF_ROWS) rl_zero(tile, (size_t)(blocks * (32 / unit) * bytes));
    for (int64_t r = 0; r < rows; r++) {
        uint8_t *to = tile + 4 * r;
        for (int64_t b = 0; b < blocks; b++) {
            int32_t q[32], sum;
            float d = qf_round(x[r] + b * 32, q, &sum);
            for (int32_t *part = q; part < q + 32; part += unit, to += bytes) {
                uint8_t *end = to + bytes - 8 * QF_ROWS;
                sum = 0;
                for (int k = 0; k < quads; k++) {
                    int32_t *n = part + 4 * k;
                    sum += n[0] + n[1] + n[2] + n[3];
                    if (QF_WORDS) {
                        qf_put(to + 8 * k * QF_ROWS, (n[0] & 0xffff) | n[2] * 65536);
                        qf_put(to + (8 * k + 4) * QF_ROWS, (n[1] & 0xffff) | n[3] * 65536);
                    } else {
                        qf_put(to + 4 * k * QF_ROWS, qf_word(n, 1));
                        qf_put(to + 4 * (quads + k) * QF_ROWS, qf_word(n, 0));
                    }
                }
                qf_put_float(end, d);
                if (q_least(type)) qf_put_float(end + 4 * QF_ROWS, d * (float)sum);
                else qf_put(end + 4 * QF_ROWS, -QF_LESS(type) * sum);
            }
        }
    }
}

// A unit of a panel: numbers as from q_columns, scales and minimums.
RL_INLINE void qf_put_unit(int type, int unit, const vi *q, vf d, vf m, uint8_t *panel) {
    for (int k = 0; k < unit / 4; k++)
        if (QF_WORDS) {
            vistore(panel + 2 * k * VF * 4, (vi)((vs)q[k] << 8 >> 8));
            vistore(panel + (2 * k + 1) * VF * 4, (vi)((vs)q[k] >> 8));
        } else {
            const uint32_t sign = QF_LESS(type) == 128 ? 0x80808080u : 0;
            vistore(panel + k * VF * 4, q[k] ^ (int32_t)sign);
        }
    vstore(panel + QF_NUMBERS(unit), d);
    vstore(panel + QF_NUMBERS(unit) + 4 * VF, m);
}

static void qf_panel(int type, const uint8_t *p, int64_t row, int64_t blocks, uint8_t *panel) {
    for (int64_t b = 0; b < blocks; b++, p += q_bytes(type), panel += QF_PANEL(32)) {
        vi q[8];
        vf d, m;
        q_columns(type, p, row, q, &d, &m);
        qf_put_unit(type, 32, q, d, m, panel);
    }
}

// Of `columns` columns from `first` on of rows of chunks.
static void qf_chunk_panel(const q_weight *w, const uint8_t *p, int64_t row, int64_t rows,
                           int64_t first, int64_t columns, uint8_t *panel) {
    for (int64_t k = 0; k < columns; k += QC_SIZE) {
        q_chunk c[VF];
        qc_rows(w, p, row, rows, (first + k) / QC_SIZE, c);
        const int unit = QF_UNIT(w->type);
        for (int64_t g = 0; g < rl_min(QC_SIZE, columns - k); g += unit, panel += QF_PANEL(unit)) {
            vi q[8];
            vf s, m;
            qc_columns(c, g / 16, q, &s, &m);
            if (unit == 32) qc_columns(c, g / 16 + 1, q + 4, &s, &m);
            qf_put_unit(w->type, unit, q, s, m, panel);
        }
    }
}

// out[i] += the product of activation row i with VF weight rows, over the units of both.
RL_INLINE void qf_each_product(int least, int unit, const uint8_t *x, const uint8_t *w,
                               int64_t units, vf out[QF_ROWS]) {
    vf sum[QF_ROWS];
    for (int i = 0; i < QF_ROWS; i++) sum[i] = out[i];
    for (int64_t b = 0; b < units; b++, x += QF_TILE(unit), w += QF_PANEL(unit)) {
        const uint8_t *end = x + QF_TILE(unit) - 8 * QF_ROWS;
        vi n[QF_ROWS];
        for (int i = 0; i < QF_ROWS; i++)
            n[i] = least ? (vi){0} : visplat_at(end + 4 * (QF_ROWS + i));
#if DOT32
        vi high[QF_ROWS] = {0};
        for (int k = 0; k < unit / 4; k++) {
            vb a = bload(w + k * VF * 4);
            for (int i = 0; i < QF_ROWS; i++) {
                const uint8_t *at = x + 4 * (k * QF_ROWS + i);
                high[i] = dot(high[i], a, (vb)visplat_at(at));
                n[i] = dot(n[i], a, (vb)visplat_at(at + unit * QF_ROWS));
            }
        }
        for (int i = 0; i < QF_ROWS; i++) n[i] += high[i] << 8;
#else
        for (int k = 0; k < unit / 2; k++) {
            vs a = (vs)bload(w + k * VF * 4);
            for (int i = 0; i < QF_ROWS; i++)
                n[i] += madd16(a, (vs)visplat_at(x + 4 * (k * QF_ROWS + i)));
        }
#endif
        vf d = vload(w + QF_NUMBERS(unit)), m = vload(w + QF_NUMBERS(unit) + 4 * VF);
        for (int i = 0; i < QF_ROWS; i++) {
            vf f = __builtin_convertvector(n[i], vf);
            sum[i] = vfma(f, d * vsplat_at(end + 4 * i), sum[i]);
            if (least) sum[i] = vfma(m, vsplat_at(end + 4 * (QF_ROWS + i)), sum[i]);
        }
    }
    for (int i = 0; i < QF_ROWS; i++) out[i] = sum[i];
}

Q_APART void qf_product(int type, const uint8_t *x, const uint8_t *w, int64_t units, vf *out) {
    if (qc_is_fine(type)) qf_each_product(q_least(type), 16, x, w, units, out);
    else qf_each_product(q_least(type), 32, x, w, units, out);
}

#define QF_COLUMNS 2048 // columns of a row in one panel
#define QF_PANELS (32 / VF)

// `n` rows, rounded into tiles of `tile` bytes, with `count` <= 32 weight rows from `p` on.
static int qf_matrix(const q_weight *w, const uint8_t *x, int64_t tile, float *const *out,
                     int64_t n, const uint8_t *p, int64_t row, int64_t to, int64_t count,
                     const float *bias, int thread) {
    const int type = w->type, unit = QF_UNIT(type);
    int64_t most = rl_min(w->columns, QF_COLUMNS) / unit * QF_PANEL(unit);
    uint8_t *panels = rl_scratch(thread, QF_PANELS * most + QF_COLUMNS / 32 * 34 * VF);
    if (!panels) return 0;
    for (int64_t k = 0; k == 0 || k < w->columns; k += QF_COLUMNS) {
        int64_t some = rl_min(QF_COLUMNS, w->columns - k);
        for (int64_t c = 0; c < count; c += VF) {
            uint8_t *panel = panels + c / VF * most;
            const uint8_t *from = p + c * row;
            if (q_is_chunked(type)) {
                qf_chunk_panel(w, from, row, rl_min(VF, count - c), k, some, panel);
                continue;
            }
            int64_t step = row;
            from = q_whole(type, from + k / 32 * q_bytes(type), &step, count - c, some / 32,
                           panels + QF_PANELS * most);
            qf_panel(type, from, step, some / 32, panel);
        }
        for (int64_t r = 0; r < n; r += QF_ROWS)
            for (int64_t c = 0; c < count; c += VF) {
                int64_t rows = rl_min(QF_ROWS, n - r), width = rl_min(VF, count - c);
                vf sum[QF_ROWS];
                for (int i = 0; i < QF_ROWS; i++) {
                    const float *from = k ? out[r + rl_min(i, rows - 1)] + to + c
                                          : bias ? bias + c : NULL;
                    sum[i] = !from         ? (vf){0}
                             : width == VF ? vload(from)
                                           : vload_part(from, width);
                }
                qf_product(type, x + r / QF_ROWS * tile + k / unit * QF_TILE(unit),
                           panels + c / VF * most, some / unit, sum);
                for (int i = 0; i < QF_ROWS; i++) {
                    if (i >= rows) break;
                    float *at = out[r + i] + to + c;
                    if (width == VF) vstore(at, sum[i]);
                    else vstore_part(at, sum[i], width);
                }
            }
    }
    return 1;
}

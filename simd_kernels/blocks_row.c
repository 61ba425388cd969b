// One rounded activation row, or a few, times rows of blocks: the products of a decoding step.

// The numbers of one block of LANES rows: elements 0..15 of each lane's row, then 16..31.
RL_INLINE void qv_numbers(int type, const uint8_t *p, int64_t row, vb half[2]) {
    half[0] = lanes16(p + q_at(type), row);
    if (type == RL_Q8_0) {
        half[1] = lanes16(p + 18, row);
        if (QF_LESS(type) == 128) half[0] ^= 128, half[1] ^= 128;
        return;
    }
    const vb four = (vb)visplat(0x0f0f0f0f);
    half[1] = (vb)((vu)half[0] >> 4) & four, half[0] &= four;
    if (q_fifth(type)) {
        b16 fifth[LANES][2];
        for (int i = 0; i < LANES; i++) q_fifths(word(p + i * row + q_fifth(type)), fifth[i]);
        half[0] |= lanes16((const uint8_t *)fifth, 32);
        half[1] |= lanes16((const uint8_t *)fifth + 16, 32);
    }
}

// Rows are contiguous. While some are multiplied, as many bytes are prefetched from this far ahead.
// The hardware prefetch sees many short streams and comes too late.
#if defined(__wasm__)
#define QV_AHEAD 4096
// There is no prefetch instruction. A load in memory order makes the hardware prefetch follow it.
#define QV_FETCH(p, bytes)                                                                         \
    for (int i = 0; i < (bytes); i += 64) fetched |= viload((p) + i < last ? (p) + i : last)
#else
#define QV_AHEAD 24576
#define QV_FETCH(p, bytes)                                                                         \
    for (int i = 0; i < (bytes); i += 64) __builtin_prefetch((p) + i, 0, 2)
#endif

#if VF > 4

// A vector is LANES rows wide, each with a lane of partial sums.
typedef float qv_half __attribute__((vector_size(VF * 2)));

// The scales of LANES rows, and their minimums, by turns.
RL_INLINE qv_half qv_scales(const uint8_t *p, int64_t row) {
    __m128i w = _mm_cvtsi32_si128((int32_t)word(p));
    w = _mm_insert_epi32(w, (int32_t)word(p + row), 1);
#if VF == 16
    w = _mm_insert_epi32(w, (int32_t)word(p + 2 * row), 2);
    w = _mm_insert_epi32(w, (int32_t)word(p + 3 * row), 3);
    return (qv_half)_mm256_cvtph_ps(w);
#else
    return (qv_half)_mm_cvtph_ps(w);
#endif
}

// The scales times x's scale, each over its row's lane. Every other element of `least`: the
// minimums times x's sum.
RL_INLINE vf qv_scaled(qv_half scales, const uint8_t *x, qv_half *least) {
    double both;
    rl_copy(&both, x, 8);
#if VF == 16
    __m256 t = _mm256_mul_ps((__m256)scales, _mm256_castpd_ps(_mm256_set1_pd(both)));
    *least += (qv_half)t;
    __m512i each = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
    return (vf)_mm512_permutexvar_ps(each, _mm512_castps256_ps512(t));
#else
    __m128 t = _mm_mul_ps((__m128)scales, _mm_castpd_ps(_mm_set1_pd(both)));
    *least += (qv_half)t;
    __m256i each = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2);
    return (vf)_mm256_permutevar8x32_ps(_mm256_castps128_ps256(t), each);
#endif
}

RL_INLINE vi qv_dot(int type, const vb w[2], const vb x[2], vi sum) {
    if (type == RL_Q8_0) return dot8(dot8(sum, w[0], x[0]), w[1], x[1]);
#if DOT32
    return dot(dot(sum, w[0], x[0]), w[1], x[1]);
#else
    return sum + dot_sum(dot(dot((vdot){0}, w[0], x[0]), w[1], x[1]));
#endif
}

#define QV_ROWS (QF_TOGETHER * LANES)

// out[k][r] = the product of activation row k of `n`, `tile` bytes apart, with row r of QV_ROWS.
RL_INLINE void qv_each_rows(int type, int n, const uint8_t *x, int64_t tile, const uint8_t *w,
                            int64_t row, int64_t blocks, const uint8_t *last,
                            float out[][QV_ROWS]) {
    (void)last;
    vf sum[QX_FEW][QF_TOGETHER] = {0};
    qv_half least[QX_FEW][QF_TOGETHER] = {0};
    const uint8_t *ahead = w + QV_AHEAD;
    for (int64_t b = 0; b < blocks; b++, x += QF_ONE, w += q_bytes(type)) {
        QV_FETCH(ahead + b * QV_ROWS * q_bytes(type), QV_ROWS * q_bytes(type));
        for (int t = 0; t < QF_TOGETHER; t++) {
            const uint8_t *p = w + t * LANES * row;
            vb half[2];
            qv_numbers(type, p, row, half);
            qv_half scales = qv_scales(p, row);
            for (int k = 0; k < n; k++) {
                const uint8_t *at = x + k * tile;
                vb high[2] = {splat16(at), splat16(at + 16)};
                vb low[2] = {splat16(at + 32), splat16(at + 48)};
                vi start = QF_LESS(type) ? (vi)splat16(at + 72) : (vi){0};
                vi total = qv_dot(type, half, high, (vi){0}) << 8;
                total += qv_dot(type, half, low, start);
                vf d = qv_scaled(scales, at + 64, &least[k][t]);
                sum[k][t] = vfma(__builtin_convertvector(total, vf), d, sum[k][t]);
            }
        }
    }
    for (int k = 0; k < n; k++)
        for (int t = 0; t < QF_TOGETHER; t++)
            for (int i = 0; i < LANES; i++) {
                const vf v = sum[k][t];
                float s = (v[4 * i] + v[4 * i + 2]) + (v[4 * i + 1] + v[4 * i + 3]);
                out[k][t * LANES + i] = q_least(type) ? s + least[k][t][2 * i + 1] : s;
            }
}

#define QV_EACH(n)                                                                                 \
    case n: Q_EACH(type, qv_each_rows(TYPE, n, x, tile, w, row, blocks, last, out)) break;
Q_APART void qv_rows(int type, int64_t few, const uint8_t *x, int64_t tile, const uint8_t *w,
                     int64_t row, int64_t blocks, const uint8_t *last, float out[][QV_ROWS]) {
    switch (few) { QV_EACH(1) QV_EACH(2) QV_EACH(3) QV_EACH(4) }
}

#else

#define QV_ROWS 4

#if !DOT32 && !WIDE4
// Element i: the sum of s[i]. 16-bit sums are added while they fit: 16 * 15 * 127, or 8 * 31 * 127.
RL_INLINE vi qv_sums(int type, const vs s[4]) {
    vi v[4] = {(vi)s[0], (vi)s[1], (vi)s[2], (vi)s[3]};
    vs a = (vs)LOW32(v[0], v[1]) + (vs)HIGH32(v[0], v[1]);
    vs b = (vs)LOW32(v[2], v[3]) + (vs)HIGH32(v[2], v[3]);
    if (!q_fifth(type)) return pairs((vs)LOW64((vi)a, (vi)b) + (vs)HIGH64((vi)a, (vi)b));
    vi m = pairs(a), n = pairs(b);
    return LOW64(m, n) + HIGH64(m, n);
}
#endif

// Element i: the sum of products of row i's block with x.
RL_INLINE vi qv_dots(int type, const uint8_t *p, int64_t row, const uint8_t *x) {
    vi sum[4];
#if !DOT32 && !WIDE4
    vs high[4], low[4];
#endif
    for (int r = 0; r < 4; r++, p += row) {
        if (QF_WIDE(type)) {
            vs even[2], odd[2];
            if (q_fifth(type) || type == RL_Q8_0) {
                vb half[2];
                qv_numbers(type, p, row, half);
                for (int i = 0; i < 2; i++)
                    even[i] = (vs)half[i] << 8 >> 8, odd[i] = (vs)half[i] >> 8;
            } else {
                vs n = (vs)bload(p + q_at(type));
                typedef uint16_t vsu __attribute__((vector_size(16)));
                even[0] = n & 15, even[1] = n >> 4 & 15;
                odd[0] = n >> 8 & 15, odd[1] = (vs)((vsu)n >> 12);
            }
            sum[r] = madd16(even[0], (vs)bload(x)) + madd16(even[1], (vs)bload(x + 16));
            sum[r] += madd16(odd[0], (vs)bload(x + 32)) + madd16(odd[1], (vs)bload(x + 48));
            continue;
        }
        vb half[2];
        qv_numbers(type, p, row, half);
        if (type == RL_Q8_0) {
#if !WIDE8
            sum[r] = dot8(dot8((vi){0}, half[0], bload(x)), half[1], bload(x + 16)) << 8;
            sum[r] = dot8(dot8(sum[r], half[0], bload(x + 32)), half[1], bload(x + 48));
#endif
        } else {
#if DOT32
            sum[r] = dot(dot((vi){0}, half[0], bload(x)), half[1], bload(x + 16)) << 8;
            sum[r] = dot(dot(sum[r], half[0], bload(x + 32)), half[1], bload(x + 48));
#elif !WIDE4
            high[r] = dot(dot((vs){0}, half[0], bload(x)), half[1], bload(x + 16));
            low[r] = dot(dot((vs){0}, half[0], bload(x + 32)), half[1], bload(x + 48));
#endif
        }
    }
#if !DOT32 && !WIDE4
    if (type != RL_Q8_0) return (qv_sums(type, high) << 8) + qv_sums(type, low);
#endif
    return sum4(sum[0], sum[1], sum[2], sum[3]);
}

// The high halves as floats, if finite.
RL_INLINE vf qv_half(vu high) {
    return (vf)((vi)high >> 3 & visplat((int32_t)0x8fffe000)) * vsplat(0x1p112f);
}

RL_INLINE void qv_each_rows(int type, const uint8_t *x, const uint8_t *w, int64_t row,
                            int64_t blocks, const uint8_t *last, float out[QV_ROWS]) {
    (void)last;
    vi fetched = {0};
    vf sum = {0};
    vu odd = {0};
    const vu top = (vu)visplat(q_least(type) ? 0x7c007c00 : 0x7c00); // of infinity and NaN
    const vu one = (vu)visplat(q_least(type) ? 0x04000400 : 0x0400);
    const uint8_t *ahead = w + QV_AHEAD;
    for (int64_t b = 0; b < blocks; b++, x += QF_ONE, w += q_bytes(type)) {
        QV_FETCH(ahead + b * QV_ROWS * q_bytes(type), QV_ROWS * q_bytes(type));
        const uint8_t *end = x + QF_ONE - 32;
        vi n = qv_dots(type, w, row, x);
        vu scales = q_words(w, row);
        odd |= (scales & top) + one;
        if (QF_LESS(type)) n += visplat_at(end + 8);
        vf d = qv_half(scales << 16) * vsplat_at(end);
        sum = vfma(__builtin_convertvector(n, vf), d, sum);
        if (q_least(type)) sum = vfma(qv_half(scales), vsplat_at(end + 4), sum);
    }
    vi wrong = (vi)((odd & 0x80008000u) != 0); // such rows give NaN
    // The sum is zero. It keeps the compiler from dropping the loads.
    if (blocks) wrong |= fetched & visplat_at(x - 12);
    vstore(out, (vf)((vi)sum | wrong));
}

// out[k][r] = the product of activation row k of `few`, `tile` bytes apart, with row r of QV_ROWS.
Q_APART void qv_rows(int type, int64_t few, const uint8_t *x, int64_t tile, const uint8_t *w,
                     int64_t row, int64_t blocks, const uint8_t *last, float out[][QV_ROWS]) {
    for (int64_t k = 0; k < (QX_FEW > 1 ? few : 1); k++)
        Q_EACH(type, qv_each_rows(TYPE, x + k * tile, w, row, blocks, last, out[k]))
}

#endif

// out[i][to + r] = the product of rounded row i <= QX_FEW of `g` with weight row r of `rows`, and
// bias. The rounded rows are `tile` bytes apart.
static int qf_vector(int type, qx_rows g, const uint8_t *x, int64_t tile, const uint8_t *w,
                     int64_t row, int64_t rows, int64_t blocks, const uint8_t *last,
                     const float *bias, int64_t to, int thread) {
    for (int64_t r = 0; r < rows; r += QV_ROWS) {
        float found[QX_FEW][QV_ROWS];
        int64_t n = rl_min(QV_ROWS, rows - r), step = row, bytes = blocks * q_bytes(type);
        const uint8_t *p = w + r * row;
        if (n < QV_ROWS) { // pad with rows of zeros, because QV_ROWS are read
            uint8_t *spare = rl_scratch(thread, bytes * QV_ROWS);
            if (!spare) return 0;
            rl_zero(spare, (size_t)(bytes * QV_ROWS));
            for (int64_t i = 0; i < n; i++)
                rl_copy(spare + i * bytes, p + i * row, (size_t)bytes);
            p = spare, step = bytes;
        }
        qv_rows(type, g.n, x, tile, p, step, blocks, last, found);
        for (int64_t k = 0; k < (QX_FEW > 1 ? g.n : 1); k++)
            for (int64_t i = 0; i < n; i++)
                fstore(g.out[k] + to + r + i, found[k][i] + (bias ? fload(bias + r + i) : 0));
    }
    return 1;
}

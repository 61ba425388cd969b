// One activation row, or a few, times rows of chunks: the products of a decoding step.

// The layout of 256 rounded activations (qf_round): if DOT32, their high bytes, then the low ones;
// otherwise 16-bit numbers. For each 16 then follow d and d * sum, and if BIAS8 sums of four times
// -BIAS8, which types of unsigned numbers do not need.
#define QC_STEPS 512
#define QC_BIAS (QC_STEPS + 128)
RL_INLINE int64_t qc_one_bytes(int type) {
    const int less = BIAS8 && !q_least(type) && type != RL_Q6_K && type != RL_IQ4_XS;
    return QC_BIAS + (less ? 256 : 0);
}
#define QC_TOGETHER 8 // chunks that are unpacked at once

#if defined(__wasm__) || !defined(__clang__)
#define QC_UNROLL
#else
#define QC_UNROLL _Pragma("GCC unroll 16")
#endif

#if VF == 16
// Types of 4 bits whose scales are for 32 elements have an order of their own, in which 64 bytes of
// weights give elements that lie together. For each 32 then follow d and -d * sum.
RL_INLINE int qc_is_paired(int type) {
    return type == RL_Q4_K || type == RL_Q5_K || type == RL_IQ4_XS || type == RL_IQ4_NL ||
           type == RL_MXFP4;
}
// The place of the 16 elements number i. A byte of q4_k holds elements that are 32 apart: the 32s
// are in the order 0 2 1 3 4 6 5 7. Of the others they are 16 apart: 0 2 4 6 1 3 5 7, and so on.
RL_INLINE int qc_place(int type, int i) {
    if (!qc_is_paired(type)) return i;
    if (type == RL_Q4_K || type == RL_Q5_K) return (i & 9) | (i & 2) << 1 | (i & 4) >> 1;
    return (i & 8) | (i & 1) << 2 | (i & 6) >> 1;
}
#else
RL_INLINE int qc_is_paired(int type) {
    (void)type;
    return 0;
}
RL_INLINE int qc_place(int type, int i) {
    (void)type;
    return i;
}
#endif

static void qc_one(int type, const float *x, int64_t columns, uint8_t *to) {
    const int64_t bytes = qc_one_bytes(type);
    for (int64_t first = 0; first < columns; first += QC_SIZE, to += bytes) {
        float *d = (float *)(to + QC_STEPS);
        const int paired = qc_is_paired(type);
        rl_zero(to, (size_t)bytes);
        for (int64_t k = 0; k < rl_min(QC_SIZE, columns - first); k += 32) {
            int32_t q[32], sum;
            float scale = qf_round(x + first + k, q, &sum);
            for (int i = 0; i < 32; i += 4) {
                const int all = (int)(k + i) / 16, place = paired ? qc_place(type, all) : all;
                const int at = 16 * place - i / 16 * 16;
                int32_t four = q[i] + q[i + 1] + q[i + 2] + q[i + 3];
                if (DOT32) {
                    qf_put(to + at + i, qf_word(q + i, 1));
                    qf_put(to + 256 + at + i, qf_word(q + i, 0));
                    if (bytes > QC_BIAS) qf_put(to + QC_BIAS + at + i, -BIAS8 * four);
                } else
                    for (int l = i; l < i + 4; l++) ((int16_t *)to)[at + l] = (int16_t)q[l];
            }
            if (paired) {
                // qc_paired leaves each second of q4_k's numbers 16 times as large.
                d[k / 32] = type == RL_Q4_K && k / 32 % 2 ? scale / 16 : scale;
                d[8 + k / 32] = -scale * (float)sum;
                continue;
            }
            for (int64_t h = 0; h < 2; h++) {
                sum = 0;
                for (int i = 0; i < 16; i++) sum += q[16 * h + i];
                d[k / 16 + h] = scale, d[16 + k / 16 + h] = scale * (float)sum;
            }
        }
    }
}

// Adds the products of a chunk with rounded activations; the elements of both sums add up to it.
RL_INLINE void qc_add(int least, int fine, const uint8_t *x, const q_chunk *c, vf sum[2]) {
    (void)fine; // sums of four, if DOT32, have a scale each
    const float *d = (const float *)(x + QC_STEPS);
    float by[16] __attribute__((aligned(64)));
    QC_UNROLL for (int i = 0; i < 16; i += VF) {
        vstore(by + i, vload(c->s + i) * vload(d + i));
        if (least) sum[0] = vfma(vload(c->m + i), vload(d + 16 + i), sum[0]);
    }
#if DOT32
    QC_UNROLL for (int k = 0; k < QC_SIZE / (4 * VF); k++) {
        int at = k * 4 * VF;
        vb w = bload(c->q + at);
        vi low = {0};
#if BIAS8
        if (!least) w ^= BIAS8, low = viload(x + QC_BIAS + at);
#endif
        low += dot((vi){0}, w, bload(x + at)) << 8;
        vi total = dot(low, w, bload(x + 256 + at));
#if VF == 16
        const int s = at / 16;
        __m512i from = _mm512_setr_epi32(s, s, s, s, s + 1, s + 1, s + 1, s + 1, s + 2, s + 2,
                                         s + 2, s + 2, s + 3, s + 3, s + 3, s + 3);
        vf each = (vf)_mm512_permutexvar_ps(from, (__m512)vload(by));
#else
        vf each = vsplat(by[at / 16]);
#endif
        sum[k % 2] = vfma(__builtin_convertvector(total, vf), each, sum[k % 2]);
    }
#else
    const int unit = fine ? 16 : 32;
    QC_UNROLL for (int k = 0; k < QC_SIZE / unit; k++) {
        int at = k * unit;
        vi total = madd16(widen8(c->q + at), (vs)bload(x + 2 * at));
        for (int i = at + 2 * VF; i < at + unit; i += 2 * VF)
            total += madd16(widen8(c->q + i), (vs)bload(x + 2 * i));
        sum[k % 2] = vfma(__builtin_convertvector(total, vf), vsplat(by[at / 16]), sum[k % 2]);
    }
#endif
}

#if VF == 16
// The elements of a chunk in the order of qc_place, as unsigned bytes; its scales; its minimums.
RL_INLINE void qc_paired(int type, const uint8_t *p, b64 q[4], vf *scales) {
    const int size = type == RL_IQ4_NL ? 18 : 17, k = type == RL_Q4_K || type == RL_Q5_K;
    const int at = type == RL_Q4_K ? 16 : type == RL_Q5_K ? 48 : 8;
    const b16 of = b16load((const uint8_t *)(type == RL_MXFP4 ? QC_TWICE_E2M1 : QC_CURVE)) + BIAS8;
    const __m512i table = _mm512_broadcast_i32x4((__m128i)of);
    for (int n = 0; n < 2; n++) {
        const uint8_t *from = p + 4 * n * size + size - 16;
        b64 v = k || type == RL_IQ4_XS ? b64load(p + at + 64 * n) : (b64)lanes16(from, size);
        q[2 * n] = v & 15, q[2 * n + 1] = type == RL_Q4_K ? v & 240 : (b64)((h64)v >> 4) & 15;
        for (int i = 2 * n; !k && i < 2 * n + 2; i++)
            q[i] = (b64)_mm512_shuffle_epi8(table, (__m512i)q[i]);
        if (type != RL_Q5_K) continue;
        b64 fifth = qc_twice(p + 16); // bit i of a byte belongs to the 32 elements number i
        b64 even = n ? QC_RIGHT(fifth, 0, 2) : QC_LEFT(fifth, 4, 2);
        b64 odd = n ? QC_RIGHT(fifth, 1, 3) : QC_LEFT(fifth, 3, 1);
        q[2 * n] |= even & 16, q[2 * n + 1] |= odd & 16;
    }
    // Two of each eight: scales, and minimums or the scales times what all elements are too large
    // by. mxfp4's scales may be too large for that.
    const vf more = {1, 1, 1, 1, 1, 1, 1, 1, BIAS8, BIAS8, BIAS8, BIAS8, BIAS8, BIAS8, BIAS8,
                     BIAS8};
    if (k || type == RL_IQ4_XS) {
        vf both;
        q_floats(k ? qc_six_bits(p) : qc_six_of_xs(p), &both);
        __m512 d = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi32_si128((int32_t)word(p))));
        const int m = k; // the second of two numbers is that of the minimums
        const __m512i which = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, m, m, m, m, m, m, m, m);
        *scales = both * (vf)_mm512_permutexvar_ps(which, d);
        if (!k) *scales *= more;
        return;
    }
    uint16_t d[8];
    uint64_t e = 0;
    for (int b = 0; b < 8; b++)
        if (type == RL_IQ4_NL) rl_copy(d + b, p + 18 * b, 2);
        else e |= (uint64_t)p[17 * b] << 8 * b;
    if (type == RL_IQ4_NL) {
        __m256 s = _mm256_cvtph_ps(_mm_loadu_si128((const void *)d));
        *scales = (vf)_mm512_broadcast_f32x8(s) * more;
        return;
    }
    // 2^(e - 128); the two smallest are subnormal.
    __m512i wide = _mm512_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)e));
    __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(wide, _mm512_set1_epi32(1)), 23);
    __m512i least = _mm512_sllv_epi32(_mm512_set1_epi32(1 << 21), wide);
    __mmask16 small = _mm512_cmplt_epi32_mask(wide, _mm512_set1_epi32(2));
    *scales = (vf)_mm512_maskz_mov_epi32(0xff, _mm512_mask_mov_epi32(bits, small, least));
}

// Adds the product of such a chunk with rounded activations, as qc_add.
RL_INLINE void qc_add_paired(int type, const uint8_t *x, const b64 q[4], vf scales, vf sum[3]) {
    const __m512 by = (__m512)(scales * vload(x + QC_STEPS));
    const int k = type == RL_Q4_K || type == RL_Q5_K;
    if (type != RL_MXFP4) sum[2] += (vf)by; // the minimums, of which each second eight counts
    QC_UNROLL for (int n = 0; n < 4; n += k ? 1 : 2) {
        vi high = dot((vi){0}, (vb)q[n], bload(x + 64 * n)), low = {0};
        if (!k) high = dot(high, (vb)q[n + 1], bload(x + 64 * n + 64));
        const uint8_t *less = x + QC_BIAS + 64 * n;
        if (type == RL_MXFP4) low = viload(less) + viload(less + 64);
        vi total = dot(low + (high << 8), (vb)q[n], bload(x + 256 + 64 * n));
        if (!k) total = dot(total, (vb)q[n + 1], bload(x + 320 + 64 * n));
        // The number of the 32 elements that each quarter is of.
        const int a = k ? (n & 2) * 2 + (n & 1) : 2 * n, b = k ? a : a + 1, c = a + 2;
        const int d = k ? c : c + 1;
        __m512i from = _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d);
        vf each = (vf)_mm512_permutexvar_ps(from, by);
        vf *to = sum + (k ? n % 2 : n / 2);
        *to = vfma(__builtin_convertvector(total, vf), each, *to);
    }
}
#endif

RL_INLINE vf qc_each_fast(int type, int least, const uint8_t *x, const q_chunk *c, int64_t n) {
    vf sum[2] = {0};
    if (qc_is_fine(type))
        for (; n > 0; n--, c++, x += qc_one_bytes(type)) qc_add(least, 1, x, c, sum);
    else
        for (; n > 0; n--, c++, x += qc_one_bytes(type)) qc_add(least, 0, x, c, sum);
    return sum[0] + sum[1];
}

Q_APART vf qc_fast(int type, const uint8_t *x, const q_chunk *c, int64_t n) {
    return q_least(type) ? qc_each_fast(type, 1, x, c, n) : qc_each_fast(type, 0, x, c, n);
}

#if !defined(__wasm__)
// Of the types that most files have a chunk is unpacked into registers, once for `few` rows of
// activations that are `tile` bytes apart. less: what the numbers are too large by. With BIAS8 they
// must not be negative, so such a type gets minimums here.
#define QC_REGISTERS(TYPE, name, less, few, at, sums)                                              \
    {                                                                                              \
        q_chunk c;                                                                                 \
        qc_##name(at, &c);                                                                         \
        for (int i = 0; less && i < 16; i += VF) vstore(c.m + i, vload(c.s + i) * -(less));        \
        for (int k = 0; k < few; k++)                                                              \
            qc_add(less || q_least(RL_##TYPE), qc_is_fine(RL_##TYPE), x + k * tile, &c, sums[k]);  \
    }
#if VF == 16
#define QC_PAIRS(TYPE, name, less, few, at, sums)                                                  \
    {                                                                                              \
        b64 q[4];                                                                                  \
        vf scales;                                                                                 \
        qc_paired(RL_##TYPE, at, q, &scales);                                                      \
        for (int k = 0; k < few; k++)                                                              \
            qc_add_paired(RL_##TYPE, x + k * tile, q, scales, sums[k]);                            \
    }
#else
#define QC_PAIRS QC_REGISTERS
#endif
#define QC_BYTES(TYPE) (q_bytes(RL_##TYPE) * (QC_SIZE / q_block(RL_##TYPE)))
#define QC_ROWS(FORM, TYPE, name, less, few, rows)                                                 \
    case RL_##TYPE:                                                                                \
        for (; n > 0; n--, p += QC_BYTES(TYPE), x += qc_one_bytes(RL_##TYPE)) {                    \
            if (q_block(RL_##TYPE) < QC_SIZE && n == 1 && rest) {                                  \
                rl_zero(last, sizeof last);                                                        \
                rl_copy(last, p, (size_t)rest);                                                    \
                if ((rows) == 2) rl_copy(last + QC_BYTES(TYPE), p + row, (size_t)rest);            \
                p = last, row = QC_BYTES(TYPE);                                                    \
            }                                                                                      \
            for (int i = 0; near && i < (rows) * QC_BYTES(TYPE); i += 64)                          \
                __builtin_prefetch(next + i, 0, 3);                                                \
            for (int i = 0; !near && i < (rows) * QC_BYTES(TYPE); i += 64)                         \
                __builtin_prefetch(next + i, 0, 2);                                                \
            next += (rows) * QC_BYTES(TYPE);                                                       \
            FORM(TYPE, name, less, few, p, sum)                                                    \
            if ((rows) == 2) FORM(TYPE, name, less, few, p + row, second)                          \
        }                                                                                          \
        break;
#define QC_STREAM(few, rows)                                                                       \
    switch (type) {                                                                                \
        QC_ROWS(QC_PAIRS, Q4_K, q4_k, 0, few, rows)                                                \
        QC_ROWS(QC_PAIRS, Q5_K, q5_k, 0, few, rows)                                                \
        QC_ROWS(QC_REGISTERS, Q6_K, q6_k_row, BIAS8 / 4, few, rows)                                \
        QC_ROWS(QC_PAIRS, IQ4_XS, iq4_xs, 0, few, rows)                                            \
        QC_ROWS(QC_PAIRS, IQ4_NL, iq4_nl, 0, few, rows)                                            \
        QC_ROWS(QC_PAIRS, MXFP4, mxfp4, 0, few, rows)                                              \
    default: return 0;                                                                             \
    }

// Adds the products of `n` chunks at `p` to the sums of `few` rows of activations, or of one with
// two `rows` of weights, `row` bytes apart; gives how many: all or, for a type that is not unpacked
// into registers, none. rest: the bytes of a last chunk that is not whole. Weights are fetched one
// after another as they lie in memory, whole rows ahead: into the first cache if they have room
// there beside the activations.
Q_APART int64_t qc_stream(int type, int64_t few, int64_t rows, const uint8_t *x, int64_t tile,
                          const uint8_t *p, int64_t row, int64_t n, int64_t rest, vf *total) {
    const int64_t all = n, step = rl_max(rows * row, 64);
    uint8_t last[2 * 144]; // of blocks of 32 elements; those that are zero have no share
    const int near = few * n * qc_one_bytes(type) + 2 * step <= 28 << 10;
    const uint8_t *next = p + (near ? (4095 + step) / step * step : step);
    vf sum[QX_FEW][3] = {0}, second[1][3] = {0};
    if (VF == 16 && rows == 2) QC_STREAM(1, 2)
    else if (few == 1) QC_STREAM(1, 1)
    else QC_STREAM(few, 1)
    for (int64_t k = 0; k < rows * few; k++) {
        vf *s = k < few ? sum[k] : second[0];
#if VF == 16
        s[0] += (vf)_mm512_maskz_mov_ps(0xff00, (__m512)s[2]);
#endif
        total[k] += s[0] + s[1];
    }
    return all;
}
#else
#define qc_stream(type, few, rows, x, tile, p, row, n, rest, total) (0 * (rest)) // small code
#endif

// The same with `count` float activations.
Q_APART vf qc_exact(const float *x, const q_chunk *c, int64_t count) {
    enum { N = 16 / VF };
    vf sum[2 * N] = {0};
    for (int64_t k = 0; k < count; k += 32) {
        const q_chunk *at = c + k / QC_SIZE;
        for (int h = 0; h < 2; h++) {
            int64_t i = k % QC_SIZE + 16 * h;
            vf v[N], s = vsplat(at->s[i / 16]), m = vsplat(at->m[i / 16]);
            q_floats(b16load((const uint8_t *)at->q + i), v);
            for (int l = 0; l < N; l++)
                sum[h * N + l] = vfma(vfma(v[l], s, m), vload(x + k + 16 * h + l * VF),
                                      sum[h * N + l]);
        }
    }
    for (int l = 1; l < 2 * N; l++) sum[0] += sum[l];
    return sum[0];
}

// out[i][to + r] = the product of row i <= QX_FEW of `g` with weight row r of `rows`, and bias. The
// activations are rounded, `tile` bytes apart, or (if that is NULL) floats.
static void qc_vector(const q_weight *w, qx_rows g, const uint8_t *rounded, int64_t tile,
                      const uint8_t *p, int64_t row, int64_t rows, const float *bias, int64_t to) {
    const int64_t chunks = (w->columns + QC_SIZE - 1) / QC_SIZE, n = QX_FEW > 1 ? g.n : 1;
    const int64_t rest = w->columns % QC_SIZE / q_block(w->type) * q_bytes(w->type);
    for (int64_t r = 0, step; r < rows; r += step, p += step * row) {
        vf sum[QX_FEW] = {0};
        int64_t first = 0;
        step = 1;
        if (rounded) {
            // Two rows of weights share the activations that are read, where this pays.
            const int two = VF == 16 && n == 1 && rows - r > 1;
            first = qc_stream(w->type, n, 1 + two, rounded, tile, p, row, chunks, rest, sum);
            if (first) step += two;
        }
        for (; first < chunks; first += QC_TOGETHER) {
            q_chunk c[QC_TOGETHER];
            int64_t some = rl_min(QC_TOGETHER, chunks - first), at = first * QC_SIZE;
            qc_load(w, p, first, some, c);
            const uint8_t *x = rounded ? rounded + first * qc_one_bytes(w->type) : NULL;
            for (int64_t k = 0; k < n; k++)
                sum[k] += x ? qc_fast(w->type, x + k * tile, c, some)
                            : qc_exact(g.x[k] + at, c, rl_min(some * QC_SIZE, w->columns - at));
        }
        for (int64_t k = 0; k < n; k++)
            for (int64_t i = r; i < r + step; i++)
                fstore(g.out[k] + to + i, vsum(sum[k + i - r]) + (bias ? fload(bias + i) : 0));
    }
}

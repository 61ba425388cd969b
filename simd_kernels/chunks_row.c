// One activation row, or a few, times rows of chunks: the products of a decoding step.

// The layout of 256 rounded activations (qf_round): if DOT32, their high bytes, then the low ones,
// and if BIAS8 sums of four times -BIAS8; otherwise 16-bit numbers. For each 16 then follow d and
// d * sum.
#if !DOT32
#define QC_STEPS 512
#elif BIAS8
#define QC_STEPS 768
#else
#define QC_STEPS 512
#endif
#define QC_ONE (QC_STEPS + 128)
#define QC_TOGETHER 8 // chunks that are unpacked at once

#if defined(__wasm__) || !defined(__clang__)
#define QC_UNROLL
#else
#define QC_UNROLL _Pragma("GCC unroll 16")
#endif

static void qc_one(const float *x, int64_t columns, uint8_t *to) {
    for (int64_t first = 0; first < columns; first += QC_SIZE, to += QC_ONE) {
        float *d = (float *)(to + QC_STEPS);
        rl_zero(to, QC_ONE);
        for (int64_t k = 0; k < rl_min(QC_SIZE, columns - first); k += 32) {
            int32_t q[32], sum;
            float scale = qf_round(x + first + k, q, &sum);
            for (int i = 0; i < 32; i += 4) {
                int32_t four = q[i] + q[i + 1] + q[i + 2] + q[i + 3];
                if (DOT32) {
                    qf_put(to + k + i, qf_word(q + i, 1));
                    qf_put(to + 256 + k + i, qf_word(q + i, 0));
                    if (BIAS8) qf_put(to + 512 + k + i, -BIAS8 * four);
                } else
                    for (int l = i; l < i + 4; l++) ((int16_t *)to)[k + l] = (int16_t)q[l];
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
        if (!least) w ^= BIAS8, low = viload(x + 512 + at);
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

RL_INLINE vf qc_each_fast(int least, int fine, const uint8_t *x, const q_chunk *c, int64_t n) {
    vf sum[2] = {0};
    for (; n > 0; n--, c++, x += QC_ONE) qc_add(least, fine, x, c, sum);
    return sum[0] + sum[1];
}

Q_APART vf qc_fast(int type, const uint8_t *x, const q_chunk *c, int64_t n) {
    if (q_least(type) && qc_is_fine(type)) return qc_each_fast(1, 1, x, c, n);
    if (q_least(type)) return qc_each_fast(1, 0, x, c, n);
    return qc_is_fine(type) ? qc_each_fast(0, 1, x, c, n) : qc_each_fast(0, 0, x, c, n);
}

#if !defined(__wasm__)
#define QC_AHEAD 8192
// Of the types that most files have a chunk is unpacked into registers, once for `few` rows of
// activations that are `tile` bytes apart. less: what the numbers are too large by. With BIAS8 they
// must not be negative, so such types get minimums here; mxfp4's scales are too large for that.
#define QC_REGISTERS(TYPE, name, less, few)                                                        \
    case RL_##TYPE:                                                                                \
        for (; n > 0; n--, p += q_bytes(RL_##TYPE) * (QC_SIZE / q_block(RL_##TYPE)), x += QC_ONE) {\
            q_chunk c;                                                                             \
            for (int i = 0; i < q_bytes(RL_##TYPE) * (QC_SIZE / q_block(RL_##TYPE)); i += 64)      \
                __builtin_prefetch(p + QC_AHEAD + i, 0, 2);                                        \
            qc_##name(p, &c);                                                                      \
            for (int i = 0; less && i < 16; i += VF)                                               \
                vstore(c.m + i, vload(c.s + i) * -(less));                                         \
            for (int k = 0; k < few; k++)                                                          \
                qc_add(less || q_least(RL_##TYPE), qc_is_fine(RL_##TYPE), x + k * tile, &c,        \
                       sum[k]);                                                                    \
        }                                                                                          \
        break;
#define QC_STREAM(few)                                                                             \
    switch (type) {                                                                                \
        QC_REGISTERS(Q4_K, q4_k, 0, few)                                                           \
        QC_REGISTERS(Q5_K, q5_k, 0, few)                                                           \
        QC_REGISTERS(Q6_K, q6_k_row, BIAS8 / 4, few)                                               \
        QC_REGISTERS(IQ4_XS, iq4_xs_row, BIAS8, few)                                               \
        QC_REGISTERS(IQ4_NL, iq4_nl_row, BIAS8, few)                                               \
        QC_REGISTERS(MXFP4, mxfp4, 0, few)                                                         \
    default: return 0;                                                                             \
    }

// Adds the products of `n` whole chunks at `p` to the sums of `few` rows; gives how many: all or,
// for a type that is not unpacked into registers, none.
Q_APART int64_t qc_stream(int type, int64_t few, const uint8_t *x, int64_t tile, const uint8_t *p,
                          int64_t n, vf *total) {
    const int64_t all = n;
    vf sum[QX_FEW][2] = {0};
    if (few == 1) QC_STREAM(1)
    else QC_STREAM(few)
    for (int64_t k = 0; k < few; k++) total[k] += sum[k][0] + sum[k][1];
    return all;
}
#else
#define qc_stream(type, few, x, tile, p, n, total) 0 // small code
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
    int64_t chunks = (w->columns + QC_SIZE - 1) / QC_SIZE;
    for (int64_t r = 0; r < rows; r++, p += row) {
        vf sum[QX_FEW] = {0};
        int64_t first = 0;
        if (rounded) first = qc_stream(w->type, g.n, rounded, tile, p, w->columns / QC_SIZE, sum);
        for (; first < chunks; first += QC_TOGETHER) {
            q_chunk c[QC_TOGETHER];
            int64_t n = rl_min(QC_TOGETHER, chunks - first), at = first * QC_SIZE;
            qc_load(w, p, first, n, c);
            for (int64_t k = 0; k < (QX_FEW > 1 ? g.n : 1); k++)
                sum[k] += rounded ? qc_fast(w->type, rounded + k * tile + first * QC_ONE, c, n)
                                  : qc_exact(g.x[k] + at, c, rl_min(n * QC_SIZE, w->columns - at));
        }
        for (int64_t k = 0; k < (QX_FEW > 1 ? g.n : 1); k++)
            fstore(g.out[k] + to + r, vsum(sum[k]) + (bias ? fload(bias + r) : 0));
    }
}

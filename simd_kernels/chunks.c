// Weights of the types with blocks of many layouts, unpacked to one form that all kernels read.
//
// A chunk is 256 elements: signed bytes q, and for each 16 of them a scale s and a minimum m. An
// element is q * s + m, as ggml's dequantize_row_* gives it, to the bit: products are exact. Types
// without minimums have m = -0.0, which keeps the sign of a zero. quantized.py has the fields.
#define QC_SIZE 256
typedef struct {
    int8_t q[QC_SIZE];
    float s[16], m[16];
} __attribute__((aligned(64))) q_chunk;

// Whether each 16 elements have a scale of their own, not each 32.
RL_INLINE int qc_is_fine(int type) {
    return type == RL_Q2_K || type == RL_Q3_K || type == RL_Q6_K || type == RL_NVFP4 ||
           type == RL_IQ1_M || type == RL_IQ2_XS || type == RL_IQ2_S || type == RL_N4_16;
}

// 32 elements; two registers or one.
typedef uint8_t b32 __attribute__((vector_size(32)));
RL_LOAD(b32load, b32)
RL_STORE(b32store, b32)
RL_STORE(b16store, b16)

// 64 elements, whose halves are shifted by numbers of their own: one register or more. Shifts are
// of 16 bits, so bits of the neighbouring byte come in, which are masked away.
typedef uint8_t b64 __attribute__((vector_size(64)));
typedef uint16_t h64 __attribute__((vector_size(64)));
RL_LOAD(b64load, b64)
RL_STORE(b64store, b64)
#define QC_16(n) n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n
#define QC_RIGHT(v, first, second) ((b64)((h64)(v) >> (h64){QC_16(first), QC_16(second)}))
#define QC_LEFT(v, first, second) ((b64)((h64)(v) << (h64){QC_16(first), QC_16(second)}))

// The same 32 bytes as both halves.
RL_INLINE b64 qc_twice(const uint8_t *p) {
    b64 v;
    rl_copy(&v, p, 32), rl_copy((uint8_t *)&v + 32, p, 32);
    return v;
}

#if defined(__wasm__)
#define QC_PART static __attribute__((noinline)) // small code
#else
#define QC_PART RL_INLINE
#endif

QC_PART float qc_half(const uint8_t *p) { return q_half(p); }

// to[i] = bytes[i] * d, for 16 signed bytes.
QC_PART void qc_scale(b16 bytes, float d, float to[16]) {
    vf v[16 / VF];
    q_floats(bytes, v);
    for (int i = 0; i < 16 / VF; i++) vstore(to + i * VF, v[i] * vsplat(d));
}

// The scales of 32 elements.
RL_INLINE void qc_both(q_chunk *c, int part, float s) { c->s[2 * part] = c->s[2 * part + 1] = s; }

// Four bytes of `a`, `b`, `c` and `d` each.
RL_INLINE b16 qc_words(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    typedef uint32_t u4 __attribute__((vector_size(16)));
    return (b16)(u4){a, b, c, d};
}

// 64 bytes as 256 elements of two bits, less `less`. high: 32 bytes with the third bits, or NULL.
RL_INLINE void qc_two_bits(const uint8_t *qs, const uint8_t *high, uint8_t less, q_chunk *c) {
    b32 third = high ? b32load(high) : (b32){0};
    for (int n = 0; n < 2; n++) {
        b32 two = b32load(qs + 32 * n);
        for (int k = 0; k < 4; k++, two >>= 2, third >>= 1)
            b32store(c->q + 128 * n + 32 * k, ((two & 3) | (third & 1) << 2) - less);
    }
}

RL_INLINE void qc_q2_k(const uint8_t *p, q_chunk *c) {
    b16 scales = b16load(p);
    qc_two_bits(p + 16, NULL, 0, c);
    qc_scale(scales & 15, qc_half(p + 80), c->s);
    qc_scale(scales >> 4, -qc_half(p + 82), c->m);
}

RL_INLINE void qc_q3_k(const uint8_t *p, q_chunk *c) {
    uint32_t a = word(p + 96), b = word(p + 100), high = word(p + 104);
    const uint32_t four = 0x0f0f0f0f, two = 0x03030303;
    b16 scales = qc_words((a & four) | (high & two) << 4, (b & four) | (high >> 2 & two) << 4,
                          (a >> 4 & four) | (high >> 4 & two) << 4,
                          (b >> 4 & four) | (high >> 6 & two) << 4);
    qc_two_bits(p + 32, p, 4, c);
    qc_scale(scales - 32, qc_half(p + 108), c->s);
}

// Eight scales of six bits, then eight minimums, of q4_k and q5_k: one of each for 32 elements.
RL_INLINE b16 qc_six_bits(const uint8_t *p) {
    uint64_t low, high = word(p + 12);
    rl_copy(&low, p + 4, 8);
    const uint64_t six = 0x3f3f3f3f3f3f3f3f, four = 0x0f0f0f0f0f0f0f0f, two = 0x3030303030303030;
    typedef uint64_t u2 __attribute__((vector_size(16)));
    typedef uint32_t u4 __attribute__((vector_size(16)));
    u4 v = (u4)(u2){low & six, ((high | high << 28) & four) | (low >> 2 & two)};
    return (b16)__builtin_shufflevector(v, v, 0, 2, 1, 3);
}

// The scales and minimums of a chunk.
RL_INLINE void qc_sixes(const uint8_t *p, q_chunk *c) {
    b16 v = qc_six_bits(p);
    b16 s = __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    b16 m = __builtin_shufflevector(v, v, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15,
                                    15);
    qc_scale(s, qc_half(p), c->s);
    qc_scale(m, -qc_half(p + 2), c->m);
}

RL_INLINE void qc_q4_k(const uint8_t *p, q_chunk *c) {
    qc_sixes(p, c);
    for (int t = 0; t < 4; t++)
        b64store(c->q + 64 * t, QC_RIGHT(qc_twice(p + 16 + 32 * t), 0, 4) & 15);
}

RL_INLINE void qc_q5_k(const uint8_t *p, q_chunk *c) {
    qc_sixes(p, c);
    b64 high = qc_twice(p + 16);
    b64 fifth[4] = {QC_LEFT(high, 4, 3), QC_LEFT(high, 2, 1), QC_RIGHT(high, 0, 1),
                    QC_RIGHT(high, 2, 3)};
    for (int t = 0; t < 4; t++)
        b64store(c->q + 64 * t, (QC_RIGHT(qc_twice(p + 48 + 32 * t), 0, 4) & 15) | (fifth[t] & 16));
}

// to: what the smallest number of six bits, -32, is stored as.
RL_INLINE void qc_q6_k_to(uint8_t to, const uint8_t *p, q_chunk *c) {
    for (int n = 0; n < 2; n++) {
        b64 v = b64load(p + 64 * n), high = qc_twice(p + 128 + 32 * n);
        b64store(c->q + 128 * n, ((v & 15) | (QC_LEFT(high, 4, 2) & 48)) + to);
        b64store(c->q + 128 * n + 64, ((v >> 4) | (QC_RIGHT(high, 0, 2) & 48)) + to);
    }
    qc_scale(b16load(p + 192), qc_half(p + 208), c->s);
}

RL_INLINE void qc_q6_k(const uint8_t *p, q_chunk *c) { qc_q6_k_to((uint8_t)-32, p, c); }
RL_INLINE void qc_q6_k_row(const uint8_t *p, q_chunk *c) {
    qc_q6_k_to(BIAS8 ? 0 : (uint8_t)-32, p, c);
}

// The numbers that four bits stand for.
static const int8_t QC_CURVE[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t QC_TWICE_E2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 16 bytes, `bytes` apart, of each 32 elements: the low halves of the bytes, then the high ones.
RL_INLINE void qc_halves(const int8_t table[16], const uint8_t *p, int bytes, q_chunk *c) {
    b16 of = b16load((const uint8_t *)table);
    for (int b = 0; b < 8; b++, p += bytes) {
        b16 v = b16load(p);
        b16store(c->q + 32 * b, lookup16(of, v & 15));
        b16store(c->q + 32 * b + 16, lookup16(of, v >> 4));
    }
}

RL_INLINE void qc_iq4_nl(const uint8_t *p, q_chunk *c) {
#if defined(__F16C__) || defined(__aarch64__)
    typedef _Float16 h8 __attribute__((vector_size(16)));
    typedef float f8 __attribute__((vector_size(32)));
    uint16_t d[8];
    for (int b = 0; b < 8; b++) rl_copy(d + b, p + 18 * b, 2);
    h8 half;
    rl_copy(&half, d, 16);
    f8 s = __builtin_convertvector(half, f8);
    for (int b = 0; b < 8; b++) qc_both(c, b, s[b]);
#else
    for (int b = 0; b < 8; b++) qc_both(c, b, qc_half(p + 18 * b));
#endif
    qc_halves(QC_CURVE, p + 2, 18, c);
}

// The scales of iq4_xs: eight, and once more.
RL_INLINE b16 qc_six_of_xs(const uint8_t *p) {
    uint32_t low = word(p + 4), high = p[2] | (uint32_t)p[3] << 8;
    const uint32_t four = 0x0f0f0f0f;
    high = (high | high << 8) & 0x00ff00ff, high = (high | high << 4) & four; // two pairs a byte
    uint32_t even = (low & four) | (high & 0x03030303) << 4;
    uint32_t odd = (low >> 4 & four) | (high & 0x0c0c0c0c) << 2;
    b16 v = qc_words(even, odd, 0, 0);
    return __builtin_shufflevector(v, v, 0, 4, 1, 5, 2, 6, 3, 7, 0, 4, 1, 5, 2, 6, 3, 7) - 32;
}

RL_INLINE void qc_iq4_xs(const uint8_t *p, q_chunk *c) {
    b16 v = qc_six_of_xs(p);
    v = __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    qc_scale(v, qc_half(p), c->s);
    qc_halves(QC_CURVE, p + 8, 16, c);
}

RL_INLINE void qc_mxfp4(const uint8_t *p, q_chunk *c) {
    qc_halves(QC_TWICE_E2M1, p + 1, 17, c);
    for (int b = 0; b < 8; b++, p += 17) {
        // 2^(e - 128); the two smallest are subnormal.
        uint32_t bits = *p < 2 ? 1u << (21 + *p) : (uint32_t)(*p - 1) << 23;
        float s;
        rl_copy(&s, &bits, 4);
        qc_both(c, b, s);
    }
}

// Half of a float of four and three bits; 0x7f is 0.
RL_INLINE float qc_ue4m3(uint8_t e) {
    int power = e >> 3 & 15, digits = power ? 8 + (e & 7) : e & 7;
    uint32_t bits = (uint32_t)((power ? power : 1) - 11 + 127) << 23;
    float by;
    rl_copy(&by, &bits, 4);
    return e == 0x7f ? 0 : (float)digits * by;
}

RL_INLINE void qc_nvfp4(const uint8_t *p, q_chunk *c) {
    for (int g = 0; g < 16; g += 2) { // 16 elements are 8 bytes, first the low halves
        const uint8_t *block = p + g / 4 * 36;
        b16 of = b16load((const uint8_t *)QC_TWICE_E2M1), v = b16load(block + 4 + g % 4 * 8);
        b16 a = lookup16(of, v & 15), b = lookup16(of, v >> 4);
        b16store(c->q + 16 * g, __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18,
                                                        19, 20, 21, 22, 23));
        b16store(c->q + 16 * g + 16, __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24,
                                                             25, 26, 27, 28, 29, 30, 31));
        c->s[g] = qc_ue4m3(block[g % 4]), c->s[g + 1] = qc_ue4m3(block[g % 4 + 1]);
    }
}

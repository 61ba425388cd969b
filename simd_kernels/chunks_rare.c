// Chunks of the types that few files have, in small code: points of codebooks, ternary numbers, and
// bytes. `codes` are the codes of a codebook (codebooks.py) in order, a byte each.

// A copy per type natively, one for all in the tab.
#if defined(__wasm__)
#define QC_RARE static __attribute__((noinline))
#else
#define QC_RARE RL_INLINE
#endif

// The codes that a type reads; 0 if it has no codebook.
static int64_t qc_codes(int type) {
    switch (type) {
    case RL_IQ2_XXS: return 256 * 8;
    case RL_IQ2_XS: return 512 * 8;
    case RL_IQ2_S: return 1024 * 8;
    case RL_IQ3_XXS: return 256 * 4;
    case RL_IQ3_S: return 512 * 4;
    case RL_IQ1_S:
    case RL_IQ1_M: return 2048 * 8;
    default: return 0;
    }
}

// 32 elements: minus where a bit of `negative` is set.
static void qc_signed(b16 v[2], uint32_t negative, int8_t *to) {
    b16 set[2];
    q_fifths(negative, set);
    for (int i = 0; i < 2; i++) {
        b16 minus = (b16)(set[i] != 0);
        b16store(to + 16 * i, (v[i] ^ minus) - minus);
    }
}

// Four signs of seven bits as 32 bits: the eighth makes the number of the negative ones even.
static uint32_t qc_even_signs(uint32_t sevens) {
    uint32_t x = (sevens & 0x7f) | (sevens << 1 & 0x7f00) | (sevens << 2 & 0x7f0000) |
                 (sevens << 3 & 0x7f000000);
    uint32_t odd = x ^ (x >> 4 & 0x0f0f0f0f);
    odd ^= odd >> 2 & 0x03030303;
    odd ^= odd >> 1;
    return x | (odd & 0x01010101) << 7;
}

RL_INLINE uint32_t qc_word16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }

// The points of 32 elements number `part`: their codes, and for iq1_s and iq1_m what is subtracted.
// Returns the signs that iq2_xs has beside its points.
RL_INLINE uint32_t qc_points(int type, const uint8_t *codes, const uint8_t *p, int part,
                             b16 code[2], b16 less[2]) {
    uint32_t point[8], signs = 0, down = 0, high;
    switch (type) {
    case RL_IQ2_XXS:
        for (int l = 0; l < 4; l++) point[l] = p[2 + 8 * part + l];
        break;
    case RL_IQ2_XS:
        for (int l = 0; l < 4; l++) {
            uint32_t both = qc_word16(p + 2 + 8 * part + 2 * l);
            point[l] = both & 511, signs |= both >> 9 << 7 * l;
        }
        break;
    case RL_IQ2_S:
        high = p[66 + part];
        for (int l = 0; l < 4; l++) point[l] = p[2 + 4 * part + l] | (high >> 2 * l & 3) << 8;
        break;
    case RL_IQ3_XXS:
    case RL_IQ3_S:
        high = type == RL_IQ3_S ? p[66 + part] : 0;
        for (int l = 0; l < 8; l++) point[l] = p[2 + 8 * part + l] | (high >> l & 1) << 8;
        for (int h = 0; h < 2; h++) {
            const uint32_t *n = point + 4 * h;
            code[h] = qc_words(word(codes + 4 * n[0]), word(codes + 4 * n[1]),
                               word(codes + 4 * n[2]), word(codes + 4 * n[3]));
        }
        return 0;
    case RL_IQ1_S:
        high = qc_word16(p + 34 + 2 * part);
        for (int l = 0; l < 4; l++) point[l] = p[2 + 4 * part + l] | (high >> 3 * l & 7) << 8;
        down = (high >> 15) * 15;
        break;
    default: // iq1_m
        high = qc_word16(p + 32 + 2 * part);
        for (int l = 0; l < 4; l++) {
            point[l] = p[4 * part + l] | (high >> 4 * l & 7) << 8;
            down |= (high >> (4 * l + 3) & 1) << l;
        }
    }
    typedef int64_t i2 __attribute__((vector_size(16)));
    for (int l = 0; l < 4; l += 2) {
        code[l / 2] = (b16)(i2){load64(codes + 8 * point[l]), load64(codes + 8 * point[l + 1])};
        const int64_t seven = 0x0707070707070707, two = 0x0202020202020202;
        less[l / 2] = (b16)(i2){seven + (down >> l & 1) * two, seven + (down >> (l + 1) & 1) * two};
    }
    return signs;
}

// 32 elements of a type with a codebook.
QC_RARE void qc_part(int type, const uint8_t *codes, const uint8_t *p, int part, q_chunk *c) {
    uint32_t negative = 0, bits = 0;
    int first, second; // scales of each 16 elements
    float d = qc_half(p), by = 0.125f;
    b16 code[2], less[2];
    uint32_t signs = qc_points(type, codes, p, part, code, less);
    switch (type) {
    case RL_IQ1_M: { // the block's scale lies in the highest bits of four words
        const uint8_t *w = p + 48;
        uint32_t low = w[1] >> 4 | (w[3] & 240u), high = w[5] >> 4 | (w[7] & 240u);
        d = half_to_float((uint16_t)(low | high << 8));
        bits = qc_word16(w + part / 2 * 2) >> part % 2 * 6;
        first = bits & 7, second = bits >> 3 & 7;
        break;
    }
    case RL_IQ2_XXS:
    case RL_IQ3_XXS:
        bits = word(type == RL_IQ2_XXS ? p + 6 + 8 * part : p + 66 + 4 * part);
        negative = qc_even_signs(bits & 0xfffffff);
        first = second = (int)(bits >> 28);
        if (type == RL_IQ3_XXS) by = 0.25f;
        break;
    case RL_IQ2_XS:
        negative = qc_even_signs(signs);
        first = p[66 + part] & 15, second = p[66 + part] >> 4;
        break;
    case RL_IQ2_S:
        negative = word(p + 34 + 4 * part);
        first = p[74 + part] & 15, second = p[74 + part] >> 4;
        break;
    case RL_IQ3_S:
        negative = word(p + 74 + 4 * part);
        first = second = p[106 + part / 2] >> part % 2 * 4 & 15;
        by = 1;
        break;
    default: first = second = p[35 + 2 * part] >> 4 & 7; // iq1_s
    }
    b16 v[2];
    for (int h = 0; h < 2; h++) {
        b16 x = code[h];
        if (type == RL_IQ1_S || type == RL_IQ1_M) v[h] = (x << 3) - less[h];
        else if (type == RL_IQ3_S) v[h] = (x << 1) + 1;
        else if (type == RL_IQ3_XXS) v[h] = (x << 3) + 4 + ((b16)(x == 7) & 2);
        else v[h] = (x << 4) + x + (x >> 1) + 8;
    }
    qc_signed(v, negative, c->q + 32 * part);
    c->s[2 * part] = d * (float)(2 * first + 1) * by;
    c->s[2 * part + 1] = d * (float)(2 * second + 1) * by;
}

#define QC_PARTS(TYPE)                                                                             \
    case RL_##TYPE:                                                                                \
        for (int part = 0; part < 8; part++) qc_part(RL_##TYPE, codes, p, part, c);                \
        return;

RL_SMALL static void qc_coded(int type, const uint8_t *codes, const uint8_t *p, q_chunk *c) {
#if !defined(__wasm__) // small code there
    switch (type) {
        QC_PARTS(IQ1_S)
        QC_PARTS(IQ1_M)
        QC_PARTS(IQ2_XXS)
        QC_PARTS(IQ2_XS)
        QC_PARTS(IQ2_S)
        QC_PARTS(IQ3_XXS)
        QC_PARTS(IQ3_S)
    }
#endif
    for (int part = 0; part < 8; part++) qc_part(type, codes, p, part, c);
}

// -1, 0 or 1: the first digit of base 3 of a fraction of 256 is that of three times the byte.
RL_INLINE b16 qc_digit(b16 v) { return (b16)(v <= 85) - (b16)(v > 170); }

RL_SMALL static void qc_tq1_0(const uint8_t *p, q_chunk *c) {
    for (int k = 0; k < 48; k += 16) {
        b16 v = b16load(p + k);
        for (int n = 0; n < 5; n++, v = v + v + v)
            b16store(c->q + (k < 32 ? 32 * n + k : 160 + 16 * n), qc_digit(v));
    }
    uint32_t last = word(p + 48), words[4] = {0}, power = 1;
    for (int n = 0; n < 4; n++, power *= 3)
        for (int k = 0; k < 32; k += 8) words[n] |= ((last >> k & 255) * power & 255) << k;
    b16store(c->q + 240, qc_digit(b16load((const uint8_t *)words)));
}

// The types whose zero points are numbers of their own, and n8_32, whose bytes are signed.
RL_SMALL static void qc_zeroed(int type, const uint8_t *p, q_chunk *c) {
    const int fine = type == RL_N4_16, eight = type == RL_N8_32, two = type == RL_N2_32;
    const int zero = fine ? 8 : type == RL_H4_32 ? 2 : 4, codes = zero + (eight ? 0 : 1 + fine);
    for (int part = 0; part < 8; part++) {
        int8_t *to = c->q + 32 * part;
        const int size = q_block(type), first = 32 * part;
        const uint8_t *block = p + first / size * q_bytes(type);
        const uint8_t *at = block + codes + first % size / 2;
        float d[2];
        if (type == RL_H4_32) d[0] = qc_half(block);
        else rl_copy(d, block, fine ? 8 : 4);
        c->s[2 * part] = d[0], c->s[2 * part + 1] = d[fine];
        if (eight) {
            rl_copy(to, at, 32);
            continue;
        }
        const uint8_t mask = two ? 3 : 15;
        const uint8_t less[2] = {block[zero] & mask, block[zero + fine] & mask};
        if (two) {
            uint32_t v[8];
            for (int k = 0; k < 8; k++) {
                v[k] = at[k];
                v[k] = (v[k] | v[k] << 6 | v[k] << 12 | v[k] << 18) & 0x03030303;
            }
            b16store(to, qc_words(v[0], v[1], v[2], v[3]) - less[0]);
            b16store(to + 16, qc_words(v[4], v[5], v[6], v[7]) - less[1]);
            continue;
        }
        b16 v = b16load(at);
        b16store(to, (v & 15) - less[0]), b16store(to + 16, (v >> 4) - less[1]);
    }
}

RL_SMALL static void qc_rare(int type, const uint8_t *codes, const uint8_t *p, q_chunk *c) {
    if (codes) {
        qc_coded(type, codes, p, c);
        return;
    }
    if (type >= RL_N2_32) {
        qc_zeroed(type, p, c);
        return;
    }
    if (type == RL_TQ1_0 || type == RL_TQ2_0) {
        if (type == RL_TQ1_0) qc_tq1_0(p, c);
        else qc_two_bits(p, NULL, 1, c);
        for (int part = 0; part < 8; part++) qc_both(c, part, qc_half(p + q_bytes(type) - 2));
        return;
    }
    for (int part = 0; part < 8; part++) {
        int8_t *to = c->q + 32 * part;
        const uint8_t *block = p + 32 * part / q_block(type) * q_bytes(type);
        float d;
        if (type == RL_Q8_K) rl_copy(&d, p, 4);
        else d = qc_half(block);
        if (type == RL_Q1_0) { // 128 elements
            b16 set[2];
            q_fifths(word(block + 2 + part % 4 * 4), set);
            b16store(to, (set[0] >> 3) - 1), b16store(to + 16, (set[1] >> 3) - 1);
        } else if (type == RL_Q2_0) { // 64 elements
            uint32_t v[8];
            for (int k = 0; k < 8; k++) {
                v[k] = block[2 + part % 2 * 8 + k];
                v[k] = (v[k] | v[k] << 6 | v[k] << 12 | v[k] << 18) & 0x03030303;
            }
            b16store(to, qc_words(v[0], v[1], v[2], v[3]) - 1);
            b16store(to + 16, qc_words(v[4], v[5], v[6], v[7]) - 1);
        } else rl_copy(to, type == RL_Q8_K ? p + 4 + 32 * part : block + 4, 32);
        qc_both(c, part, d);
    }
}

// `n` chunks of contiguous blocks. codes: the codes of the type's codebook, a byte each, or NULL.
#define QC_CASE(TYPE, name)                                                                        \
    case RL_##TYPE:                                                                                \
        for (int64_t i = 0; i < n; i++) qc_##name(p + i * bytes, out + i);                         \
        break;
RL_SMALL Q_APART void qc_unpack(int type, const uint8_t *codes, const uint8_t *p, int64_t n,
                                q_chunk *out) {
    int64_t bytes = q_bytes(type) * (QC_SIZE / q_block(type));
    switch (type) {
        QC_CASE(Q2_K, q2_k)
        QC_CASE(Q3_K, q3_k)
        QC_CASE(Q4_K, q4_k)
        QC_CASE(Q5_K, q5_k)
        QC_CASE(Q6_K, q6_k)
        QC_CASE(IQ4_NL, iq4_nl)
        QC_CASE(IQ4_XS, iq4_xs)
        QC_CASE(MXFP4, mxfp4)
        QC_CASE(NVFP4, nvfp4)
    default:
        for (int64_t i = 0; i < n; i++) qc_rare(type, codes, p + i * bytes, out + i);
    }
    for (; n > 0 && !q_least(type); n--, out++)
        for (int i = 0; i < 16; i += VF) vstore(out->m + i, vsplat(-0.0f));
}

// Weights in the blocks of 32 of q4_0 to q8_0: their layout, and values as floats and as panels.
#include "dot.h"

#define Q_BYTES(name, bytes, block) case RL_##name: return bytes;
#define Q_BLOCK(name, bytes, block) case RL_##name: return block;
// The bytes and the elements of a block.
RL_INLINE int q_bytes(int type) {
    switch (type) {
        RL_DTYPES(Q_BYTES)
    default: return 0;
    }
}
RL_INLINE int q_block(int type) {
    switch (type) {
        RL_DTYPES(Q_BLOCK)
    default: return 1;
    }
}
// The offsets of the numbers, and of the word of fifth bits if there is one.
RL_INLINE int q_at(int type) {
    return type == RL_Q4_0 || type == RL_Q8_0 ? 2 : type == RL_Q4_1 ? 4 : type == RL_Q5_0 ? 6 : 8;
}
RL_INLINE int q_fifth(int type) { return type == RL_Q5_0 ? 2 : type == RL_Q5_1 ? 4 : 0; }
// A value is the scale times (the stored number less this), plus the minimum if there is one.
RL_INLINE int q_less(int type) { return type == RL_Q4_0 ? 8 : type == RL_Q5_0 ? 16 : 0; }
RL_INLINE int q_least(int type) {
    return type == RL_Q4_1 || type == RL_Q5_1 || type == RL_Q2_K || type == RL_Q4_K ||
           type == RL_Q5_K;
}
// Types from Q2_K on are unpacked to chunks.
RL_INLINE int q_is_chunked(int type) { return type >= RL_Q2_K; }

// Run `call` with the constant TYPE for a dtype: a copy of the code per dtype.
#define Q_EACH(type, call)                                                                         \
    switch (type) {                                                                                \
    case RL_Q4_0: { enum { TYPE = RL_Q4_0 }; call; break; }                                        \
    case RL_Q4_1: { enum { TYPE = RL_Q4_1 }; call; break; }                                        \
    case RL_Q5_0: { enum { TYPE = RL_Q5_0 }; call; break; }                                        \
    case RL_Q5_1: { enum { TYPE = RL_Q5_1 }; call; break; }                                        \
    default: { enum { TYPE = RL_Q8_0 }; call; break; }                                             \
    }

// Marks functions that are not inlined, because the modules of the tab must be small.
#define Q_APART static __attribute__((noinline))

RL_INLINE float q_half(const uint8_t *p) {
    uint16_t h;
    rl_copy(&h, p, 2);
    return half_to_float(h);
}

// 16 signed bytes as floats.
RL_INLINE void q_floats(b16 bytes, vf *out) {
    typedef int8_t s16 __attribute__((vector_size(16)));
    s16 v = (s16)bytes;
#if VF == 16
    out[0] = __builtin_convertvector(v, vf);
#elif VF == 8
    out[0] = __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7), vf);
    out[1] = __builtin_convertvector(
        __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15), vf);
#elif defined(__wasm__)
    v128_t half[2] = {wasm_i16x8_extend_low_i8x16((v128_t)v),
                      wasm_i16x8_extend_high_i8x16((v128_t)v)};
    for (int i = 0; i < 4; i++) {
        v128_t n = i & 1 ? wasm_i32x4_extend_high_i16x8(half[i / 2])
                         : wasm_i32x4_extend_low_i16x8(half[i / 2]);
        out[i] = __builtin_convertvector((vi)n, vf);
    }
#else
    out[0] = __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3), vf);
    out[1] = __builtin_convertvector(__builtin_shufflevector(v, v, 4, 5, 6, 7), vf);
    out[2] = __builtin_convertvector(__builtin_shufflevector(v, v, 8, 9, 10, 11), vf);
    out[3] = __builtin_convertvector(__builtin_shufflevector(v, v, 12, 13, 14, 15), vf);
#endif
}

// 16 where bit i of a word is set, for elements 0..15 and 16..31.
RL_INLINE void q_fifths(uint32_t bits, b16 out[2]) {
    static const b16 BIT = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    typedef uint32_t u4 __attribute__((vector_size(16)));
    b16 v = (b16)(bits - (u4){});
    b16 low = __builtin_shufflevector(v, v, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    b16 high = __builtin_shufflevector(v, v, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    out[0] = (b16)((low & BIT) == BIT) & 16, out[1] = (b16)((high & BIT) == BIT) & 16;
}

// The values of one block, as ggml's dequantize_row_* gives them (to the bit: products are exact).
RL_INLINE void q_values(int type, const uint8_t *p, vf out[32 / VF]) {
    b16 half[2] = {b16load(p + q_at(type)), {0}};
    if (type == RL_Q8_0) half[1] = b16load(p + 18);
    else half[1] = half[0] >> 4, half[0] &= 15;
    if (q_fifth(type)) {
        b16 fifth[2];
        q_fifths(word(p + q_fifth(type)), fifth);
        half[0] |= fifth[0], half[1] |= fifth[1];
    }
    if (q_less(type)) half[0] -= (uint8_t)q_less(type), half[1] -= (uint8_t)q_less(type);
    q_floats(half[0], out), q_floats(half[1], out + 16 / VF);
    vf d = vsplat(q_half(p)), m = q_least(type) ? vsplat(q_half(p + 2)) : (vf){0};
    for (int i = 0; i < 32 / VF; i++) out[i] = q_least(type) ? vfma(out[i], d, m) : out[i] * d;
}

RL_INLINE void q_each_widen(int type, const uint8_t *p, int64_t n, float *out) {
    for (int64_t b = 0; b < n; b++, p += q_bytes(type), out += 32) {
        vf v[32 / VF];
        q_values(type, p, v);
        for (int i = 0; i < 32 / VF; i++) vstore(out + i * VF, v[i]);
    }
}

// `n` blocks as floats.
Q_APART void q_widen(int type, const uint8_t *p, int64_t n, float *out) {
    Q_EACH(type, q_each_widen(TYPE, p, n, out))
}

// The 32-bit words at p + i * stride.
RL_INLINE vu q_words(const uint8_t *p, int64_t stride) {
    uint32_t out[VF];
    for (int i = 0; i < VF; i++) out[i] = word(p + i * stride);
    return (vu)viload(out);
}

RL_INLINE void q_each_columns(int type, const uint8_t *p, int64_t row, vi q[8], vf *d, vf *m) {
    const uint8_t *at = p + q_at(type);
    for (int i = 0; i < 4; i++) q[i] = (vi)lanes16(at + i * row, 4 * row);
    transpose4(q);
    if (type == RL_Q8_0) {
        for (int i = 0; i < 4; i++) q[4 + i] = (vi)lanes16(at + 16 + i * row, 4 * row);
        transpose4(q + 4);
    } else
        for (int i = 0; i < 4; i++) q[4 + i] = q[i] >> 4 & 0x0f0f0f0f, q[i] &= 0x0f0f0f0f;
    if (q_fifth(type)) {
        vu fifth = q_words(p + q_fifth(type), row);
        // Bits 0..3 become bits 4, 12, 20, 28; the four copies do not overlap.
        for (int j = 0; j < 8; j++)
            q[j] |= (vi)((fifth >> 4 * j & 15) * 0x02040810u & 0x10101010u);
    }
    vu scales = q_words(p, row);
    *d = vhalf(scales);
    *m = q_least(type) ? vhalf(scales >> 16) : (vf){0};
}

// One block of VF rows that are `row` bytes apart. Element r of q[j] has the stored numbers
// 4j .. 4j + 3 of row r as bytes. Gives the scales and the minimums (zeros if the type has none).
Q_APART void q_columns(int type, const uint8_t *p, int64_t row, vi q[8], vf *d, vf *m) {
    Q_EACH(type, q_each_columns(TYPE, p, row, q, d, m))
}

// `rows` <= VF rows of n blocks, padded to VF: fewer rows are copied to `spare`, followed by zeros.
static const uint8_t *q_whole(int type, const uint8_t *p, int64_t *row, int64_t rows, int64_t n,
                              uint8_t *spare) {
    if (rows >= VF) return p;
    int64_t bytes = n * q_bytes(type);
    for (int64_t r = 0; r < VF; r++)
        if (r < rows) rl_copy(spare + r * bytes, p + r * *row, (size_t)bytes);
        else rl_zero(spare + r * bytes, (size_t)bytes);
    *row = bytes;
    return spare;
}

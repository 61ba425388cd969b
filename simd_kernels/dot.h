// Products of small integers, four or two per 32-bit element, and the shuffles that they need.
//
// A step multiplies weights with activations and adds to DOT's accumulator. dot_sum() gives the
// 32-bit sums. Nothing saturates and no sum overflows, so every machine gives the same integers:
// - small weights are 0..31 and halves of activations -127..127: a pair is at most 2 * 31 * 127 =
//   7874, so 16-bit elements hold four pairs (eight of 4-bit weights: 8 * 2 * 15 * 127 = 30480).
//   WebAssembly's relaxed dot product takes the weights as its 7-bit operand, where engines agree;
// - 8-bit weights: |w| <= 128, a pair at most 2 * 128 * 127 = 32512.
#ifndef DOT_H
#define DOT_H
#include "simd.h"
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__wasm__)
#include <wasm_simd128.h>
#endif

typedef uint8_t vb __attribute__((vector_size(VF * 4)));
typedef int16_t vs __attribute__((vector_size(VF * 4)));
typedef uint8_t b16 __attribute__((vector_size(16)));
#define LANES (VF / 4) // lanes of 16 bytes

RL_LOAD(bload, vb)
RL_LOAD(b16load, b16)
RL_LOAD(word, uint32_t)
RL_INLINE vi visplat_at(const void *p) { return visplat((int32_t)word(p)); }
RL_INLINE vf vsplat_at(const void *p) { return (vf)visplat_at(p); }

// Lane i has the 16 bytes at p + i * stride; the same 16 bytes in every lane.
RL_INLINE vb lanes16(const uint8_t *p, int64_t stride) {
#if VF == 16
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const void *)p));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(p + stride)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(p + 2 * stride)), 2);
    return (vb)_mm512_inserti32x4(v, _mm_loadu_si128((const void *)(p + 3 * stride)), 3);
#elif VF == 8
    __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const void *)p));
    return (vb)_mm256_inserti128_si256(v, _mm_loadu_si128((const void *)(p + stride)), 1);
#else
    (void)stride;
    return bload(p);
#endif
}

RL_INLINE vb splat16(const void *p) {
#if VF == 16
    return (vb)_mm512_broadcast_i32x4(_mm_loadu_si128(p));
#elif VF == 8
    return (vb)_mm256_broadcastsi128_si256(_mm_loadu_si128(p));
#else
    return bload(p);
#endif
}

// Byte i is table[index[i]]; the indices are below 16.
RL_INLINE b16 lookup16(b16 table, b16 index) {
#if defined(__x86_64__)
    return (b16)_mm_shuffle_epi8((__m128i)table, (__m128i)index);
#elif defined(__aarch64__)
    return (b16)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)index);
#else
    return (b16)wasm_i8x16_swizzle((v128_t)table, (v128_t)index);
#endif
}

#if VF == 16
#define LOW32(a, b) (vi)_mm512_unpacklo_epi32((__m512i)(a), (__m512i)(b))
#define HIGH32(a, b) (vi)_mm512_unpackhi_epi32((__m512i)(a), (__m512i)(b))
#define LOW64(a, b) (vi)_mm512_unpacklo_epi64((__m512i)(a), (__m512i)(b))
#define HIGH64(a, b) (vi)_mm512_unpackhi_epi64((__m512i)(a), (__m512i)(b))
#elif VF == 8
#define LOW32(a, b) (vi)_mm256_unpacklo_epi32((__m256i)(a), (__m256i)(b))
#define HIGH32(a, b) (vi)_mm256_unpackhi_epi32((__m256i)(a), (__m256i)(b))
#define LOW64(a, b) (vi)_mm256_unpacklo_epi64((__m256i)(a), (__m256i)(b))
#define HIGH64(a, b) (vi)_mm256_unpackhi_epi64((__m256i)(a), (__m256i)(b))
#else
#define LOW32(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH32(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LOW64(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define HIGH64(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#endif

// Four vectors as rows of 32-bit elements, transposed within each lane of 16 bytes.
RL_INLINE void transpose4(vi v[4]) {
    vi a = LOW32(v[0], v[1]), b = HIGH32(v[0], v[1]), c = LOW32(v[2], v[3]), d = HIGH32(v[2], v[3]);
    v[0] = LOW64(a, c), v[1] = HIGH64(a, c), v[2] = LOW64(b, d), v[3] = HIGH64(b, d);
}

// Element i is the sum of vector i's lane of 16 bytes.
RL_INLINE vi sum4(vi a, vi b, vi c, vi d) {
    vi p = LOW32(a, b) + HIGH32(a, b), q = LOW32(c, d) + HIGH32(c, d);
    return LOW64(p, q) + HIGH64(p, q);
}

// Half precision numbers in the low 16 bits of each element. The high bits are ignored.
RL_INLINE vf vhalf(vu bits) {
#if defined(__F16C__) || defined(__aarch64__)
    typedef _Float16 vhf __attribute__((vector_size(VF * 2)));
    return __builtin_convertvector((vhf)__builtin_convertvector(bits, vh), vf);
#else
    vu sign = (bits & 0x8000u) << 16;
    vf x = (vf)((bits & 0x7fffu) << 13) * 0x1p112f;
    vi special = (vi)((bits & 0x7c00u) == 0x7c00u);
    vf infinite = (vf)(0x7f800000u | (bits & 0x3ffu) << 13);
    return (vf)((vu)vselect(special, infinite, x) | sign);
#endif
}

// Sums of neighbouring 16-bit elements.
RL_INLINE vi pairs(vs x) {
#if VF == 16
    return (vi)_mm512_madd_epi16((__m512i)x, _mm512_set1_epi16(1));
#elif VF == 8
    return (vi)_mm256_madd_epi16((__m256i)x, _mm256_set1_epi16(1));
#elif defined(__x86_64__)
    return (vi)_mm_madd_epi16((__m128i)x, _mm_set1_epi16(1));
#elif defined(__aarch64__)
    return (vi)vpaddlq_s16((int16x8_t)x);
#else
    return (vi)wasm_i32x4_extadd_pairwise_i16x8((v128_t)x);
#endif
}

// Signed bytes as 16-bit elements.
RL_INLINE vs widen8(const int8_t *p) {
    typedef int8_t half __attribute__((vector_size(VF * 2)));
    half x;
    __builtin_memcpy(&x, p, sizeof x);
    return __builtin_convertvector(x, vs);
}

// Products of 16-bit elements, summed in twos.
RL_INLINE vi madd16(vs a, vs b) {
#if VF == 16
    return (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif VF == 8
    return (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
    return (vi)_mm_madd_epi16((__m128i)a, (__m128i)b);
#elif defined(__aarch64__)
    int32x4_t p = vmull_s16(vget_low_s16((int16x8_t)a), vget_low_s16((int16x8_t)b));
    return (vi)vpaddq_s32(p, vmull_high_s16((int16x8_t)a, (int16x8_t)b));
#else
    return (vi)wasm_i32x4_dot_i16x8((v128_t)a, (v128_t)b);
#endif
}

#if defined(__AVX512VNNI__) || defined(__aarch64__)
#define DOT32 1 // four products are added to a 32-bit sum, mostly by one instruction
typedef vi vdot;
RL_INLINE vi dot(vi sum, vb small, vb x) {
#if defined(__ARM_FEATURE_DOTPROD)
    return (vi)vdotq_s32((int32x4_t)sum, (int8x16_t)small, (int8x16_t)x);
#elif defined(__aarch64__)
    int16x8_t low = vmull_s8(vget_low_s8((int8x16_t)small), vget_low_s8((int8x16_t)x));
    int16x8_t high = vmull_high_s8((int8x16_t)small, (int8x16_t)x);
    return sum + (vi)vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
#else
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)small, (__m512i)x);
#endif
}
RL_INLINE vi dot_sum(vi x) { return x; }
#elif defined(__x86_64__) || defined(__wasm_relaxed_simd__)
#define DOT32 0
typedef vs vdot;
RL_INLINE vs dot(vs sum, vb small, vb x) {
#if VF == 8
    return sum + (vs)_mm256_maddubs_epi16((__m256i)small, (__m256i)x);
#elif defined(__x86_64__)
    return sum + (vs)_mm_maddubs_epi16((__m128i)small, (__m128i)x);
#else
    return sum + (vs)wasm_i16x8_relaxed_dot_i8x16_i7x16((v128_t)x, (v128_t)small);
#endif
}
RL_INLINE vi dot_sum(vs x) { return pairs(x); }
#else
#define DOT32 0
#endif

// Weights and activations are 16-bit numbers if the processor does not multiply 8-bit ones.
#if defined(__wasm__)
#define WIDE8 1 // 8-bit weights
#else
#define WIDE8 0
#endif
#if defined(__wasm__) && !defined(__wasm_relaxed_simd__)
#define WIDE4 1 // smaller ones
#else
#define WIDE4 0
#endif

// 8-bit weights for dot8: unsigned on processors that multiply unsigned with signed bytes.
#if defined(__AVX512VNNI__)
#define BIAS8 128
#else
#define BIAS8 0
#endif

#if !WIDE8
RL_INLINE vi dot8(vi sum, vb weight, vb x) {
#if defined(__AVX512VNNI__) || defined(__aarch64__)
    return dot(sum, weight, x);
#elif VF == 8
    __m256i w = (__m256i)weight, y = _mm256_sign_epi8((__m256i)x, w);
    return sum + pairs((vs)_mm256_maddubs_epi16(_mm256_abs_epi8(w), y));
#else
    __m128i w = (__m128i)weight, y = _mm_sign_epi8((__m128i)x, w);
    return sum + pairs((vs)_mm_maddubs_epi16(_mm_abs_epi8(w), y));
#endif
}
#endif

#endif

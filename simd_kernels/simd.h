// Vectors of the target's width: the compiler's vector extensions, and builtins where they lack.
#ifndef SIMD_H
#define SIMD_H
#include <stdint.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VF 16
#elif defined(__AVX2__)
#define VF 8
#else
#define VF 4
#endif

typedef float vf __attribute__((vector_size(VF * 4)));
typedef int32_t vi __attribute__((vector_size(VF * 4)));
typedef uint32_t vu __attribute__((vector_size(VF * 4)));
typedef uint16_t vh __attribute__((vector_size(VF * 2)));
typedef uint8_t vbytes __attribute__((vector_size(VF)));
typedef float v4 __attribute__((vector_size(16)));

#define RL_INLINE static inline __attribute__((always_inline))

// Tensors lie at any address, so memory is read and written through memcpy, which becomes one
// instruction.
#define RL_LOAD(name, type)                                                                        \
    RL_INLINE type name(const void *p) {                                                           \
        type x;                                                                                    \
        __builtin_memcpy(&x, p, sizeof x);                                                         \
        return x;                                                                                  \
    }
#define RL_STORE(name, type)                                                                       \
    RL_INLINE void name(void *p, type x) { __builtin_memcpy(p, &x, sizeof x); }
RL_LOAD(vload, vf)
RL_STORE(vstore, vf)
RL_LOAD(viload, vi)
RL_STORE(vistore, vi)
RL_LOAD(vhload, vh)
RL_STORE(vhstore, vh)
RL_LOAD(vbload, vbytes)
RL_STORE(vbstore, vbytes)
RL_LOAD(v4load, v4)
RL_STORE(v4store, v4)
RL_LOAD(fload, float)
RL_STORE(fstore, float)
RL_LOAD(load64, int64_t)

// A mask of the lanes whose byte is not zero.
RL_INLINE vi vtruth(const uint8_t *p) {
#if VF == 4
    // One word, in every lane: a load of four bytes as a vector becomes four loads in WebAssembly.
    uint32_t word;
    __builtin_memcpy(&word, p, 4);
    return (vi)((((vu){} + word) & (vu){0xff, 0xff00, 0xff0000, 0xff000000u}) != 0);
#else
    return __builtin_convertvector(vbload(p), vi) != 0;
#endif
}
#if defined(__wasm__)
// Keeps a constant in a variable, so that it is made before a loop. In a loop Chromium makes it
// again in every turn, by several instructions: e ** x takes 1.3 times as long, sigmoid 1.7 times.
#define RL_HELD(v, x) if (__builtin_constant_p(x)) __asm__("" : "+r"(v))
#else
#define RL_HELD(v, x) (void)0
#endif
RL_INLINE vf vsplat(float x) {
    vf v = x - (vf){};
    RL_HELD(v, x);
    return v;
}
RL_INLINE vi visplat(int32_t x) {
    vi v = x - (vi){};
    RL_HELD(v, x);
    return v;
}
RL_INLINE vf vselect(vi mask, vf yes, vf no) {
#if defined(__wasm__)
    // For relaxed SIMD, clang turns a plain comparison and selection into a minimum or maximum
    // whose result for NaN is undefined.
    return (vf)__builtin_wasm_bitselect((vi)yes, (vi)no, mask);
#else
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
#endif
}

// The first n elements, then zeros. Reads nothing past them.
RL_INLINE vf vload_part(const float *p, int64_t n) {
#if VF == 16
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif VF == 8
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (vf)_mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lanes));
#else
    float out[VF] = {0};
    for (int64_t i = 0; i < n; i++) out[i] = fload(p + i);
    return vload(out);
#endif
}

RL_INLINE void vstore_part(float *p, vf x, int64_t n) {
#if VF == 16
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)x);
#else
    for (int64_t i = 0; i < n; i++) fstore(p + i, x[i]);
#endif
}

// a * b + c, with one rounding if the processor supports it; never a call.
RL_INLINE vf vfma(vf a, vf b, vf c) {
#if defined(__wasm_relaxed_simd__)
    return (vf)__builtin_wasm_relaxed_madd_f32x4(a, b, c);
#elif defined(__FMA__) || defined(__aarch64__)
#if __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#else // gcc
    for (int i = 0; i < VF; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#endif
#else
    return a * b + c;
#endif
}

RL_INLINE float vsum(vf x) {
    // Adds halves to halves, an order that is the same for every power of two.
    for (int n = VF / 2; n; n /= 2)
        for (int i = 0; i < n; i++) x[i] += x[i + n];
    return x[0];
}

// The larger or smaller; b where either is NaN.
#if defined(__wasm__)
RL_INLINE vf vmax(vf a, vf b) { return (vf)__builtin_wasm_pmax_f32x4(b, a); }
RL_INLINE vf vmin(vf a, vf b) { return (vf)__builtin_wasm_pmin_f32x4(b, a); }
#else
RL_INLINE vf vmax(vf a, vf b) { return vselect(a > b, a, b); }
RL_INLINE vf vmin(vf a, vf b) { return vselect(a < b, a, b); }
#endif

// Every second lane of two vectors, and two vectors whose lanes alternate. The lanes of a vector,
// moved by one, after the first lane of another or before it.
#if VF == 16
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,    \
                            26, 28, 30)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25,     \
                            27, 29, 31)
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,       \
                            22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,     \
                            14, 30, 15, 31)
#define AFTER(a, b) __builtin_shufflevector(b, a, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,   \
                            27, 28, 29, 30)
#define BEFORE(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,  \
                            15, 16)
#elif VF == 8
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define AFTER(a, b) __builtin_shufflevector(b, a, 0, 8, 9, 10, 11, 12, 13, 14)
#define BEFORE(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8)
#else
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define AFTER(a, b) __builtin_shufflevector(b, a, 0, 4, 5, 6)
#define BEFORE(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4)
#endif

RL_INLINE float vtop(vf x) {
    float out = x[0];
    for (int i = 1; i < VF; i++) out = x[i] > out ? x[i] : out;
    return out;
}

// Half precision to single, exactly, in integers: NaN stays NaN.
RL_INLINE float half_to_float(uint16_t h) {
#if defined(__F16C__) || defined(__aarch64__)
    _Float16 x;
    __builtin_memcpy(&x, &h, 2);
    return (float)x;
#else
    // A multiplication adjusts the exponent, which also converts subnormal numbers.
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    float x;
    __builtin_memcpy(&x, &bits, 4);
    x *= 0x1p112f;
    __builtin_memcpy(&bits, &x, 4);
    if ((h & 0x7c00) == 0x7c00) bits = 0x7f800000u | (uint32_t)(h & 0x3ff) << 13;
    bits |= sign;
    __builtin_memcpy(&x, &bits, 4);
    return x;
#endif
}

RL_INLINE vf vload_half(const void *p) {
    vh h = vhload(p);
#if defined(__F16C__) || defined(__aarch64__)
    typedef _Float16 vhf __attribute__((vector_size(VF * 2)));
    return __builtin_convertvector((vhf)h, vf);
#else
    vu bits = __builtin_convertvector(h, vu), sign = (bits & 0x8000u) << 16;
    vf x = (vf)((bits & 0x7fffu) << 13) * 0x1p112f;
    vi special = (vi)((bits & 0x7c00u) == 0x7c00u);
    vf infinite = (vf)(0x7f800000u | (bits & 0x3ffu) << 13);
    return (vf)((vu)vselect(special, infinite, x) | sign);
#endif
}

RL_INLINE float bfloat_to_float(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}

RL_INLINE vf vload_bfloat(const void *p) {
    return (vf)(__builtin_convertvector(vhload(p), vu) << 16);
}

#endif

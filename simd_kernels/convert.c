// Elements of any dtype as float, int64 or double, and back, rounding to nearest even.
#include "math.h"

typedef void (*rl_load_f)(float *to, const void *from, int64_t stride, int64_t n);
typedef void (*rl_load_i)(int64_t *to, const void *from, int64_t stride, int64_t n);
typedef void (*rl_store_f)(void *to, const float *from, int64_t stride, int64_t n);
typedef void (*rl_store_i)(void *to, const int64_t *from, int64_t stride, int64_t n);

static const uint8_t RL_SIZE[] = {1, 1, 1, 2, 4, 4, 8, 2, 2, 4, 8, 1, 1};
#define IS_FLOAT(dtype)                                                                            \
    ((dtype) == RL_F32 || (dtype) == RL_F16 || (dtype) == RL_BF16 || (dtype) == RL_E4M3 ||         \
     (dtype) == RL_E5M2)
#define IS_INT(dtype) ((dtype) <= RL_I64)

static inline uint32_t float_bits(float x) {
    uint32_t bits;
    rl_copy(&bits, &x, 4);
    return bits;
}

static inline float bits_float(uint32_t bits) {
    float x;
    rl_copy(&x, &bits, 4);
    return x;
}

// Round a float to a format of `keep` mantissa bits whose smallest normal number is `least`. `ones`
// is the result above infinity's code or the largest number's (Micikevicius et al., 2022).
static inline uint32_t narrow(float x, int keep, uint32_t least, float magic, uint32_t top,
                              uint32_t nan) {
    uint32_t bits = float_bits(x) & 0x7fffffffu;
    int drop = 23 - keep;
    if (bits > 0x7f800000u) return nan;
    if (bits < least) // subnormal: adding `magic`, whose last place is the format's, rounds it
        return float_bits(bits_float(bits) + magic) - float_bits(magic);
    uint32_t even = bits + ((1u << (drop - 1)) - 1) + (bits >> drop & 1);
    uint32_t code = (even - (least - (1u << 23))) >> drop;
    return code < top ? code : top;
}

static inline uint8_t to_e4m3(float x) { // has no infinity; the largest number instead
    return (uint8_t)(narrow(x, 3, 0x3c800000u, 16384.0f, 0x7e, 0x7f) | float_bits(x) >> 31 << 7);
}
static inline uint8_t to_e5m2(float x) {
    return (uint8_t)(narrow(x, 2, 0x38800000u, 128.0f, 0x7c, 0x7f) | float_bits(x) >> 31 << 7);
}
static inline uint16_t to_half(float x) {
    uint32_t nan = 0x7e00 | (float_bits(x) >> 13 & 0x1ff);
    return (uint16_t)(narrow(x, 10, 0x38800000u, 0.5f, 0x7c00, nan) | float_bits(x) >> 31 << 15);
}
static inline uint16_t to_bfloat(float x) {
    uint32_t bits = float_bits(x);
    if (x != x) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float from_e4m3(uint8_t code) {
    float x = bits_float((uint32_t)(code & 0x7f) << 20) * 0x1p120f;
    if ((code & 0x7f) == 0x7f) x = __builtin_nanf("");
    return code & 0x80 ? -x : x;
}
static inline float from_e5m2(uint8_t code) { return half_to_float((uint16_t)(code << 8)); }

RL_INLINE void vstore_half(void *p, vf x) {
#if defined(__F16C__) || defined(__aarch64__)
    typedef _Float16 vhf __attribute__((vector_size(VF * 2)));
    vhstore(p, (vh)__builtin_convertvector(x, vhf));
#else
    vu bits = (vu)x & 0x7fffffffu, sign = ((vu)x & 0x80000000u) >> 16;
    vu even = bits + 0xfffu + (bits >> 13 & 1u);
    vu normal = (even - 0x38000000u) >> 13;
    normal = (vu)vselect((vi)(normal > 0x7c00u), (vf)((vu){} + 0x7c00u), (vf)normal);
    vu small = (vu)((vf)bits + 0.5f) - 0x3f000000u;
    vu nan = 0x7e00u | (bits >> 13 & 0x1ffu);
    vu code = (vu)vselect((vi)(bits < 0x38800000u), (vf)small, (vf)normal);
    code = (vu)vselect((vi)(bits > 0x7f800000u), (vf)nan, (vf)code);
    vhstore(p, __builtin_convertvector(code | sign, vh));
#endif
}

RL_INLINE void vstore_bfloat(void *p, vf x) {
    vu bits = (vu)x, even = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, nan = bits >> 16 | 0x40u;
    vu code = (vu)vselect((vi)(x != x), (vf)nan, (vf)even);
    vhstore(p, __builtin_convertvector(code, vh));
}

// A float truncated to an integer; out of range the nearest one; NaN becomes 0.
static inline int64_t to_i64(double x) {
    int64_t y = (int64_t)(x >= -0x1p63 && x < 0x1p63 ? x : 0);
    y = x >= 0x1p63 ? INT64_MAX : y;
    return x < -0x1p63 ? INT64_MIN : y;
}

// from(i) reads stored element i. Each macro makes a loop over elements `stride` apart, at any
// alignment.
#define PACKED __attribute__((packed, may_alias))
#define LOAD(name, type, out, value)                                                               \
    static void name(out *to, const void *from, int64_t stride, int64_t n) {                       \
        const struct { type x; } PACKED *at = from;                                                \
        RL_SMALL_LOOP for (int64_t i = 0; i < n; i++, at += stride) {                              \
            type x = at->x;                                                                        \
            to[i] = (out)(value);                                                                  \
        }                                                                                          \
    }
#define STORE(name, type, in, value)                                                               \
    static void name(void *to, const in *from, int64_t stride, int64_t n) {                        \
        struct { type x; } PACKED *at = to;                                                        \
        RL_SMALL_LOOP for (int64_t i = 0; i < n; i++, at += stride) {                              \
            in x = from[i];                                                                        \
            at->x = (type)(value);                                                                 \
        }                                                                                          \
    }
#define CLAMPED(low, high) (x = rl_max(low, rl_min(high, x)))

LOAD(load_f32_strided, float, float, x)
LOAD(load_f16_strided, uint16_t, float, half_to_float(x))
LOAD(load_bf16_strided, uint16_t, float, bfloat_to_float(x))
LOAD(load_e4m3, uint8_t, float, from_e4m3(x))
LOAD(load_e5m2, uint8_t, float, from_e5m2(x))
STORE(store_f32_strided, float, float, x)
STORE(store_f16_strided, uint16_t, float, to_half(x))
STORE(store_bf16_strided, uint16_t, float, to_bfloat(x))
STORE(store_e4m3, uint8_t, float, to_e4m3(x))
STORE(store_e5m2, uint8_t, float, to_e5m2(x))

LOAD(load_u8, uint8_t, int64_t, x)
LOAD(load_i8, int8_t, int64_t, x)
LOAD(load_i16, int16_t, int64_t, x)
LOAD(load_i32, int32_t, int64_t, x)
LOAD(load_u32, uint32_t, int64_t, x)
LOAD(load_i64, int64_t, int64_t, x)
STORE(store_bool, uint8_t, int64_t, x != 0)
STORE(store_i8, uint8_t, int64_t, x)
STORE(store_i16, uint16_t, int64_t, x)
STORE(store_i32, uint32_t, int64_t, x)
STORE(store_i64, int64_t, int64_t, x)

#define HALF_LOADS(name, from_vector, strided)                                                     \
    static void name(float *to, const void *from, int64_t stride, int64_t n) {                     \
        int64_t i = 0;                                                                             \
        const uint8_t *at = from;                                                                  \
        if (stride == 1)                                                                           \
            for (; i + VF <= n; i += VF) vstore(to + i, from_vector(at + i * 2));                  \
        strided(to + i, at + i * stride * 2, stride, n - i);                                       \
    }
#define HALF_STORES(name, to_vector, strided)                                                      \
    static void name(void *to, const float *from, int64_t stride, int64_t n) {                     \
        int64_t i = 0;                                                                             \
        uint8_t *at = to;                                                                          \
        if (stride == 1)                                                                           \
            for (; i + VF <= n; i += VF) to_vector(at + i * 2, vload(from + i));                   \
        strided(at + i * stride * 2, from + i, stride, n - i);                                     \
    }
HALF_LOADS(load_f16, vload_half, load_f16_strided)
HALF_LOADS(load_bf16, vload_bfloat, load_bf16_strided)
HALF_STORES(store_f16, vstore_half, store_f16_strided)
HALF_STORES(store_bf16, vstore_bfloat, store_bf16_strided)

static void load_f32(float *to, const void *from, int64_t stride, int64_t n) {
    const uint8_t *at = from;
    if (stride == 2) // reads nothing past the last element
        RL_SMALL_LOOP for (; n > 4; n -= 4, to += 4, at += 32)
            v4store(to, __builtin_shufflevector(v4load(at), v4load(at + 16), 0, 2, 4, 6));
    if (stride == 1) rl_copy(to, from, (size_t)n * 4);
    else if (stride) load_f32_strided(to, at, stride, n);
    else load_f32_strided(to, from, 0, n);
}

static void store_f32(void *to, const float *from, int64_t stride, int64_t n) {
    if (stride == 1) rl_copy(to, from, (size_t)n * 4);
    else store_f32_strided(to, from, stride, n);
}

// By dtype; NULL if the dtype is not of this kind.
static const rl_load_f LOAD_F[RL_N_DTYPES] = {
    [RL_F32] = load_f32, [RL_F16] = load_f16, [RL_BF16] = load_bf16,
    [RL_E4M3] = load_e4m3, [RL_E5M2] = load_e5m2};
static const rl_store_f STORE_F[RL_N_DTYPES] = {
    [RL_F32] = store_f32, [RL_F16] = store_f16, [RL_BF16] = store_bf16,
    [RL_E4M3] = store_e4m3, [RL_E5M2] = store_e5m2};
static const rl_load_i LOAD_I[RL_N_DTYPES] = {load_u8,  load_u8,  load_i8, load_i16,
                                              load_i32, load_u32, load_i64};
static const rl_store_i STORE_I[RL_N_DTYPES] = {store_bool, store_i8,  store_i8, store_i16,
                                                store_i32,  store_i32, store_i64};

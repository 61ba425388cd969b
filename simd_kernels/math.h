// Functions of float vectors. Errors are in ulp against the exact value, measured by the tests.
#ifndef MATH_H
#define MATH_H
#include "simd.h"

#if defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_sqrt)
#define RL_ELEMENTWISE 1
#endif
#endif
#ifdef RL_ELEMENTWISE
#define vsqrt(x) __builtin_elementwise_sqrt(x)
#define vfloor(x) __builtin_elementwise_floor(x)
#define vceil(x) __builtin_elementwise_ceil(x)
#define vtrunc(x) __builtin_elementwise_trunc(x)
#define vrint(x) __builtin_elementwise_roundeven(x)
#else
#define RL_LANES(name, fn)                                                                         \
    RL_INLINE vf name(vf x) {                                                                      \
        for (int i = 0; i < VF; i++) x[i] = fn(x[i]);                                              \
        return x;                                                                                  \
    }
RL_LANES(vsqrt, __builtin_sqrtf)
RL_LANES(vfloor, __builtin_floorf)
RL_LANES(vceil, __builtin_ceilf)
RL_LANES(vtrunc, __builtin_truncf)
RL_LANES(vrint, __builtin_rintf)
#endif

// Marks a loop that stays small in the module that the tab downloads: not vectorized or unrolled.
#if defined(__wasm__)
#define RL_SMALL_LOOP _Pragma("clang loop vectorize(disable) unroll(disable)")
#else
#define RL_SMALL_LOOP
#endif

// Marks code that runs once per op. It is optimized for size, because the tab downloads it.
#if defined(__wasm__)
#define RL_ONCE __attribute__((minsize, noinline))
#else
#define RL_ONCE
#endif
// Marks functions that are not inlined.
#define RL_APART __attribute__((noinline))

typedef double vd __attribute__((vector_size(VF * 8)));

#define VSIGN ((int32_t)0x80000000)
RL_INLINE vf vabs(vf x) { return (vf)((vi)x & 0x7fffffff); }
RL_INLINE vf vsigned(vf size, vf sign) { return (vf)((vi)size | ((vi)sign & VSIGN)); }
RL_INLINE int vany(vi mask) {
    int32_t found = 0;
    for (int i = 0; i < VF; i++) found |= mask[i];
    return found != 0;
}

// 2 ** k for k of [-126, 127].
RL_INLINE vf vpower2(vi k) { return (vf)((k + 127) << 23); }

// e ** r, where x = k log(2) + r and |r| <= log(2) / 2: a polynomial (minimax, as all here).
// shifted: `zero` + k. Adding zero, which is 1.5 * 2 ** 23 or little more, rounds to an integer,
// which is then in the low bits.
RL_INLINE vf vexp_part(vf x, float zero, vf *shifted) {
    *shifted = vfma(x, vsplat(1.44269504f), vsplat(zero));
    vf whole = *shifted - vsplat(zero);
    vf r = vfma(whole, vsplat(-0.693359375f), x);
    r = vfma(whole, vsplat(2.12194440e-4f), r);
    vf r2 = r * r, p = vfma(vsplat(0.166665211f), r, vsplat(0.49999994f));
    vf high = vfma(vsplat(0.00836873055f), r, vsplat(0.041668389f));
    p = vfma(vfma(vsplat(0.00138145685f), r2, high), r2, p);
    return vfma(p, r2, r) + vsplat(1.0f);
}

// e ** x within 1 ulp; 0 or infinity out of range.
RL_INLINE vf vexp(vf x) {
    vf shifted;
    x = vmax(vsplat(-104.5f), vmin(vsplat(89.0f), x)); // NaN stays
    vf p = vexp_part(x, 12582912.0f, &shifted);
    vi k = (vi)((vu)shifted - 0x4b400000u);
    // In two steps, for subnormal results and the largest ones.
    vi half = k >> 1;
    return p * vpower2(half) * vpower2(k - half);
}

// The same where x <= 40: 2 ** (k + 64) goes to the exponent's bits, and 2 ** -64 is multiplied.
RL_INLINE vf vexp_down(vf x) {
    vf shifted;
    x = vmax(vsplat(-104.5f), x);
    vf p = vexp_part(x, 12582912.0f + 64, &shifted);
    p = (vf)((vu)p + ((vu)shifted << 23));
    return vfma(p, vsplat(0x1p-64f), x - x); // NaN stays
}

// The same as a call, where it is not in an inner loop, because its code is long.
static RL_APART vf exp_down(vf x) { return vexp_down(x); }

// Natural logarithm within 1 ulp; -infinity at 0, NaN below.
RL_INLINE vf vlog(vf x) {
    vi small = (vi)(x < 1.17549435e-38f);
    vf scaled = vselect(small, x * 8388608.0f, x);
    // Mantissa from sqrt(1/2) to sqrt(2), less one.
    vi bits = (vi)((vu)scaled - 0x3f3504f3u);
    vi k = bits >> 23;
    vf f = (vf)((bits & 0x7fffff) + 0x3f3504f3) - 1.0f;
    vf e = __builtin_convertvector(k - (small & 23), vf);
    vf p = vfma(vsplat(0.0674661249f), f, vsplat(-0.116756596f));
    p = vfma(p, f, vsplat(0.118881799f));
    p = vfma(p, f, vsplat(-0.124055892f));
    p = vfma(p, f, vsplat(0.142195493f));
    p = vfma(p, f, vsplat(-0.166679963f));
    p = vfma(p, f, vsplat(0.200021192f));
    p = vfma(p, f, vsplat(-0.250000089f));
    p = vfma(p, f, vsplat(0.333333135f));
    vf square = f * f;
    vf y = p * f * square;
    y = vfma(e, vsplat(-2.12194440e-4f), y);
    y = vfma(square, vsplat(-0.5f), y);
    y = vfma(e, vsplat(0.693359375f), f + y);
    y = vselect((vi)(x == 0), vsplat(-__builtin_inff()), y);
    y = vselect((vi)(x < 0), vsplat(__builtin_nanf("")), y);
    return vselect((vi)(x == __builtin_inff()) | (vi)(x != x), x, y);
}

// log(1 + x): the logarithm of the rounded sum, and the first term of what the rounding leaves out.
RL_INLINE vf vlog1p(vf x) {
    vf sum = 1.0f + x, y = vlog(sum), rest = (x - (sum - 1.0f)) / sum;
    y += vselect((vi)(rest == rest), rest, (vf){});
    return vselect((vi)(sum == 1.0f), x, y);
}

// Hyperbolic tangent within 2 ulp.
RL_INLINE vf vtanh(vf x) {
    vf a = vabs(x), s = x * x;
    vf p = vfma(vsplat(-0.00569889974f), s, vsplat(0.0206338502f));
    p = vfma(p, s, vsplat(-0.0537381805f));
    p = vfma(p, s, vsplat(0.133314252f));
    p = vfma(p, s, vsplat(-0.333332807f));
    vf inner = vfma(p * s, a, a);
    vf e = vexp_down(-a - a), one = vsplat(1.0f);
    vf outer = one - (e + e) / (e + one);
    return vsigned(vselect((vi)(a < 0.625f), inner, outer), x);
}

// The error function within 2 ulp: a polynomial times x near 0, 1 - e ** (a polynomial) elsewhere.
RL_INLINE vf verf(vf x) {
    vf a = vabs(x), s = x * x;
    vf p = vfma(vsplat(8.67169292e-05f), s, vsplat(-0.000821031805f));
    p = vfma(p, s, vsplat(0.00520668505f));
    p = vfma(p, s, vsplat(-0.0268615615f));
    p = vfma(p, s, vsplat(0.11283733f));
    p = vfma(p, s, vsplat(-0.376126349f));
    p = vfma(p, s, vsplat(0.128379166f));
    vf inner = vfma(p, a, a);
    vf t = vselect((vi)(a > 4.0f), vsplat(4.0f), a); // erf is 1 from 3.92 on
    vf q = vfma(vsplat(-2.04514636e-05f), t, vsplat(0.000427084102f));
    q = vfma(q, t, vsplat(-0.00413565012f));
    q = vfma(q, t, vsplat(0.025027154f));
    q = vfma(q, t, vsplat(-0.108139046f));
    q = vfma(q, t, vsplat(-0.633473456f));
    q = vfma(q, t, vsplat(-1.12945318f));
    q = vfma(q, t, vsplat(0.000162025972f));
    vf outer = vselect((vi)(x != x), x, 1.0f - vexp_down(q));
    return vsigned(vselect((vi)(a < 0.875f), inner, outer), x);
}

// 1 / (1 + e ** -x) within 3 ulp. No exponent is positive.
RL_INLINE vf vsigmoid(vf x) {
    vf e = vexp_down(-vabs(x)), one = vsplat(1.0f);
    return vselect((vi)(x >= 0.0f), one, e) / (e + one);
}

// Within 4 ulp.
RL_INLINE vf vsilu(vf x) { return x * vsigmoid(x); }

// x Phi(x) within 3 ulp where x > 0 and 1e-7 below: max(x, 0) - |x| Phi(-|x|), where Phi is e to a
// polynomial. From -5.6 down it is 0 (but NaN at -infinity), as (1 + erf) x is.
RL_INLINE vf vgelu(vf x) {
    vf a = vabs(x);
    vi far = (vi)(a > 5.6f);
    vf t = vselect(far, vsplat(5.6f), a);
    // In pairs and pairs of pairs: short chains have less latency than one long one.
    vf t2 = t * t, t4 = t2 * t2;
    vf low = vfma(vsplat(-0.797885776f), t, vsplat(-0.693147182f));
    low = vfma(vfma(vsplat(-0.0363897569f), t, vsplat(-0.318296492f)), t2, low);
    vf high = vfma(vsplat(-7.35030262e-05f), t, vsplat(0.0048876158f));
    high = vfma(vfma(vsplat(3.65618507e-05f), t, vsplat(-0.000149213593f)), t2, high);
    high = vfma(vfma(vsplat(1.79396977e-07f), t, vsplat(-4.03633157e-06f)), t4, high);
    vf p = vfma(high, t4, low);
    vf below = vselect((vi)(x < 0.0f), x, (vf){}); // the lower of x and 0
    return x - below - vselect(far, below * 0.0f, a * vexp_down(p));
}

// x sigmoid(2 u) = x (1 + tanh(u)) / 2, within 3 ulp where x > 0 and 1e-7 below.
RL_INLINE vf vgelu_tanh(vf x) {
    vf u = (x * x * 0.044715f + 1.0f) * x;
    return x / (vexp(u * -1.59576912f) + 1.0f);
}

// x - n pi/2 for one large x, n modulo 4. x is m * 2 ** e with m of 24 bits. It uses the 96 bits of
// 2/pi that do not give multiples of 4 (Payne and Hanek, 1983).
static float reduce_large(float x, int32_t *n) {
    static const uint64_t bits[] = {0, 0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u,
                                    0xdb6295993c439041u, 0xfe5163abdebbc561u};
    uint32_t word;
    __builtin_memcpy(&word, &x, 4);
    int e = (int)(word >> 23 & 255) - 150, at = e - 2 + 64;
    uint64_t m = (word & 0x7fffff) | 0x800000, low = bits[at / 64 + 1];
    uint64_t window = bits[at / 64], rest = low;
    if (at % 64) {
        window = window << at % 64 | low >> (64 - at % 64);
        rest = low << at % 64 | (at / 64 < 3 ? bits[at / 64 + 2] >> (64 - at % 64) : 0);
    }
    uint64_t product = m * window + (m * (rest >> 32) >> 32); // in units of 2 ** -62
    uint64_t near = product + ((uint64_t)1 << 61);
    *n = (int32_t)(near >> 62);
    double r = (double)(int64_t)(product - (near >> 62 << 62)) * 0x1p-62 * 0x1.921fb54442d18p+0;
    if (word >> 31) r = -r, *n = -*n;
    return (float)r;
}

// Sine or cosine within 2 ulp. The argument is reduced in doubles, a large one lane by lane.
RL_INLINE vf vsincos(vf x, int32_t quarter) {
    vd wide = __builtin_convertvector(x, vd);
    vf shifted = vfma(x, vsplat(0.636619772f), vsplat(12582912.0f));
    vi n = (vi)((vu)shifted - 0x4b400000u);
    vd whole = __builtin_convertvector(shifted - 12582912.0f, vd);
    vd reduced = wide - whole * 0x1.921fb544p+0 - whole * 0x1.0b4611a626331p-34;
    vf r = __builtin_convertvector(reduced, vf);
    vi large = (vi)(vabs(x) > 1e5f);
    if (vany(large))
        RL_SMALL_LOOP for (int i = 0; i < VF; i++) {
            int32_t turns = 0;
            float v = x[i];
            if (!large[i]) continue;
            r[i] = v - v == 0 ? reduce_large(v, &turns) : __builtin_nanf("");
            n[i] = turns;
        }
    n = n + quarter;
    vf s = r * r;
    vf p = vfma(vsplat(-0.00019514453f), s, vsplat(0.00833215471f));
    p = vfma(p, s, vsplat(-0.166666552f));
    vf sine = vsigned(vfma(p * s, r, r), r);
    vf q = vfma(vsplat(2.44322073e-05f), s, vsplat(-0.00138873083f));
    q = vfma(q, s, vsplat(0.0416666456f));
    vf cosine = vfma(q * s, s, vfma(s, vsplat(-0.5f), vsplat(1.0f)));
    vf y = vselect((n & 1) == 1, cosine, sine);
    return (vf)((vu)y ^ (vu)(n & 2) << 30);
}


// Transposes four rows of four floats, `ts` and `fs` apart.
RL_INLINE void turn4(float *to, int64_t ts, const float *from, int64_t fs) {
    v4 a = v4load(from), b = v4load(from + fs);
    v4 c = v4load(from + 2 * fs), d = v4load(from + 3 * fs);
    v4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    v4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    v4 ba = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    v4 dc = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    v4store(to, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    v4store(to + ts, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    v4store(to + 2 * ts, __builtin_shufflevector(ba, dc, 0, 1, 4, 5));
    v4store(to + 3 * ts, __builtin_shufflevector(ba, dc, 2, 3, 6, 7));
}
#endif

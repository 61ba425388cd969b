// Float32 functions of the elementwise table. _f: float32, _i and _u: integers.
//
// WGSL's error bounds are too loose for most of its functions (those of sin, cos, tanh, and of log
// near one are absolute). So these are minimax polynomials for the relative error, after a
// reduction of the argument. tests/webgpu/test_accuracy.py bounds their errors in ulp. Denormal
// results and arguments may count as zero.

// Infinity, hidden from the compiler.
fn infinity() -> f32 { return from_bits(0x7f800000u); }

// A nan, hidden from the compiler.
fn not_a_number() -> f32 { return from_bits(0x7fc00000u); }

// The absolute value of `size` with the sign of `sign`.
fn with_sign(size: f32, sign: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(size) & 0x7fffffffu) | (bitcast<u32>(sign) & 0x80000000u));
}

// Whether v is below zero, or minus zero.
fn is_negative(v: f32) -> bool { return (bitcast<u32>(v) & 0x80000000u) != 0u; }

// v with its low 12 bits cleared. Products of two such numbers are exact in any order.
fn top_half(v: f32) -> f32 { return bitcast<f32>(bitcast<u32>(v) & 0xfffff000u); }

// 2 ** n for n from -126 to 127.
fn power_of_two(n: i32) -> f32 { return bitcast<f32>(u32(n + 127) << 23u); }

// v * 2 ** n in two steps, because 2 ** n may be out of range.
fn scaled(v: f32, n: i32) -> f32 {
  let half = n / 2;
  return v * power_of_two(half) * power_of_two(n - half);
}

fn sign_f(v: f32) -> f32 { return select(f32(i32(v > 0.0) - i32(v < 0.0)), 0.0, is_nan(v)); }

fn relu_f(v: f32) -> f32 { return select(max(v, 0.0), v, is_nan(v)); }

// e ** v * 2 ** n. v is n' ln 2 + r; e ** r = 1 + r + r^2 q(r).
fn exp_scaled(v: f32, n: i32) -> f32 {
  let x = clamp(v, -126.0, 126.0);
  let k = round(x * 1.442695041);
  let r = (x - k * 0.693145751953125) - k * 1.4286068e-06;
  let q = (((1.3813145e-03 * r + 8.369419e-03) * r + 4.1668456e-02) * r + 1.6666515e-01) * r
          + 4.9999994e-01;
  return scaled(1.0 + (r + r * r * q), i32(k) + n);
}

fn exp_f(v: f32) -> f32 { return select(exp_scaled(v, 0), v, is_nan(v)); }

// exp(v) - 1; the 1 is left out until the end.
fn expm1_f(v: f32) -> f32 {
  if (is_nan(v)) {
    return v;
  }
  if (v > 17.5) {
    return exp_scaled(v, 0);
  }
  if (v < -17.5) {
    return -1.0;
  }
  let k = round(v * 1.442695041);
  let r = (v - k * 0.693145751953125) - k * 1.4286068e-06;
  let q = ((((1.9845959e-04 * r + 1.3941652e-03) * r + 8.3333915e-03) * r + 4.1666348e-02) * r
           + 1.6666666e-01) * r + 0.5;
  let power = power_of_two(i32(k));
  return select(power * (r + r * r * q) + (power - 1.0), v + r * r * q, k == 0.0);
}

// log(1 + f) for f from sqrt(1/2) - 1 to sqrt(2) - 1, without its first two terms f - f^2 / 2.
fn log_tail(f: f32) -> f32 {
  let a = ((6.757568e-02 * f - 1.16943344e-01) * f + 1.1893513e-01) * f - 1.24030836e-01;
  let q = ((((a * f + 1.4218554e-01) * f - 1.666809e-01) * f + 2.0002167e-01) * f
           - 2.500001e-01) * f + 3.333331e-01;
  return f * f * f * q;
}

// (f, k) with v = (1 + f) * 2 ** k, 1 + f between sqrt(1/2) and sqrt(2), for v above zero.
fn log_parts(v: f32) -> vec2<f32> {
  var bits = bitcast<u32>(v);
  var k = 0;
  if (bits < 0x00800000u) { // denormal
    bits = bitcast<u32>(f32(bits));
    k = -149;
  }
  let up = bits + (0x3f800000u - 0x3f3504f3u);
  k += i32(up >> 23u) - 127;
  return vec2<f32>(bitcast<f32>((up & 0x007fffffu) + 0x3f3504f3u) - 1.0, f32(k));
}

// The result of every logarithm for zero, negative numbers, infinity and nan; `found` for others.
fn log_rules(v: f32, found: f32) -> f32 {
  let bits = bitcast<u32>(v);
  if (bits - 1u < 0x7f7fffffu) {
    return found;
  }
  if (bits << 1u == 0u) {
    return -infinity();
  }
  return select(v, not_a_number(), bits > 0x7f800000u);
}

fn log_f(v: f32) -> f32 {
  let p = log_parts(v);
  let low = log_tail(p.x) - 0.5 * p.x * p.x;
  return log_rules(v, p.y * 0.693145751953125 + (p.x + (p.y * 1.4286068e-06 + low)));
}

fn log1p_f(v: f32) -> f32 {
  if (abs(v) < 0.29) {
    return select(v + (log_tail(v) - 0.5 * v * v), v, abs(v) < 1e-7);
  }
  if (is_nan(v)) {
    return v;
  }
  return log_f(1.0 + v);
}

// log2(e) = 1.4423828125 + 3.122284e-04, whose first part has 12 bits.
fn log2_f(v: f32) -> f32 {
  let p = log_parts(v);
  let low = log_tail(p.x) - 0.5 * p.x * p.x;
  let top = top_half(p.x);
  let rest = (p.x - top) + low;
  return log_rules(v, p.y + (top * 1.4423828125 + (rest * 1.442695041 + top * 3.122284e-04)));
}

fn log10_f(v: f32) -> f32 {
  let p = log_parts(v);
  let low = log_tail(p.x) - 0.5 * p.x * p.x;
  let top = top_half(p.x);
  let rest = (p.x - top) + low;
  let m = top * 0.4342041015625 + (rest * 0.4342944819 + top * 9.038034e-05);
  return log_rules(v, p.y * 0.301025390625 + (p.y * 4.605039e-06 + m));
}

fn sqrt_f(v: f32) -> f32 {
  let bits = bitcast<u32>(v);
  if (bits << 1u == 0u || bits == 0x7f800000u || is_nan(v)) {
    return v;
  }
  return select(sqrt(v), not_a_number(), bits > 0x80000000u);
}

fn rsqrt_f(v: f32) -> f32 {
  let bits = bitcast<u32>(v);
  if (bits << 1u == 0u) {
    return with_sign(infinity(), v);
  }
  if (bits == 0x7f800000u) {
    return 0.0;
  }
  return select(select(1.0 / sqrt(v), not_a_number(), bits > 0x80000000u), v, is_nan(v));
}

fn reciprocal_f(v: f32) -> f32 { return div_f(1.0, v); }

// a / b. Tiny and huge divisors are scaled, because WGSL bounds the error only for the others.
fn div_f(a: f32, b: f32) -> f32 {
  let exponent = (bitcast<u32>(b) >> 23u) & 255u;
  if (exponent - 2u < 250u && is_finite(a)) {
    return a / b;
  }
  if (is_nan(a) || is_nan(b)) {
    return not_a_number();
  }
  let sign = bitcast<f32>((bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u);
  if (is_inf(b)) {
    return select(with_sign(0.0, sign), not_a_number(), is_inf(a));
  }
  if (bitcast<u32>(b) << 1u == 0u) {
    return select(with_sign(infinity(), sign), not_a_number(), bitcast<u32>(a) << 1u == 0u);
  }
  if (is_inf(a)) {
    return with_sign(a, sign);
  }
  if (exponent >= 252u) {
    return (a * 0.03125) / (b * 0.03125);
  }
  return (a / (b * 0x1p60f)) * 0x1p60f;
}

fn sinh_f(v: f32) -> f32 {
  if (abs(v) < 1.0) {
    let z = v * v;
    return v + v * z * (((2.8170127e-06 * z + 1.983615e-04) * z + 8.3333505e-03) * z
                        + 1.6666667e-01);
  }
  let size = abs(v);
  let found = exp_scaled(size, -1) - exp_scaled(-size, -1);
  return select(with_sign(found, v), v, is_nan(v));
}

fn cosh_f(v: f32) -> f32 {
  let size = abs(v);
  return select(exp_scaled(size, -1) + exp_scaled(-size, -1), v, is_nan(v));
}

fn tanh_f(v: f32) -> f32 {
  if (is_nan(v)) {
    return v;
  }
  let size = abs(v);
  if (size < 0.625) {
    let z = v * v;
    let q = ((((2.1419153e-03 * z - 8.17629e-03) * z + 2.170027e-02) * z - 5.394669e-02) * z
             + 1.3333206e-01) * z - 3.333333e-01;
    return v + v * z * q;
  }
  return with_sign(1.0 - 2.0 / (exp_scaled(2.0 * min(size, 20.0), 0) + 1.0), v);
}

// The error function: v q(v^2) near zero, 1 - exp(q(v)) beyond.
fn erf_f(v: f32) -> f32 {
  if (is_nan(v)) {
    return v;
  }
  let size = abs(v);
  if (size < 0.92) {
    let z = v * v;
    let a = (8.369223e-05 * z - 8.1424974e-04) * z + 5.201014e-03;
    return v + v * ((((a * z - 2.6859391e-02) * z + 1.1283696e-01) * z - 3.7612635e-01) * z
                    + 1.283791671e-01);
  }
  if (size > 4.0) {
    return with_sign(1.0, v);
  }
  let a = ((-2.109497e-05 * size + 4.3446175e-04) * size - 4.171059e-03) * size + 2.5119418e-02;
  let q = (((a * size - 1.0828008e-01) * size - 6.333469e-01) * size - 1.1295149e+00) * size
          + 1.7468329e-04;
  return with_sign(1.0 - exp_scaled(q, 0), v);
}

fn sigmoid_f(v: f32) -> f32 {
  let e = exp_scaled(-abs(v), 0);
  return select(select(1.0, e, v < 0.0) / (1.0 + e), v, is_nan(v));
}

// -inf times a zero is nan, as in PyTorch.
fn silu_f(v: f32) -> f32 {
  return select(v * sigmoid_f(v), not_a_number(), bitcast<u32>(v) == 0xff800000u);
}

fn gelu_f(v: f32) -> f32 {
  let found = 0.5 * v * (1.0 + erf_f(v * 0.7071067811865476));
  return select(found, not_a_number(), bitcast<u32>(v) == 0xff800000u);
}

fn gelu_tanh_f(v: f32) -> f32 {
  let x = clamp(v, -1e10, 1e10);
  let t = tanh_f(0.7978845608028654 * (x * (1.0 + 0.044715 * x * x)));
  let found = 0.5 * v * (1.0 + t);
  return select(select(found, not_a_number(), bitcast<u32>(v) == 0xff800000u), v, is_nan(v));
}

// fmod, exactly: long division of the mantissas, eight bits at a time.
fn fmod_f(a: f32, b: f32) -> f32 {
  if (!is_finite(a) || is_nan(b) || bitcast<u32>(b) << 1u == 0u) {
    return not_a_number();
  }
  let x = bitcast<u32>(a) & 0x7fffffffu;
  let y = bitcast<u32>(b) & 0x7fffffffu;
  if (x < y) {
    return a;
  }
  let ex = max(x >> 23u, 1u);
  let ey = max(y >> 23u, 1u);
  var rest = (x & 0x7fffffu) | select(0u, 0x800000u, x >= 0x800000u);
  let divisor = (y & 0x7fffffu) | select(0u, 0x800000u, y >= 0x800000u);
  rest %= divisor;
  for (var left = ex - ey; left > 0u && rest > 0u;) {
    let step = min(left, 8u);
    rest = (rest << step) % divisor;
    left -= step;
  }
  return with_sign(scaled(f32(rest), i32(ey) - 150), a);
}

fn remainder_f(a: f32, b: f32) -> f32 {
  let r = fmod_f(a, b);
  if (r == 0.0) {
    return with_sign(r, b);
  }
  return select(r, r + b, (r < 0.0) != (b < 0.0) && !is_nan(r));
}

fn floor_divide_f(a: f32, b: f32) -> f32 {
  if (bitcast<u32>(b) << 1u == 0u) {
    return div_f(a, b);
  }
  let r = fmod_f(a, b);
  if (is_nan(r)) {
    return r;
  }
  if (is_inf(b)) {
    return select(0.0, -1.0, a != 0.0 && (a < 0.0) != (b < 0.0));
  }
  let whole = round(div_f(a - r, b));
  return whole - select(0.0, 1.0, r != 0.0 && (r < 0.0) != (b < 0.0));
}

// (high, low) of log2(v) to about 34 bits, for finite v above zero.
//
// log(1 + f) = 2 atanh(s) with s = f / (2 + f) in two floats; the other terms are small. Parts are
// split by rounding to a grid, because a compiler may cancel a sum that is subtracted again.
fn log2_wide(v: f32) -> vec2<f32> {
  let p = log_parts(v);
  let f_top = round(p.x * 1024.0) * 0.0009765625;
  let d_top = 2.0 + f_top;
  let d = 2.0 + p.x;
  let s = top_half(p.x / d);
  // The remainder f - s * (2 + f); its products are exact or small.
  let left = (p.x - s * d_top) - s * (p.x - f_top);
  let s_rest = left / d;
  let z = (s + s_rest) * (s + s_rest);
  let q = ((1.18053325e-01 * z + 1.4267941e-01) * z + 2.0000178e-01) * z + 3.333333e-01;
  let tail = s_rest + (s + s_rest) * z * q;
  // times 2 log2(e) = 2.884765625 + 6.244568e-04
  let high = s * 2.884765625;
  let grid = round(high * 4096.0) * 0.000244140625;
  return vec2<f32>(p.y + grid, (high - grid) + (s * 6.244568e-04 + tail * 2.885390082));
}

// a ** b for finite a above zero and finite b.
fn pow_positive(a: f32, b: f32) -> f32 {
  let l = log2_wide(a);
  let b_top = top_half(b);
  let l_top = top_half(l.x);
  let high = b_top * l_top;
  let low = b_top * ((l.x - l_top) + l.y) + (b - b_top) * (l.x + l.y);
  let sum = clamp(high + low, -300.0, 300.0);
  let k = round(sum);
  let r = clamp((high - k) + low, -1.0, 1.0);
  let q = (((1.5195026e-05 * r + 1.5468022e-04) * r + 1.333395e-03) * r + 9.618035e-03) * r;
  let found = 1.0 + r * (((q + 5.5504102e-02) * r + 2.402265e-01) * r + 6.931472e-01);
  return scaled(found, clamp(i32(k), -252, 252));
}

// C's pow.
fn pow_f(a: f32, b: f32) -> f32 {
  if (b == 0.0 || a == 1.0) {
    return 1.0;
  }
  if (is_nan(a) || is_nan(b)) {
    return not_a_number();
  }
  let size = abs(a);
  if (is_inf(b)) {
    if (size == 1.0) {
      return 1.0;
    }
    return select(0.0, infinity(), (size > 1.0) == (b > 0.0));
  }
  let whole = abs(b) >= 8388608.0 || floor(b) == b;
  let odd = abs(b) < 16777216.0 && whole && (i32(clamp(b, -16777216.0, 16777216.0)) & 1) == 1;
  var found = 0.0;
  if (bitcast<u32>(size) == 0u) {
    found = select(0.0, infinity(), b < 0.0);
  } else if (is_inf(a)) {
    found = select(infinity(), 0.0, b < 0.0);
  } else {
    found = pow_positive(size, b);
    if (a < 0.0 && !whole) {
      return not_a_number();
    }
  }
  return select(found, -found, odd && is_negative(a));
}

fn maximum_f(a: f32, b: f32) -> f32 {
  return select(select(max(a, b), b, is_nan(b)), a, is_nan(a));
}

fn minimum_f(a: f32, b: f32) -> f32 {
  return select(select(min(a, b), b, is_nan(b)), a, is_nan(a));
}

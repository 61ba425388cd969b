// Functions of float32 that the elementwise table names. _f: float32, _i and _u: integers.

// v without its fraction as an integer: the nearest that fits, and 0 for nan.
fn whole_i32(v: f32) -> i32 {
  if (is_nan(v)) {
    return 0;
  }
  if (v >= 2147483648.0) {
    return 2147483647;
  }
  if (v <= -2147483648.0) {
    return -2147483647 - 1;
  }
  return i32(v);
}

// The same for unsigned integers.
fn whole_u32(v: f32) -> u32 {
  if (is_nan(v) || v <= 0.0) {
    return 0u;
  }
  if (v >= 4294967296.0) {
    return 4294967295u;
  }
  return u32(v);
}

fn sign_f(v: f32) -> f32 { return select(0.0, sign(v), !is_nan(v)); }

fn relu_f(v: f32) -> f32 { return select(max(v, 0.0), v, is_nan(v)); }

fn exp_f(v: f32) -> f32 { return exp(v); }

fn expm1_f(v: f32) -> f32 { return exp(v) - 1.0; }

fn log_f(v: f32) -> f32 { return log(v); }

fn log1p_f(v: f32) -> f32 { return log(1.0 + v); }

fn log2_f(v: f32) -> f32 { return log2(v); }

fn log10_f(v: f32) -> f32 { return log2(v) * 0.30102999566; }

fn sqrt_f(v: f32) -> f32 { return sqrt(v); }

fn rsqrt_f(v: f32) -> f32 { return 1.0 / sqrt(v); }

fn reciprocal_f(v: f32) -> f32 { return 1.0 / v; }

fn sin_f(v: f32) -> f32 { return sin(v); }

fn cos_f(v: f32) -> f32 { return cos(v); }

fn tan_f(v: f32) -> f32 { return tan(v); }

fn asin_f(v: f32) -> f32 { return asin(v); }

fn acos_f(v: f32) -> f32 { return acos(v); }

fn atan_f(v: f32) -> f32 { return atan(v); }

fn sinh_f(v: f32) -> f32 { return sinh(v); }

fn cosh_f(v: f32) -> f32 { return cosh(v); }

fn tanh_f(v: f32) -> f32 { return tanh(v); }

fn erf_f(v: f32) -> f32 {
  let t = 1.0 / (1.0 + 0.3275911 * abs(v));
  let y = 1.0 - (((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t
          + 0.254829592) * t * exp(-v * v);
  return sign(v) * y;
}

fn sigmoid_f(v: f32) -> f32 { return 1.0 / (1.0 + exp(-v)); }

fn silu_f(v: f32) -> f32 { return v / (1.0 + exp(-v)); }

fn gelu_f(v: f32) -> f32 { return 0.5 * v * (1.0 + erf_f(v * 0.7071067811865476)); }

fn gelu_tanh_f(v: f32) -> f32 {
  return 0.5 * v * (1.0 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
}

fn div_f(a: f32, b: f32) -> f32 { return a / b; }

fn floor_divide_f(a: f32, b: f32) -> f32 { return floor(a / b); }

fn floor_divide_i(a: i32, b: i32) -> i32 {
  if (b == 0) {
    return 0;
  }
  if (b == -1) {
    return -a;
  }
  let q = a / b;
  return q - i32(a % b != 0 && (a < 0) != (b < 0));
}

fn floor_divide_u(a: u32, b: u32) -> u32 { return select(a / max(b, 1u), 0u, b == 0u); }

fn remainder_f(a: f32, b: f32) -> f32 { return a - b * floor(a / b); }

fn remainder_i(a: i32, b: i32) -> i32 {
  if (b == 0 || b == -1) {
    return 0;
  }
  let r = a % b;
  return r + select(0, b, r != 0 && (r < 0) != (b < 0));
}

fn remainder_u(a: u32, b: u32) -> u32 { return select(a % max(b, 1u), 0u, b == 0u); }

fn pow_f(a: f32, b: f32) -> f32 { return pow(a, b); }

fn pow_u(a: u32, b: u32) -> u32 {
  var base = a;
  var left = b;
  var out = 1u;
  while (left > 0u) {
    if ((left & 1u) == 1u) {
      out *= base;
    }
    base *= base;
    left >>= 1u;
  }
  return out;
}

fn pow_i(a: i32, b: i32) -> i32 {
  if (b < 0) {
    if (a == 1) {
      return 1;
    }
    return select(0, select(1, -1, (b & 1) == 1), a == -1);
  }
  return bitcast<i32>(pow_u(bitcast<u32>(a), u32(b)));
}

fn maximum_f(a: f32, b: f32) -> f32 {
  return select(select(max(a, b), b, is_nan(b)), a, is_nan(a));
}

fn minimum_f(a: f32, b: f32) -> f32 {
  return select(select(min(a, b), b, is_nan(b)), a, is_nan(a));
}

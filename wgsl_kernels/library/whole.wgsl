// 32-bit integer functions of the elementwise table. Division by zero gives zero.

fn floor_divide_i(a: i32, b: i32) -> i32 {
  if (b == 0) {
    return 0;
  }
  if (b == -1) {
    return -a;
  }
  let q = a / b;
  return q - i32(a != q * b && (a < 0) != (b < 0));
}

fn floor_divide_u(a: u32, b: u32) -> u32 { return select(a / max(b, 1u), 0u, b == 0u); }

fn remainder_i(a: i32, b: i32) -> i32 {
  if (b == 0 || b == -1) {
    return 0;
  }
  // Not a % b, which Vulkan leaves undefined where a or b is negative (SPIR-V's OpSRem).
  let r = a - a / b * b;
  return r + select(0, b, r != 0 && (r < 0) != (b < 0));
}

fn remainder_u(a: u32, b: u32) -> u32 { return select(a % max(b, 1u), 0u, b == 0u); }

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

// v truncated to an integer: out of range the nearest one, and 0 for nan.
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

// int64 is held in 32 bits. P(6) is the status code for a result out of range.
fn kept_64(v: i32, over: bool) -> i32 {
  if (over) {
    note(P(6u), v, 0u);
  }
  return v;
}

fn add_64(a: i32, b: i32) -> i32 {
  let r = a + b;
  return kept_64(r, ((a ^ r) & (b ^ r)) < 0);
}

fn sub_64(a: i32, b: i32) -> i32 {
  let r = a - b;
  return kept_64(r, ((a ^ b) & (a ^ r)) < 0);
}

// |v| as an unsigned number, which can hold that of -2^31.
fn size_u(v: i32) -> u32 {
  return select(bitcast<u32>(v), 0u - bitcast<u32>(v), v < 0);
}

fn mul_64(a: i32, b: i32) -> i32 {
  let p = wide_product(size_u(a), size_u(b));
  let negative = (a ^ b) < 0;
  let over = p.y != 0u || p.x > 0x7fffffffu + select(0u, 1u, negative);
  return kept_64(bitcast<i32>(select(p.x, 0u - p.x, negative)), over);
}

fn pow_64(a: i32, b: i32) -> i32 {
  if (b < 0 || (a >= -1 && a <= 1)) {
    return pow_i(a, b);
  }
  var out = 1;
  for (var left = min(b, 33); left > 0; left--) { // 2 ** 32 is out of range already
    out = mul_64(out, a);
  }
  return out;
}

fn floor_divide_64(a: i32, b: i32) -> i32 {
  return kept_64(floor_divide_i(a, b), b == -1 && bitcast<u32>(a) == 0x80000000u);
}

fn shift_left_i(a: i32, b: i32) -> i32 {
  return select(a << (bitcast<u32>(b) & 31u), 0, b < 0 || b > 31);
}

fn shift_left_64(a: i32, b: i32) -> i32 {
  if (a == 0 || b < 0 || b > 63) {
    return 0;
  }
  if (b > 30) { // 2 ** 31 is out of range, but for its negative
    return kept_64(shift_left_i(a, b), a != -1 || b > 31);
  }
  return mul_64(a, 1 << u32(b));
}

fn whole_64(v: f32) -> i32 {
  return kept_64(whole_i32(v), v >= 2147483648.0 || v < -2147483648.0);
}

fn unsigned_64(v: u32) -> i32 {
  return kept_64(bitcast<i32>(v), v > 0x7fffffffu);
}

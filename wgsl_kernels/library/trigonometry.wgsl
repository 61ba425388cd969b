// Sine, cosine, tangent and their inverses: one reduction to a quarter turn, then polynomials.

// The 64 bits of a * b as (low, high), by halves of 16 bits.
fn wide_product(a: u32, b: u32) -> vec2<u32> {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let middle = ah * bl + (low >> 16u);
  let cross = al * bh + (middle & 0xffffu);
  return vec2<u32>((cross << 16u) | (low & 0xffffu), ah * bh + (middle >> 16u) + (cross >> 16u));
}

// The first 256 bits of 2 / pi after 32 zeros.
const TWO_OVER_PI = array<u32, 8>(
  0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);

fn two_over_pi(bit: u32) -> u32 {
  var words = TWO_OVER_PI;
  let word = bit >> 5u;
  let shift = bit & 31u;
  let high = words[min(word, 7u)] << shift;
  return select(high, high | (words[min(word + 1u, 7u)] >> (32u - max(shift, 1u))), shift > 0u);
}

// (r, q): v = q * pi/2 + r with |r| <= pi/4, q modulo 4, for any finite v.
//
// Below 4096 by Cody and Waite (1980), pi/2 in four parts whose products with q are exact; beyond
// by Payne and Hanek (1983): the bits of v / (pi/2) that matter, in integers.
fn quarter_turns(v: f32) -> vec2<f32> {
  if (abs(v) < 4096.0) {
    let k = round(v * 0.6366197724);
    let r = ((v - k * 1.5703125) - k * 4.837512969970703e-04) - k * 7.549533620476723e-08;
    return vec2<f32>(r - k * 2.563344e-12, f32(i32(k) & 3));
  }
  let bits = bitcast<u32>(v);
  let m = (bits & 0x007fffffu) | 0x00800000u;
  // The window skips the bits of 2/pi whose products with m * 2 ** e are whole turns.
  let start = ((bits >> 23u) & 255u) + 30u - 150u;
  let p2 = wide_product(m, two_over_pi(start + 64u));
  let p1 = wide_product(m, two_over_pi(start + 32u));
  let w1 = p1.x + p2.y;
  let w0 = m * two_over_pi(start) + p1.y + select(0u, 1u, w1 < p1.x);
  var quarter = w0 >> 30u;
  var high = (w0 << 2u) | (w1 >> 30u);
  var low = (w1 << 2u) | (p2.x >> 30u);
  let over = (high & 0x80000000u) != 0u;
  if (over) { // nearer to the next quarter: use the distance to it
    quarter++;
    low = 0u - low;
    high = ~high + select(0u, 1u, low == 0u);
  }
  let zeros = countLeadingZeros(high);
  let digits = select((high << zeros) | (low >> (32u - max(zeros, 1u))), high, zeros == 0u);
  let size = f32(digits) * power_of_two(-32 - i32(min(zeros, 31u))) * 1.5707963268;
  let negative = over != is_negative(v);
  let turns = select(quarter, 0u - quarter, is_negative(v)) & 3u;
  return vec2<f32>(select(size, -size, negative), f32(turns));
}

// sin(r) for |r| <= pi/4.
fn sin_near(r: f32) -> f32 {
  let z = r * r;
  let q = ((2.7173667e-06 * z - 1.9839233e-04) * z + 8.333329e-03) * z - 1.6666667e-01;
  return r + r * z * q;
}

// cos(r) for |r| <= pi/4.
fn cos_near(r: f32) -> f32 {
  let z = r * r;
  return 1.0 - (0.5 * z - z * z * ((2.442568e-05 * z - 1.3887251e-03) * z + 4.1666646e-02));
}

fn sin_f(v: f32) -> f32 {
  if (!is_finite(v)) {
    return not_a_number();
  }
  let t = quarter_turns(v);
  let found = select(sin_near(t.x), cos_near(t.x), t.y == 1.0 || t.y == 3.0);
  return select(select(found, -found, t.y >= 2.0), v, v == 0.0);
}

fn cos_f(v: f32) -> f32 {
  if (!is_finite(v)) {
    return not_a_number();
  }
  let t = quarter_turns(v);
  let found = select(cos_near(t.x), sin_near(t.x), t.y == 1.0 || t.y == 3.0);
  return select(found, -found, t.y == 1.0 || t.y == 2.0);
}

fn tan_f(v: f32) -> f32 {
  if (!is_finite(v)) {
    return not_a_number();
  }
  let t = quarter_turns(v);
  let z = t.x * t.x;
  let a = ((4.4861124e-03 * z - 1.2924125e-04) * z + 1.1005092e-02) * z + 2.1218251e-02;
  let q = ((a * z + 5.407201e-02) * z + 1.3332559e-01) * z + 3.3333352e-01;
  let found = t.x + t.x * z * q;
  return select(select(found, v, v == 0.0), -1.0 / found, t.y == 1.0 || t.y == 3.0);
}

// asin(v) - v for |v| <= 1/2.
fn asin_tail(v: f32) -> f32 {
  let z = v * v;
  let q = ((((3.7529383e-02 * z + 1.4429837e-02) * z + 3.180991e-02) * z + 4.451671e-02) * z
           + 7.5005054e-02) * z + 1.666666e-01;
  return v * z * q;
}

fn asin_f(v: f32) -> f32 {
  let size = abs(v);
  if (size <= 0.5) {
    return v + asin_tail(v);
  }
  if (is_nan(v) || size > 1.0) {
    return not_a_number();
  }
  let s = sqrt(0.5 * (1.0 - size));
  return with_sign(1.5707963268 - 2.0 * (s + asin_tail(s)), v);
}

fn acos_f(v: f32) -> f32 {
  let size = abs(v);
  if (size <= 0.5) {
    return 1.57079637 - (v - (-4.3711388e-08 - asin_tail(v)));
  }
  if (is_nan(v) || size > 1.0) {
    return not_a_number();
  }
  let s = sqrt(0.5 * (1.0 - size));
  let found = 2.0 * (s + asin_tail(s));
  return select(found, 3.1415926536 - found, v < 0.0);
}

fn atan_f(v: f32) -> f32 {
  if (is_nan(v)) {
    return v;
  }
  let size = min(abs(v), 1e30);
  var x = size;
  var base = 0.0;
  if (size > 2.414213562) {
    x = -1.0 / size;
    base = 1.5707963268;
  } else if (size > 0.4142135624) {
    x = (size - 1.0) / (size + 1.0);
    base = 0.7853981634;
  }
  let z = x * x;
  let q = (((-6.075916e-02 * z + 1.05929464e-01) * z - 1.4243422e-01) * z + 1.9998465e-01) * z
          - 3.3333316e-01;
  return with_sign(base + (x + x * z * q), v);
}

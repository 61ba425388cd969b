// What the functions that codegen/formula.py makes of the formulas of quantized types call. A word
// holds small integers of four elements, a byte each.

// The factors of bytes that were not shifted to their place; the products are exact. A CPU is slow
// at shifting the elements of a vector by different numbers.
const FIELDS = vec4<f32>(1.0, 0x1p-8, 0x1p-16, 0x1p-24);

// The four bytes of w where they are, so byte j is 2^(8 j) times too large.
fn wide_fields(w: u32) -> vec4<f32> {
  return vec4<f32>(vec4<u32>(w) & vec4<u32>(0xffu, 0xff00u, 0xff0000u, 0xff000000u));
}

// The same of signed bytes, the highest bits of the first three turned over. That adds 128 to them,
// which is subtracted again; the last has the sign of the word.
fn signed_fields(w: u32) -> vec4<f32> {
  let fields = vec4<u32>(w) & vec4<u32>(0xffu, 0xff00u, 0xff0000u, 0xff000000u);
  return vec4<f32>(vec4<i32>(fields)) - vec4<f32>(128.0, 0x1p15, 0x1p23, 0.0);
}

// The lowest four bits of w, a byte each.
fn spread_1(w: u32) -> u32 {
  return ((w & 15u) * 0x204081u) & 0x01010101u;
}

// The lowest four pairs of bits of w, a byte each.
fn spread_2(w: u32) -> u32 {
  let halves = (w & 15u) | ((w & 0xf0u) << 12u);
  return (halves | (halves << 6u)) & 0x03030303u;
}

// The lowest four hexadecimal digits of w, a byte each.
fn spread_4(w: u32) -> u32 {
  let halves = (w & 0xffu) | ((w & 0xff00u) << 8u);
  return (halves | (halves << 4u)) & 0x0f0f0f0fu;
}

// Half of 2^(n - 127).
fn value_e8m0(n: u32) -> f32 {
  return bitcast<f32>(select((n - 1u) << 23u, 0x200000u << n, n < 2u));
}

// Half of a float of four and three bits; 0x7f is 0.
fn value_ue4m3(n: u32) -> f32 {
  let power = (n >> 3u) & 15u;
  let digits = f32((n & 7u) + select(8u, 0u, power == 0u));
  let scale = bitcast<f32>((max(power, 1u) + 116u) << 23u);
  return select(digits * scale, 0.0, n == 0x7fu);
}

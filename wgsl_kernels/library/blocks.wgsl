// Quantized blocks in planes: `scales`, `highs` (the fifth bits) and `quants`, arrays of u32.
//
// quad_TYPE(i) returns elements i to i + 3; i is a multiple of four. Parameters 48 to 50 are added
// to the number of a block in scales, highs and quants: a binding may begin at a later block.
//
// A type without functions here has whole blocks in `quants`, each padded to words.
// block_KIND(first, at) returns the number at byte `at` of the block at word `first`. The code that
// codegen/formula.py writes for the type's row calls it.
//
// dot_TYPE(b, low, high, total) returns the dot product of block b and 32 values: `low` are those
// of elements 0 to 15, `high` those of 16 to 31, `total` their sum. It reads `whole_quants`, four
// words each.

// The scale of block b. A word holds the scales of two blocks.
fn block_scale(b: u32) -> f32 {
  let at = b + P(48u);
  return unpack2x16float(scales[at >> 1u])[at & 1u];
}

// The scale and the minimum of block b.
fn block_range(b: u32) -> vec2<f32> {
  return unpack2x16float(scales[b + P(48u)]);
}

// The four bytes of w without a shift, so byte j is 2^(8 j) times too large. The last is below 128.
// A CPU is slow at shifting the elements of a vector by different numbers.
fn byte_fields(w: u32) -> vec4<f32> {
  return vec4<f32>(vec4<i32>(vec4<u32>(w) & vec4<u32>(0xffu, 0xff00u, 0xff0000u, 0xff000000u)));
}

// The low halves of the bytes of w, likewise.
fn nibble_fields(w: u32) -> vec4<f32> {
  return vec4<f32>(vec4<i32>(vec4<u32>(w) & vec4<u32>(15u, 0xf00u, 0xf0000u, 0xf000000u)));
}

// The factors that undo this; the products are exact.
const FIELDS = vec4<f32>(1.0, 0x1p-8, 0x1p-16, 0x1p-24);

// The four bytes of w as numbers. The last is below 128.
fn byte_values(w: u32) -> vec4<f32> {
  return byte_fields(w) * FIELDS;
}

// The low four bits of four elements, a byte each. Elements from 16 on are in the high halves.
fn block_nibbles(i: u32) -> u32 {
  let word = quants[((i >> 5u) + P(50u)) * 4u + ((i >> 2u) & 3u)];
  return (word >> ((i >> 2u) & 4u)) & 0x0f0f0f0fu;
}

// The fifth bits of four elements, each as 16 in a byte.
fn block_fifths(i: u32) -> u32 {
  return fifth_bits(highs[(i >> 5u) + P(49u)] >> (i & 31u));
}

fn quad_q4_0(i: u32) -> vec4<f32> {
  return (byte_values(block_nibbles(i)) - 8.0) * block_scale(i >> 5u);
}

fn quad_q4_1(i: u32) -> vec4<f32> {
  let range = block_range(i >> 5u);
  return byte_values(block_nibbles(i)) * range.x + range.y;
}

fn quad_q5_0(i: u32) -> vec4<f32> {
  return (byte_values(block_nibbles(i) | block_fifths(i)) - 16.0) * block_scale(i >> 5u);
}

fn quad_q5_1(i: u32) -> vec4<f32> {
  let range = block_range(i >> 5u);
  return byte_values(block_nibbles(i) | block_fifths(i)) * range.x + range.y;
}

fn quad_q8_0(i: u32) -> vec4<f32> {
  let w = quants[((i >> 5u) + P(50u)) * 8u + ((i >> 2u) & 7u)];
  return signed_values(w) * block_scale(i >> 5u);
}

// The low four bits of h, each as 16 in a byte.
fn fifth_bits(h: u32) -> u32 {
  return ((h & 1u) << 4u) | ((h & 2u) << 11u) | ((h & 4u) << 18u) | ((h & 8u) << 25u);
}

// The dot product without scale or minimum. h holds the fifth bits.
fn nibbles_dot(b: u32, h: u32, low: mat4x4<f32>, high: mat4x4<f32>) -> f32 {
  let w = whole_quants[b + P(50u)];
  let l = w & vec4<u32>(0x0f0f0f0fu);
  let u = (w >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
  var sum = low[0] * byte_fields(l.x | fifth_bits(h));
  sum = fma(low[1], byte_fields(l.y | fifth_bits(h >> 4u)), sum);
  sum = fma(low[2], byte_fields(l.z | fifth_bits(h >> 8u)), sum);
  sum = fma(low[3], byte_fields(l.w | fifth_bits(h >> 12u)), sum);
  sum = fma(high[0], byte_fields(u.x | fifth_bits(h >> 16u)), sum);
  sum = fma(high[1], byte_fields(u.y | fifth_bits(h >> 20u)), sum);
  sum = fma(high[2], byte_fields(u.z | fifth_bits(h >> 24u)), sum);
  sum = fma(high[3], byte_fields(u.w | fifth_bits(h >> 28u)), sum) * FIELDS;
  return sum.x + sum.y + sum.z + sum.w;
}

// The same without fifth bits.
fn plain_nibbles_dot(b: u32, low: mat4x4<f32>, high: mat4x4<f32>) -> f32 {
  let w = whole_quants[b + P(50u)];
  let u = w >> vec4<u32>(4u);
  var sum = low[0] * nibble_fields(w.x);
  sum = fma(low[1], nibble_fields(w.y), sum);
  sum = fma(low[2], nibble_fields(w.z), sum);
  sum = fma(low[3], nibble_fields(w.w), sum);
  sum = fma(high[0], nibble_fields(u.x), sum);
  sum = fma(high[1], nibble_fields(u.y), sum);
  sum = fma(high[2], nibble_fields(u.z), sum);
  sum = fma(high[3], nibble_fields(u.w), sum) * FIELDS;
  return sum.x + sum.y + sum.z + sum.w;
}

// The bytes of w as signed numbers. Flipping the sign bits adds 128 to the first three, which is
// subtracted again. The last has the sign of the word.
fn signed_fields(w: u32) -> vec4<f32> {
  return byte_fields(w ^ 0x808080u) - vec4<f32>(128.0, 0x1p15, 0x1p23, 0.0);
}

fn signed_values(w: u32) -> vec4<f32> {
  return signed_fields(w) * FIELDS;
}

fn dot_q4_0(b: u32, low: mat4x4<f32>, high: mat4x4<f32>, total: f32) -> f32 {
  return (plain_nibbles_dot(b, low, high) - 8.0 * total) * block_scale(b);
}

fn dot_q4_1(b: u32, low: mat4x4<f32>, high: mat4x4<f32>, total: f32) -> f32 {
  let range = block_range(b);
  return plain_nibbles_dot(b, low, high) * range.x + range.y * total;
}

fn dot_q5_0(b: u32, low: mat4x4<f32>, high: mat4x4<f32>, total: f32) -> f32 {
  return (nibbles_dot(b, highs[b + P(49u)], low, high) - 16.0 * total) * block_scale(b);
}

fn dot_q5_1(b: u32, low: mat4x4<f32>, high: mat4x4<f32>, total: f32) -> f32 {
  let range = block_range(b);
  return nibbles_dot(b, highs[b + P(49u)], low, high) * range.x + range.y * total;
}

fn dot_q8_0(b: u32, low: mat4x4<f32>, high: mat4x4<f32>, total: f32) -> f32 {
  let l = whole_quants[(b + P(50u)) * 2u];
  let u = whole_quants[(b + P(50u)) * 2u + 1u];
  var sum = low[0] * signed_fields(l.x);
  sum = fma(low[1], signed_fields(l.y), sum);
  sum = fma(low[2], signed_fields(l.z), sum);
  sum = fma(low[3], signed_fields(l.w), sum);
  sum = fma(high[0], signed_fields(u.x), sum);
  sum = fma(high[1], signed_fields(u.y), sum);
  sum = fma(high[2], signed_fields(u.z), sum);
  sum = fma(high[3], signed_fields(u.w), sum) * FIELDS;
  return (sum.x + sum.y + sum.z + sum.w) * block_scale(b);
}

fn block_u8(first: u32, at: i32) -> i32 {
  return i32(extractBits(quants[first + (u32(at) >> 2u)], (u32(at) & 3u) * 8u, 8u));
}

fn block_i8(first: u32, at: i32) -> i32 {
  return extractBits(block_u8(first, at), 0u, 8u);
}

fn block_f16(first: u32, at: i32) -> f32 {
  return unpack2x16float(u32(block_u8(first, at) | (block_u8(first, at + 1) << 8u))).x;
}

// Half of 2^(n - 127).
fn block_e8m0(first: u32, at: i32) -> f32 {
  let n = u32(block_u8(first, at));
  return bitcast<f32>(select((n - 1u) << 23u, 0x200000u << n, n < 2u));
}

fn block_f32(first: u32, at: i32) -> f32 {
  return bitcast<f32>(quants[first + (u32(at) >> 2u)]);
}

// Half of a float of four and three bits; 0x7f is 0.
fn block_ue4m3(first: u32, at: i32) -> f32 {
  let n = block_u8(first, at);
  let power = (n >> 3u) & 15;
  let digits = f32((n & 7) + select(8, 0, power == 0));
  let scale = bitcast<f32>(u32(max(power, 1) + 116) << 23u);
  return select(digits * scale, 0.0, n == 0x7f);
}

// Quantized blocks in planes: `scales`, `highs` (the fifth bits) and `quants`, arrays of u32.
//
// quad_TYPE(i) gives elements i to i + 3, i a multiple of four. Parameters 48 to 50 are added to
// the number of a block in scales, highs and quants: what is bound may begin further on.

// The scale of block b, where a word holds those of two blocks.
fn block_scale(b: u32) -> f32 {
  let at = b + P(48u);
  return unpack2x16float(scales[at >> 1u])[at & 1u];
}

// Scale and least value of block b.
fn block_range(b: u32) -> vec2<f32> {
  return unpack2x16float(scales[b + P(48u)]);
}

// The four bytes of w as numbers.
fn byte_values(w: u32) -> vec4<f32> {
  return vec4<f32>((vec4<u32>(w) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
}

// Four elements' low bits, a byte each; element 16 and on are the high halves.
fn block_nibbles(i: u32) -> u32 {
  let word = quants[((i >> 5u) + P(50u)) * 4u + ((i >> 2u) & 3u)];
  return (word >> ((i >> 2u) & 4u)) & 0x0f0f0f0fu;
}

// Four elements' fifth bits, each as 16 in a byte.
fn block_fifths(i: u32) -> u32 {
  let h = highs[(i >> 5u) + P(49u)] >> (i & 31u);
  return ((h & 1u) << 4u) | ((h & 2u) << 11u) | ((h & 4u) << 18u) | ((h & 8u) << 25u);
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
  let w = bitcast<i32>(quants[((i >> 5u) + P(50u)) * 8u + ((i >> 2u) & 7u)]);
  let bytes = (vec4<i32>(w) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u);
  return vec4<f32>(bytes) * block_scale(i >> 5u);
}

// Philox4x32-10, the counter-based generator of Salmon et al. (SC 2011).

// Block number `block` (low, high words) of the key's stream.
fn philox(block: vec2<u32>, key: vec2<u32>) -> vec4<u32> {
  return philox_of(vec4<u32>(block, 0u, 0u), key);
}

// Ten rounds over a whole counter.
fn philox_of(counter: vec4<u32>, seed: vec2<u32>) -> vec4<u32> {
  var x = counter;
  var key = seed;
  for (var round = 0u; round < 10u; round++) {
    let a = wide_product(x.x, 0xd2511f53u);
    let b = wide_product(x.z, 0xcd9e8d57u);
    x = vec4<u32>(b.y ^ x.y ^ key.x, b.x, a.y ^ x.w ^ key.y, a.x);
    key += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
  }
  return x;
}

// Four words: those of block number i after the offset. Parameters 16 and 17 hold the seed, 18 and
// 19 the offset.
fn drawn(i: u32) -> vec4<u32> {
  let low = P(18u) + i;
  let high = P(19u) + select(0u, 1u, low < i);
  return philox(vec2<u32>(low, high), vec2<u32>(P(16u), P(17u)));
}

// Word number i.
fn drawn_word(i: u32) -> u32 {
  return drawn(i >> 2u)[i & 3u];
}

// Normal number i by Box and Muller (1958), from words 2 i and 2 i + 1. Half a step is added so
// that the logarithm is finite.
fn drawn_normal(i: u32) -> f32 {
  let four = drawn(i >> 1u);
  let w = select(four.xy, four.zw, (i & 1u) == 1u) >> vec2<u32>(8u, 8u);
  let radius = sqrt_f(-2.0 * log_f((f32(w.x) + 0.5) * 0x1p-24f));
  return radius * cos_f(f32(w.y) * 3.7450704e-07);
}

// Makes the bytes of a GGUF file from the planes of quantized blocks, a word at a time.
//
// Parameters: 0 halves to write, 1 the first block, 2 halves per block, 3 halves of the scale,
// 4 whether there are fifth bits, 5 halves of packed words, 48 to 50 as in library/blocks.wgsl.

@group(0) @binding(0) var<storage, read> scales: array<u32>;
@group(0) @binding(1) var<storage, read> highs: array<u32>;
@group(0) @binding(2) var<storage, read> quants: array<u32>;
@group(0) @binding(3) var<storage, read_write> raw: array<u32>;

fn half_of(word: u32, i: u32) -> u32 {
  return extractBits(word, (i & 1u) * 16u, 16u);
}

// Half i of the file.
fn half_at(i: u32) -> u32 {
  let block = P(1u) + i / P(2u);
  var rest = i % P(2u);
  if (rest < P(3u)) {
    let at = (block + P(48u)) * P(3u) + rest;
    return half_of(scales[at >> 1u], at);
  }
  rest -= P(3u);
  if (P(4u) == 1u) {
    if (rest < 2u) {
      return half_of(highs[block + P(49u)], rest);
    }
    rest -= 2u;
  }
  let at = (block + P(50u)) * P(5u) + rest;
  return half_of(quants[at >> 1u], at);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let w = group_number(group, groups) * 64u + lane;
  if (2u * w >= P(0u)) {
    return;
  }
  raw[w] = half_at(2u * w) | (half_at(2u * w + 1u) << 16u);
}

// Makes one plane of quantized blocks from the bytes of a GGUF file.
//
// Parameters: 0 words of the plane to write, 1 first word of the result, 2 words per block, 3 their
// place in a block of the file and 4 the length of such a block, both in 16-bit halves, 5 whether a
// word holds the scales of two blocks, 6 blocks.

@group(0) @binding(0) var<storage, read> raw: array<u32>;
@group(0) @binding(1) var<storage, read_write> plane: array<u32>;

// Half i of the file, 16 bits.
fn half_at(i: u32) -> u32 {
  return extractBits(raw[i >> 1u], (i & 1u) * 16u, 16u);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let w = group_number(group, groups) * 64u + lane;
  if (w >= P(0u)) {
    return;
  }
  let size = P(4u);
  if (P(5u) == 1u) {
    let first = half_at(2u * w * size);
    let second = select(0u, half_at((2u * w + 1u) * size), 2u * w + 1u < P(6u));
    plane[P(1u) + w] = first | (second << 16u);
    return;
  }
  let at = (w / P(2u)) * size + P(3u) + 2u * (w % P(2u));
  plane[P(1u) + w] = half_at(at) | (half_at(at + 1u) << 16u);
}

// Converts quantized blocks between two lengths: padded to whole words, or packed as in a file.
//
// Parameters: 0 words to write, 1 first word of the result, 2 bytes of a block in the result,
// 3 first byte of the source, 4 bytes from one block to the next in the source, 5 bytes of a block
// without padding, 6 blocks.

@group(0) @binding(0) var<storage, read> from_words: array<u32>;
@group(0) @binding(1) var<storage, read_write> to_words: array<u32>;

fn byte_for(j: u32) -> u32 {
  let block = j / P(2u);
  let rest = j % P(2u);
  if (block >= P(6u) || rest >= P(5u)) {
    return 0u;
  }
  let at = P(3u) + block * P(4u) + rest;
  return extractBits(from_words[at >> 2u], (at & 3u) * 8u, 8u);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let w = group_number(group, groups) * 64u + lane;
  if (w >= P(0u)) {
    return;
  }
  var word = 0u;
  for (var k = 0u; k < 4u; k++) {
    word |= byte_for(4u * w + k) << (8u * k);
  }
  to_words[P(1u) + w] = word;
}

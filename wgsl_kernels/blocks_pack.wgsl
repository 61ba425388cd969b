// Makes one plane of quantized blocks from the bytes of a GGUF file. Both are taken in units:
// halves of a word, or bytes where a field begins at an odd one.
//
// Parameters: 0 words of the plane to write, 1 first word of the result, 2 units in a word, 3 units
// of a block in the plane and 4 in the file, 5 blocks, 6 parts of a block; of each part 16.. its
// first unit in the plane, 24.. its end, 32.. its first unit in the file.

@group(0) @binding(0) var<storage, read> raw: array<u32>;
@group(0) @binding(1) var<storage, read_write> plane: array<u32>;

// Unit i of the plane.
fn unit_at(i: u32, bits: u32) -> u32 {
  let block = i / P(3u);
  let rest = i % P(3u);
  for (var k = 0u; k < P(6u); k++) {
    if (rest >= P(16u + k) && rest < P(24u + k) && block < P(5u)) {
      let from_ = block * P(4u) + rest - P(16u + k) + P(32u + k);
      return extractBits(raw[from_ / P(2u)], from_ % P(2u) * bits, bits);
    }
  }
  return 0u;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let w = group_number(group, groups) * 64u + lane;
  if (w >= P(0u)) {
    return;
  }
  let bits = 32u / P(2u);
  var word = 0u;
  for (var k = 0u; k < P(2u); k++) {
    word |= unit_at(w * P(2u) + k, bits) << (k * bits);
  }
  plane[P(1u) + w] = word;
}

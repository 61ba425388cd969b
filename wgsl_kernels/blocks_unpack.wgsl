// Makes the bytes of a GGUF file from the planes of quantized blocks, a word at a time. Both are
// taken in units: halves of a word, or bytes where a field begins at an odd one.
//
// Parameters: 0 words to write, 1 the first block, 2 units in a word, 4 units of a block in the
// file, 6 parts of a block, 8.. units of a block in each plane; of each part 16.. its first unit in
// its plane, 24.. its first unit in the file and 32.. its end, 40.. its plane; 48 to 50 are added
// to the number of a block in each plane.

@group(0) @binding(0) var<storage, read> plane_0: array<u32>;
@group(0) @binding(1) var<storage, read> plane_1: array<u32>;
@group(0) @binding(2) var<storage, read> plane_2: array<u32>;
@group(0) @binding(3) var<storage, read_write> raw: array<u32>;

fn word_at(plane: u32, i: u32) -> u32 {
  if (plane == 0u) {
    return plane_0[i];
  }
  if (plane == 1u) {
    return plane_1[i];
  }
  return plane_2[i];
}

// Unit i of the file.
fn unit_at(i: u32, bits: u32) -> u32 {
  let block = P(1u) + i / P(4u);
  let rest = i % P(4u);
  for (var k = 0u; k < P(6u); k++) {
    if (rest >= P(24u + k) && rest < P(32u + k)) {
      let plane = P(40u + k);
      let at = (block + P(48u + plane)) * P(8u + plane) + rest - P(24u + k) + P(16u + k);
      return extractBits(word_at(plane, at / P(2u)), at % P(2u) * bits, bits);
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
  raw[w] = word;
}

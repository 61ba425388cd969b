// Makes one plane of quantized blocks from the bytes of a GGUF file. Both are taken in units of
// BITS bits, UNITS to a word: halves of a word, or bytes where a field begins at an odd one.
//
// A block has PLANE units in the plane and FILE in the file. `place`, put in front, gives the unit
// of a block in the file for one in the plane; padding has none, and a number beyond the block.
// Parameters: 0 words of the plane to write, 1 first word of the result, 2 blocks.

@group(0) @binding(0) var<storage, read> raw: array<u32>;
@group(0) @binding(1) var<storage, read_write> plane: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let w = group_number(group, groups) * 64u + lane;
  if (w >= P(0u)) {
    return;
  }
  var word = 0u;
  for (var k = 0u; k < UNITS; k++) {
    let block = (w * UNITS + k) / PLANE;
    let rest = place((w * UNITS + k) % PLANE);
    if (block < P(2u) && rest < FILE) {
      let at = block * FILE + rest;
      word |= extractBits(raw[at / UNITS], at % UNITS * BITS, BITS) << (k * BITS);
    }
  }
  plane[P(1u) + w] = word;
}

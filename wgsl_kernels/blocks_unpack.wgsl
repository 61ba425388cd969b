// Makes the bytes of a GGUF file from the planes of quantized blocks, a word at a time. They are
// taken in units of BITS bits, UNITS to a word: halves of a word, or bytes where a field begins at
// an odd one.
//
// A block has FILE units in the file. `unit_at(block, i)`, put in front, reads unit i of one from
// its plane, and `raw` is the result. Parameters: 0 words to write, 1 the first block, 48 to 50 are
// added to the number of a block in each plane.

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
    let i = w * UNITS + k;
    word |= unit_at(P(1u) + i / FILE, i % FILE) << (k * BITS);
  }
  raw[w] = word;
}

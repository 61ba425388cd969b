// Writes elements of 8 or 16 bits to places that share words with other elements.
//
// Parameters: 0 elements, 1 offset of the result, 2 offset of the source, 5 dims, 8.. sizes,
// 16.. strides of the source, 40.. strides of the result.

@group(0) @binding(1) var<storage, read_write> out_words: array<atomic<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  if (i >= P(0u)) {
    return;
  }
  let source = P(2u) + walked(i, P(5u), 8u, 16u);
  let target_ = P(1u) + walked(i, P(5u), 8u, 40u);
  let bits = 32u / PER;
  let shift = (target_ % PER) * bits;
  let mask = (1u << bits) - 1u;
  atomicAnd(&out_words[target_ / PER], ~(mask << shift));
  atomicOr(&out_words[target_ / PER], (u32(load_a(source)) & mask) << shift);
}

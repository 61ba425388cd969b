// Quantized blocks to floats, four elements per invocation.
//
// Parameters: 0 quads of the result, 1 its offset in elements, 2 offset of the blocks' first
// element, 3 quads per row, 4 dims before the last, 16.. sizes and 24.. strides of those; 48 to
// 50 see library/blocks.wgsl.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  if (i >= P(0u)) {
    return;
  }
  let at = P(2u) + (i % P(3u)) * 4u + walked(i / P(3u), P(4u), 16u, 24u);
  put(i * 4u + P(1u), quad_x(at));
}

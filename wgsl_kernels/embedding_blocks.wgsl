// The rows of a table of quantized blocks at given indices, four elements per invocation.
//
// quad_table and out_words are put in front. A table that is too large for one binding comes in
// pieces of rows, as in embedding.wgsl; the parameters are the same.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = (group_number(group, groups) * 64u + lane) * 4u;
  if (i >= P(0u)) {
    return;
  }
  let k = i32(load_index(P(3u) + walked(i / P(2u), P(8u), 16u, 24u)));
  var found = vec4<f32>();
  if (k < 0 || u32(k) >= P(7u)) {
    if (P(9u) != 0u) {
      return;
    }
    note(P(11u), k, P(7u));
  } else {
    if (u32(k) < P(9u) || u32(k) >= P(10u)) {
      return;
    }
    found = quad_table(P(4u) + (u32(k) - P(9u)) * P(5u) + i % P(2u));
  }
  let words = bitcast<vec4<u32>>(found);
  let at = P(1u) + i;
  out_words[at] = words.x;
  out_words[at + 1u] = words.y;
  out_words[at + 2u] = words.z;
  out_words[at + 3u] = words.w;
}

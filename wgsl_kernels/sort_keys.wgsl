// sort_keys: (key, index) of every element. Rows are padded with the largest key to a power of two.
//
// declare:  key(v) of load_x's elements
// Parameters: 0 pairs, 2 offset of the input, 3 elements of a row, 4 pairs of a row, 5 stride of a
// row's elements, 8 dims of the rows, 10.. their sizes, 18.. strides.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  if (i >= P(0u)) {
    return;
  }
  let j = i % P(4u);
  var pair = vec2<u32>(0xffffffffu, j); // sorts after every element, whose indices are lower
  if (j < P(3u)) {
    pair.x = key(load_x(P(2u) + j * P(5u) + walked(i / P(4u), P(8u), 10u, 18u)));
  }
  pairs[i] = pair;
}

// scan_add: to every part of a row but the first, add the sum of the parts before it.
//
// declare:  alias total, load_t (running sums of the parts), encode; out_words is read and written
// Parameters: 0 elements of all rows, 1 offset of the result, 2 offset of the sums, 3 elements of
// a row, 4 parts of a row, 5 elements of a part, 6 stride of a row's elements, 8 dims of the rows,
// 10.. their sizes, 34.. strides.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  if (i >= P(0u)) {
    return;
  }
  let row = i / P(3u);
  let j = i % P(3u);
  let part = j / P(5u);
  if (part == 0u) {
    return;
  }
  let place = P(1u) + walked(row, P(8u), 10u, 34u) + j * P(6u);
  let before = load_t(P(2u) + row * P(4u) + part - 1u);
  out_words[place] = encode(before + bitcast<total>(out_words[place]));
}

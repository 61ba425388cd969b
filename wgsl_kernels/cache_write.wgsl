// cache_write: writes new rows to a cache, each batch at an offset of its own.
//
// `store` is put in front. If the rows of a batch do not fit, none of them is written.
// Parameters: 0 elements, 1 offset of the cache, 2 of the values, 3 of the offsets, 4 stride of the
// offsets, 6 capacity, 7 status code, 8.. sizes of the values, 12.. their strides, 16.. strides of
// the cache.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  if (i >= P(0u)) {
    return;
  }
  let d = i % P(11u);
  let row = i / P(11u) % P(10u);
  let head = i / P(11u) / P(10u) % P(9u);
  let batch = i / P(11u) / P(10u) / P(9u);
  let offset = i32(load_offset(P(3u) + batch * P(4u)));
  if (offset < 0 || u32(offset) + P(10u) > P(6u)) {
    note(P(7u), offset, P(6u));
    return;
  }
  let v = load_value(P(2u) + batch * P(12u) + head * P(13u) + row * P(14u) + d * P(15u));
  let place = row + u32(offset);
  store(P(1u) + batch * P(16u) + head * P(17u) + place * P(18u) + d * P(19u), v);
}

// scatter_write: each entry that owns its place writes its value there.
//
// Parameters: 0 entries, 1 offset of the result, 2 offset of the value, 7 status code, 40.. sizes
// and 48.. strides of the result in 56 dims (0 where it is row-major), and those of
// library/scatter.wgsl.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  if (i >= P(0u)) {
    return;
  }
  let e = entry(i);
  if (!e.ok) {
    note(P(7u), e.index, P(6u));
    return;
  }
  if (load_claim(e.place) != i + 1u) {
    return;
  }
  var at = e.place;
  if (P(56u) > 0u) {
    at = walked(e.place, P(56u), 40u, 48u);
  }
  store(P(1u) + at, load_value(P(2u) + e.value));
}

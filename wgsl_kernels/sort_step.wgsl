// sort_step: one step of a bitonic sort, between pairs at any distance.
//
// Parameters: 0 length of the runs that are merged, 1 distance, 2 pairs of a row, 3 pairs in all.

@group(0) @binding(0) var<storage, read_write> pairs: array<vec2<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let k = group_number(group, groups) * 64u + lane;
  let low = 2u * k - (k & (P(1u) - 1u));
  if (low + P(1u) >= P(3u)) {
    return;
  }
  let up = ((low & (P(2u) - 1u)) & P(0u)) == 0u || P(0u) == P(2u);
  let a = pairs[low];
  let b = pairs[low + P(1u)];
  if ((a.x > b.x || (a.x == b.x && a.y > b.y)) == up) {
    pairs[low] = b;
    pairs[low + P(1u)] = a;
  }
}

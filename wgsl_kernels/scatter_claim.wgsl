// scatter_claim: assigns each place to the last entry that writes to it.
//
// It runs twice: without CLAIM it clears the places, with CLAIM it keeps the largest entry number,
// plus one.
// Parameters: 0 entries, and those of library/scatter.wgsl.

@group(0) @binding(1) var<storage, read_write> claims: array<atomic<u32>>;

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
    return;
  }
  if (CLAIM) {
    atomicMax(&claims[e.place], i + 1u);
  } else {
    atomicStore(&claims[e.place], 0u);
  }
}

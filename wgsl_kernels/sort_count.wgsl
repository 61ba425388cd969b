// sort_count: how often each digit of 4 bits occurs among the keys of a block, for a radix sort.
//
// Parameters: 0 blocks in all, 1 blocks of a row, 2 the digit's lowest bit.
//
// counts[row][digit][block]: running sums over a row say where a block's keys go.

@group(0) @binding(0) var<storage, read> pairs: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read_write> counts: array<u32>;

// Sixteen counters of each digit, so that few invocations wait for one.
var<workgroup> seen: array<atomic<u32>, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let block = group_number(group, groups);
  atomicStore(&seen[lane], 0u);
  workgroupBarrier();
  if (block < P(0u)) {
    for (var k = 0u; k < 8u; k++) {
      let digit = (pairs[block * 2048u + k * 256u + lane].x >> P(2u)) & 15u;
      atomicAdd(&seen[digit * 16u + (lane & 15u)], 1u);
    }
  }
  workgroupBarrier();
  if (block < P(0u) && lane < 16u) {
    var sum = 0u;
    for (var k = 0u; k < 16u; k++) {
      sum += atomicLoad(&seen[lane * 16u + k]);
    }
    let row = block / P(1u);
    counts[(row * 16u + lane) * P(1u) + block % P(1u)] = sum;
  }
}

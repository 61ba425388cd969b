// sort_block: the steps of a bitonic sort (Batcher, 1968) that stay within BLOCK pairs.
//
// declare:  const BLOCK    pairs per workgroup, a power of two up to 1024
// Parameters: 0 first and 1 last length of the runs that are merged (both powers of two, 1 up to
// a row), 2 pairs of a row, 3 pairs in all.
//
// Runs are sorted in rising and falling order in turn; the last run, a whole row, rises. Pairs are
// ordered by key, then index, so no two are equal and the sort is stable.

@group(0) @binding(0) var<storage, read_write> pairs: array<vec2<u32>>;

var<workgroup> held: array<vec2<u32>, BLOCK>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let base = group_number(group, groups) * BLOCK;
  for (var k = lane; k < BLOCK; k += 256u) {
    if (base + k < P(3u)) {
      held[k] = pairs[base + k];
    }
  }
  workgroupBarrier();
  for (var run = P(0u); run <= P(1u); run <<= 1u) {
    for (var step = min(run, BLOCK) >> 1u; step > 0u; step >>= 1u) {
      var k = lane;
      loop { // not `for`: see map.wgsl
        let low = 2u * k - (k & (step - 1u));
        let up = (((base + low) & (P(2u) - 1u)) & run) == 0u || run == P(2u);
        let a = held[min(low, BLOCK - 1u)];
        let b = held[min(low + step, BLOCK - 1u)];
        if (k < BLOCK / 2u && (a.x > b.x || (a.x == b.x && a.y > b.y)) == up) {
          held[low] = b;
          held[low + step] = a;
        }
        continuing {
          k += 256u;
          break if k >= BLOCK / 2u;
        }
      }
      workgroupBarrier();
    }
  }
  for (var k = lane; k < BLOCK; k += 256u) {
    if (base + k < P(3u)) {
      pairs[base + k] = held[k];
    }
  }
}

// sort_place: puts the pairs of a block where a radix sort of a digit of 4 bits wants them, stably.
//
// Parameters: 0 blocks in all, 1 blocks of a row, 2 the digit's lowest bit, 3 pairs of a row.
//
// sums[row][digit][block]: running sums of what sort_count counted. An invocation takes eight pairs
// side by side; its counters of digits d and d + 8 share a word, as a block has 2,048 pairs.

@group(0) @binding(0) var<storage, read> pairs: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> sums: array<u32>;
@group(0) @binding(2) var<storage, read_write> sorted: array<vec2<u32>>;

var<workgroup> counters: array<u32, 2048>; // of digits d and d + 8, by d and then invocation
var<workgroup> before: array<u32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let block = min(group_number(group, groups), P(0u) - 1u);
  var held: array<vec2<u32>, 8>;
  for (var d = 0u; d < 8u; d++) {
    counters[d * 256u + lane] = 0u;
  }
  for (var k = 0u; k < 8u; k++) {
    held[k] = pairs[block * 2048u + lane * 8u + k];
    let digit = (held[k].x >> P(2u)) & 15u;
    counters[(digit & 7u) * 256u + lane] += 1u << (16u * (digit >> 3u));
  }
  workgroupBarrier();
  // Running sums over all counters: of eight by an invocation, then of the invocations.
  var own = 0u;
  for (var k = 0u; k < 8u; k++) {
    own += counters[lane * 8u + k];
  }
  before[lane] = own;
  workgroupBarrier();
  for (var step = 1u; step < 256u; step <<= 1u) {
    var more = 0u;
    if (lane >= step) {
      more = before[lane - step];
    }
    workgroupBarrier();
    before[lane] += more;
    workgroupBarrier();
  }
  let low = before[255] & 0xffffu; // pairs whose digit is below 8
  var sum = before[lane] - own;
  for (var k = 0u; k < 8u; k++) {
    let count = counters[lane * 8u + k];
    counters[lane * 8u + k] = sum;
    sum += count;
  }
  workgroupBarrier();
  // Where the block's first pair of each digit lies, and where it goes.
  if (lane < 16u) {
    let row = block / P(1u);
    let at = (row * 16u + lane) * P(1u) + block % P(1u);
    var goes = 0u;
    if (at > row * 16u * P(1u)) {
      goes = sums[at - 1u];
    }
    let first = (counters[(lane & 7u) * 256u] >> (16u * (lane >> 3u))) & 0xffffu;
    before[lane] = row * P(3u) + goes - first - select(0u, low, lane > 7u);
  }
  workgroupBarrier();
  for (var k = 0u; k < 8u; k++) {
    let digit = (held[k].x >> P(2u)) & 15u;
    let shift = 16u * (digit >> 3u);
    let at = (digit & 7u) * 256u + lane;
    let rank = ((counters[at] >> shift) & 0xffffu) + select(0u, low, digit > 7u);
    counters[at] += 1u << shift;
    sorted[before[digit] + rank] = held[k];
  }
}

// scan: running sums of a part of a row, by LANES invocations of EACH elements.
//
// declare:  const LANES          invocations per part, a power of two up to 256
//           const EACH           elements of an invocation
//           alias total          type of the sums; load_x gives elements, encode takes sums
//           fn keep(unit, v)     stores the total of a part
//           fn ends(v, lane)     the sums before a lane, and including it
// Parameters: 0 rows, 1 offset of the result, 2 offset of the input, 3 elements of a row, 4 parts
// of a row, 5 stride of a row's elements in the input and 6 in the result, 8 dims of the rows,
// 10.. their sizes, 18.. strides in the input and 34.. in the result.

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let unit = group_number(group, groups) * (256u / LANES) + lane / LANES;
  let own = lane % LANES;
  let row = unit / P(4u);
  let j = (unit % P(4u)) * (LANES * EACH) + own * EACH;
  let count = select(0u, min(P(3u) - min(j, P(3u)), EACH), row < P(0u));
  let source = P(2u) + walked(row, P(8u), 10u, 18u) + j * P(5u);
  var inner: array<total, EACH>;
  var sum = total(0);
  for (var k = 0u; k < EACH; k++) {
    if (k < count) {
      sum += load_x(source + k * P(5u));
    }
    inner[k] = sum;
  }
  let sums = ends(sum, lane);
  let place = P(1u) + walked(row, P(8u), 10u, 34u) + j * P(6u);
  for (var k = 0u; k < EACH; k++) {
    if (k < count) {
      out_words[place + k * P(6u)] = encode(sums.x + inner[k]);
    }
  }
  if (own == LANES - 1u && row < P(0u)) {
    keep(unit, sums.y);
  }
}

// reduce: one result per row, over elements of any strides.
//
// declare:  acc, start(), join(a, b)   type of the accumulator, its initial value, the join of two
//           value(place, j)            element j of a row, at `place` of the input
//           inner(j)                   offset of element j from the first
//           finish(unit, a)            writes the result of a row, or of a part of a row
//           const LANES                invocations per row, a power of two up to 256
//           whole(a, lane)             joins the lanes of a row; the first lane's value is used
// Parameters: 0 rows, 1 offset of the result, 2 offset of the input, 3 elements of a row, 4 parts
// of a row, 5 elements of a part, 6 code of the status, 7 number of the first element, 8 dims of
// the rows, 9 dims of a row, 10.. sizes and 18.. strides of the rows, 26.. and 34.. of a row.
//
// Neighbouring lanes read neighbouring elements. Sums go by blocks of 32, then by a tree: the error
// grows with the logarithm of the length, not with the length.

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let unit = group_number(group, groups) * (256u / LANES) + lane / LANES;
  let own = lane % LANES;
  let row = unit / P(4u);
  var total = start();
  if (row < P(0u)) {
    let part = unit % P(4u);
    let first = P(2u) + walked(row, P(8u), 10u, 18u);
    let stop = min(P(3u), (part + 1u) * P(5u));
    var j = part * P(5u) + own;
    while (j < stop) {
      var block = start();
      for (var k = 0u; k < 32u && j < stop; k++) {
        block = join(block, value(first + inner(j), j + P(7u)));
        j += LANES;
      }
      total = join(total, block);
    }
  }
  total = whole(total, lane);
  if (own == 0u && row < P(0u)) {
    finish(unit, total);
  }
}

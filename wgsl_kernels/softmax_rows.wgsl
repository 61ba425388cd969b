// softmax_rows: exp(x - max) / sum along one dim, or with LOG its logarithm.
//
// declare:  load_x, out_words and the other loads; const LANES, a power of two; const LOG
// dispatch: one workgroup per row, over x and y
//
// Each lane reads the row with a stride of LANES and keeps a maximum and a sum scaled to it. Two
// tree reductions combine them. A second pass writes, one word per lane. A row whose maximum is not
// finite gives nan, as a sum of exponentials would.
//
// Parameters: 0 rows, 1 offset of the result, 2 offset of x, 3 length, 4 stride of x along the
// dim, 5 other dims, 6 stride of the result along the dim, 8.. sizes of the other dims, 16.. their
// strides in x, 24.. in the result.

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let row = group_number(group, groups);
  if (row >= P(0u)) {
    return;
  }
  let from_ = P(2u) + walked(row, P(5u), 8u, 16u);
  let to = P(1u) + walked(row, P(5u), 8u, 24u);
  let length = P(3u);
  let step = P(4u);

  var top = from_bits(0xff800000u);
  for (var k = lane; k < length; k += LANES) {
    top = maximum_f(top, load_x(from_ + k * step));
  }
  top = top_of_lanes(top, lane);

  var sum = 0.0;
  for (var k = lane; k < length; k += LANES) {
    sum += shifted_exp(load_x(from_ + k * step), top);
  }
  sum = sum_of_lanes(sum, lane);
  let log_sum = log_f(sum);

  for (var k = lane * PER; k < length; k += LANES * PER) {
    var packed = 0u;
    var j = 0u;
    loop { // not `for`: see map.wgsl
      let v = load_x(from_ + (k + j) * step);
      var y = shifted_exp(v, top) / sum;
      if (LOG) {
        y = select(v - top - log_sum, v, is_inf(v));
      }
      y = select(from_bits(0x7fc00000u), y, is_finite(top));
      packed |= encode(y) << (j * BITS);
      continuing {
        j++;
        break if j >= PER;
      }
    }
    out_words[(to + k * P(6u)) / PER] = packed;
  }
}

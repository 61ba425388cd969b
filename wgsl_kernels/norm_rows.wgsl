// norm_rows: x divided by its root mean square along the last dim, times a weight, plus a bias.
// With CENTRE the mean is subtracted first.
//
// declare:  load_x, load_weight, load_bias, out_words and the other loads; const LANES, a power of
//           two; const CENTRE
// dispatch: one workgroup per row, over x and y
//
// Parameters: 0 rows, 1 offset of the result, 2 offset of x, 3 length, 4 stride of x along the
// row, 5 other dims, 6 stride of the result along the row, 8.. sizes of the other dims, 16.. their
// strides in x, 24.. in the result, 32 epsilon, 40 and 41 offset and stride of the weight, 42 and
// 43 of the bias, 44.. see core/backends/webgpu/lowering/products/epilogue.py.

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

  var mean = 0.0;
  if (CENTRE) {
    var sum = 0.0;
    for (var k = lane; k < length; k += LANES) {
      sum += load_x(from_ + k * step);
    }
    mean = sum_of_lanes(sum, lane) / f32(length);
  }
  var squares = 0.0;
  for (var k = lane; k < length; k += LANES) {
    let v = load_x(from_ + k * step) - mean;
    squares += v * v;
  }
  let root = sqrt(sum_of_lanes(squares, lane) / f32(length) + F(32u));

  for (var k = lane * PER; k < length; k += LANES * PER) {
    var packed = 0u;
    var j = 0u;
    loop { // not `for`: see map.wgsl
      var y = (load_x(from_ + (k + j) * step) - mean) / root;
      y = y * load_weight(P(40u) + (k + j) * P(41u)) + load_bias(P(42u) + (k + j) * P(43u));
      packed |= encode(finished(y, to + k + j, k + j)) << (j * BITS);
      continuing {
        j++;
        break if j >= PER;
      }
    }
    out_words[(to + k) / PER] = packed;
  }
}

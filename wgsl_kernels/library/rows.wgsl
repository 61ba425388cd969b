// What kernels share that give a workgroup to each row.

// Where row number `row` begins: P(5u) dims of the sizes from parameter 8 on, with the strides
// from parameter `strides` on.
fn row_start(row: u32, offset: u32, strides: u32) -> u32 {
  var rest = row;
  var at = offset;
  for (var d = P(5u); d > 0u;) {
    d--;
    at += (rest % P(8u + d)) * P(strides + d);
    rest /= P(8u + d);
  }
  return at;
}

// exp(v - top) for a v that is at most top, and 0 for -inf.
fn shifted_exp(v: f32, top: f32) -> f32 {
  return select(exp_f(v - top), 0.0, is_inf(v));
}

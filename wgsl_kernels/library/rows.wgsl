// What kernels share that give a workgroup of LANES invocations to each row.

var<workgroup> lane_values: array<f32, LANES>;

// The sum of `v` over all lanes; every lane calls it.
fn sum_of_lanes(v: f32, lane: u32) -> f32 {
  lane_values[lane] = v;
  workgroupBarrier();
  for (var s = LANES / 2u; s > 0u; s /= 2u) {
    if (lane < s) {
      lane_values[lane] += lane_values[lane + s];
    }
    workgroupBarrier();
  }
  let sum = lane_values[0];
  workgroupBarrier();
  return sum;
}

// The largest `v` of all lanes, or nan where there is one; every lane calls it.
fn top_of_lanes(v: f32, lane: u32) -> f32 {
  lane_values[lane] = v;
  workgroupBarrier();
  for (var s = LANES / 2u; s > 0u; s /= 2u) {
    if (lane < s) {
      lane_values[lane] = maximum_f(lane_values[lane], lane_values[lane + s]);
    }
    workgroupBarrier();
  }
  let top = lane_values[0];
  workgroupBarrier();
  return top;
}

// exp(v - top) for a v that is at most top, and 0 for -inf.
fn shifted_exp(v: f32, top: f32) -> f32 {
  return select(exp_f(v - top), 0.0, is_inf(v));
}

// Functions of kernels that run a workgroup of LANES invocations per row.

var<workgroup> lane_values: array<f32, LANES>;

// The sum of `v` over all lanes. Every lane must call it.
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

// The largest `v` of all lanes, or nan if any is nan. Every lane must call it.
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

// exp(v - top) for v <= top; 0 for -inf.
fn shifted_exp(v: f32, top: f32) -> f32 {
  return select(exp_f(v - top), 0.0, is_inf(v));
}

var<workgroup> gathered: array<acc, 256>;

// The reduction over the lanes of a row of reduce.wgsl, valid in the first lane.
fn joined_in_row(a: acc, lane: u32) -> acc {
  let own = lane % LANES;
  gathered[lane] = a;
  workgroupBarrier();
  for (var step = LANES / 2u; step > 0u; step >>= 1u) {
    if (own < step) {
      gathered[lane] = join(gathered[lane], gathered[lane + step]);
    }
    workgroupBarrier();
  }
  return gathered[lane];
}

var<workgroup> lane_sums: array<total, 256>;

// The sums of a row of scan.wgsl before this lane, and including it.
fn sums_in_row(sum: total, lane: u32) -> vec2<total> {
  let own = lane % LANES;
  lane_sums[lane] = sum;
  workgroupBarrier();
  for (var step = 1u; step < LANES; step <<= 1u) {
    var more = total(0);
    if (own >= step) {
      more = lane_sums[lane - step];
    }
    workgroupBarrier();
    lane_sums[lane] += more;
    workgroupBarrier();
  }
  if (own == 0u) {
    return vec2<total>(total(0), lane_sums[lane]);
  }
  return vec2<total>(lane_sums[lane - 1u], lane_sums[lane]);
}

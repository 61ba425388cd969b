// A matrix product of one row with quantized blocks along k. LANES invocations compute 8 elements
// of the result; each adds up whole blocks. A workgroup has SIZE invocations.
//
// A scale is read once for its 32 elements, and multiplied with once. a_row, block_dot, joined and
// put are put in front. Parameters: see library/product.wgsl. One workgroup: 8 SIZE / LANES
// columns.

const ACROSS = SIZE / LANES;

@compute @workgroup_size(SIZE)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let place = enter(group_number(group, groups));
  if (place.z == 0u) {
    return;
  }
  let row = place.x;
  let column = (place.y * ACROSS + lane % ACROSS) * 8u;
  let first = (b_base + column * b_Q()) >> 5u;
  let step = b_Q() >> 5u;
  let count = select(0u, P(2u) >> 5u, column < P(1u));
  var sum_0 = vec4<f32>();
  var sum_1 = vec4<f32>();
  for (var i = lane / ACROSS; i < count; i += LANES) {
    let k = i * 32u;
    let low = mat4x4<f32>(a_row(row, k), a_row(row, k + 4u), a_row(row, k + 8u),
                          a_row(row, k + 12u));
    let high = mat4x4<f32>(a_row(row, k + 16u), a_row(row, k + 20u), a_row(row, k + 24u),
                           a_row(row, k + 28u));
    let sum_low = dot(low[0] + low[1] + low[2] + low[3], vec4<f32>(1.0));
    let sum_high = dot(high[0] + high[1] + high[2] + high[3], vec4<f32>(1.0));
    let totals = vec3<f32>(sum_low, sum_high, sum_low + sum_high);
    let at = first + i;
    sum_0 += vec4<f32>(block_dot(at, low, high, totals), block_dot(at + step, low, high, totals),
                       block_dot(at + 2u * step, low, high, totals),
                       block_dot(at + 3u * step, low, high, totals));
    sum_1 += vec4<f32>(block_dot(at + 4u * step, low, high, totals),
                       block_dot(at + 5u * step, low, high, totals),
                       block_dot(at + 6u * step, low, high, totals),
                       block_dot(at + 7u * step, low, high, totals));
  }
  sum_0 = joined(sum_0, lane);
  sum_1 = joined(sum_1, lane);
  if (lane < ACROSS) {
    put(row, column, sum_0);
    put(row, column + 4u, sum_1);
  }
}

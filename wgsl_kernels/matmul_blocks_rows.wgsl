// A matrix product of four rows with quantized blocks along k. LANES invocations compute 4 by 4
// elements of the result; each adds up whole runs of 32. A workgroup has SIZE invocations.
//
// The elements of a run are computed once for all rows. a_inside, formula_run, joined and put are
// put in front. Parameters: see library/product.wgsl. One workgroup: 4 SIZE / LANES columns.

const ACROSS = SIZE / LANES;

@compute @workgroup_size(SIZE)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let place = enter(group_number(group, groups));
  if (place.z == 0u) {
    return;
  }
  let row = place.x * 4u;
  let column = (place.y * ACROSS + lane % ACROSS) * 4u;
  let first = (b_base + column * b_Q()) >> 5u;
  let step = b_Q() >> 5u;
  let count = select(0u, P(2u) >> 5u, column < P(1u));
  // Of each column the elements of four rows.
  var sum_0 = vec4<f32>();
  var sum_1 = vec4<f32>();
  var sum_2 = vec4<f32>();
  var sum_3 = vec4<f32>();
  for (var i = lane / ACROSS; i < count; i += LANES) {
    let k = i * 32u;
    let a0 = a_inside(row, k);
    let a1 = a_inside(row, k + 4u);
    let a2 = a_inside(row, k + 8u);
    let a3 = a_inside(row, k + 12u);
    let a4 = a_inside(row, k + 16u);
    let a5 = a_inside(row, k + 20u);
    let a6 = a_inside(row, k + 24u);
    let a7 = a_inside(row, k + 28u);
    let b = formula_run(first + i);
    sum_0 += b[0] * a0 + b[1] * a1 + b[2] * a2 + b[3] * a3 + b[4] * a4 + b[5] * a5 + b[6] * a6
        + b[7] * a7;
    let c = formula_run(first + i + step);
    sum_1 += c[0] * a0 + c[1] * a1 + c[2] * a2 + c[3] * a3 + c[4] * a4 + c[5] * a5 + c[6] * a6
        + c[7] * a7;
    let d = formula_run(first + i + 2u * step);
    sum_2 += d[0] * a0 + d[1] * a1 + d[2] * a2 + d[3] * a3 + d[4] * a4 + d[5] * a5 + d[6] * a6
        + d[7] * a7;
    let f = formula_run(first + i + 3u * step);
    sum_3 += f[0] * a0 + f[1] * a1 + f[2] * a2 + f[3] * a3 + f[4] * a4 + f[5] * a5 + f[6] * a6
        + f[7] * a7;
  }
  sum_0 = joined(sum_0, lane);
  sum_1 = joined(sum_1, lane);
  sum_2 = joined(sum_2, lane);
  sum_3 = joined(sum_3, lane);
  if (lane < ACROSS) {
    let sums = transpose(mat4x4<f32>(sum_0, sum_1, sum_2, sum_3));
    for (var r = 0u; r < 4u; r++) {
      put(row + r, column, sums[r]);
    }
  }
}

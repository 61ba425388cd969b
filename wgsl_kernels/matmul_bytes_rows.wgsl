// A matrix product of four rows with quantized blocks along k, in integers of 8 bits. LANES
// invocations compute 4 by 4 elements of the result; each adds up whole runs of 32. A workgroup has
// SIZE invocations.
//
// a_row, run_bytes, joined and put are put in front. Parameters: see library/product.wgsl. One
// workgroup: 4 SIZE / LANES columns.

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
    let x = array<array<vec4<u32>, 3>, 4>(a_run(row, k), a_run(row + 1u, k), a_run(row + 2u, k),
                                          a_run(row + 3u, k));
    let at = first + i;
    sum_0 += bytes_products(run_bytes(at), x);
    sum_1 += bytes_products(run_bytes(at + step), x);
    sum_2 += bytes_products(run_bytes(at + 2u * step), x);
    sum_3 += bytes_products(run_bytes(at + 3u * step), x);
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

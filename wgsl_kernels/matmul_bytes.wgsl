// A matrix product of one row with quantized blocks along k, in integers of 8 bits. LANES
// invocations compute 8 elements of the result; each adds up whole runs of 32. A workgroup has SIZE
// invocations.
//
// Each invocation rounds the activations of its runs for its columns, so that no other dispatch is
// needed. a_row, run_bytes, joined and put are put in front. Parameters: see library/product.wgsl.
// One workgroup: 8 SIZE / LANES columns.

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
    let x = a_run(row, i * 32u);
    let at = first + i;
    sum_0 += vec4<f32>(bytes_product(run_bytes(at), x), bytes_product(run_bytes(at + step), x),
                       bytes_product(run_bytes(at + 2u * step), x),
                       bytes_product(run_bytes(at + 3u * step), x));
    sum_1 += vec4<f32>(bytes_product(run_bytes(at + 4u * step), x),
                       bytes_product(run_bytes(at + 5u * step), x),
                       bytes_product(run_bytes(at + 6u * step), x),
                       bytes_product(run_bytes(at + 7u * step), x));
  }
  sum_0 = joined(sum_0, lane);
  sum_1 = joined(sum_1, lane);
  if (lane < ACROSS) {
    put(row, column, sum_0);
    put(row, column + 4u, sum_1);
  }
}

// A matrix product of few rows without workgroup memory: ROWS (1 or 4) by 4 elements of the
// result per invocation.
//
// `piece` is vec4<f32> for one row, mat4x4<f32> for four; a_piece, b_inside and put_piece are put
// in front. Parameters: see library/product.wgsl. One workgroup: 64 quads of columns.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let place = enter(group_number(group, groups));
  let row = place.x * ROWS;
  let column = place.y * 256u + lane * 4u;
  if (place.z == 0u || column >= P(1u)) {
    return;
  }
  var sum = piece();
  for (var k = 0u; k < P(2u); k += 4u) {
    sum += b_inside(k, column) * a_piece(row, k);
  }
  put_piece(row, column, sum);
}

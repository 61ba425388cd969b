// A matrix product without workgroup memory: 8 by 8 elements of the result per invocation.
//
// For adapters that run on a CPU, where barriers and workgroup memory cost more than they save.
// a_inside, b_inside and put, put in front, read 4 by 4 blocks of the operands (a's rows as vectors
// along k, b's along its columns) and store four elements.
//
// Parameters: see library/product.wgsl. One workgroup: 64 by 64 elements.

@compute @workgroup_size(8, 8)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_id) local: vec3<u32>) {
  let place = enter(group_number(group, groups));
  let row = place.x * 64u + local.y * 8u;
  let column = place.y * 64u + local.x * 8u;
  if (place.z == 0u || row >= row_end() || column >= P(1u)) {
    return;
  }
  var c00 = mat4x4<f32>();
  var c01 = mat4x4<f32>();
  var c10 = mat4x4<f32>();
  var c11 = mat4x4<f32>();
  for (var k = 0u; k < P(2u); k += 4u) {
    let b0 = b_inside(k, column);
    let b1 = b_inside(k, column + 4u);
    let a0 = a_inside(row, k);
    c00 = gain(c00, b0, a0);
    c01 = gain(c01, b1, a0);
    let a1 = a_inside(row + 4u, k);
    c10 = gain(c10, b0, a1);
    c11 = gain(c11, b1, a1);
  }
  for (var r = 0u; r < 4u; r++) {
    put(row + r, column, c00[r]);
    put(row + r, column + 4u, c01[r]);
    put(row + 4u + r, column, c10[r]);
    put(row + 4u + r, column + 4u, c11[r]);
  }
}

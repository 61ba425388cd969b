// A matrix product whose invocations share their reads by quad operations: 16 by 16 elements of the
// result per invocation, without workgroup memory.
//
// For adapters that run on a CPU: there a read of a buffer costs as much as dozens of
// multiplications, and passing a value between lanes costs almost nothing. Each of the four lanes
// of a quad reads another block of four rows of a, and every lane multiplies with all blocks.
//
// a_inside, b_inside and put, put in front, read 4 by 4 blocks of the operands (a's rows as vectors
// along k, b's along its columns) and store four elements. Parameters: see library/product.wgsl.
// One workgroup: 16 by 64 elements.

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) index: u32,
        @builtin(subgroup_invocation_id) lane: u32) {
  let place = enter(group_number(group, groups));
  if (place.z == 0u) {
    return;
  }
  let row = place.x * 16u;
  let column = place.y * 64u + index * 16u;
  var c00 = mat4x4<f32>();
  var c01 = mat4x4<f32>();
  var c02 = mat4x4<f32>();
  var c03 = mat4x4<f32>();
  var c10 = mat4x4<f32>();
  var c11 = mat4x4<f32>();
  var c12 = mat4x4<f32>();
  var c13 = mat4x4<f32>();
  var c20 = mat4x4<f32>();
  var c21 = mat4x4<f32>();
  var c22 = mat4x4<f32>();
  var c23 = mat4x4<f32>();
  var c30 = mat4x4<f32>();
  var c31 = mat4x4<f32>();
  var c32 = mat4x4<f32>();
  var c33 = mat4x4<f32>();
  for (var k = 0u; k < P(2u); k += 4u) {
    let a = a_inside(row + lane * 4u, k);
    let b0 = b_inside(k, column);
    let b1 = b_inside(k, column + 4u);
    let b2 = b_inside(k, column + 8u);
    let b3 = b_inside(k, column + 12u);
    let a0 = mat4x4<f32>(subgroupBroadcast(a[0], 0u), subgroupBroadcast(a[1], 0u),
                           subgroupBroadcast(a[2], 0u), subgroupBroadcast(a[3], 0u));
    c00 = gain(c00, b0, a0);
    c01 = gain(c01, b1, a0);
    c02 = gain(c02, b2, a0);
    c03 = gain(c03, b3, a0);
    let a1 = mat4x4<f32>(subgroupBroadcast(a[0], 1u), subgroupBroadcast(a[1], 1u),
                           subgroupBroadcast(a[2], 1u), subgroupBroadcast(a[3], 1u));
    c10 = gain(c10, b0, a1);
    c11 = gain(c11, b1, a1);
    c12 = gain(c12, b2, a1);
    c13 = gain(c13, b3, a1);
    let a2 = mat4x4<f32>(subgroupBroadcast(a[0], 2u), subgroupBroadcast(a[1], 2u),
                           subgroupBroadcast(a[2], 2u), subgroupBroadcast(a[3], 2u));
    c20 = gain(c20, b0, a2);
    c21 = gain(c21, b1, a2);
    c22 = gain(c22, b2, a2);
    c23 = gain(c23, b3, a2);
    let a3 = mat4x4<f32>(subgroupBroadcast(a[0], 3u), subgroupBroadcast(a[1], 3u),
                           subgroupBroadcast(a[2], 3u), subgroupBroadcast(a[3], 3u));
    c30 = gain(c30, b0, a3);
    c31 = gain(c31, b1, a3);
    c32 = gain(c32, b2, a3);
    c33 = gain(c33, b3, a3);
  }
  // A loop, because SwiftShader compiles the code of unrolled stores once for each.
  let c = array(c00, c01, c02, c03, c10, c11, c12, c13, c20, c21, c22, c23, c30, c31, c32, c33);
  for (var i = 0u; i < 64u; i++) {
    put(row + (i >> 4u) * 4u + (i & 3u), column + (i & 12u), c[i >> 2u][i & 3u]);
  }
}

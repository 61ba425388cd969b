// A matrix product of few rows: LANES invocations compute ROWS (1 or 4) by 4 elements of the
// result. Neighbours add up neighbouring parts of k.
//
// `piece` is vec4<f32> for one row, mat4x4<f32> for four; a_piece, b_inside and put_piece are put
// in front. Parameters: see library/product.wgsl. One workgroup: 64 / LANES quads of columns.

const ACROSS = 64u / LANES;

var<workgroup> sums: array<piece, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let place = enter(group_number(group, groups));
  if (place.z == 0u) {
    return;
  }
  let part = lane / ACROSS;
  let row = place.x * ROWS;
  let column = (place.y * ACROSS + lane % ACROSS) * 4u;
  var sum = piece();
  if (column < P(1u)) {
    for (var k = part * 4u; k < P(2u); k += LANES * 4u) {
      sum += b_inside(k, column) * a_piece(row, k);
    }
  }
  sums[lane] = sum;
  workgroupBarrier();
  for (var width = LANES / 2u; width > 0u; width >>= 1u) {
    if (part < width) {
      sum += sums[lane + width * ACROSS];
      sums[lane] = sum;
    }
    workgroupBarrier();
  }
  if (part == 0u && column < P(1u)) {
    put_piece(row, column, sum);
  }
}

// Functions of the matrix products.
//
// Parameters: 0 rows and 1 columns of the result, 2 length of the sums, 3 batch dims, 4 offset of
// a, 5 its stride of rows and 6 of k; 7 offset of b, 8 its stride of k and 9 of columns; 10 offset
// of the result, 11 its stride of rows and 12 of columns; 13 the bias's stride of rows, 14 its
// offset, 15 its stride of columns; 16.. sizes of the batch dims, 24.. strides of a, 32.. of b,
// 40.. of the result, 54.. of the bias; 48 to 50 see blocks.wgsl; 51 tiles down, 52 tiles across,
// 53 workgroups.

// The offset of row number `row` of the result.
fn out_start(row: u32) -> u32 {
  return out_base + row * P(11u);
}

// The number of rows.
fn row_end() -> u32 {
  return P(0u);
}

// The tile of a workgroup (row, column, and 0 for a surplus workgroup). Sets the matrices' offsets.
fn enter(number: u32) -> vec3<u32> {
  let tiles = P(51u) * P(52u);
  var rest = number / tiles;
  a_base = P(4u);
  b_base = P(7u);
  out_base = P(10u);
  bias_base = P(14u);
  for (var d = P(3u); d > 0u;) {
    d--;
    let i = rest % P(16u + d);
    rest /= P(16u + d);
    a_base += i * P(24u + d);
    b_base += i * P(32u + d);
    out_base += i * P(40u + d);
    bias_base += i * P(54u + d);
  }
  let tile = number % tiles;
  return vec3<u32>(tile / P(52u), tile % P(52u), u32(number < P(53u)));
}

// c plus the products of four steps of k. b's vectors run along columns, a's along k.
fn gain(c: mat4x4<f32>, b: mat4x4<f32>, a: mat4x4<f32>) -> mat4x4<f32> {
  return mat4x4<f32>(gain_row(c[0], b, a[0]), gain_row(c[1], b, a[1]), gain_row(c[2], b, a[2]),
                     gain_row(c[3], b, a[3]));
}

// The same for one row.
fn gain_row(c: vec4<f32>, b: mat4x4<f32>, a: vec4<f32>) -> vec4<f32> {
  return fma(b[3], vec4<f32>(a.w), fma(b[2], vec4<f32>(a.z),
         fma(b[1], vec4<f32>(a.y), fma(b[0], vec4<f32>(a.x), c))));
}

var<workgroup> joining: array<vec4<f32>, SIZE>;

// The sum of v over LANES invocations, valid in the first ACROSS.
fn joined_lanes(v: vec4<f32>, lane: u32) -> vec4<f32> {
  var sum = v;
  workgroupBarrier();
  joining[lane] = sum;
  workgroupBarrier();
  for (var width = SIZE / 2u; width >= ACROSS; width >>= 1u) {
    if (lane < width) {
      sum += joining[lane + width];
      joining[lane] = sum;
    }
    workgroupBarrier();
  }
  return sum;
}

// windows: element i of the matrix of windows of images, row-major with rows of P(2) columns.
//
// Defines `element` for map.wgsl. `tap` and `b_value` are put in front. Parameters: 2 columns with
// padding, 3 rows, 4 columns, 5 batch dims, 7 offset of the images, 8 and 9 strides of planes,
// 18 to 39 see core/backends/webgpu/lowering/products/windows.py, 40.. sizes of the batch dims,
// 48.. their strides.

fn element(i: u32) -> out_value {
  let q = i % P(2u);
  let row = i / P(2u);
  b_base = P(7u) + walked(row / P(3u), P(5u), 40u, 48u);
  let from_ = tap(row % P(3u) + P(22u), P(18u), P(19u));
  let value = b_value(from_, tap(q + P(23u), P(20u), P(21u)));
  return select(0.0, value, q < P(4u));
}

// The result is row-major.
fn place(i: u32) -> u32 {
  return i;
}

// pack_rows: rows of floats as signed bytes with float16 scales, as in core/basis/packed.py.
//
// Defines `element` for map.wgsl: a word of the result. places(row): the offset of a row of x.
// Parameters: 2 offset of x, 3 features of a row, 4 words of a packed row, 5 stride of the
// features, 8.. sizes of the other dims, 16.. their strides in x.

// The scale of the 32 floats from `at` on. Sizes are compared as bits: those of nan are largest.
fn scale_of(at: u32) -> f32 {
  var top = 0u;
  for (var j = 0u; j < 32u; j++) {
    top = max(top, bitcast<u32>(load_x(at + j * P(5u))) & 0x7fffffffu);
  }
  if (top > 0x7f800000u) {
    return from_bits(0x7fc00000u);
  }
  return from_bits(top) / 127.0;
}

fn element(i: u32) -> out_value {
  let row = i / P(4u);
  let word = i - row * P(4u);
  let at = places(row);
  let quads = P(3u) / 4u;
  if (word >= quads) {
    let first = (word - quads) * 64u;
    var scales = f16_bits(scale_of(at + first * P(5u)));
    if (first + 32u < P(3u)) {
      scales |= f16_bits(scale_of(at + (first + 32u) * P(5u))) << 16u;
    }
    return scales;
  }
  let d = scale_of(at + word / 8u * 32u * P(5u));
  if (!(is_finite(d) && d > 0x1p-25f)) { // a smaller scale rounds to zero
    return 0u;
  }
  let by = 1.0 / d;
  var packed = 0u;
  for (var j = 0u; j < 4u; j++) {
    let x = load_x(at + (word * 4u + j) * P(5u)) * by;
    packed |= (bitcast<u32>(i32(x + select(0.5, -0.5, x < 0.0))) & 255u) << (j * 8u);
  }
  return packed;
}

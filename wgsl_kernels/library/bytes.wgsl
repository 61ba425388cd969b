// Products of signed bytes, four to a word: runs of 32 activations, rounded, and of 32 weights.
// HALVES: whether the halves of a run of weights have scales of their own; OFFSETS: whether
// anything is added to them. See codegen/formula.py.

// A run as bytes in the first two vectors. The third holds floats: the scale, and the sums of the
// low half, of the high half and of both. What holds an infinity or no number has no finite scale.
fn rounded_run(x: array<vec4<f32>, 8>) -> array<vec4<u32>, 3> {
  let bits = most_bits(x);
  let most = bitcast<f32>(bits);
  // Below 2^-100 a run is zeros: 127 divided by less may be no float.
  let by = select(0.0, 127.0 / most, bits > 0x0d800000u);
  let low = vec4<u32>(rounded_quad(x[0] * by), rounded_quad(x[1] * by), rounded_quad(x[2] * by),
                      rounded_quad(x[3] * by));
  let high = vec4<u32>(rounded_quad(x[4] * by), rounded_quad(x[5] * by), rounded_quad(x[6] * by),
                       rounded_quad(x[7] * by));
  let scale = most / 127.0;
  let sums = vec2<f32>(f32(bytes_dot(low, vec4<u32>(0x01010101u))),
                       f32(bytes_dot(high, vec4<u32>(0x01010101u)))) * scale;
  return array<vec4<u32>, 3>(low, high,
                             bitcast<vec4<u32>>(vec4<f32>(scale, sums.x, sums.y, sums.x + sums.y)));
}

// The bits of the largest size of a run: sizes of floats are in the order of their bits.
fn most_bits(x: array<vec4<f32>, 8>) -> u32 {
  let m = max(max(max(size_bits(x[0]), size_bits(x[1])), max(size_bits(x[2]), size_bits(x[3]))),
              max(max(size_bits(x[4]), size_bits(x[5])), max(size_bits(x[6]), size_bits(x[7]))));
  return max(max(m.x, m.y), max(m.z, m.w));
}

// A power of two above all sizes of a run. 0 below 2^-100, where a run is zeros; an infinity where
// it holds one, or no number.
fn power_above(x: array<vec4<f32>, 8>) -> f32 {
  let exponent = most_bits(x) >> 23u;
  return bitcast<f32>(select(min(exponent + 1u, 255u) << 23u, 0u, exponent < 27u));
}

fn size_bits(v: vec4<f32>) -> vec4<u32> {
  return bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
}

fn rounded_quad(v: vec4<f32>) -> u32 {
  return pack4xI8(vec4<i32>(round(v)));
}

// The product of 16 bytes and 16 bytes.
fn bytes_dot(a: vec4<u32>, b: vec4<u32>) -> i32 {
  return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z)
      + dot4I8Packed(a.w, b.w);
}

// The product of a run of weights and a run of activations.
fn bytes_product(w: array<vec4<u32>, 3>, x: array<vec4<u32>, 3>) -> f32 {
  let form = bitcast<vec4<f32>>(w[2]);
  let about = bitcast<vec4<f32>>(x[2]);
  let low = bytes_dot(w[0], x[0]);
  let high = bytes_dot(w[1], x[1]);
  if (HALVES) {
    let sum = about.x * (form.x * f32(low) + form.y * f32(high));
    return sum + form.z * about.y + form.w * about.z;
  }
  let sum = about.x * (form.x * f32(low + high));
  if (OFFSETS) {
    return sum + form.z * about.w;
  }
  return sum;
}

// The elements k to k + 31 of a row of a, rounded.
fn a_run(row: u32, k: u32) -> array<vec4<u32>, 3> {
  return rounded_run(array<vec4<f32>, 8>(
      a_row(row, k), a_row(row, k + 4u), a_row(row, k + 8u), a_row(row, k + 12u),
      a_row(row, k + 16u), a_row(row, k + 20u), a_row(row, k + 24u), a_row(row, k + 28u)));
}

// The product of a run of weights with those of four rows.
fn bytes_products(w: array<vec4<u32>, 3>, x: array<array<vec4<u32>, 3>, 4>) -> vec4<f32> {
  return vec4<f32>(bytes_product(w, x[0]), bytes_product(w, x[1]), bytes_product(w, x[2]),
                   bytes_product(w, x[3]));
}

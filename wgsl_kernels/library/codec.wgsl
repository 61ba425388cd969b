// Conversion of the narrow dtypes: bits to float32 and back, rounding to even.

// The low 16 bits of w as float16.
fn f16_value(w: u32) -> f32 {
  let exponent = (w >> 10u) & 31u;
  let mantissa = w & 1023u;
  let sign = (w & 0x8000u) << 16u;
  if (exponent == 0u) {
    let tiny = f32(mantissa) * 0x1p-24f;
    return bitcast<f32>(bitcast<u32>(tiny) | sign);
  }
  let wide = select(exponent + 112u, 255u, exponent == 31u);
  return bitcast<f32>(sign | (wide << 23u) | (mantissa << 13u));
}

// The bits of v as float16, to the nearest, ties to even.
fn f16_bits(v: f32) -> u32 {
  let bits = bitcast<u32>(v);
  let sign = (bits >> 16u) & 0x8000u;
  let size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) {
    return sign | 0x7e00u;
  }
  if (size >= 0x477ff000u) { // rounds to 65536 or more
    return sign | 0x7c00u;
  }
  if (size < 0x38800000u) { // below 2^-14: a multiple of 2^-24
    if (size < 0x33000000u) {
      return sign;
    }
    let shift = 126u - (size >> 23u);
    let mantissa = (size & 0x7fffffu) | 0x800000u;
    let kept = mantissa >> shift;
    let rest = mantissa & ((1u << shift) - 1u);
    let half = 1u << (shift - 1u);
    let up = u32(rest > half || (rest == half && (kept & 1u) == 1u));
    return sign | (kept + up);
  }
  let rounded = size + 0xfffu + ((size >> 13u) & 1u);
  return sign | ((rounded - 0x38000000u) >> 13u);
}

// The low 16 bits of w as bfloat16.
fn bf16_value(w: u32) -> f32 {
  return bitcast<f32>(w << 16u);
}

// The bits of v as bfloat16, to the nearest, ties to even.
fn bf16_bits(v: f32) -> u32 {
  let bits = bitcast<u32>(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return (bits >> 16u) | 0x40u;
  }
  return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}

// The low 8 bits of w as float8 (Micikevicius et al., 2022): 4 bits of exponent, 3 of mantissa; no
// infinity, nan where all bits are ones.
fn f8e4m3_value(w: u32) -> f32 {
  let sign = (w & 0x80u) << 24u;
  let size = w & 0x7fu;
  if (size < 8u) {
    return bitcast<f32>(bitcast<u32>(f32(size) * 0x1p-9f) | sign);
  }
  return from_bits(sign | select((size << 20u) + 0x3c000000u, 0x7fc00000u, size == 0x7fu));
}

// The bits of v in this format, to the nearest, ties to even. Too large values become the largest.
fn f8e4m3_bits(v: f32) -> u32 {
  let sign = (bitcast<u32>(v) >> 24u) & 0x80u;
  let size = bitcast<u32>(v) & 0x7fffffffu;
  if (size > 0x7f800000u) {
    return sign | 0x7fu;
  }
  return sign | min(f8_rounded(size, 3u, 121u), 0x7eu);
}

// The low 8 bits of w as float8 of 5 bits of exponent and 2 of mantissa: the top of a float16.
fn f8e5m2_value(w: u32) -> f32 {
  return f16_value((w & 0xffu) << 8u);
}

// The bits of v in this format, to the nearest, ties to even. Too large values become infinite.
fn f8e5m2_bits(v: f32) -> u32 {
  let sign = (bitcast<u32>(v) >> 24u) & 0x80u;
  let size = bitcast<u32>(v) & 0x7fffffffu;
  if (size > 0x7f800000u) {
    return sign | 0x7fu;
  }
  return sign | min(f8_rounded(size, 2u, 113u), 0x7cu);
}

// The bits of a positive float32 rounded to `digits` bits of mantissa. `least` is the smallest
// normal exponent, in float32's bias.
fn f8_rounded(size: u32, digits: u32, least: u32) -> u32 {
  let exponent = size >> 23u;
  if (exponent < least) { // a multiple of the smallest number
    let shift = 23u - digits + least - exponent;
    if (shift > 24u) {
      return 0u;
    }
    return even_shift((size & 0x7fffffu) | 0x800000u, shift);
  }
  return even_shift(min(size, 0x7f800000u) - ((least - 1u) << 23u), 23u - digits);
}

// v >> shift, rounded to the nearest, ties to even; shift from 1 to 31.
fn even_shift(v: u32, shift: u32) -> u32 {
  let kept = v >> shift;
  let rest = v & ((1u << shift) - 1u);
  let half = 1u << (shift - 1u);
  return kept + select(0u, 1u, rest > half || (rest == half && (kept & 1u) == 1u));
}

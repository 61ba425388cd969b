// How the narrow dtypes are read and written: bits to float32 and back, rounding to even.

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

// Numbers as unsigned integers of the same order, for argmax and sorting.

// nan is the largest, and the two zeros are equal.
fn key_f(v: f32) -> u32 {
  let bits = bitcast<u32>(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return 0xffffffffu;
  }
  if (bits << 1u == 0u) {
    return 0x80000000u;
  }
  return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

fn key_i(v: i32) -> u32 { return bitcast<u32>(v) ^ 0x80000000u; }

fn key_u(v: u32) -> u32 { return v; }

// The reversed order, for argmin. A nan still comes first.
fn turned(key: u32) -> u32 { return select(~key, key, key == 0xffffffffu); }

// The larger key of two (key, index); of equal keys the one with the lower index.
fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(b, a, a.x > b.x || (a.x == b.x && a.y <= b.y));
}

// The sum of two 64-bit integers (low, high).
fn wide_sum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

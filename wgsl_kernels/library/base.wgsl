// Functions for every kernel: parameters, place in the grid, status word.
//
// Empty lines separate definitions. The loader takes those that a kernel mentions.

// The parameters of one dispatch: 64 words in one slot of the arena.
@group(1) @binding(0) var<uniform> parameters: array<vec4<u32>, 16>;

// Parameter number i.
fn P(i: u32) -> u32 {
  return parameters[i >> 2u][i & 3u];
}

// Parameter number i, stored as the bits of a float.
fn F(i: u32) -> f32 {
  return bitcast<f32>(P(i));
}

// The number of a workgroup in a grid of two axes; one axis has at most 65535.
fn group_number(group: vec3<u32>, groups: vec3<u32>) -> u32 {
  return group.y * groups.x + group.x;
}

// Tests the bits, because WGSL may assume that nan and infinity do not occur.
fn is_nan(v: f32) -> bool {
  return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u;
}

// Whether v is infinite, of either sign.
fn is_inf(v: f32) -> bool {
  return (bitcast<u32>(v) & 0x7fffffffu) == 0x7f800000u;
}

// Whether v is neither infinite nor nan.
fn is_finite(v: f32) -> bool {
  return (bitcast<u32>(v) & 0x7f800000u) != 0x7f800000u;
}

// Whether v is neither zero nor minus zero. True for nan.
fn not_zero(v: f32) -> bool {
  return (bitcast<u32>(v) << 1u) != 0u;
}

// A float from its bits. A parameter hides a nan from the compiler.
fn from_bits(bits: u32) -> f32 {
  return bitcast<f32>(bits ^ (P(63u) & 0u));
}

// Record that `value` is out of range for `size`, unless the status word is set already.
fn note(code: u32, value: i32, size: u32) {
  loop {
    let seen = atomicCompareExchangeWeak(&status[0], 0u, code);
    if (seen.exchanged) {
      atomicStore(&status[1], bitcast<u32>(value));
      atomicStore(&status[2], size);
      return;
    }
    if (seen.old_value != 0u) {
      return;
    }
  }
}

// The offset of element i in row-major order. There are `dims` dims, at least one. Their sizes
// begin at parameter `sizes`, their strides at parameter `strides`.
fn walked(i: u32, dims: u32, sizes: u32, strides: u32) -> u32 {
  var rest = i;
  var place = 0u;
  for (var d = dims; d > 1u;) {
    d--;
    let size = P(sizes + d);
    let outer = rest / size; // the division costs more than everything else here
    place += (rest - outer * size) * P(strides + d);
    rest = outer;
  }
  return place + rest * P(strides);
}

// The offset of element i of a map's result: row-major, unless the map redefines it.
fn placed(i: u32) -> u32 { return i; }

// The value to store at `at` in column `column` of a result: v, unless an epilogue redefines it.
fn finished(v: f32, at: u32, column: u32) -> f32 { return v; }

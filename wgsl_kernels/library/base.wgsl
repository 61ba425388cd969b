// What every kernel may use: its parameters, its place in the grid, the status word.
//
// Definitions are separated by empty lines; the loader takes those that are mentioned.

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

// Workgroups are numbered over two axes, since one holds no more than 65535.
fn group_number(group: vec3<u32>, groups: vec3<u32>) -> u32 {
  return group.y * groups.x + group.x;
}

// Nothing but the bits tells: WGSL may assume that nan and infinity do not occur.
fn is_nan(v: f32) -> bool {
  return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u;
}

// Infinite, of either sign.
fn is_inf(v: f32) -> bool {
  return (bitcast<u32>(v) & 0x7fffffffu) == 0x7f800000u;
}

// Neither infinite nor nan.
fn is_finite(v: f32) -> bool {
  return (bitcast<u32>(v) & 0x7f800000u) != 0x7f800000u;
}

// Neither zero nor minus zero; a nan is not zero.
fn not_zero(v: f32) -> bool {
  return (bitcast<u32>(v) << 1u) != 0u;
}

// A nan that the compiler cannot see as one: `from_bits` reads it through a parameter.
fn from_bits(bits: u32) -> f32 {
  return bitcast<f32>(bits ^ (P(63u) & 0u));
}

// Say that `value` was out of range for `size`, unless something was said before.
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

// Where element i lies that is counted row-major: `dims` dims, at least one, whose sizes begin at
// parameter `sizes` and whose strides at parameter `strides`.
fn walked(i: u32, dims: u32, sizes: u32, strides: u32) -> u32 {
  var rest = i;
  var place = 0u;
  for (var d = dims; d > 1u;) {
    d--;
    let size = P(sizes + d);
    let outer = rest / size; // a division costs more than all the rest
    place += (rest - outer * size) * P(strides + d);
    rest = outer;
  }
  return place + rest * P(strides);
}

// Where element i of a map's result lies: row-major, unless the map says otherwise.
fn placed(i: u32) -> u32 { return i; }

// What is stored at `at` in column `column` of a result: v, unless an epilogue says otherwise.
fn finished(v: f32, at: u32, column: u32) -> f32 { return v; }

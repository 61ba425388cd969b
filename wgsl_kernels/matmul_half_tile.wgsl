// A matrix product of many rows with quantized blocks along k, in float16 with float32 sums of
// eight products each: 64 DOWN by 64 DOWN elements of the result per workgroup, DOWN squared blocks
// of 4 by 4 per invocation. DOWN is 1 or 2.
//
// Each run of 32 along k is divided by a power of two that is above its largest element, so no
// product exceeds 1, whatever the operands hold. The next runs are read into registers while these
// are multiplied. A quad of rows or columns lies apart by QUADS, so that reads do not conflict in
// memory banks.
//
// a_row, formula_run and put are put in front. Parameters: see library/product.wgsl.

const QUADS = 16u * DOWN; // quads of rows, and of columns, in a tile
const WIDTH = 64u * DOWN;

var<workgroup> a_tile: array<vec4<f16>, 8 * WIDTH>;
var<workgroup> b_tile: array<vec4<f16>, 8 * WIDTH>;
var<workgroup> a_scale: array<f32, WIDTH>;
var<workgroup> b_scale: array<f32, WIDTH>;

// A run of a row of a, or of a column of b; zeros beyond the last one.
fn run_of(brings_a: bool, line: u32, i: u32) -> array<vec4<f32>, 8> {
  if (i >= (P(2u) >> 5u)) {
    return array<vec4<f32>, 8>();
  }
  if (brings_a) {
    if (line >= row_end()) {
      return array<vec4<f32>, 8>();
    }
    let k = i * 32u;
    return array<vec4<f32>, 8>(
        a_row(line, k), a_row(line, k + 4u), a_row(line, k + 8u), a_row(line, k + 12u),
        a_row(line, k + 16u), a_row(line, k + 20u), a_row(line, k + 24u), a_row(line, k + 28u));
  }
  if (line >= P(1u)) {
    return array<vec4<f32>, 8>();
  }
  return formula_run(((b_base + line * b_Q()) >> 5u) + i);
}

fn across(v: vec4<f16>) -> f32 {
  return f32(v.x) + f32(v.y) + (f32(v.z) + f32(v.w));
}

// c and the products of a run of four rows and four columns.
fn gained(c: mat4x4<f32>, at: u32, at_b: u32) -> mat4x4<f32> {
  var s00 = vec4<f16>();
  var s01 = vec4<f16>();
  var s02 = vec4<f16>();
  var s03 = vec4<f16>();
  var s10 = vec4<f16>();
  var s11 = vec4<f16>();
  var s12 = vec4<f16>();
  var s13 = vec4<f16>();
  var s20 = vec4<f16>();
  var s21 = vec4<f16>();
  var s22 = vec4<f16>();
  var s23 = vec4<f16>();
  var s30 = vec4<f16>();
  var s31 = vec4<f16>();
  var s32 = vec4<f16>();
  var s33 = vec4<f16>();
  for (var q = 0u; q < 8u; q++) {
    let a0 = a_tile[q * WIDTH + at + 0u * QUADS];
    let a1 = a_tile[q * WIDTH + at + 1u * QUADS];
    let a2 = a_tile[q * WIDTH + at + 2u * QUADS];
    let a3 = a_tile[q * WIDTH + at + 3u * QUADS];
    let b0 = b_tile[q * WIDTH + at_b + 0u * QUADS];
    let b1 = b_tile[q * WIDTH + at_b + 1u * QUADS];
    let b2 = b_tile[q * WIDTH + at_b + 2u * QUADS];
    let b3 = b_tile[q * WIDTH + at_b + 3u * QUADS];
    s00 = fma(a0, b0, s00);
    s01 = fma(a0, b1, s01);
    s02 = fma(a0, b2, s02);
    s03 = fma(a0, b3, s03);
    s10 = fma(a1, b0, s10);
    s11 = fma(a1, b1, s11);
    s12 = fma(a1, b2, s12);
    s13 = fma(a1, b3, s13);
    s20 = fma(a2, b0, s20);
    s21 = fma(a2, b1, s21);
    s22 = fma(a2, b2, s22);
    s23 = fma(a2, b3, s23);
    s30 = fma(a3, b0, s30);
    s31 = fma(a3, b1, s31);
    s32 = fma(a3, b2, s32);
    s33 = fma(a3, b3, s33);
  }
  let scales = vec4<f32>(b_scale[at_b], b_scale[at_b + QUADS], b_scale[at_b + 2u * QUADS],
                         b_scale[at_b + 3u * QUADS]);
  return mat4x4<f32>(
      c[0] + a_scale[at + 0u * QUADS] * scales
          * vec4<f32>(across(s00), across(s01), across(s02), across(s03)),
      c[1] + a_scale[at + 1u * QUADS] * scales
          * vec4<f32>(across(s10), across(s11), across(s12), across(s13)),
      c[2] + a_scale[at + 2u * QUADS] * scales
          * vec4<f32>(across(s20), across(s21), across(s22), across(s23)),
      c[3] + a_scale[at + 3u * QUADS] * scales
          * vec4<f32>(across(s30), across(s31), across(s32), across(s33)));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let place = enter(group_number(group, groups));
  if (place.z == 0u) {
    return;
  }
  let row = place.x * WIDTH;
  let column = place.y * WIDTH;
  // The first half of the invocations brings runs of a, the second half runs of b.
  let brings_a = lane < 128u;
  let number = lane & 127u;
  let brings = number < WIDTH;
  let line = number + select(column, row, brings_a);
  let to = (number & 3u) * QUADS + (number >> 2u);
  let y = lane / 16u;
  let x = lane % 16u;
  var c00 = mat4x4<f32>();
  var c01 = mat4x4<f32>();
  var c10 = mat4x4<f32>();
  var c11 = mat4x4<f32>();
  var next: array<vec4<f32>, 8>;
  if (brings) {
    next = run_of(brings_a, line, 0u);
  }
  let count = P(2u) >> 5u;
  for (var i = 0u; i < count; i++) {
    if (brings) {
      let scale = power_above(next);
      let by = select(0.0, 1.0 / scale, scale > 0.0);
      if (brings_a) {
        a_scale[to] = scale;
        for (var q = 0u; q < 8u; q++) {
          a_tile[q * WIDTH + to] = vec4<f16>(next[q] * by);
        }
      } else {
        b_scale[to] = scale;
        for (var q = 0u; q < 8u; q++) {
          b_tile[q * WIDTH + to] = vec4<f16>(next[q] * by);
        }
      }
    }
    workgroupBarrier();
    if (brings) {
      next = run_of(brings_a, line, i + 1u);
    }
    c00 = gained(c00, y, x);
    if (DOWN == 2u) {
      c01 = gained(c01, y, x + 16u);
      c10 = gained(c10, y + 16u, x);
      c11 = gained(c11, y + 16u, x + 16u);
    }
    workgroupBarrier();
  }
  for (var r = 0u; r < 4u; r++) {
    put(row + y * 4u + r, column + x * 4u, c00[r]);
    if (DOWN == 2u) {
      put(row + y * 4u + r, column + x * 4u + 64u, c01[r]);
      put(row + y * 4u + 64u + r, column + x * 4u, c10[r]);
      put(row + y * 4u + 64u + r, column + x * 4u + 64u, c11[r]);
    }
  }
}

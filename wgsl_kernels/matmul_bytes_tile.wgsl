// A matrix product of many rows with quantized blocks along k, in integers of 8 bits: 64 DOWN by 64
// DOWN elements of the result per workgroup, DOWN squared blocks of 4 by 4 per invocation. DOWN is
// 1 or 2.
//
// The rows of a were rounded before, by round_rows.wgsl: run i of row r is at a_runs[3 (r P(5) +
// i)]. The next runs are read into registers while these are multiplied. `slot` places neighbouring
// quads of rows or columns side by side, so that reads do not conflict in memory banks.
//
// a_runs, run_bytes and put are put in front. Parameters: see library/product.wgsl.

const QUADS = 16u * DOWN; // quads of rows, and of columns, in a tile
const WIDTH = 64u * DOWN;
const RUNS = 2u / DOWN; // runs of k in a tile

var<workgroup> a_low: array<vec4<u32>, 128>;
var<workgroup> a_high: array<vec4<u32>, 128>;
var<workgroup> a_about: array<vec4<f32>, 128>;
var<workgroup> b_low: array<vec4<u32>, 128>;
var<workgroup> b_high: array<vec4<u32>, 128>;
var<workgroup> b_form: array<vec4<f32>, 128>;

// Where row or column number i of run r of a tile lies.
fn slot(i: u32, r: u32) -> u32 {
  return r * WIDTH + (i & 3u) * QUADS + (i >> 2u);
}

// A run of a row of a; zeros beyond the last one.
fn a_next(row: u32, i: u32) -> array<vec4<u32>, 3> {
  if (row >= row_end() || i >= (P(2u) >> 5u)) {
    return array<vec4<u32>, 3>();
  }
  let at = (a_base + row * P(5u) + i) * 3u;
  return array<vec4<u32>, 3>(a_runs[at], a_runs[at + 1u], a_runs[at + 2u]);
}

// A run of a column of b; zeros beyond the last one.
fn b_next(column: u32, i: u32) -> array<vec4<u32>, 3> {
  if (column >= P(1u) || i >= (P(2u) >> 5u)) {
    return array<vec4<u32>, 3>();
  }
  return run_bytes(((b_base + column * b_Q()) >> 5u) + i);
}

// A row of c: the products of a run of a with those of four columns.
fn row_products(at: u32, b: array<vec4<u32>, 8>, forms: mat4x4<f32>) -> vec4<f32> {
  let low = a_low[at];
  let high = a_high[at];
  let about = a_about[at];
  let lows = vec4<i32>(bytes_dot(low, b[0]), bytes_dot(low, b[1]), bytes_dot(low, b[2]),
                       bytes_dot(low, b[3]));
  let highs = vec4<i32>(bytes_dot(high, b[4]), bytes_dot(high, b[5]), bytes_dot(high, b[6]),
                        bytes_dot(high, b[7]));
  if (HALVES) {
    return about.x * (forms[0] * vec4<f32>(lows) + forms[1] * vec4<f32>(highs))
        + about.y * forms[2] + about.z * forms[3];
  }
  let sums = about.x * (forms[0] * vec4<f32>(lows + highs));
  if (OFFSETS) {
    return sums + about.w * forms[2];
  }
  return sums;
}

// c and the products of a run of four rows and four columns.
fn gained(c: mat4x4<f32>, at: u32, at_b: u32) -> mat4x4<f32> {
  let b1 = at_b + QUADS;
  let b2 = b1 + QUADS;
  let b3 = b2 + QUADS;
  let b = array<vec4<u32>, 8>(b_low[at_b], b_low[b1], b_low[b2], b_low[b3],
                              b_high[at_b], b_high[b1], b_high[b2], b_high[b3]);
  let forms = transpose(mat4x4<f32>(b_form[at_b], b_form[b1], b_form[b2], b_form[b3]));
  return mat4x4<f32>(c[0] + row_products(at, b, forms), c[1] + row_products(at + QUADS, b, forms),
                     c[2] + row_products(at + 2u * QUADS, b, forms),
                     c[3] + row_products(at + 3u * QUADS, b, forms));
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
  let line = (lane & 127u) / RUNS;
  let run = (lane & 127u) % RUNS;
  let to = slot(line, run);
  let y = lane / 16u;
  let x = lane % 16u;
  var c00 = mat4x4<f32>();
  var c01 = mat4x4<f32>();
  var c10 = mat4x4<f32>();
  var c11 = mat4x4<f32>();
  var next: array<vec4<u32>, 3>;
  if (brings_a) {
    next = a_next(row + line, run);
  } else {
    next = b_next(column + line, run);
  }
  let count = P(2u) >> 5u;
  for (var i = 0u; i < count; i += RUNS) {
    if (brings_a) {
      a_low[to] = next[0];
      a_high[to] = next[1];
      a_about[to] = bitcast<vec4<f32>>(next[2]);
    } else {
      b_low[to] = next[0];
      b_high[to] = next[1];
      b_form[to] = bitcast<vec4<f32>>(next[2]);
    }
    workgroupBarrier();
    if (i + RUNS < count) {
      if (brings_a) {
        next = a_next(row + line, i + RUNS + run);
      } else {
        next = b_next(column + line, i + RUNS + run);
      }
    }
    for (var r = 0u; r < RUNS; r++) {
      let at = r * WIDTH;
      c00 = gained(c00, at + y, at + x);
      if (DOWN == 2u) {
        c01 = gained(c01, at + y, at + x + 16u);
        c10 = gained(c10, at + y + 16u, at + x);
        c11 = gained(c11, at + y + 16u, at + x + 16u);
      }
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

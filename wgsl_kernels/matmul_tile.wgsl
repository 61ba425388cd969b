// A matrix product by tiles in workgroup memory: 64 DOWN by 64 DOWN elements of the result per
// workgroup, DOWN squared blocks of 4 by 4 per invocation. DOWN is 1 or 2.
//
// The next part of the operands is read into registers while this one is multiplied. A tile of a is
// stored as vectors along its rows, a tile of b along its columns. `slot` permutes their places, so
// that blocks that are transposed on the way do not conflict in memory banks.
//
// a_block, b_block and put, put in front, read 4 by 4 blocks of the operands (a's rows as vectors
// along k, b's along its columns) and store four elements. A_ALONG, B_ALONG: whether k is the
// contiguous dim. Parameters: see library/product.wgsl.

const QUADS = 16u * DOWN; // quads of rows, and of columns, in a tile
const DEPTH = 32u / DOWN; // steps of k in a tile

var<workgroup> a_tile: array<vec4<f32>, 512>;
var<workgroup> b_tile: array<vec4<f32>, 512>;

fn slot(k: u32, i: u32) -> u32 {
  return k * QUADS + (i ^ ((k >> 1u) & 6u));
}

// Block number i of a tile: its quad of rows or columns, and its quad of k.
fn block_place(i: u32, along: bool) -> vec2<u32> {
  if (along) {
    return vec2<u32>(i / (DEPTH / 4u), i % (DEPTH / 4u));
  }
  return vec2<u32>(i % QUADS, i / QUADS);
}

fn outer(c: mat4x4<f32>, b: vec4<f32>, a: vec4<f32>) -> mat4x4<f32> {
  return mat4x4<f32>(fma(b, vec4<f32>(a.x), c[0]), fma(b, vec4<f32>(a.y), c[1]),
                     fma(b, vec4<f32>(a.z), c[2]), fma(b, vec4<f32>(a.w), c[3]));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let place = enter(group_number(group, groups));
  if (place.z == 0u) {
    return;
  }
  let row = place.x * 64u * DOWN;
  let column = place.y * 64u * DOWN;
  // The first half of the invocations loads a, the second loads b: one block each.
  let brings_a = lane < 128u;
  var mine: vec2<u32>;
  if (brings_a) {
    mine = block_place(lane, A_ALONG);
  } else {
    mine = block_place(lane - 128u, B_ALONG);
  }
  let y = lane / 16u;
  let x = lane % 16u;
  var c00 = mat4x4<f32>();
  var c01 = mat4x4<f32>();
  var c10 = mat4x4<f32>();
  var c11 = mat4x4<f32>();
  var next: mat4x4<f32>;
  if (brings_a) {
    next = transpose(a_block(row + mine.x * 4u, mine.y * 4u));
  } else {
    next = b_block(mine.y * 4u, column + mine.x * 4u);
  }
  for (var k = 0u; k < P(2u); k += DEPTH) {
    let first = mine.y * 4u;
    if (brings_a) {
      a_tile[slot(first, mine.x)] = next[0];
      a_tile[slot(first + 1u, mine.x)] = next[1];
      a_tile[slot(first + 2u, mine.x)] = next[2];
      a_tile[slot(first + 3u, mine.x)] = next[3];
    } else {
      b_tile[slot(first, mine.x)] = next[0];
      b_tile[slot(first + 1u, mine.x)] = next[1];
      b_tile[slot(first + 2u, mine.x)] = next[2];
      b_tile[slot(first + 3u, mine.x)] = next[3];
    }
    workgroupBarrier();
    if (k + DEPTH < P(2u)) {
      if (brings_a) {
        next = transpose(a_block(row + mine.x * 4u, k + DEPTH + first));
      } else {
        next = b_block(k + DEPTH + first, column + mine.x * 4u);
      }
    }
    for (var j = 0u; j < DEPTH; j++) {
      let a0 = a_tile[slot(j, y)];
      let b0 = b_tile[slot(j, x)];
      c00 = outer(c00, b0, a0);
      if (DOWN == 2u) {
        let a1 = a_tile[slot(j, y + 16u)];
        let b1 = b_tile[slot(j, x + 16u)];
        c01 = outer(c01, b1, a0);
        c10 = outer(c10, b0, a1);
        c11 = outer(c11, b1, a1);
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

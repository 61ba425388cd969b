// embedding: rows of a table that indices name, one word of the result per invocation.
//
// A table that cannot be bound at once comes in pieces of rows: a piece leaves alone what belongs
// to another, and the first also writes zero where no row is named and notes the index.
//
// Parameters: 0 elements of the result, 1 its offset, 2 width, 3 offset of the indices, 4 offset
// of the table and 5 its stride of rows, 6 stride of columns, 7 rows of the whole table, 8 dims of
// the indices, 9 first row and 10 end of the piece, 11 status code, 16.. sizes, 24.. strides of
// the indices; 48 to 50 see library/blocks.wgsl.

// Element i of the result; `old` is what is there.
fn element(i: u32, old: out_value) -> out_value {
  let k = i32(load_index(P(3u) + walked(i / P(2u), P(8u), 16u, 24u)));
  if (k < 0 || u32(k) >= P(7u)) {
    if (P(9u) == 0u) {
      note(P(11u), k, P(7u));
    }
    return out_value();
  }
  if (u32(k) >= P(9u) && u32(k) < P(10u)) {
    return load_table(P(4u) + (u32(k) - P(9u)) * P(5u) + (i % P(2u)) * P(6u));
  }
  return old;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let first = (group_number(group, groups) * 64u + lane) * PER;
  if (first >= P(0u)) {
    return;
  }
  let at = first + P(1u);
  var packed = 0u;
  for (var k = 0u; k < PER; k++) {
    if (first + k < P(0u)) {
      packed |= encode(element(first + k, load_out(at + k))) << (k * BITS);
    }
  }
  out_words[at / PER] = packed;
}

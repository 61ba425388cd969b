// embedding: the rows of a table at given indices.
//
// Defines `element` for map.wgsl. load_out returns the current value of an element of the result.
// A table that is too large for one binding comes in pieces of rows. A piece does not change the
// elements of other pieces. The first also writes zero for an index out of range and records it.
//
// Parameters: 0 elements of the result, 1 its offset, 2 width, 3 offset of the indices, 4 offset
// of the table and 5 its stride of rows, 6 stride of columns, 7 rows of the whole table, 8 dims of
// the indices, 9 first row and 10 end of the piece, 11 status code, 16.. sizes, 24.. strides of
// the indices; 48 to 50 see library/blocks.wgsl.

fn element(i: u32) -> out_value {
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
  return load_out(i + P(1u));
}

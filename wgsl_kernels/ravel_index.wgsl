// ravel_index: combines an index over several dims with the index of the next dim: the index so far
// times that dim's size, plus its index.
//
// Defines `element` for map.wgsl. Negative indices count from the end. -1 marks one out of range.
// Parameters: 1 offset of the result, 2 offset of the index, 5 dims, 6 size, 7 status code,
// 8.. sizes, 16.. strides of the index.

fn element(i: u32) -> out_value {
  let size = i32(P(6u));
  let k = i32(load_index(P(2u) + walked(i, P(5u), 8u, 16u)));
  if (k < -size || k >= size) {
    note(P(7u), k, P(6u));
    return -1;
  }
  let here = select(k, k + size, k < 0);
  if (FIRST) {
    return here;
  }
  let before = bitcast<i32>(out_words[i + P(1u)]);
  return select(before * size + here, -1, before < 0);
}

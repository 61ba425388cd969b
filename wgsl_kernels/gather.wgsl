// gather: element i of the result is an element of x, chosen by an index along one dim.
//
// Defines `element` for map.wgsl. Put in front: `missing()` is the value for an index out of range,
// `elsewhere(i)` that for an index into another part of x.
// Parameters: 2 offset of x, 3 offset of the index, 4 stride of x along the dim, 5 dims, 6 size of
// the dim, 7 status code, 8.. sizes, 16.. strides of x (zero along the dim), 24.. of the index; 32
// the first index of this part of x, 33 its end.

fn element(i: u32) -> out_value {
  var rest = i;
  var at = P(2u);
  var at_index = P(3u);
  for (var d = P(5u); d > 0u;) {
    d--;
    let place = rest % P(8u + d);
    rest /= P(8u + d);
    at += place * P(16u + d);
    at_index += place * P(24u + d);
  }
  let k = i32(load_index(at_index));
  if (k < 0 || u32(k) >= P(6u)) {
    if (P(32u) == 0u) {
      note(P(7u), k, P(6u));
    }
    return missing();
  }
  if (u32(k) < P(32u) || u32(k) >= P(33u)) {
    return elsewhere(i);
  }
  return load_x(at + (u32(k) - P(32u)) * P(4u));
}

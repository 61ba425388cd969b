// resample: element j along a dim is a sum of weighted elements of that dim, chosen by a table.
//
// Defines `element` for map.wgsl. An index outside of the dim adds nothing.
// Parameters: 2 offset of x, 3 and 4 of the tables of places and weights, 8 elements after the dim,
// 9 size of the dim of the result, 10 of x, 11 columns of the tables.

fn element(i: u32) -> out_value {
  let inner = i % P(8u);
  let row = i / P(8u);
  let begin = P(2u) + row / P(9u) * P(10u) * P(8u) + inner;
  let line = row % P(9u) * P(11u);
  var sum = out_value();
  for (var t = 0u; t < P(11u); t++) {
    let k = i32(load_at(P(3u) + line + t));
    if (k >= 0 && u32(k) < P(10u)) {
      sum += bitcast<f32>(load_weight(P(4u) + line + t)) * load_x(begin + u32(k) * P(8u));
    }
  }
  return sum;
}

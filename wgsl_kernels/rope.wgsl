// rope: rotates pairs of elements of the last dim by an angle. Elements after the pairs are copied.
//
// Defines `element` for map.wgsl. const INTERLEAVED: pairs are (2j, 2j + 1), else (j, j + pairs).
// places(i): the offsets of row i of x, cos and sin.
// Parameters: 2 offset of x, 3 of cos, 4 of sin, 6 length of the last dim, 7 pairs,
// 8.. sizes of the other dims, 16.. their strides in x, 24.. in cos, 32.. in sin, 40 to 42 the
// strides of x, cos and sin along the last dim.

fn element(i: u32) -> out_value {
  var rest = i / P(6u);
  let k = i - rest * P(6u);
  let at = places(rest);
  let pairs = P(7u);
  var j = k;
  var second = k >= pairs;
  var other = k + pairs;
  if (INTERLEAVED) {
    j = k / 2u;
    second = k % 2u == 1u;
    other = k ^ 1u;
  } else if (second) {
    j = k - pairs;
    other = j;
  }
  let own = load_x(at.x + k * P(40u));
  let partner = load_x(at.x + other * P(40u));
  let c = load_cos(at.y + j * P(41u));
  let s = load_sin(at.z + j * P(42u));
  return select(own, own * c + partner * select(-s, s, second), k < 2u * pairs);
}

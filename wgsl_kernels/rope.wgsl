// rope: pairs of the last dim turned by an angle; what lies behind them stays.
//
// The element of map.wgsl. const INTERLEAVED: pairs are (2j, 2j + 1), else (j, j + pairs).
// Parameters: 2 offset of x, 3 of cos, 4 of sin, 5 other dims, 6 length of the last dim, 7 pairs,
// 8.. sizes of the other dims, 16.. their strides in x, 24.. in cos, 32.. in sin, 40 to 42 the
// strides of x, cos and sin along the last dim.

fn element(i: u32) -> out_value {
  let k = i % P(6u);
  var rest = i / P(6u);
  var at_x = P(2u);
  var at_cos = P(3u);
  var at_sin = P(4u);
  for (var d = P(5u); d > 0u;) {
    d--;
    let place = rest % P(8u + d);
    rest /= P(8u + d);
    at_x += place * P(16u + d);
    at_cos += place * P(24u + d);
    at_sin += place * P(32u + d);
  }
  let pairs = P(7u);
  if (k >= 2u * pairs) {
    return load_x(at_x + k * P(40u));
  }
  var j = k % pairs;
  var second = k >= pairs;
  var first_at = j;
  var second_at = j + pairs;
  if (INTERLEAVED) {
    j = k / 2u;
    second = k % 2u == 1u;
    first_at = 2u * j;
    second_at = 2u * j + 1u;
  }
  let a = load_x(at_x + first_at * P(40u));
  let b = load_x(at_x + second_at * P(40u));
  let c = load_cos(at_cos + j * P(41u));
  let s = load_sin(at_sin + j * P(42u));
  if (second) {
    return b * c + a * s;
  }
  return a * c - b * s;
}

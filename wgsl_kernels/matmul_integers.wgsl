// matmul_integers: a matrix product of integers or booleans.
//
// Defines `element` for map.wgsl. `fold` adds a product to a sum. WIDE sums have 64 bits, and
// `overflow` records one that exceeds 32. Parameters: 2 length of the sums, 3 batch dims, 4 to
// 6 offset of a and its strides of rows and k, 7 to 9 offset of b and its strides of k and columns,
// 10 rows, 11 columns, 13 the status code; 16.. sizes of the batch dims, 24.. strides of a, 32..
// of b.

// x * y in 64 bits, low word first.
fn signed_product(x: i32, y: i32) -> vec2<u32> {
  let a = bitcast<u32>(x);
  let b = bitcast<u32>(y);
  let p = wide_product(a, b);
  return vec2<u32>(p.x, p.y - select(0u, b, x < 0) - select(0u, a, y < 0));
}

fn element(i: u32) -> out_value {
  let column = i % P(11u);
  let row = (i / P(11u)) % P(10u);
  var rest = i / (P(11u) * P(10u));
  var at_a = P(4u) + row * P(5u);
  var at_b = P(7u) + column * P(9u);
  for (var d = P(3u); d > 0u;) {
    d--;
    let x = rest % P(16u + d);
    rest /= P(16u + d);
    at_a += x * P(24u + d);
    at_b += x * P(32u + d);
  }
  var sum = out_value();
  var wide = vec2<u32>();
  for (var k = 0u; k < P(2u); k++) {
    let x = load_a(at_a + k * P(6u));
    let y = load_b(at_b + k * P(8u));
    sum = fold(sum, x, y);
    if (WIDE) {
      let more = signed_product(i32(x), i32(y));
      let low = wide.x + more.x;
      wide = vec2<u32>(low, wide.y + more.y + u32(low < more.x));
    }
  }
  if (WIDE && bitcast<i32>(wide.y) != (bitcast<i32>(wide.x) >> 31u)) {
    overflow();
  }
  return sum;
}

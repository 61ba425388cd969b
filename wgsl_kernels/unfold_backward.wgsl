// unfold_backward: element i of the unfolded operand adds up its gradients from all windows.
//
// Defines `element` for map.wgsl. g is row-major (outer, windows, inner, size), out (outer, length,
// inner).
// Parameters: 2 offset of g, 8 length, 9 inner, 10 windows, 11 size, 12 step, 13 dilation.

fn element(i: u32) -> out_value {
  let inner = i % P(9u);
  let at = (i / P(9u)) % P(8u);
  let outer = i / P(9u) / P(8u);
  var sum = out_value(0);
  for (var k = 0u; k < P(11u); k++) {
    let far = k * P(13u);
    if (far <= at && (at - far) % P(12u) == 0u) {
      let window = (at - far) / P(12u);
      if (window < P(10u)) {
        sum += load_g(P(2u) + ((outer * P(10u) + window) * P(9u) + inner) * P(11u) + k);
      }
    }
  }
  return sum;
}

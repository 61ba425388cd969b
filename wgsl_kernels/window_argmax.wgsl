// window_argmax: the place in (d, h, w) of the first largest element of window i, -1 for none; or
// the element itself.
//
// Defines `element` for map.wgsl. Put in front: `key(v)` is an integer of the order of elements,
// HAS_NAN whether the largest key is that of nan, of which the last one counts, and `result(place,
// base)`, of the place in an image that begins at `base`.
// Parameters: 2 offset of x; of three dims each: 8 windows, 11 sizes, 14 taps, 17 strides, 20
// paddings, 23 dilations.

fn element(i: u32) -> out_value {
  let width = P(13u);
  let plane = P(12u) * width;
  var begin = vec3<i32>();
  var rest = i;
  for (var d = 3u; d > 0u;) {
    d--;
    begin[d] = i32(rest % P(8u + d)) * i32(P(17u + d)) - i32(P(20u + d));
    rest /= P(8u + d);
  }
  let base = P(2u) + rest * P(11u) * plane;
  var found = -1;
  var top = 0u;
  for (var a = 0u; a < P(14u); a++) {
    let z = begin.x + i32(a * P(23u));
    for (var b = 0u; b < P(15u); b++) {
      let y = begin.y + i32(b * P(24u));
      if (z < 0 || u32(z) >= P(11u) || y < 0 || u32(y) >= P(12u)) {
        continue;
      }
      for (var c = 0u; c < P(16u); c++) {
        let x = begin.z + i32(c * P(25u));
        if (x < 0 || u32(x) >= width) {
          continue;
        }
        let at = u32(z) * plane + u32(y) * width + u32(x);
        let one = key(load_x(base + at));
        if (found < 0 || one > top || (HAS_NAN && one == 0xffffffffu)) {
          found = i32(at);
          top = one;
        }
      }
    }
  }
  return result(found, base);
}

// attention_combine: combines the sums, maxima and totals of the splits of the keys.
//
// Defines `element` for map.wgsl. Parameters: 2 offset of the parts, 3 splits, 4 features. A part
// holds the sums of the features, the maximum and the total.

fn element(i: u32) -> out_value {
  let d = i % P(4u);
  let size = P(4u) + 2u;
  let start = P(2u) + i / P(4u) * P(3u) * size;
  var top = load_part(start + P(4u));
  for (var s = 1u; s < P(3u); s++) {
    top = maximum_f(top, load_part(start + s * size + P(4u)));
  }
  var sum = 0.0;
  var total = 0.0;
  for (var s = 0u; s < P(3u); s++) {
    let at = start + s * size;
    let fade = exp_f(load_part(at + P(4u)) - top);
    sum += load_part(at + d) * fade;
    total += load_part(at + P(4u) + 1u) * fade;
  }
  return select(sum / total, 0.0, total == 0.0);
}

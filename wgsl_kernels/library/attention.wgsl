// Functions of the attention kernels. Their parameters are listed in attention.wgsl.

// The score of a masked key.
const LOW = -3.0e38;

// The score of a query and a key from their scaled product, or LOW if the key is masked.
fn finish(product: f32, batch: u32, head: u32, query: u32, at: i32, key: i32) -> f32 {
  let k = u32(key);
  let window = i32(P(38u));
  var seen = !(P(39u) == 1u && key > at);
  if (window > 0) {
    seen = seen && at - key < window && (P(39u) == 1u || key - at < window);
  }
  if (!seen) {
    return LOW;
  }
  if (load_mask(P(5u) + batch * P(32u) + head * P(33u) + query * P(34u) + k * P(35u)) == 0u) {
    return LOW;
  }
  var s = product;
  if (P(15u) != 0u) {
    s = tanh_f(s / F(15u)) * F(15u);
  }
  s += load_bias(P(4u) + batch * P(28u) + head * P(29u) + query * P(30u) + k * P(31u));
  return select(s, LOW, bitcast<u32>(s) == 0xff800000u);
}

// The score of a head's sink, or LOW if it has none.
fn sink(head: u32) -> f32 { return max(load_sink(P(49u) + head * P(50u)), LOW); }

// The range of keys that the query at position `at` attends to: the first, and one past the last.
fn keys_seen(batch: u32, at: i32) -> vec2<i32> {
  let window = i32(P(38u));
  var begin = 0;
  var end = min(i32(P(10u)), i32(load_length(P(7u) + batch * P(37u))));
  if (window > 0) {
    begin = max(at - window + 1, 0);
  }
  if (P(39u) == 1u) {
    end = min(end, at + 1);
  } else if (window > 0) {
    end = min(end, at + window);
  }
  return vec2<i32>(begin, end);
}

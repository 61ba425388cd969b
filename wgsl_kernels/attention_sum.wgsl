// attention_sum: the weighted sum of the values over the visible keys, eight rows by eight features
// of the result per invocation. For adapters that run on a CPU, where loads cost most.
//
// declare:  load_w, load_v, load_length, out_words and the other loads; const WIDTH
// Parameters: as in attention.wgsl, with 0 the queries of this part, 45 its first query, 44
// invocations, 46.. strides of the result's batches, heads and queries.

@compute @workgroup_size(WIDTH)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * WIDTH + lane;
  if (i >= P(44u)) {
    return;
  }
  let fold = P(13u);
  let rows = fold * P(0u);
  let across = (P(12u) + 7u) / 8u;
  let column = i % across * 8u;
  let row = i / across % P(41u) * 8u;
  let unit = i / (across * P(41u));
  let units = P(9u) / fold;
  let batch = unit / units;
  let keys = P(10u);
  let end = min(keys, u32(max(0, i32(load_length(P(7u) + batch * P(37u))))));
  let step = P(27u);
  var at = P(3u) + batch * P(24u) + unit % units * P(25u) + column * step;
  // Rows and features past the end are those before it once more, and not stored.
  let more = select(0u, 4u * step, column + 4u < P(12u));
  var w: array<u32, 8>;
  for (var r = 0u; r < 8u; r++) {
    w[r] = (unit * rows + min(row + r, rows - 1u)) * keys;
  }
  // Not a loop over rows: where it stayed one, sums would be in memory.
  var left: array<vec4<f32>, 8>;
  var right: array<vec4<f32>, 8>;
  for (var key = 0u; key < end; key++) {
    let v = vec4<f32>(load_v(at), load_v(at + step), load_v(at + 2u * step),
                      load_v(at + 3u * step));
    let far = at + more;
    let u = vec4<f32>(load_v(far), load_v(far + step), load_v(far + 2u * step),
                      load_v(far + 3u * step));
    let w0 = load_w(w[0] + key);
    left[0] += w0 * v;
    right[0] += w0 * u;
    let w1 = load_w(w[1] + key);
    left[1] += w1 * v;
    right[1] += w1 * u;
    let w2 = load_w(w[2] + key);
    left[2] += w2 * v;
    right[2] += w2 * u;
    let w3 = load_w(w[3] + key);
    left[3] += w3 * v;
    right[3] += w3 * u;
    let w4 = load_w(w[4] + key);
    left[4] += w4 * v;
    right[4] += w4 * u;
    let w5 = load_w(w[5] + key);
    left[5] += w5 * v;
    right[5] += w5 * u;
    let w6 = load_w(w[6] + key);
    left[6] += w6 * v;
    right[6] += w6 * u;
    let w7 = load_w(w[7] + key);
    left[7] += w7 * v;
    right[7] += w7 * u;
    at += P(26u);
  }
  for (var r = 0u; r < min(8u, rows - row); r++) {
    let head = unit % units * fold + (row + r) / P(0u);
    let query = P(45u) + (row + r) % P(0u);
    let to = P(8u) + batch * P(46u) + head * P(47u) + query * P(48u) + column;
    store(to, left[r]);
    if (more != 0u) {
      store(to + 4u, right[r]);
    }
  }
}

fn store(to: u32, values: vec4<f32>) {
  for (var c = 0u; c < 4u; c += PER) {
    var packed = 0u;
    for (var j = 0u; j < PER; j++) {
      packed |= encode(values[c + j]) << (j * BITS);
    }
    out_words[(to + c) / PER] = packed;
  }
}

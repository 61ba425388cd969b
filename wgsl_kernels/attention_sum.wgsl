// attention_sum: the weighted sum of the values over the visible keys, four rows by four features
// of the result per invocation. For adapters that run on a CPU.
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
  let across = P(12u) / 4u;
  let column = i % across * 4u;
  let row = i / across % P(41u) * 4u;
  let unit = i / (across * P(41u));
  let units = P(9u) / fold;
  let batch = unit / units;
  let keys = P(10u);
  let end = min(keys, u32(max(0, i32(load_length(P(7u) + batch * P(37u))))));
  let step = P(27u);
  var at = P(3u) + batch * P(24u) + unit % units * P(25u) + column * step;
  let w0 = (unit * rows + row) * keys;
  let w1 = (unit * rows + min(row + 1u, rows - 1u)) * keys;
  let w2 = (unit * rows + min(row + 2u, rows - 1u)) * keys;
  let w3 = (unit * rows + min(row + 3u, rows - 1u)) * keys;
  var sums = mat4x4<f32>();
  for (var key = 0u; key < end; key++) {
    let v = vec4<f32>(load_v(at), load_v(at + step), load_v(at + 2u * step),
                      load_v(at + 3u * step));
    sums[0] += load_w(w0 + key) * v;
    sums[1] += load_w(w1 + key) * v;
    sums[2] += load_w(w2 + key) * v;
    sums[3] += load_w(w3 + key) * v;
    at += P(26u);
  }
  for (var r = 0u; r < min(4u, rows - row); r++) {
    let head = unit % units * fold + (row + r) / P(0u);
    let query = P(45u) + (row + r) % P(0u);
    let to = P(8u) + batch * P(46u) + head * P(47u) + query * P(48u) + column;
    for (var c = 0u; c < 4u; c += PER) {
      var packed = 0u;
      for (var j = 0u; j < PER; j++) {
        packed |= encode(sums[r][c + j]) << (j * BITS);
      }
      out_words[(to + c) / PER] = packed;
    }
  }
}

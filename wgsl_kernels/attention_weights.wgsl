// attention_weights: turns products of queries and keys into attention weights, in place: scales
// them, masks them, and applies softmax along the keys. One row per invocation. For adapters that
// run on a CPU.
//
// declare:  load_bias, load_mask, load_offset, load_length, load_sink; binding of
//           `weights`; const WIDTH
// Parameters: as in attention.wgsl, with 0 the queries of this part, 45 its first query, 44 rows.

@compute @workgroup_size(WIDTH)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let row = group_number(group, groups) * WIDTH + lane;
  if (row >= P(44u)) {
    return;
  }
  let query = P(45u) + row % P(0u);
  let head = row / P(0u) % P(9u);
  let batch = row / (P(0u) * P(9u));
  let at = i32(query) + i32(load_offset(P(6u) + batch * P(36u)));
  let window = i32(P(38u));
  let keys = i32(P(10u));
  var begin = 0;
  var end = min(keys, i32(load_length(P(7u) + batch * P(37u))));
  if (window > 0) {
    begin = clamp(at - window + 1, 0, keys);
  }
  if (P(39u) == 1u) {
    end = min(end, at + 1);
  } else if (window > 0) {
    end = min(end, at + window);
  }
  let start = i32(row) * keys;
  let sunk = sink(head);
  var top = sunk;
  for (var key = begin; key < end; key++) {
    let s = finish(weights[start + key] * F(14u), batch, head, query, at, key);
    weights[start + key] = s;
    top = maximum_f(top, s);
  }
  var sum = select(exp_f(sunk - top), 0.0, sunk == LOW);
  for (var key = begin; key < end; key++) {
    let s = weights[start + key];
    let w = select(exp_f(s - top), 0.0, s == LOW);
    weights[start + key] = w;
    sum += w;
  }
  let scale = select(1.0 / sum, 0.0, sum == 0.0);
  for (var key = 0; key < keys; key++) {
    let w = weights[start + key] * scale;
    weights[start + key] = select(0.0, w, key >= begin && key < end);
  }
}

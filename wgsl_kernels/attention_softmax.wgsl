// attention_softmax: turns products of queries and keys into attention weights, in place: scales
// them, masks them, and applies softmax along the keys. A workgroup per row. For GPUs;
// attention_weights does the same on a CPU.
//
// declare:  load_bias, load_mask, load_offset, load_length, load_sink; binding of
//           `weights`; const LANES, a power of two
// Parameters: as in attention.wgsl, with 0 the queries of this part, 10 its keys, 45 its first
// query, 44 rows.

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let row = group_number(group, groups);
  if (row >= P(44u)) {
    return;
  }
  let query = P(45u) + row % P(0u);
  let head = row / P(0u) % P(9u);
  let batch = row / (P(0u) * P(9u));
  let at = i32(query) + i32(load_offset(P(6u) + batch * P(36u)));
  let keys = i32(P(10u));
  let start = i32(row) * keys;
  let seen = keys_seen(batch, at);
  let sunk = sink(head);
  var top = sunk;
  for (var key = seen.x + i32(lane); key < seen.y; key += i32(LANES)) {
    let s = finish(weights[start + key] * F(14u), batch, head, query, at, key);
    weights[start + key] = s;
    top = maximum_f(top, s);
  }
  top = top_of_lanes(top, lane);
  var sum = 0.0;
  for (var key = seen.x + i32(lane); key < seen.y; key += i32(LANES)) {
    let s = weights[start + key];
    let w = select(exp_f(s - top), 0.0, s == LOW);
    weights[start + key] = w;
    sum += w;
  }
  sum = sum_of_lanes(sum, lane) + select(exp_f(sunk - top), 0.0, sunk == LOW);
  let scale = select(1.0 / sum, 0.0, sum == 0.0);
  for (var key = i32(lane); key < keys; key += i32(LANES)) {
    let w = weights[start + key] * scale;
    weights[start + key] = select(0.0, w, key >= seen.x && key < seen.y);
  }
}

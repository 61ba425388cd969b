// attention_heads: one query of every head, by online softmax as in attention.wgsl. Each invocation
// computes one head. Heads that share keys are in one workgroup.
//
// For llvmpipe: it reads an address that all lanes share once, different addresses lane by lane.
//
// declare:  read_q(at), product(at) of it and a key, add_value(at, weight, fade), finish_row(at,
//           scale), load_bias and the other loads; const FOLD, the heads that share keys
// Parameters: as in attention.wgsl, with 44 workgroups.

@compute @workgroup_size(FOLD)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let unit = group_number(group, groups);
  if (unit >= P(44u)) {
    return;
  }
  let units = P(9u) / FOLD;
  let batch = unit / units;
  let head = unit % units * FOLD + lane;
  let at = i32(load_offset(P(6u) + batch * P(36u)));
  let seen = keys_seen(batch, at);
  let begin = seen.x;
  let end = seen.y;
  let from_q = P(1u) + batch * P(16u) + head * P(17u);
  let from_k = P(2u) + batch * P(20u) + unit % units * P(21u);
  let from_v = P(3u) + batch * P(24u) + unit % units * P(25u);
  var top = sink(head);
  var total = select(1.0, 0.0, top == LOW);
  read_q(from_q);
  for (var key = begin; key < end; key++) {
    let score = finish(product(from_k + u32(key) * P(22u)) * F(14u), batch, head, 0u, at, key);
    let highest = max(top, score);
    let fade = select(exp_f(top - highest), 0.0, top == LOW);
    let w = select(exp_f(score - highest), 0.0, score == LOW);
    total = total * fade + w;
    top = highest;
    add_value(from_v + u32(key) * P(26u), w, fade);
  }
  let scale = select(1.0 / total, 0.0, total == 0.0);
  finish_row(P(8u) + (batch * P(9u) + head) * P(12u), scale);
}

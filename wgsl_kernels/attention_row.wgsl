// attention_row: one query of every head, by online softmax as in attention.wgsl. A workgroup
// computes the FOLD query heads that share one key head.
//
// For adapters that run on a CPU: LANES is the number of lanes that they run at a time, so lanes
// hardly wait for each other. Lanes share out the keys for the scores, and quads of features for
// the sums.
//
// declare:  quad_q, quad_k, quad_v, load_bias and the other loads; const LANES, FOLD; CHUNK, keys
//           per round; VALUES, the largest number of features of v; `folded`, an array of FOLD;
//           products, add_values
// Parameters: as in attention.wgsl, with 44 workgroups.

var<workgroup> weights: array<f32, CHUNK * FOLD>;
var<workgroup> lane_tops: array<folded, LANES>;
var<workgroup> sums: array<vec4<f32>, FOLD * VALUES / 4u>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let unit = group_number(group, groups);
  if (unit >= P(44u)) {
    return;
  }
  let units = P(9u) / FOLD;
  let batch = unit / units;
  let head = unit % units * FOLD;
  let at = i32(load_offset(P(6u) + batch * P(36u)));
  let seen = keys_seen(batch, at);
  let begin = seen.x;
  let end = seen.y;
  let from_q = P(1u) + batch * P(16u) + head * P(17u);
  let from_k = P(2u) + batch * P(20u) + unit % units * P(21u);
  let from_v = P(3u) + batch * P(24u) + unit % units * P(25u);
  let across = P(12u) / 4u;

  var top: folded;
  var total: folded;
  for (var h = 0u; h < FOLD; h++) {
    top[h] = sink(head + h);
    total[h] = select(0.0, 1.0, lane == 0u && top[h] != LOW);
    for (var c = lane; c < across; c += LANES) {
      sums[h * across + c] = vec4<f32>();
    }
  }
  for (var chunk = begin; chunk < end; chunk += i32(CHUNK)) {
    let count = u32(min(end - chunk, i32(CHUNK)));
    var highest = top;
    for (var i = lane; i < count; i += LANES) {
      let key = chunk + i32(i);
      let s = products(from_q, from_k + u32(key) * P(22u));
      for (var h = 0u; h < FOLD; h++) {
        let score = finish(s[h] * F(14u), batch, head + h, 0u, at, key);
        weights[i * FOLD + h] = score;
        highest[h] = maximum_f(highest[h], score);
      }
    }
    lane_tops[lane] = highest;
    workgroupBarrier();
    var fade: folded;
    for (var h = 0u; h < FOLD; h++) {
      for (var l = 0u; l < LANES; l++) {
        highest[h] = maximum_f(highest[h], lane_tops[l][h]);
      }
      fade[h] = select(exp_f(top[h] - highest[h]), 0.0, top[h] == LOW);
      top[h] = highest[h];
      total[h] *= fade[h];
    }
    for (var i = lane; i < count; i += LANES) {
      for (var h = 0u; h < FOLD; h++) {
        let s = weights[i * FOLD + h];
        let w = select(exp_f(s - top[h]), 0.0, s == LOW);
        weights[i * FOLD + h] = w;
        total[h] += w;
      }
    }
    workgroupBarrier();
    for (var c = lane; c < across; c += LANES) {
      add_values(c, across, count, from_v + u32(chunk) * P(26u) + c * 4u, fade);
    }
    workgroupBarrier();
  }
  lane_tops[lane] = total;
  workgroupBarrier();
  for (var h = 0u; h < FOLD; h++) {
    var all = 0.0;
    for (var l = 0u; l < LANES; l++) {
      all += lane_tops[l][h];
    }
    let scale = select(1.0 / all, 0.0, all == 0.0);
    for (var c = lane; c < across; c += LANES) {
      let v = sums[h * across + c] * scale;
      let to = P(8u) + ((batch * P(9u) + head + h) * across + c) * 4u;
      for (var j = 0u; j < 4u; j += PER) {
        var packed = 0u;
        for (var n = 0u; n < PER; n++) {
          packed |= encode(v[j + n]) << (n * BITS);
        }
        out_words[(to + j) / PER] = packed;
      }
    }
  }
}

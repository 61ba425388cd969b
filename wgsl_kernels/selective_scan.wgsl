// selective_scan: h = exp(dt a) h + dt x b for the states of a channel, one token after another,
// and y = the sum of h c; one invocation per channel.
//
// declare:  load_x, load_dt, load_a, load_b, load_c, load_state, out_words; last_at and keep_last,
//           which read and write last states; const STATES, how many are held at once, which
//           divides their number; const GIVEN, whether there is a first state; const LANDS, whether
//           the last one goes elsewhere, over the first if there is one
// dispatch: 64 channels per workgroup, for the tokens from P(5) to P(6)
//
// Parameters: 0 channels of all rows, 1 to 7 offset of the result, channels of a row, of a group,
// length, first token, end of tokens, states; 8.. offsets of x, dt, a, b, c, state; 14.. their
// strides, four each.
// The last states lie behind the result if they do not land. Tokens after the first go on from
// these.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  if (i >= P(0u)) {
    return;
  }
  let row = i / P(2u);
  let channel = i - row * P(2u);
  let part = channel / P(3u);
  let out_ = P(1u) + row * (P(4u) + P(7u)) * P(2u) + channel;
  let x = P(8u) + row * P(14u) + channel * P(16u);
  let dt = P(9u) + row * P(18u) + channel * P(20u);
  let b = P(11u) + row * P(26u) + part * P(28u);
  let c = P(12u) + row * P(30u) + part * P(32u);
  var last = out_ + P(4u) * P(2u);
  var next = P(2u);
  if (LANDS) {
    last = P(13u) + row * P(34u) + channel * P(35u);
    next = P(36u);
  }
  for (var first = 0u; first < P(7u); first += STATES) {
    var h: array<f32, STATES>;
    var rate: array<f32, STATES>;
    for (var s = 0u; s < STATES; s++) {
      h[s] = 0.0; // a variable in a loop keeps what it had
      rate[s] = load_a(P(10u) + channel * P(22u) + (first + s) * P(23u));
      if (P(5u) > 0u) {
        h[s] = last_at(last + (first + s) * next);
      } else if (GIVEN) {
        h[s] = load_state(P(13u) + row * P(34u) + channel * P(35u) + (first + s) * P(36u));
      }
    }
    for (var t = P(5u); t < P(6u); t++) {
      let step = load_dt(dt + t * P(19u));
      let new_ = step * load_x(x + t * P(15u));
      let at = out_ + t * P(2u);
      var y = 0.0;
      if (first > 0u) {
        y = bitcast<f32>(out_words[at]);
      }
      for (var s = 0u; s < STATES; s++) {
        h[s] = exp(step * rate[s]) * h[s] + new_ * load_b(b + t * P(27u) + (first + s) * P(29u));
        y += h[s] * load_c(c + t * P(31u) + (first + s) * P(33u));
      }
      out_words[at] = encode(y);
    }
    for (var s = 0u; s < STATES; s++) {
      keep_last(last + (first + s) * next, h[s]);
    }
  }
}

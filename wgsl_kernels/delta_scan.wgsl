// delta_scan: S = diag(decay) S + b (a^T S) + k v^T, one token after another, and r^T S; one
// invocation per column of S.
//
// declare:  load_r, load_decay, load_k, load_v, load_a, load_b, load_state, out_words; const KEYS,
//           the rows of S; const GIVEN, whether there is a first S; const REMOVES, whether there
//           are a and b; const BEFORE, whether r reads the S before a token; const EVEN, whether a
//           token's decay is one number
// dispatch: 64 columns per workgroup, for the tokens from P(5) to P(6)
//
// Parameters: 0 columns of all heads, 1 to 6 offset of the result, heads, values of a head, length,
// first token, end of tokens; 7.. offsets of r, decay, k, v, a, b, state; 14.. their strides, four
// each.
// The last S lies behind the result. Tokens after the first go on from it.

fn place(number: u32, row: u32, head: u32, t: u32) -> u32 {
  let at = 14u + number * 4u;
  return P(7u + number) + row * P(at) + head * P(at + 1u) + t * P(at + 2u);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  if (i >= P(0u)) {
    return;
  }
  let whole = i / P(3u);
  let column = i - whole * P(3u);
  let row = whole / P(2u);
  let head = whole - row * P(2u);
  let out_ = P(1u) + whole * (P(4u) + KEYS) * P(3u) + column;
  var s: array<f32, KEYS>;
  for (var n = 0u; n < KEYS; n++) {
    if (P(5u) > 0u) {
      s[n] = bitcast<f32>(out_words[out_ + (P(4u) + n) * P(3u)]);
    } else if (GIVEN) {
      s[n] = load_state(place(6u, row, head, n) + column * P(41u));
    }
  }
  for (var t = P(5u); t < P(6u); t++) {
    let r = place(0u, row, head, t);
    let decay = place(1u, row, head, t);
    let k = place(2u, row, head, t);
    let v = load_v(place(3u, row, head, t) + column * P(29u));
    var seen = 0.0;
    if (REMOVES) {
      let a = place(4u, row, head, t);
      for (var n = 0u; n < KEYS; n++) {
        seen += load_a(a + n * P(33u)) * s[n];
      }
    }
    let b = place(5u, row, head, t);
    let faded = load_decay(decay);
    var y = 0.0;
    for (var n = 0u; n < KEYS; n++) {
      let old = s[n];
      var now = faded * old + load_k(k + n * P(25u)) * v;
      if (!EVEN) {
        now = load_decay(decay + n * P(21u)) * old + load_k(k + n * P(25u)) * v;
      }
      if (REMOVES) {
        now += load_b(b + n * P(37u)) * seen;
      }
      s[n] = now;
      y += load_r(r + n * P(17u)) * select(now, old, BEFORE);
    }
    out_words[out_ + t * P(3u)] = encode(y);
  }
  for (var n = 0u; n < KEYS; n++) {
    out_words[out_ + (P(4u) + n) * P(3u)] = encode(s[n]);
  }
}

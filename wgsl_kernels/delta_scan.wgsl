// delta_scan: S = diag(decay) S + b (a^T S) + k v^T, one token after another, and r^T S; one
// invocation per WIDE columns of S.
//
// declare:  load_r, load_decay, load_k, load_v, load_a, load_b, load_state, out_words; const WIDE;
//           alias columns, WIDE numbers; v_at, state_at, last_at and sum_at, which read them, and
//           keep and keep_last, which write them; const KEYS, the rows of S; const HELD, how many
//           are held at once, which divides them; const GIVEN, whether there is a first S; const
//           LANDS, whether the last one goes elsewhere, over the first if there is one; const
//           REMOVES, whether there are a and b (then HELD is KEYS); const BEFORE, whether r reads
//           the S before a token; const EVEN, whether a token's decay is one number
// dispatch: 64 invocations per workgroup, for the tokens from P(5) to P(6)
//
// Parameters: 0 invocations, 1 to 6 offset of the result, heads, values of a head, length, first
// token, end of tokens; 7.. offsets of r, decay, k, v, a, b, state; 14.. their strides, four each.
// The last S lies behind the result if it does not land. Tokens after the first go on from it.

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
  let whole = i * WIDE / P(3u);
  let column = i * WIDE - whole * P(3u);
  let row = whole / P(2u);
  let head = whole - row * P(2u);
  let out_ = P(1u) + whole * (P(4u) + KEYS) * P(3u) + column;
  var last = out_ + P(4u) * P(3u);
  var next = P(3u);
  if (LANDS) {
    last = place(6u, row, head, 0u) + column * P(41u);
    next = P(40u);
  }
  for (var first = 0u; first < KEYS; first += HELD) {
    var s: array<columns, HELD>;
    for (var n = 0u; n < HELD; n++) {
      s[n] = columns(); // a variable in a loop keeps what it had
      if (P(5u) > 0u) {
        s[n] = last_at(last + (first + n) * next);
      } else if (GIVEN) {
        s[n] = state_at(place(6u, row, head, first + n) + column * P(41u));
      }
    }
    for (var t = P(5u); t < P(6u); t++) {
      let r = place(0u, row, head, t) + first * P(17u);
      let decay = place(1u, row, head, t) + first * P(21u);
      let k = place(2u, row, head, t) + first * P(25u);
      let v = v_at(place(3u, row, head, t) + column * P(29u));
      var seen = columns();
      if (REMOVES) {
        let a = place(4u, row, head, t);
        for (var n = 0u; n < HELD; n++) {
          seen += load_a(a + n * P(33u)) * s[n];
        }
      }
      let b = place(5u, row, head, t);
      let faded = load_decay(decay);
      var y = columns();
      if (first > 0u) {
        y = sum_at(out_ + t * P(3u));
      }
      for (var n = 0u; n < HELD; n++) {
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
      keep(out_ + t * P(3u), y);
    }
    for (var n = 0u; n < HELD; n++) {
      keep_last(last + (first + n) * next, s[n]);
    }
  }
}

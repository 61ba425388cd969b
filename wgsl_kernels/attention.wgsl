// attention: softmax(q k^T * scale) v for a tile of queries, by online softmax (Milakov and
// Gimelshein, 2018). The scores stay in the workgroup.
//
// declare:  load_q, load_k, load_v, load_bias, load_mask, load_offset, load_length, load_sink,
//           out_words
//           const LANES; DMAX and DQ, the most features of v, of q and k; a tile has TQ queries
//           and TK keys; DC, features of the keys in memory at a time; VK = 1024 / DMAX, values
//           in memory at a time; RPL = TQ * DMAX / 4 / LANES and SPL = TQ * TK / LANES, rows and
//           scores per lane
//           const SPLIT: write sums, maximum and total of this part of the keys, as float32
// dispatch: one workgroup per batch, unit of query heads, tile of rows and split of the keys
//
// A unit is one query head, or all query heads that share a key head. Its rows are (head, query).
// Each lane holds RPL rows by four columns of the result. A masked key has the score LOW.
//
// Parameters: 0 queries, offsets of 1 q, 2 k, 3 v, 4 bias, 5 mask, 6 q_offset, 7 kv_lengths,
// 8 the result; 9 heads, 10 keys, 11 features, 12 features of v, 13 query heads per key head,
// 14 scale, 15 softcap or 0, strides of 16.. q, 20.. k, 24.. v, 28.. bias, 32.. mask, 36 q_offset,
// 37 kv_lengths; 38 window or 0, 39 causal, 40 query heads per unit, 41 tiles, 42 splits, 43 keys
// per split, 44 workgroups, 49 offset and 50 stride of the sinks.

var<workgroup> q_tile: array<f32, TQ * DQ>;
var<workgroup> kv_tile: array<f32, 1088>;
var<workgroup> scores: array<f32, TQ * TK>;
var<workgroup> row_top: array<f32, TQ>;
var<workgroup> row_sum: array<f32, TQ>;
var<workgroup> row_fade: array<f32, TQ>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  var n = group_number(group, groups);
  if (n >= P(44u)) {
    return;
  }
  let split = n % P(42u);
  n /= P(42u);
  let first_row = (n % P(41u)) * TQ;
  n /= P(41u);
  let fold = P(40u);
  let units = P(9u) / fold;
  let head_0 = (n % units) * fold;
  let batch = n / units;
  let queries = P(0u);
  let rows = fold * queries;
  let features = P(11u);
  let values = P(12u);
  let offset = i32(load_offset(P(6u) + batch * P(36u)));

  // The keys that a query of this tile may attend to.
  var low_query = 0u;
  var high_query = queries - 1u;
  if (fold == 1u) {
    low_query = first_row;
    high_query = min(first_row + TQ, queries) - 1u;
  }
  var begin = i32(split * P(43u));
  var end = min(i32(P(10u)), i32((split + 1u) * P(43u)));
  end = min(end, i32(load_length(P(7u) + batch * P(37u))));
  let window = i32(P(38u));
  if (window > 0) {
    begin = max(begin, i32(low_query) + offset - window + 1);
  }
  if (P(39u) == 1u) {
    end = min(end, i32(high_query) + offset + 1);
  } else if (window > 0) {
    end = min(end, i32(high_query) + offset + window);
  }

  for (var i = lane; i < TQ * DQ; i += LANES) {
    let row = first_row + i / DQ;
    let d = i % DQ;
    var x = 0.0;
    if (row < rows && d < features) {
      let head = head_0 + row / queries;
      let query = row % queries;
      x = load_q(P(1u) + batch * P(16u) + head * P(17u) + query * P(18u) + d * P(19u)) * F(14u);
    }
    q_tile[i] = x;
  }
  if (lane < TQ) {
    // The first split has the sink.
    let row = min(first_row + lane, rows - 1u);
    row_top[lane] = select(LOW, sink(head_0 + row / queries), split == 0u);
    row_sum[lane] = select(1.0, 0.0, row_top[lane] == LOW);
  }
  let column = (lane % (DMAX / 4u)) * 4u;
  let my_row = lane / (DMAX / 4u) * RPL;
  var sums = array<vec4<f32>, RPL>();
  let k_start = P(2u) + batch * P(20u) + head_0 / P(13u) * P(21u);
  let v_start = P(3u) + batch * P(24u) + head_0 / P(13u) * P(25u);

  for (var key_0 = begin; key_0 < end; key_0 += i32(TK)) {
    var products = array<f32, SPL>();
    for (var d_0 = 0u; d_0 < features; d_0 += DC) {
      for (var i = lane; i < TK * DC; i += LANES) {
        let key = key_0 + i32(i / DC);
        let d = d_0 + i % DC;
        var x = 0.0;
        if (key < end && d < features) {
          x = load_k(k_start + u32(key) * P(22u) + d * P(23u));
        }
        kv_tile[(i / DC) * (DC + 1u) + i % DC] = x;
      }
      workgroupBarrier();
      for (var j = 0u; j < SPL; j++) {
        let at_q = (lane + j * LANES) / TK * DQ + d_0;
        let at_k = (lane + j * LANES) % TK * (DC + 1u);
        var product = products[j];
        for (var d = 0u; d < DC; d++) {
          product += q_tile[at_q + d] * kv_tile[at_k + d];
        }
        products[j] = product;
      }
      workgroupBarrier();
    }
    for (var j = 0u; j < SPL; j++) {
      let i = lane + j * LANES;
      let row = first_row + i / TK;
      let key = key_0 + i32(i % TK);
      var s = LOW;
      if (row < rows && key < end) {
        let query = row % queries;
        s = finish(products[j], batch, head_0 + row / queries, query, i32(query) + offset, key);
      }
      scores[i] = s;
    }
    workgroupBarrier();
    if (lane < TQ) {
      var top = row_top[lane];
      for (var t = 0u; t < TK; t++) {
        top = maximum_f(top, scores[lane * TK + t]);
      }
      row_fade[lane] = exp_f(row_top[lane] - top);
      row_top[lane] = top;
    }
    workgroupBarrier();
    for (var j = 0u; j < SPL; j++) {
      let i = lane + j * LANES;
      let s = scores[i];
      scores[i] = select(exp_f(s - row_top[i / TK]), 0.0, s == LOW);
    }
    workgroupBarrier();
    if (lane < TQ) {
      var sum = row_sum[lane] * row_fade[lane];
      for (var t = 0u; t < TK; t++) {
        sum += scores[lane * TK + t];
      }
      row_sum[lane] = sum;
    }
    for (var r = 0u; r < RPL; r++) {
      sums[r] *= row_fade[my_row + r];
    }
    for (var t_0 = 0u; t_0 < TK; t_0 += VK) {
      for (var i = lane; i < VK * DMAX; i += LANES) {
        let key = key_0 + i32(t_0 + i / DMAX);
        let d = i % DMAX;
        var x = 0.0;
        if (key < end && d < values) {
          x = load_v(v_start + u32(key) * P(26u) + d * P(27u));
        }
        kv_tile[i] = x;
      }
      workgroupBarrier();
      for (var t = 0u; t < VK; t++) {
        let at = t * DMAX + column;
        let v = vec4<f32>(kv_tile[at], kv_tile[at + 1u], kv_tile[at + 2u], kv_tile[at + 3u]);
        for (var r = 0u; r < RPL; r++) {
          sums[r] += scores[(my_row + r) * TK + t_0 + t] * v;
        }
      }
      workgroupBarrier();
    }
  }
  workgroupBarrier();

  for (var r = 0u; r < RPL; r++) {
    let row = first_row + my_row + r;
    if (row >= rows) {
      continue;
    }
    let total = row_sum[my_row + r];
    let out_row = (batch * P(9u) + head_0) * queries + row;
    if (SPLIT) {
      let at = P(8u) + (out_row * P(42u) + split) * (values + 2u);
      for (var c = 0u; c < 4u; c++) {
        if (column + c < values) {
          out_words[at + column + c] = encode(sums[r][c]);
        }
      }
      if (column == 0u) {
        out_words[at + values] = encode(row_top[my_row + r]);
        out_words[at + values + 1u] = encode(total);
      }
      continue;
    }
    let scale = select(1.0 / total, 0.0, total == 0.0);
    for (var c = 0u; c < 4u; c += PER) {
      if (column + c < values) {
        var packed = 0u;
        for (var j = 0u; j < PER; j++) {
          packed |= encode(sums[r][c + j] * scale) << (j * BITS);
        }
        out_words[(P(8u) + out_row * values + column + c) / PER] = packed;
      }
    }
  }
}

// Products in which each row has an index of its matrix.
//
// Parameters as in product.wgsl, except: 16.. sizes of the dims of the rows, 24.. strides of a,
// 32.. of the index; 52 tiles across; 54 the stride of b's matrices and 60 that of the bias's rows,
// 55 the number of matrices, 56 the first and 57 the end of those bound here, 58 the status code,
// 59 the offset of the index, or of the table's rows.

// One row per tile; the index chooses its matrix.
fn index_enter(number: u32) -> vec3<u32> {
  let row = number / P(52u);
  var rest = row;
  var at = P(59u);
  a_base = P(4u);
  for (var d = P(3u); d > 0u;) {
    d--;
    let i = rest % P(16u + d);
    rest /= P(16u + d);
    a_base += i * P(24u + d);
    at += i * P(32u + d);
  }
  let live = number < P(53u);
  let e = select(0, i32(load_index(at)), live);
  if (e < 0 || u32(e) >= P(55u)) {
    note(P(58u), e, P(55u));
  }
  let expert = u32(e);
  out_base = P(10u) + row * P(11u);
  b_base = P(7u) + (expert - P(56u)) * P(54u);
  bias_base = P(14u) + expert * P(60u);
  return vec3<u32>(0u, number % P(52u), u32(live && expert >= P(56u) && expert < P(57u)));
}

fn index_row_end() -> u32 {
  return 1u;
}

fn index_a_start(row: u32) -> u32 {
  return a_base;
}

fn index_out_start(row: u32) -> u32 {
  return out_base;
}

// The rows of one matrix, as experts_sort.wgsl grouped them.
fn table_enter(number: u32) -> vec3<u32> {
  let slot = number / P(52u) * 3u;
  let expert = table[slot];
  row_first = P(59u) + table[slot + 1u] * 2u;
  let count = table[slot + 2u];
  row_count = count;
  b_base = P(7u) + (expert - P(56u)) * P(54u);
  bias_base = P(14u) + expert * P(60u);
  let live = number < P(53u) && count > 0u && expert >= P(56u) && expert < P(57u);
  return vec3<u32>(0u, number % P(52u), u32(live));
}

fn table_row_end() -> u32 {
  return row_count;
}

fn table_a_start(row: u32) -> u32 {
  return P(4u) + table[row_first + row * 2u + 1u];
}

fn table_out_start(row: u32) -> u32 {
  return P(10u) + table[row_first + row * 2u] * P(11u);
}

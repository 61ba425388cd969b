// Functions of the passes of a scatter.
//
// Parameters: 3 offset of the index, 4 stride of the result along the dim, 5 dims, 6 size,
// 8.. sizes, 16.. strides of the index, 24.. of the value, 32.. of the place.

// An entry's source and destination, row-major. ok: whether the index is in range.
struct Entry {
  index: i32,
  ok: bool,
  value: u32,
  place: u32,
}

// Entry number i.
fn entry(i: u32) -> Entry {
  var rest = i;
  var found = Entry(0, false, 0u, 0u);
  var at = P(3u);
  for (var d = P(5u); d > 0u;) {
    d--;
    let x = rest % P(8u + d);
    rest /= P(8u + d);
    at += x * P(16u + d);
    found.value += x * P(24u + d);
    found.place += x * P(32u + d);
  }
  found.index = i32(load_index(at));
  found.ok = found.index >= 0 && u32(found.index) < P(6u);
  found.place += select(0u, u32(found.index), found.ok) * P(4u);
  return found;
}

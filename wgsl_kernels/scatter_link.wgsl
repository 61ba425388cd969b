// scatter_link: links the entries of a lane with the same index into a chain, in order.
//
// The index is row-major (outer, length, inner). The link of an entry is the position in the lane
// of the next entry of its chain, or the length. Its highest bit is clear in the first entry of a
// chain and set in the others. All bits are set if the index is out of range.
// Parameters: 0 entries, 1 inner, 2 length, 3 offset of the index, 6 size, 7 status code.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  if (i >= P(0u)) {
    return;
  }
  let inner = P(1u);
  let length = P(2u);
  let k = (i / inner) % length;
  let start = P(3u) + i - k * inner;
  let index = i32(load_index(P(3u) + i));
  if (index < 0 || u32(index) >= P(6u)) {
    note(P(7u), index, P(6u));
    out_words[i] = 0xffffffffu;
    return;
  }
  var first = 0u;
  for (var j = k; j > 0u;) {
    j--;
    if (i32(load_index(start + j * inner)) == index) {
      first = 0x80000000u;
      break;
    }
  }
  var next = k + 1u;
  while (next < length && i32(load_index(start + next * inner)) != index) {
    next++;
  }
  out_words[i] = first | next;
}

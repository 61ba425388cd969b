// Groups rows by their expert, with a counting sort in one workgroup.
//
// The table begins with SLOTS (parameter 6) triples: an expert, the first of its rows in the table
// and their count, at most parameter 5. Then it holds each row's number and its offset in a. A row
// with an index out of range is recorded and left out.
//
// Parameters: 0 rows, 1 offset of the index, 2 experts (at most 1024), 3 dims of the rows, 4 status
// code, 5 rows of a tile, 6 slots; 16.. sizes, 24.. strides of a, 32.. of the index.

var<workgroup> counts: array<atomic<u32>, 1024>;
var<workgroup> starts: array<u32, 1024>;
var<workgroup> slots: array<u32, 1024>;
var<workgroup> used: u32;

// The offsets of row r in the index and in a.
fn places(r: u32) -> vec2<u32> {
  var rest = r;
  var at = vec2<u32>(P(1u), 0u);
  for (var d = P(3u); d > 0u;) {
    d--;
    at += (rest % P(16u + d)) * vec2<u32>(P(32u + d), P(24u + d));
    rest /= P(16u + d);
  }
  return at;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32) {
  for (var e = lane; e < P(2u); e += 256u) {
    atomicStore(&counts[e], 0u);
  }
  workgroupBarrier();
  for (var r = lane; r < P(0u); r += 256u) {
    let e = i32(load_index(places(r).x));
    if (e < 0 || u32(e) >= P(2u)) {
      note(P(4u), e, P(2u));
    } else {
      atomicAdd(&counts[u32(e)], 1u);
    }
  }
  workgroupBarrier();
  if (lane == 0u) {
    var row = 0u;
    var slot = 0u;
    for (var e = 0u; e < P(2u); e++) {
      starts[e] = row;
      slots[e] = slot;
      let count = atomicLoad(&counts[e]);
      row += count;
      slot += (count + P(5u) - 1u) / P(5u);
    }
    used = slot;
  }
  workgroupBarrier();
  for (var slot = used + lane; slot < P(6u); slot += 256u) {
    table[slot * 3u + 2u] = 0u;
  }
  for (var e = lane; e < P(2u); e += 256u) {
    let count = atomicLoad(&counts[e]);
    var slot = slots[e] * 3u;
    for (var first = 0u; first < count; first += P(5u)) {
      table[slot] = e;
      table[slot + 1u] = starts[e] + first;
      table[slot + 2u] = min(count - first, P(5u));
      slot += 3u;
    }
    atomicStore(&counts[e], 0u);
  }
  workgroupBarrier();
  for (var r = lane; r < P(0u); r += 256u) {
    let at = places(r);
    let e = i32(load_index(at.x));
    if (e >= 0 && u32(e) < P(2u)) {
      let place = P(6u) * 3u + (starts[u32(e)] + atomicAdd(&counts[u32(e)], 1u)) * 2u;
      table[place] = r;
      table[place + 1u] = at.y;
    }
  }
}

// scatter_add: the first entry of each chain adds the chain's sources to one element.
//
// `plus` and `store` are put in front. See scatter_link.wgsl.
// Parameters: 0 entries, 1 offset of the result, 2 of the source, 3 of the index, 4 of x, 5 dims,
// 6 size, 7 length of a lane, 8.. sizes, 16.. strides of the source, 24.. of x and 32.. of the
// result (zero along the dim), 40.. of the links and the index, 48.. one along the dim, 56 status
// code, and the strides along the dim: 57 source, 58 x, 59 result, 60 links.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  if (i >= P(0u)) {
    return;
  }
  var rest = i;
  var at_source = P(2u);
  var at_x = P(4u);
  var at_out = P(1u);
  var at_link = 0u;
  var k = 0u;
  for (var d = P(5u); d > 0u;) {
    d--;
    let x = rest % P(8u + d);
    rest /= P(8u + d);
    at_source += x * P(16u + d);
    at_x += x * P(24u + d);
    at_out += x * P(32u + d);
    at_link += x * P(40u + d);
    k += x * P(48u + d);
  }
  var next = load_link(at_link);
  if ((next & 0x80000000u) != 0u) {
    return;
  }
  let index = u32(load_index(P(3u) + at_link));
  var sum = plus(load_x(at_x + index * P(58u)), load_source(at_source));
  while (next < P(7u)) {
    sum = plus(sum, load_source(at_source + (next - k) * P(57u)));
    next = load_link(at_link + (next - k) * P(60u)) & 0x7fffffffu;
  }
  store(at_out + index * P(59u), sum);
}

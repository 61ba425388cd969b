// One word of the result per invocation. `element(i)`, put in front, computes element i.
//
// A result that is not row-major has a `placed` of its own in front.
// Parameters: 0 elements, 1 offset of the result in elements.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let first = (group_number(group, groups) * 64u + lane) * PER;
  let count = P(0u);
  if (first >= count) {
    return;
  }
  var packed = 0u;
  // On a CPU, a loop with its test at the start runs one round too many.
  var k = 0u;
  loop {
    if (first + k < count) {
      packed |= encode(element(first + k)) << (k * BITS);
    }
    continuing {
      k++;
      break if k >= PER;
    }
  }
  out_words[(placed(first) + P(1u)) / PER] = packed;
}

// ceiling_fma: multiplies and adds in registers, to measure the speed of arithmetic.
//
// Parameters: 0 invocations, 1 rounds. A round is eight vectors' product and sum.

@group(0) @binding(0) var<storage, read_write> result: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  let m = vec4<f32>(0.5, 0.25, 0.125, 0.75);
  var a = vec4<f32>(f32(lane));
  var b = a + 1.0;
  var c = a + 2.0;
  var d = a + 3.0;
  var e = a + 4.0;
  var f = a + 5.0;
  var g = a + 6.0;
  var h = a + 7.0;
  for (var round = 0u; round < P(1u); round += 1u) {
    a = fma(a, m, m);
    b = fma(b, m, m);
    c = fma(c, m, m);
    d = fma(d, m, m);
    e = fma(e, m, m);
    f = fma(f, m, m);
    g = fma(g, m, m);
    h = fma(h, m, m);
  }
  if (i < P(0u)) {
    result[i] = a + b + c + d + e + f + g + h;
  }
}

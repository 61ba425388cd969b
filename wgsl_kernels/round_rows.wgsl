// round_rows: rows rounded to bytes in runs of 32, each with its scale; see library/bytes.wgsl.
//
// declare:    fn x_quad(at: u32) -> vec4<f32>   four elements along a row
// parameters: 0 runs in all, 1 runs of a row, 2 rows, 3 batch dims, 4 offset of x, 5 its stride of
//             rows and 6 of columns; 16.. sizes of the batch dims, 24.. their strides
// dispatch:   one invocation per run

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_number(group, groups) * 64u + lane;
  if (i >= P(0u)) {
    return;
  }
  var rest = i / P(1u);
  let row = rest % P(2u);
  rest /= P(2u);
  var at = P(4u) + row * P(5u) + i % P(1u) * 32u * P(6u);
  for (var d = P(3u); d > 0u;) {
    d--;
    at += rest % P(16u + d) * P(24u + d);
    rest /= P(16u + d);
  }
  let step = 4u * P(6u);
  let run = rounded_run(array<vec4<f32>, 8>(
      x_quad(at), x_quad(at + step), x_quad(at + 2u * step), x_quad(at + 3u * step),
      x_quad(at + 4u * step), x_quad(at + 5u * step), x_quad(at + 6u * step),
      x_quad(at + 7u * step)));
  runs[3u * i] = run[0];
  runs[3u * i + 1u] = run[1];
  runs[3u * i + 2u] = run[2];
}
